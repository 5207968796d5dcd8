"""Files and options that once ended a command in a traceback, a crash or hours of work: now a line or two, in time."""

from __future__ import annotations

import os
import resource
import stat
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from campaign import files

from command_line import CommandLine
from dynid import DynidError, Robot, count_model_parameters, identify, load_robot, read_log
from dynid.estimation.accumulate.state import State
from dynid.logs.readers import csv_text
from dynid.robot.expression import evaluate_expression
from humanoid import humanoid

DIGITS = "9" * 5000
IDENTIFY = "identify arm.toml log.csv --friction none"
EXCITE = "excite arm.toml --time-budget 0.01 --starts 1 --velocity 1 --acceleration 5"
LONG = "x" * 300
MARKERS = "markers arm.toml markers.csv --marker a=a --marker b=b"


@pytest.fixture
def place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder with an arm as table and URDF, and a log of it."""
    (tmp_path / "arm.toml").write_text(files.TABLE)
    (tmp_path / "arm.urdf").write_text(files.URDF)
    (tmp_path / "log.csv").write_bytes(files.text(files.columns(np.random.default_rng(0))))
    monkeypatch.chdir(tmp_path)
    return tmp_path


def _with_column(name: str, change: Callable[[Any], Any]) -> dict[str, Any]:
    log = files.columns(np.random.default_rng(0))
    return {key: change(x) if key.startswith(name) else x for key, x in log.items()}


def _text_log(name: str, change: Callable[[Any], Any]) -> Callable[[Path], None]:
    def write(place: Path) -> None:
        (place / "log.csv").write_bytes(files.text(_with_column(name, change)))

    return write


def _write(name: str, text: str) -> Callable[[Path], None]:
    def write(place: Path) -> None:
        (place / name).write_text(text)

    return write


def _npz(place: Path) -> None:
    log = _with_column("q1", lambda x: x)
    np.savez(place / "log.npz", **log, frame=np.full(len(log["t"]), b"\xff\xfe"))


def _parquet_with_large_stamps(place: Path) -> None:
    import polars as pl

    log = files.columns(np.random.default_rng(0))
    stamps = np.uint64(2**63) + (1e9 * log["t"]).astype(np.uint64)
    pl.DataFrame({**log, "t": stamps}).write_parquet(place / "log.parquet")


def _set_time(k: int, value: float) -> Callable[[Any], Any]:
    def change(t: Any) -> Any:
        t = t.copy()
        t[k] = value
        return t

    return change


def _long_header(place: Path) -> None:
    head, rest = (place / "log.csv").read_text().split("\n", 1)
    (place / "log.csv").write_text(f"{head},{'x' * 140_000}\n{rest}")


def _motion(place: Path) -> None:
    (place / "motion.csv").write_text("t,q1,q2,v1,v2,a1,a2\n0,0,0,0,0,0,0\n1,0.1,0.1,0,0,0,0\n")


def _far_picture(place: Path) -> None:
    box = '<visual><origin xyz="1e300 0 0"/><geometry><box size="1 1 1"/></geometry></visual></link>\n  <joint name="a"'
    (place / "arm.urdf").write_text(files.URDF.replace('</link>\n  <joint name="a"', box, 1))


def _far_marker(place: Path) -> None:
    head = "t,a_x,a_y,a_z,b_x,b_y,b_z\n"
    rows = [f"{k / 100},{0.1 + k / 1000},0.2,0.3,0.4,0.5,{2.7e154 if k == 30 else 0.6}\n" for k in range(60)]
    (place / "markers.csv").write_text(head + "".join(rows))


HARMFUL: dict[str, tuple[Callable[[Path], None], str]] = {
    "5,000 digits in a table": (_write("arm.toml", f"[[joint]]\nd = {DIGITS}\n"), "base arm.toml"),
    "5,000 digits in a cell": (
        _write("cell.toml", f"[[box]]\nsize = [{DIGITS}, 1, 1]\n"),
        f"{EXCITE} --obstacles cell.toml",
    ),
    "5,000 digits in a sensor": (
        _write("s.toml", f"position = [{DIGITS}, 0, 0]\n"),
        f"{IDENTIFY} --model reaction --sensor s.toml",
    ),
    "5,000 digits in a project": (_write("dynid.toml", f"gear = {DIGITS}\n"), "identify arm.toml log.csv"),
    "5,000 digits in a gear": (_write("gear.txt", f"1, {DIGITS}\n0, 1\n"), f"{IDENTIFY} --gear gear.txt"),
    "5,000 digits as an option": (lambda _: None, f"base arm.toml --samples {DIGITS} --method qr"),
    "length of 1e17 in a table": (_write("arm.toml", "[[joint]]\n[[joint]]\nd = 1e17\n"), "base arm.toml"),
    "length of 1e17 in a URDF": (_write("arm.urdf", files.URDF.replace("0.5 0 0", "1e17 0 0")), "base arm.urdf"),
    "mass of 1e16 in a URDF": (
        _write("arm.urdf", files.URDF.replace('mass value="3"', 'mass value="1e16"')),
        "base arm.urdf --json x.json",
    ),
    "length of 1e17 in an MJCF": (_write("arm.xml", files.MJCF.replace("0.5 0 0", "1e17 0 0")), "base arm.xml"),
    "mass of 1e16 in an MJCF": (
        _write("arm.xml", files.MJCF.replace('mass="3"', 'mass="1e16"')),
        "base arm.xml --json x.json",
    ),
    "400 digits in values": (_write("values.json", f'{{"XX1": {"9" * 400}}}'), "base arm.toml --values values.json"),
    "5,000 digits in values": (_write("values.json", f'{{"XX1": {DIGITS}}}'), "base arm.toml --values values.json"),
    "a marker at 2.7e154 m": (_far_marker, f"{MARKERS} --start=0,0"),
    "a start of 5,000 digits": (_far_marker, f"{MARKERS} --start=0,{DIGITS}"),
    "[[[ in YAML": (_write("motion.yaml", "[" * 3000), "simulate arm.urdf motion.yaml"),
    "[[[ in JSON": (_write("motion.json", "[" * 3000), "simulate arm.urdf motion.json"),
    "stamp of -1e30": (_text_log("t", lambda x: x), IDENTIFY),
    "header of 140,000 characters": (_long_header, IDENTIFY),
    "bytes of 0xff as text in NPZ": (_npz, "identify arm.toml log.npz --friction none"),
    "unsigned stamps above 2^63": (_parquet_with_large_stamps, "identify arm.toml log.parquet --friction none"),
    "torques times 1e-300": (_text_log("tau", lambda x: 1e-300 * x), IDENTIFY),
    "torques times 1e300": (_text_log("tau", lambda x: 1e300 * x), IDENTIFY),
    "a gear of 1e154": (lambda _: None, f"{IDENTIFY} --gear 1,-2.7e154"),
    "a gain of 1e-320": (lambda _: None, f"{IDENTIFY} --gain 1e-320"),
    "a cut-off of 1e-6 Hz": (lambda _: None, f"{IDENTIFY} --cutoff 1e-6"),
    "a duration of 1e-300 s": (lambda _: None, f"{EXCITE} --duration 1e-300"),
    "200 harmonics in 0.3 s": (lambda _: None, EXCITE.replace("0.01", "0.3") + " --harmonics 200"),
    "200 harmonics": (lambda _: None, f"{EXCITE} --harmonics 200"),
    "2^64 samples": (lambda _: None, f"base arm.toml --method qr --samples {2**64}"),
    "a billion samples": (lambda _: None, "base arm.toml --method qr --samples 1000000000"),
    "another robot as source of a table": (_write("arm.toml", 'source = "other.urdf"\n' + files.TABLE), EXCITE),
    "columns of two words for a channel": (lambda _: None, "inspect arm.toml log.csv --header q=q1 --order 10"),
    "a picture 1e300 m away": (_far_picture, "view arm.urdf --no-browser --port 0 --seconds 0.1"),
    "a rate of 1e308": (_motion, "simulate arm.urdf motion.csv --rate 1e308"),
    "a rate of 1e308 of a motion to be designed": (lambda _: None, f"{EXCITE} --rate 1e308 --out motion.csv"),
    "the root as a result": (lambda _: None, "report / result.json"),
    "this folder as a result": (lambda _: None, "report ."),
    "the root as a log": (lambda _: None, "identify arm.toml / --out --report"),
    "a name of 300 characters": (lambda _: None, f"identify arm.toml {LONG}.csv"),
}  # fmt: skip
for _stamp in (-1e30, 1.7e15, 1e308):
    for _row in (0, 150, 299):
        HARMFUL[f"stamp of {_stamp:g} in row {_row}"] = (_text_log("t", _set_time(_row, _stamp)), IDENTIFY)
del HARMFUL["stamp of -1e30"]


@pytest.mark.parametrize("what", HARMFUL)
def test_what_once_crashed_is_a_line_or_two(what: str, place: Path) -> None:
    if HARMFUL[what][1].startswith("view"):
        pytest.importorskip("viser")
    make, words = HARMFUL[what]
    make(place)
    start = time.process_time()
    assert files.run(words.split(), what, strict=False) is None
    assert time.process_time() - start < 10.0


COMMANDS = (
    "base {}.toml", "mdh {}.toml", "check {}.urdf", "unknown {}.toml", "excite {}.toml", "simulate arm.urdf {}.json",
    "identify arm.toml {}.csv", "inspect arm.toml {}.csv", "physical {}.json", "export {}.json out.urdf",
    "report {}.json", "actuators arm.urdf {}.csv", "payload arm.toml --loaded {}.csv --unloaded {}.csv",
    "init {}.toml {}.csv", "base arm.toml --json {}.json", "mdh arm.toml --out {}.toml",
)  # fmt: skip


@pytest.mark.parametrize("name", ["x" * 300, "no/" * 100 + "x"])
def test_names_longer_than_a_path_are_a_line_for_every_command(name: str, place: Path) -> None:
    for words in COMMANDS:
        assert files.run(words.replace("{}", name).split(), "name", strict=False) is None


def test_folders_and_files_without_permission_are_a_line_for_every_command(place: Path) -> None:
    """In a process that is not root, which may do everything."""
    (place / "closed").mkdir()
    for end in ("toml", "urdf", "json", "csv"):
        (place / f"closed/x.{end}").write_text("x")
        (place / f"y.{end}").write_text("x")
    for words in COMMANDS:  # what they import, strangers may not be allowed to read
        files.run(words.replace("{}", "y").split(), "", strict=False)
    for end in ("toml", "urdf", "json", "csv"):
        (place / f"y.{end}").chmod(0)
    (place / "closed").chmod(0)
    place.chmod(0o555)
    child = os.fork()
    if child == 0:  # pragma: no cover
        code = 1
        try:
            if os.geteuid() == 0:
                os.setgroups([])
                os.setuid(65534)
            all_words = [words.replace("{}", name).split() for words in COMMANDS for name in ("closed/x", "y")]
            bad = [found for words in all_words if (found := files.run(words, "", strict=False))]
            os.write(2, "\n".join(bad).encode())
            code = 2 if bad else 0
        except BaseException as error:
            os.write(2, repr(error).encode())
        finally:
            os._exit(code)
    _, status = os.waitpid(child, 0)
    (place / "closed").chmod(stat.S_IRWXU)
    assert os.waitstatus_to_exitcode(status) == 0


@pytest.mark.slow
def test_a_read_only_home_and_cache_cost_a_note(place: Path) -> None:
    """/proc is written to by nobody, root included."""
    paths = os.pathsep.join(path for path in sys.path if path)
    environment = {"PATH": os.environ["PATH"], "PYTHONPATH": paths, "HOME": "/proc/x", "XDG_CACHE_HOME": "/proc/y"}
    done = subprocess.run(
        [sys.executable, "-c", "from dynid.cli import main; main()", *IDENTIFY.split()], env=environment, cwd=place,
        capture_output=True, text=True, check=False, timeout=280,
    )  # fmt: skip
    assert done.returncode in (0, 1), done.stderr
    assert "Traceback" not in done.stderr
    assert all(line.startswith(("warning: ", "note: ")) for line in done.stderr.splitlines()), done.stderr


def test_a_parquet_file_on_a_full_disk_is_a_line(
    place: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Files end at 50 kB there, as on a full disk."""
    head = "t,q1,q2,v1,v2,a1,a2\n"
    motion = head + "".join(f"{k / 1000},{np.sin(k / 300)},0.1,{np.cos(k / 300) / 0.3},0,0,0\n" for k in range(9000))
    (place / "motion.csv").write_text(motion)
    limits = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (50_000, limits[1]))
    try:
        error = CommandLine(monkeypatch, capsys).fails("simulate", "arm.urdf", "motion.csv", "--out", "x.parquet")
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, limits)
    assert "x.parquet" in error
    assert sorted(path.name for path in place.iterdir()) == ["arm.toml", "arm.urdf", "log.csv", "motion.csv"]


