"""Fleets: what a run computes, keeps and says; ten robots, four weeks, a small arm."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pytest
from campaign.fleet import Change, Made, given_robot, week_of_log, write_fleet
from numpy.testing import assert_allclose

import dynid
from command_line import CommandLine
from dynid.fleet.fleet import compare_robots, shrink_towards_fleet
from dynid.fleet.store import read_arrays

PLAIN = ("viscous", "coulomb", "offset")
MADE = Made("gautier3", 20.0)
CHANGES = {3: Change("payload", 0, 1.5, 2), 6: Change("coulomb", 2, 0.5, 2)}
OPTIONS: dict[str, Any] = {"baseline": 2, "friction": PLAIN, "cutoff": 10.0}


@pytest.fixture(scope="module")
def data(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("data")
    assert len(list(write_fleet(folder, 10, 4, CHANGES, MADE))) == 40
    return folder


@pytest.fixture(scope="module")
def fleet(data: Path, tmp_path_factory: pytest.TempPathFactory) -> dynid.Fleet:
    return dynid.identify_fleet(given_robot("gautier3"), data, out=tmp_path_factory.mktemp("out"), workers=1, **OPTIONS)


def states(folder: Path) -> dict[str, bytes]:
    return {str(file.relative_to(folder)): file.read_bytes() for file in sorted(folder.rglob("*.state"))}


def test_table_has_every_parameter_of_every_period(fleet: dynid.Fleet) -> None:
    frame = fleet.table()
    assert frame.columns == ["robot", "period", "parameter", "value", "sigma", "verdict"]
    assert frame.select("robot", "period").unique().height == 40
    assert set(frame["verdict"]) <= {"good", "usable", "weak", "do not trust"}
    assert frame["sigma"].min() > 0.0  # type: ignore[operator]
    assert fleet.computed == 40
    assert not len(fleet.rejected)


def test_values_are_those_of_identify_with_the_same_columns_and_cutoff(fleet: dynid.Fleet, data: Path) -> None:
    robot = given_robot("gautier3")
    for number, week in ((0, 1), (6, 4)):
        name, period = f"R{number:03d}", f"2026-W{week:02d}"
        file = data / f"robot={name}" / f"week={period}" / "log.parquet"
        alone = dynid.identify(robot, file, friction=PLAIN, cutoff=10.0)
        own = fleet.table().filter((pl.col("robot") == name) & (pl.col("period") == period))
        assert own["parameter"].to_list() == list(alone.names)
        assert_allclose(own["value"].to_numpy(), alone.values, rtol=1e-10, atol=1e-10)
        assert_allclose(own["sigma"].to_numpy(), alone.sigma, rtol=1e-5)
        kept = dynid.identify_states(fleet.state(name, period))  # reduced, but for rounding the same values
        assert_allclose(kept.values, alone.values, rtol=1e-7, atol=1e-7)


def test_changes_are_found_and_attributed(fleet: dynid.Fleet) -> None:
    frame = fleet.changes(alpha=0.01)
    assert frame.columns == ["robot", "period", "what", "size", "sigma", "p"]
    found = {(robot, period, what) for robot, period, what, *_ in frame.rows()}
    assert {(r, w) for r, w, _ in found} == {(r, w) for r in ("R003", "R006") for w in ("2026-W03", "2026-W04")}
    by = {what for robot, _, what in found if robot == "R003"}, {what for robot, _, what in found if robot == "R006"}
    assert by == ({"payload"}, {"Coulomb friction of joint 2"})
    for robot, _, _, size, sigma, p in frame.rows():
        truth = 1.5 if robot == "R003" else 0.5
        assert abs(size - truth) < 4.0 * sigma
        assert sigma < 0.3 * truth
        assert p < 1e-3
    sentences = [alarm.message for alarm in fleet.alarms()]
    assert any(s.startswith("R003: payload of 1.") and "since 2026-W03" in s for s in sentences)
    assert any(s.startswith("R006: Coulomb friction of joint 2 +") and s.code == "fleet_change" for s in sentences)


def test_a_false_discovery_rate_outside_0_and_1_is_refused(fleet: dynid.Fleet) -> None:
    with pytest.raises(dynid.DynidError, match="between 0 and 1"):
        fleet.changes(alpha=1.5)


def test_states_are_small_checksummed_and_hold_no_pickle(fleet: dynid.Fleet, tmp_path: Path) -> None:
    files = list(fleet.folder.rglob("*.state"))
    assert len(files) == 40
    assert max(file.stat().st_size for file in files) <= 2_000_000
    header, _ = read_arrays(files[0])
    assert json.dumps(header)
    bad = tmp_path / "bad.state"
    raw = bytearray(files[0].read_bytes())
    raw[len(raw) // 2] ^= 1
    bad.write_bytes(raw)
    with pytest.raises(dynid.DynidError, match="damaged"):
        read_arrays(bad)


def test_an_unknown_period_is_named(fleet: dynid.Fleet) -> None:
    with pytest.raises(dynid.DynidError, match="no period '2031-W01' of robot 'R001'; it has 2026-W01"):
        fleet.state("R001", "2031-W01")
    with pytest.raises(dynid.DynidError, match="robots are R000"):
        fleet.state("nobody", "2026-W01")


def test_only_what_is_new_is_computed(fleet: dynid.Fleet, data: Path, tmp_path: Path) -> None:
    robot = given_robot("gautier3")
    out, logs = tmp_path / "out", tmp_path / "data"
    shutil.copytree(fleet.folder, out)
    shutil.copytree(data, logs)
    for file in logs.rglob("*.parquet"):  # a copy is another file with the same content: read for its hash only
        file.touch()
    again = dynid.identify_fleet(robot, logs, out=out, workers=1, **OPTIONS)
    assert again.computed == 0
    assert again.table().equals(fleet.table())
    assert again.changes().equals(fleet.changes())
    new = logs / "robot=R004" / "week=2026-W05"
    new.mkdir()
    week_of_log(4, 4, None, MADE).write_parquet(new / "log.parquet")
    week_of_log(4, 40, None, MADE).write_parquet(logs / "robot=R005" / "week=2026-W04" / "second.parquet")
    more = dynid.identify_fleet(robot, logs, out=out, workers=1, **OPTIONS)
    assert more.computed == 2
    assert more.state("R005", "2026-W04").logs == 2
    both = [logs / "robot=R005" / "week=2026-W04" / name for name in ("log.parquet", "second.parquet")]
    alone = dynid.identify(robot, both, friction=PLAIN, cutoff=10.0)
    own = more.table().filter((pl.col("robot") == "R005") & (pl.col("period") == "2026-W04"))
    assert_allclose(own["value"].to_numpy(), alone.values, rtol=1e-7, atol=1e-7)
    other = dynid.identify_fleet(robot, logs, out=out, workers=1, **{**OPTIONS, "baseline": 3})
    assert other.computed == 0  # compared again, not read again
    assert {c.baseline for c in other.contrasts if not c.own} == {3}


def test_damaged_logs_are_rows_with_a_reason_and_the_rest_goes_on(data: Path, tmp_path: Path) -> None:
    logs = tmp_path / "data"
    shutil.copytree(data / "robot=R000", logs / "robot=R000")
    shutil.copytree(data / "robot=R001", logs / "robot=R001")
    (logs / "robot=R000" / "week=2026-W01" / "log.parquet").write_bytes(b"PAR1 no more")
    (logs / "robot=R000" / "week=2026-W02" / "more.csv").write_text("t,q1,q2\n0,0,0\n1,1,1\n")
    frame = pl.read_parquet(logs / "robot=R001" / "week=2026-W04" / "log.parquet")
    frame.head(20).write_parquet(logs / "robot=R001" / "week=2026-W04" / "log.parquet")
    found = dynid.identify_fleet(given_robot("gautier3"), logs, out=tmp_path / "out", workers=1, **OPTIONS)
    rejected = found.rejected
    assert rejected.columns == ["robot", "period", "log", "code", "reason"]
    assert sorted(zip(rejected["robot"], rejected["period"], strict=True)) == [
        ("R000", "2026-W01"), ("R000", "2026-W02"), ("R001", "2026-W04"),
    ]  # fmt: skip
    assert all(rejected["reason"].str.len_chars() > 10)
    assert found.table().select("robot", "period").unique().height == 6
    assert any(warning.code == "fleet_logs_refused" for warning in found.warnings)
    with pytest.raises(dynid.DynidError, match="no log was usable"):
        found.state("R000", "2026-W01")


def test_layouts_lead_to_the_same_fleet(fleet: dynid.Fleet, data: Path, tmp_path: Path) -> None:
    """By a pattern with dates, by columns of one Parquet file or of several, by a list."""
    robot, frames = given_robot("gautier3"), []
    for number in (0, 1):
        (tmp_path / f"R{number:03d}").mkdir()
        for week in (1, 2):
            file = data / f"robot=R{number:03d}" / f"week=2026-W{week:02d}" / "log.parquet"
            shutil.copy(file, tmp_path / f"R{number:03d}" / f"2026-01-{7 * week - 5:02d}_a.parquet")
            frame = pl.read_parquet(file)
            frames.append(frame.with_columns(robot=pl.lit(f"R{number:03d}"), week=pl.lit(f"2026-W{week:02d}")))
    pl.concat(frames).write_parquet(tmp_path / "all.parquet")
    (tmp_path / "parts").mkdir()
    for k in (0, 2):
        pl.concat(frames[k : k + 2]).write_parquet(tmp_path / "parts" / f"{k}.parquet")
    listed = [(f"R{n:03d}", f"2026-W{w:02d}", data / f"robot=R{n:03d}" / f"week=2026-W{w:02d}" / "log.parquet")
              for n in (0, 1) for w in (1, 2)]  # fmt: skip
    own = fleet.table().filter(pl.col("robot").is_in(["R000", "R001"]) & (pl.col("period") < "2026-W03"))
    whole, options = tmp_path / "all.parquet", {**OPTIONS, "baseline": 1, "workers": 1}
    for source in (f"{tmp_path}/{{robot}}/{{date}}_*.parquet", whole, tmp_path / "parts", listed):
        found = dynid.identify_fleet(robot, source, out=tmp_path / "out", **options).table()
        assert found.select("robot", "period", "parameter").equals(own.select("robot", "period", "parameter"))
        assert_allclose(found["value"].to_numpy(), own["value"].to_numpy(), rtol=1e-9, atol=1e-9)
    pl.concat([*frames, frames[0].with_columns(week=pl.lit("2026-W09"))]).write_parquet(whole)
    assert dynid.identify_fleet(robot, whole, out=tmp_path / "out", **options).computed == 1  # only the rows are hashed


def test_a_url_is_read_through_fsspec(data: Path, fleet: dynid.Fleet) -> None:
    fsspec = pytest.importorskip("fsspec")
    memory = fsspec.filesystem("memory")
    for week in (1, 2):
        file = data / "robot=R000" / f"week=2026-W{week:02d}" / "log.parquet"
        memory.pipe(f"/fleet/robot=R000/week=2026-W{week:02d}/log.parquet", file.read_bytes())
    found = dynid.identify_fleet(
        given_robot("gautier3"), "memory://fleet", workers=1, **{**OPTIONS, "baseline": 1}
    ).table()
    own = fleet.table().filter((pl.col("robot") == "R000") & (pl.col("period") < "2026-W03"))
    assert_allclose(found["value"].to_numpy(), own["value"].to_numpy(), rtol=1e-9, atol=1e-9)


@pytest.mark.parametrize(
    ("change", "match"),
    [
        ({"data": "nowhere"}, "there is no such folder"),
        ({"by": ("robot", "day")}, "no log with a robot and a day"),
        ({"by": "robot"}, "two names"),
        ({"baseline": 0}, "at least 1"),
        ({"workers": 0}, "at least one worker"),
        ({"robots": {"R000": {"colour": 1}}}, "no setting 'colour'"),
        ({"robots": {"R77": {"gain": 2.0}}}, "no log of a robot 'R77'"),
        ({"client": "head", "out": "x"}, "not an address of a Dask scheduler"),
        ({"client": "tcp://head:8786"}, "need a folder that they share"),
        ({"robots": {"R000": {"payload": {"com": 1}}}}, "a payload has a mass"),
        ({"client": "tcp://127.0.0.1:1", "out": "x"}, "no Dask scheduler answers"),
        ({"client": "foo://127.0.0.1:1", "out": "x"}, "not an address of a Dask scheduler"),
        ({"robots": {"R000": {"robot": 3}}}, "the name of a file, got 3"),
        ({"data": "file:///nowhere/all.parquet"}, "cannot be read: FileNotFoundError"),
    ],
)
def test_mistakes_are_said_in_a_line(change: dict[str, Any], match: str, data: Path, tmp_path: Path) -> None:
    given = {"workers": 1, **OPTIONS, **change}
    given["workers"] = None if "client" in change else given["workers"]
    source = given.pop("data", data)
    if "out" in given:
        pytest.importorskip("distributed")
        given["out"] = tmp_path
    with pytest.raises(dynid.DynidError, match=match) as caught:
        dynid.identify_fleet(given_robot("gautier3"), source, **given)
    assert "\n" not in str(caught.value)


def test_single_robots_have_settings_of_their_own(data: Path, fleet: dynid.Fleet, tmp_path: Path) -> None:
    """A gain that is undone by the settings, and a known payload, leave the parameters as they were."""
    logs = tmp_path / "robot=R000" / "week=2026-W01"
    logs.mkdir(parents=True)
    frame = pl.read_parquet(data / "robot=R000" / "week=2026-W01" / "log.parquet")
    frame.with_columns(pl.col("^tau.*$") / 2.0).write_parquet(logs / "log.parquet")
    shutil.copytree(data / "robot=R001", tmp_path / "robot=R001")
    found = dynid.identify_fleet(
        given_robot("gautier3"), tmp_path, workers=1, robots={"R000": {"gain": 2.0}}, **OPTIONS
    ).table()
    pick = (pl.col("robot") == "R000") & (pl.col("period") == "2026-W01")
    assert_allclose(
        found.filter(pick)["value"].to_numpy(), fleet.table().filter(pick)["value"].to_numpy(), rtol=1e-9, atol=1e-9
    )


def test_a_prior_shrinks_where_robots_are_alike_and_not_where_they_differ() -> None:
    """Coverage of the truth stays; deviations of alike parameters fall by a third, of different ones hardly."""
    rng = np.random.default_rng(3)
    rows, truth = [], {}
    for robot in range(40):
        truth[robot] = {"alike": 5.0 + 0.02 * rng.standard_normal(), "different": 5.0 + 3.0 * rng.standard_normal()}
        for name, value in truth[robot].items():
            rows.append((f"R{robot}", "W1", name, value + 0.3 * rng.standard_normal(), 0.3, "good"))
    frame = pl.DataFrame(rows, schema=["robot", "period", "parameter", "value", "sigma", "verdict"], orient="row")
    shrunk = shrink_towards_fleet(frame)
    assert shrunk.select("robot", "period", "parameter").equals(frame.select("robot", "period", "parameter"))
    sigma = {name: own["sigma"].mean() for (name,), own in shrunk.group_by("parameter")}
    assert sigma["alike"] < 0.2  # type: ignore[operator]
    assert 0.28 < sigma["different"] <= 0.3  # type: ignore[operator]
    inside = [abs(value - truth[int(robot[1:])][name]) < 1.96 * s for robot, _, name, value, s, _ in shrunk.rows()]
    assert np.mean(inside) > 0.9


def test_names_with_numbers_are_in_their_natural_order(data: Path, fleet: dynid.Fleet, tmp_path: Path) -> None:
    """Weeks 8 to 11 of one robot: 8 and 9 are the baseline; the same log under two names is compared twice."""
    names = ("week 8", "week 9", "week 10", "week 11")
    files = [data / "robot=R003" / f"week=2026-W{k:02d}" / "log.parquet" for k in (1, 2, 3, 3)]
    listed = [("R", name, file) for name, file in zip(names, files, strict=True)]
    found = dynid.identify_fleet(given_robot("gautier3"), listed[::-1], workers=1, out=tmp_path, **OPTIONS)
    assert found.periods == names
    assert sorted(found.tests()["period"]) == ["week 10", "week 11"]
    assert found.tests()["p"].n_unique() == 1
    (alarm,) = found.alarms()
    assert (alarm.kind, alarm.since, alarm.periods) == ("payload", "week 10", 2)


def test_another_file_of_a_robot_under_the_same_name_is_noticed(data: Path, tmp_path: Path) -> None:
    shutil.copytree(data / "robot=R000", tmp_path / "data" / "robot=R000")
    own, robot = tmp_path / "own.toml", given_robot("gautier3")
    options: dict[str, Any] = {"out": tmp_path / "out", "workers": 1, "robots": {"R000": {"robot": own}}, **OPTIONS}
    own.write_text("what is this")
    assert len(dynid.identify_fleet(robot, tmp_path / "data", **options).rejected) == 4
    shutil.copy(Path(dynid.__file__).parent / "robot" / "library" / "gautier3.toml", own)
    mended = dynid.identify_fleet(robot, tmp_path / "data", **options)
    assert (len(mended.rejected), mended.computed) == (0, 4)


def test_a_robot_that_differs_from_the_others_is_named() -> None:
    """Of 40 robots one has twice the friction; p-values of the others keep their rate."""
    rng = np.random.default_rng(5)
    rows = []
    for robot in range(40):
        for name in ("Fc1", "Fc2", "XX1"):
            true = (5.0 + 0.5 * rng.standard_normal()) * (2.0 if (robot, name) == (7, "Fc2") else 1.0)
            rows += [(f"R{robot}", f"W{k}", name, true + 0.2 * rng.standard_normal(), 0.2, "good") for k in range(5)]
    frame = pl.DataFrame(rows, schema=["robot", "period", "parameter", "value", "sigma", "verdict"], orient="row")
    found = compare_robots(frame)
    assert found.row(0)[:2] == ("R7", "Fc2")
    assert found["p"][0] < 1e-6
    assert abs(found["others"][0] - 5.0) < 0.3
    assert 0.3 < found["spread"][0] < 0.8
    assert np.mean(found["p"].to_numpy() < 0.05) < 0.1
    assert not len(compare_robots(frame.filter(pl.col("robot").is_in(["R1", "R2", "R7"]))))


def test_hostile_names_stay_text_on_the_page(data: Path, tmp_path: Path) -> None:
    bad = "<img src=x onerror=alert(1)>"
    listed = [(bad, f"<b>{k}</b>", data / "robot=R003" / f"week=2026-W{k:02d}" / "log.parquet") for k in (1, 2, 3)]
    found = dynid.identify_fleet(given_robot("gautier3"), listed, workers=1, **OPTIONS)
    assert len(found.alarms()) == 1
    found.report(tmp_path / "fleet.html")
    text = (tmp_path / "fleet.html").read_text()
    assert "&lt;img src=x" in text
    assert "<img src=x" not in text
    assert "<b>3</b>" not in text


def test_the_page_shows_map_alarms_and_refused_logs(fleet: dynid.Fleet, tmp_path: Path) -> None:
    fleet.report(tmp_path / "fleet.html")
    text = (tmp_path / "fleet.html").read_text()
    for anchor in ("map", "alarms", "trends", "spread", "blind", "refused"):
        assert f'id="{anchor}"' in text
    assert "R003: payload of" in text
    assert "dynid excite" in text
    assert "Expected false alarms: about" in text


def test_the_command_line_writes_all_files(
    data: Path, fleet: dynid.Fleet, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    run = CommandLine(monkeypatch, capsys)
    small = tmp_path / "data"
    for number in (0, 1, 2, 6):
        shutil.copytree(data / f"robot=R{number:03d}", small / f"robot=R{number:03d}")
    table, changes, facts = (tmp_path / name for name in ("all.csv", "changes.parquet", "fleet.json"))
    options = ("--baseline", 2, "--friction", "viscous,coulomb,offset", "--cutoff", 10, "--workers", 1)
    files = ("--table", table, "--changes", changes, "--json", facts, "--report", tmp_path / "fleet.html")
    done = run("fleet", "gautier3", small, *options, *files, "--out", tmp_path / "out", code=1)
    assert "4 robots, 16 periods (16 computed in this run)" in done.out
    assert "Coulomb friction of joint 2" in done.out
    assert "R006: Coulomb friction of joint 2 +" in done.err
    assert set(pl.read_csv(table)["robot"]) == {"R000", "R001", "R002", "R006"}
    assert pl.read_parquet(changes).columns == fleet.changes().columns
    assert {row["robot"] for row in json.loads(facts.read_text())["changes"]} == {"R006"}
    project = tmp_path / "dynid.toml"  # what it says of an identification holds here, but for its outputs
    project.write_text('[options]\nfriction = ["viscous", "coulomb", "offset"]\ncutoff = 10\nout = "known.json"\n')
    words = ("fleet", "gautier3", small, "--baseline", 2, "--workers", 1, "--out", tmp_path / "out")
    assert "(0 computed in this run)" in run(*words, "--project", project, code=1).out
    assert "there is no such folder" in run.fails("fleet", "gautier3", tmp_path / "none")


def test_watch_says_a_line_per_log_and_per_change_and_goes_on(
    data: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    run, folder, out = CommandLine(monkeypatch, capsys), tmp_path / "arriving", tmp_path / "out"
    folder.mkdir()
    words = ("watch", "gautier3", folder, "--out", out, "--baseline", 2, "--once", "--friction",
             "viscous,coulomb,offset", "--cutoff", 10)  # fmt: skip
    for week in (1, 2):
        shutil.copy(data / "robot=R003" / f"week=2026-W{week:02d}" / "log.parquet", folder / f"{week}.parquet")
    first = run(*words)
    assert first.out.count("baseline") == 2
    shutil.copy(data / "robot=R003" / "week=2026-W03" / "log.parquet", folder / "3.parquet")
    (folder / "4.parquet").write_bytes(b"PAR1 no more")
    then = run(*words, code=1)
    assert "2 logs were read before" in then.out
    assert "3.parquet: 19 s, good, p = " in then.out
    assert "payload of" in then.err
    assert "4.parquet: refused" in then.err
    assert 'id="alarms"' in (out / "watch.html").read_text()