@pytest.mark.slow
def test_counting_the_parameters_of_a_humanoid_takes_seconds() -> None:
    """30 joints, all lengths d unknown: more than 200 s once."""
    start = time.process_time()
    found = count_model_parameters(humanoid(), unknown=("d",))
    assert found.complete
    assert found.count == 404
    assert time.process_time() - start < 60.0


def test_counting_the_parameters_of_a_long_chain_is_refused_at_once() -> None:
    with pytest.raises(DynidError, match="101 joints, and counting takes hours"):
        count_model_parameters(Robot.from_mdh([{"alpha": 1.0}] * 101))


def test_states_of_another_shape_are_refused(place: Path) -> None:
    import json

    from dynid import collect_state

    robot = load_robot(place / "arm.toml")
    collect_state(robot, read_log(place / "log.csv", robot), friction=()).save(place / "state.json")
    whole = json.loads((place / "state.json").read_text())

    def shorten(at: Any) -> int:
        """Shorten each list in turn, and load what is left."""
        count = 0
        for key in list(at) if isinstance(at, dict) else range(len(at)):
            if isinstance(at[key], list) and at[key]:
                kept = at[key]
                at[key] = kept[:-1]
                (place / "state.json").write_text(json.dumps(whole))
                try:
                    State.load(place / "state.json")
                except DynidError:
                    count += 1
                at[key] = kept
            if isinstance(at[key], dict | list) and count < 60:
                count += shorten(at[key])
        return count

    assert shorten(whole) > 5


@pytest.mark.parametrize("text", ["9**9**9**9", "2**1e9", "(" * 400 + "1" + ")" * 400, "1" * 600, "1/0", "1e999"])
def test_expressions_without_end_are_refused(text: str) -> None:
    start = time.process_time()
    with pytest.raises(DynidError):
        evaluate_expression(text, {"L": 0.5})
    assert time.process_time() - start < 1.0


def test_symbols_above_the_limit_name_the_option(place: Path) -> None:
    symbols = "".join(f"s{k} = 1.0\n" for k in range(1001))
    (place / "arm.toml").write_text(f"[symbols]\n{symbols}[[joint]]\n")
    with pytest.raises(DynidError, match="1001 symbols, above the limit of 1000; set DYNID_MAX_SYMBOLS"):
        load_robot(place / "arm.toml")


def test_rows_of_nothing_but_commas_are_rows_without_values(place: Path) -> None:
    """20 million of them in 0.15 MB of gzip took 17 s and 750 MB."""
    table = csv_text.open_text(place / "log.csv")
    header = table.header
    for block, rows in ((b",,,,\n" * 3, 3), (b" , ,,,\r\n\n,,,,", 2), (b",,,,\n,,,\n", None), (b",,,,\n,,1,,\n", None)):
        found = csv_text._read_empty_rows(header, [0, 2], block)
        assert (found if found is None else (found.shape, found.null_count().row(0))) == (
            rows if rows is None else ((rows, 2), (rows, rows))
        )
    head = ",".join(header.columns)
    (place / "log.csv").write_text(f"{head}\n" + ",,,,\n" * 1_000_000)
    start = time.process_time()
    with pytest.raises(DynidError, match="every row has a missing value"):
        identify(load_robot(place / "arm.toml"), read_log(place / "log.csv", load_robot(place / "arm.toml")))
    assert time.process_time() - start < 5.0


def test_a_log_with_rows_of_commas_is_the_log_without_them(place: Path) -> None:
    robot = load_robot(place / "arm.toml")
    lines = (place / "log.csv").read_text().splitlines()
    whole = read_log(place / "log.csv", robot)
    (place / "gaps.csv").write_text("\n".join([*lines[:100], *[",,,,"] * 300_000, *lines[100:], *[",,,,"] * 300_000]))
    gaps = read_log(place / "gaps.csv", robot)
    assert np.isnan(gaps.q).any(axis=1).sum() == 600_000
    np.testing.assert_array_equal(gaps.q[np.isfinite(gaps.t)], whole.q)


@pytest.mark.slow
def test_a_thousand_joints_load_in_seconds(tmp_path: Path) -> None:
    (tmp_path / "chain.toml").write_text("[[joint]]\nalpha = 1.5\nd = 0.1\n" * 1000)
    start = time.process_time()
    assert load_robot(tmp_path / "chain.toml").n == 1000
    assert time.process_time() - start < 15.0


@pytest.mark.parametrize("cutoff", [0.0, -1.0, None])
def test_a_cutoff_that_a_damaged_result_gives_filters_nothing(cutoff: float | None) -> None:
    from dynid.exports.verify import _filtered_nrmse

    t = np.arange(100) / 100.0
    tau = np.sin(9.0 * t)[:, None]
    found = _filtered_nrmse(np.zeros(100), t, tau, tau + 0.1, cutoff)
    np.testing.assert_allclose(found, 0.1 / tau.std(), rtol=1e-9)
