"""The report: what it says, that it hides and leaks nothing, and how large it is."""

from __future__ import annotations

import base64
import json
import re
from dataclasses import dataclass, replace
from functools import cache
from html.parser import HTMLParser
from importlib import resources
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from numpy.testing import assert_allclose

from dynid import DynidError, Identification, Log, Motion, Robot, identify, load_robot, simulate, write_report
from dynid.estimation.diagnostics.verdict import Verdict
from dynid.estimation.identification import UNKNOWN_ORIGIN
from dynid.messages import Message, Option
from dynid.report.fit import friction_curve, worst_moments
from dynid.report.page import (
    ARROW,
    ReportSubject,
    draw_robot,
    escape_control_characters,
    escape_plot_text,
    middle_posture,
    percent_text,
    plotly_script,
    tree_poses,
    unit_text,
    value_and_half_width_text,
)
from dynid.report.parameters import weighted_singular_values
from dynid.report.replay import nominal_values_by_name, replay_logs
from dynid.report.write import ComparedResults, write_result_page
from dynid.robot.load import bundled_robots
from dynid.robot.transform import Array
from frictions import PLAIN, truth, with_friction
from robots import smooth_path

MODELS = ("torque", "power", "energy", "momentum", "reaction", "torque+reaction")
EVIL = "<script>alert('x')</script></script><img src=http://evil.example/x.png>&\"'<a href='http://evil.example'>"


def recorded(robot: Robot, *, seconds: float = 8.0, seed: int = 0, name: str = "log", rate: float = 100.0) -> Log:
    """A log with noise and without derivatives."""
    motion = smooth_path(robot, np.arange(0.0, seconds, 1.0 / rate), seed=seed, scale=2.0)
    log = simulate(robot, motion, noise=0.05, seed=seed)
    return Log(log.t, log.q, tau=log.tau, reaction=log.reaction, name=name)


@cache
def robot() -> Robot:
    return with_friction(load_robot("gautier3"))


@cache
def logs() -> tuple[Log, Log]:
    return recorded(robot(), name="first.csv"), recorded(robot(), seed=5, name="other.csv")


@cache
def result(model: str = "torque") -> Identification:
    friction = () if model == "reaction" else PLAIN
    return identify(robot(), logs()[0], model=model, friction=friction, validate=logs()[1])


class Reader(HTMLParser):
    """Texts and tags of a page; script elements of JavaScript are left out, figures are kept as texts."""

    def __init__(self, page: str) -> None:
        super().__init__()
        self.tags: list[tuple[str, dict[str, str | None]]] = []
        self.texts: list[str] = []
        self.feed(page)
        self.close()

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append((tag, dict(attrs)))

    def handle_data(self, data: str) -> None:
        self.texts.append(data)

    @property
    def text(self) -> str:
        return " ".join(self.texts)

    def all(self, tag: str) -> list[dict[str, str | None]]:
        return [attributes for name, attributes in self.tags if name == tag]


def page_of(path: Path) -> str:
    """The page without Plotly's own JavaScript."""
    text = path.read_text(encoding="utf-8")
    assert text.count(plotly_script()) == 1
    return text.replace(plotly_script(), "")


def sections_of(page: str) -> list[str]:
    return [str(section["id"]) for section in Reader(page).all("section")]


def test_the_page_has_all_sections_and_the_verdict_comes_first(tmp_path: Path) -> None:
    write_report(result(), tmp_path / "r.html", logs=logs()[0], validate=logs()[1], command="dynid identify <x>")
    page = page_of(tmp_path / "r.html")
    assert sections_of(page) == [
        "verdict", "prediction", "diagnosis", "parameters", "friction", "robot", "identifiable", "data", "correlation",
        "residuals", "condition", "warnings", "reproduce",
    ]  # fmt: skip
    read = Reader(page)
    links = [str(a["href"]) for a in read.all("a")]
    assert links == [*(f"#{name}" for name in sections_of(page)), "#curves"]
    for name in (*result().names, *result().equation.base.relations, *result().verdict.reasons):
        assert name in read.text
    assert "dynid identify <x>" in read.text
    # two logs of three channels and positions, as many spectra, friction curves, correlation, singular values
    assert len([d for d in read.all("div") if d.get("class") == "plot"]) == 2 * (3 + 1) + 2 + 3 + 1 + 1
    assert len(read.all("canvas")) == 1
    assert list(tmp_path.iterdir()) == [tmp_path / "r.html"]
    assert read.text.count("first.csv, as recorded (the first of 2 logs only)") == 2
    assert "logs only, first.csv" not in read.text  # clouds are of the logs used, of which there is one


def test_the_page_lists_what_was_tried_and_how_logs_differ(tmp_path: Path) -> None:
    """A reversed torque, with the option that repairs it, and a log of a tilted mount, whose name is escaped."""
    tilt = replace(robot(), gravity=np.array([1.5, 0.0, -9.69]))
    one, two = recorded(robot(), seconds=15.0, name=EVIL), recorded(tilt, seconds=15.0, seed=5, name="tilted.csv")
    assert one.tau is not None
    assert two.tau is not None
    sign = np.array([1.0, -1.0, 1.0])
    reversed_ = identify(robot(), Log(one.t, one.q, tau=one.tau * sign, name=EVIL), friction=PLAIN)
    tilted = identify(robot(), [one, two], friction=PLAIN)
    assert reversed_.diagnosis is not None
    assert tilted.agreement is not None
    assert [x.kind for x in tilted.agreement.differences] == ["gravity"]
    for found in (reversed_, tilted):
        write_report(found, tmp_path / "r.html")
        page = page_of(tmp_path / "r.html")
        assert "diagnosis" in sections_of(page)
        assert "evil.example" not in " ".join(str(a) for a in Reader(page).all("img") + Reader(page).all("a"))
        text = Reader(page).text
        for x in found.diagnosis.alternatives if found.diagnosis is not None else ():
            assert x.what.what in text
            assert all(option.render("command line") in text for option in x.options)
        if found is reversed_:
            assert found.diagnosis is not None
            assert found.diagnosis.best is not None
            assert "--sign tau.2" in text
        else:
            assert "tilt of the mount" in text


def test_clouds_of_one_of_several_logs_say_so(tmp_path: Path) -> None:
    found = identify(robot(), logs(), friction=PLAIN)
    write_report(found, tmp_path / "r.html", logs=logs())
    assert "They are of one of the 2 logs only, first.csv." in Reader(page_of(tmp_path / "r.html")).text


def test_nothing_is_loaded_from_elsewhere(tmp_path: Path) -> None:
    write_report(result(), tmp_path / "r.html", logs=logs()[0])
    page = page_of(tmp_path / "r.html")
    for tag, attributes in Reader(page).tags:
        assert tag not in ("link", "iframe", "img", "object", "embed", "base")
        assert "src" not in attributes
        assert str(attributes.get("href", "#")).startswith("#")
        assert not any(name.startswith("on") for name in attributes)
    assert not re.search(r"https?://|@import|url\(", page)
    assert "default-src 'none'" in page  # the browser itself forbids it


@pytest.mark.parametrize("model", MODELS)
def test_logs_read_again_give_the_errors_of_the_result(model: str) -> None:
    found = result(model)
    (used,) = replay_logs(found, logs()[:1], fitted=True)
    (other,) = replay_logs(found, logs()[1:], fitted=False)
    assert_allclose(used.rmse, found.fit.rmse, rtol=1e-6)
    assert_allclose(used.nrmse, found.fit.nrmse, rtol=1e-6)
    assert_allclose(other.rmse, found.validation.rmse, rtol=1e-6)
    assert_allclose(other.nrmse, found.validation.nrmse, rtol=1e-6)


@pytest.mark.parametrize("model", MODELS)
def test_every_model_has_a_report(model: str, tmp_path: Path) -> None:
    found = result(model)
    write_report(found, tmp_path / "r.html", logs=logs()[0], validate=logs()[1])
    page = page_of(tmp_path / "r.html")
    assert ("friction" in sections_of(page)) == (model != "reaction")
    figures = len([d for d in Reader(page).all("div") if d.get("class") == "plot"])
    friction, spectra = (0 if model == "reaction" else 3), (1 if model == "reaction" else 2)
    assert figures == 2 * (len(found.channels) + 1) + spectra + friction + 2


def test_curves_are_the_predicted_torques() -> None:
    motion = smooth_path(robot(), np.arange(0.0, 4.0, 0.01), scale=2.0)
    clean = simulate(robot(), motion, noise=0.05)
    found = identify(robot(), clean, friction=PLAIN)
    assert found.cutoff is None
    (replay,) = replay_logs(found, [clean], fitted=True)
    t, predicted = replay.curve_of_channel(1, 2)
    measured, residual = replay.curve_of_channel(0, 2)[1], replay.curve_of_channel(2, 2)[1]
    assert len(t) == len(motion)
    assert clean.tau is not None
    assert_allclose(predicted, found.predict(motion)[:, 2], atol=1e-9)
    assert_allclose(measured, clean.tau[:, 2], atol=1e-12)
    assert_allclose(residual, measured - predicted, atol=1e-12)


def test_clouds_show_what_friction_must_explain() -> None:
    motion = smooth_path(robot(), np.arange(0.0, 14.0, 0.02), scale=2.0)
    assert (motion.v.min(axis=0) < -0.3).all()
    assert (motion.v.max(axis=0) > 0.3).all()
    found = identify(robot(), simulate(robot(), motion), friction=PLAIN)
    (replay,) = replay_logs(found, [simulate(robot(), motion)], fitted=True)
    for j, cloud in enumerate(replay.clouds):
        assert len(cloud) == len(motion)
        assert_allclose(cloud[:, 1], friction_curve(found, j, cloud[:, 0]), atol=1e-6)
        own = dict(robot().links[robot().active_links[j]].friction)
        v = np.array([-2.0, -0.5, 0.7, 3.0])
        expected = own["viscous"] * v + own["coulomb"] * np.sign(v) + own["offset"]
        assert_allclose(friction_curve(found, j, v), expected, atol=1e-6)


def test_nominal_values_and_condition_are_those_of_the_result() -> None:
    found = result()
    nominal = nominal_values_by_name(found)
    assert_allclose([nominal[name] for name in found.names], truth(robot(), found), rtol=1e-12, atol=1e-12)
    values, directions = weighted_singular_values(found)
    assert values[0] / values[-1] == pytest.approx(found.condition, rel=1e-6)
    assert directions.shape == (len(found.names), len(found.names))


@pytest.mark.parametrize(
    ("value", "half", "shown"),
    [
        (1.73, 0.0151, ("1.730", "0.015")),
        (1.73, 0.0996, ("1.73", "0.10")),
        (-123456.0, 1234.0, ("-123500", "1200")),
        (1e-7, 3e-9, ("1.000e-07", "0.030e-07")),
        (-1e-6, 0.01, ("0.000", "0.010")),
        (5.0, 0.0, ("5", "0")),
        (2.0, np.inf, ("2", "-")),
        (np.nan, 1.0, ("-", "-")),
    ],
)
def test_digits_follow_the_deviation(value: float, half: float, shown: tuple[str, str]) -> None:
    assert value_and_half_width_text(value, half) == shown


def test_nominal_values_predict_as_their_robot_does() -> None:
    """The nominal curve is the torque of the robot file, and its error that of the file: here the truth, and a lie."""
    motion = smooth_path(robot(), np.arange(0.0, 4.0, 0.01), scale=2.0)
    log = simulate(robot(), motion)
    found = identify(robot(), log, friction=PLAIN)
    (replay,) = replay_logs(found, [log], fitted=True)
    assert replay.nominal_nrmse is not None
    assert_allclose(replay.nominal_nrmse, 0.0, atol=1e-9)
    heavier = robot().with_parameters(1.3 * robot().parameters)
    lie = identify(heavier, log, friction=PLAIN)
    (replay,) = replay_logs(lie, [log], fitted=True)
    assert replay.nominal_nrmse is not None
    assert log.tau is not None
    expected = simulate(heavier, motion).tau
    assert expected is not None
    assert_allclose(replay.curve_of_channel(3, 1)[1], expected[:, 1], atol=1e-9)
    errors = np.sqrt(((log.tau - expected) ** 2).mean(axis=0)) / log.tau.std(axis=0)
    assert_allclose(replay.nominal_nrmse, errors, rtol=1e-9)
    assert_allclose(replay.nrmse, 0.0, atol=1e-6)


def test_the_tile_says_how_wrong_the_robot_file_was(tmp_path: Path) -> None:
    heavier = robot().with_parameters(1.3 * robot().parameters)
    found = identify(heavier, logs()[0], friction=PLAIN, validate=logs()[1])
    write_report(found, tmp_path / "r.html", logs=logs()[0], validate=logs()[1])
    (replay,) = replay_logs(found, logs()[1:], fitted=False)
    assert replay.nominal_nrmse is not None
    told = f"nominal {percent_text(replay.nominal_nrmse.mean())} {ARROW} identified {percent_text(replay.nrmse.mean())}"
    assert told in Reader(page_of(tmp_path / "r.html")).text
    unknown = heavier.with_parameters(np.full(len(heavier.parameters), np.nan))
    write_report(identify(unknown, logs()[0], friction=PLAIN), tmp_path / "r.html", logs=logs()[0])
    assert not re.search(r"nominal \d", Reader(page_of(tmp_path / "r.html")).text)


def test_worst_moments_are_the_largest_residuals() -> None:
    """Torque pulses are found where they are, with the motion of the joint; two close ones count once."""
    arm = with_limits(robot())
    motion = smooth_path(arm, np.arange(0.0, 20.0, 0.01), scale=2.0)
    log = simulate(arm, motion, noise=0.01)
    assert log.tau is not None
    found = identify(arm, log, friction=PLAIN)
    reversal = int(np.flatnonzero(np.diff(np.sign(motion.v[:, 0])))[2])
    fast = int(np.abs(motion.v[:, 1]).argmax())
    tau, pulses = log.tau.copy(), {(reversal, 0): 9.0, (fast, 1): -12.0, (fast + 15, 1): -10.0}
    for (k, joint), size in pulses.items():
        tau[k, joint] += size
    (replay,) = replay_logs(found, [Log(log.t, log.q, v=log.v, a=log.a, tau=tau, name="x")], fitted=True)
    subject = ReportSubject(found, UNKNOWN_ORIGIN, used=(replay,))
    moments = worst_moments(subject)
    assert len(moments) == 10
    assert (np.diff([m.over_sigma for m in moments]) <= 0.0).all()
    first, second = (m for m in sorted(moments[:2], key=lambda m: m.moment.channel))
    assert (first.moment.channel, second.moment.channel) == (0, 1)
    assert (first.moment.t, second.moment.t) == (motion.t[reversal], motion.t[fast])
    assert_allclose(second.moment.residual, -12.0, atol=0.1)
    assert_allclose(second.moment.q, motion.q[fast])
    assert first.near_reversal
    assert "near reversal" in first.circumstances
    assert "at limit (velocity)" in second.circumstances
    assert not second.near_reversal
    for channel in replay.moments:
        times = np.sort([m.t for m in channel])
        assert (np.diff(times) >= 0.3).all()
    instants = replay.poses[:, 0]
    assert all(m.moment.t in instants for m in moments)  # the robot can be posed exactly there


def with_limits(arm: Robot) -> Robot:
    """Velocity limits that the motion of the test above reaches."""
    speed = np.abs(smooth_path(arm, np.arange(0.0, 20.0, 0.01), scale=2.0).v).max(axis=0)
    links = list(arm.links)
    for k, v in zip(arm.active_links, speed, strict=True):
        links[k] = replace(links[k], limits=replace(links[k].limits, velocity=float(v)))
    return replace(arm, links=tuple(links))


def test_late_instants_keep_their_milliseconds(tmp_path: Path) -> None:
    """Instants since 1970 are counted from the first second of the log: single precision would lose minutes."""
    late = 1.7e9
    log = logs()[0]
    moved = Log(log.t + late, log.q, tau=log.tau, name="late.csv")
    found = identify(robot(), moved, friction=PLAIN)
    (replay,) = replay_logs(found, [moved], fitted=True)
    assert replay.time_origin == late
    write_report(found, tmp_path / "r.html", logs=moved)
    page = page_of(tmp_path / "r.html")
    assert "t [s] after 1700000000 s" in page
    figures = [json.loads(x) for x in re.findall(r'<script type="application/json">(.*?)</script>', page, re.DOTALL)]
    t = next(f["columns"]["t"] for f in figures if f.get("columns"))
    shown = np.frombuffer(base64.b64decode(t["bdata"]), "<f4")
    assert np.nanmax(shown) < 8.0
    assert len(np.unique(shown)) == len(shown)


def test_the_truth_of_a_simulation_takes_the_place_of_another_table(tmp_path: Path) -> None:
    table = robot().with_parameters(2.0 * robot().parameters)
    found = identify(table, logs()[0], friction=PLAIN, validate=logs()[1])
    write_result_page(found, tmp_path / "r.html", logs=logs()[0], validate=logs()[1], truth=robot())
    text = Reader(page_of(tmp_path / "r.html")).text
    true = truth(robot(), found)
    inside = sum(bool(low <= x <= high) for x, (low, high) in zip(true, found.intervals, strict=True))
    assert f"{inside} of {len(found.names)}" in text
    assert "off true" in text
    assert not re.search(r"off nominal|nominal \d", text)


def test_names_from_files_are_escaped(tmp_path: Path) -> None:
    links = tuple(
        replace(link, joint=f"{EVIL}{k}", name=f"{EVIL}{k}", label=f"{EVIL}{k}") for k, link in enumerate(robot().links)
    )
    strange = replace(robot(), links=links, name=EVIL, source=EVIL, notes=(Message.load(EVIL),))
    log = recorded(robot(), name=EVIL + "\udcff")  # a byte of a file's name that is no text
    found = identify(strange, log, friction=PLAIN)
    write_report(found, tmp_path / "r.html", logs=log, validate=recorded(robot(), seed=2, name=EVIL), command=EVIL)
    write_report([found, found], tmp_path / "c.html", names=[EVIL, EVIL + "2"], command=EVIL)
    for name in ("r.html", "c.html"):
        page = page_of(tmp_path / name)
        read = Reader(page)
        assert not re.search(r"<script>alert|<img|<a href='", page)
        assert not read.all("img")
        drawn = len([d for d in read.all("div") if d.get("class") == "plot"]) + len(read.all("canvas"))
        assert len(read.all("script")) == 2 + drawn
        assert EVIL in read.text
        figures = re.findall(r'<script type="application/json">(.*?)</script>', page, re.DOTALL)
        assert figures
        for figure in figures:
            assert not set("<>&") & set(figure)
            if "links" in json.loads(figure):  # a canvas knows no tags
                continue
            # Plotly reads tags in texts: they come as entities, whose ampersand is escaped in JSON
            assert "\\u003c" not in figure.replace("\\u003cextra\\u003e", "").replace("\\u003c/extra\\u003e", "")


def test_names_cannot_steer_how_they_are_read(tmp_path: Path) -> None:
    """Right-to-left override and its kin become blanks in texts as in figures; no-break spaces of units stay."""
    steering = "".join(map(chr, (0x202E, 0x2066, 0x200B, 0x061C, 0x1B)))
    name = f"arm{steering}gpj"
    write_report([result(), result("power")], tmp_path / "c.html", names=[name, "b"], command=name)
    page = page_of(tmp_path / "c.html")
    assert not set(steering) & set(page)
    assert f"arm{' ' * 5}gpj" in page
    assert escape_control_characters(unit_text("kg m^2") + "\n") == unit_text("kg m^2") + "\n"
    assert all(escape_plot_text(c) == escape_control_characters(c) == " " for c in steering)


def test_a_robot_file_that_has_changed_is_told(tmp_path: Path) -> None:
    with resources.as_file(resources.files("dynid.robot") / "library" / "gautier3.toml") as library:
        text = library.read_text(encoding="utf-8")
    file = tmp_path / "arm.toml"
    file.write_text(text, encoding="utf-8")
    found = identify(load_robot(file), logs()[0], friction=PLAIN)
    assert write_report(found, tmp_path / "r.html") == ()
    file.write_text(text + "\n", encoding="utf-8")
    said = f"{file}: the robot's file has changed since the identification"
    for subject, section in ((found, "warnings"), ([found, found], "overview")):
        (doubt,) = write_report(subject, tmp_path / "r.html")
        assert doubt.startswith(said)
        part = page_of(tmp_path / "r.html").partition(f'id="{section}"')[2].partition("</section>")[0]
        assert said in Reader(part).text
    file.unlink()
    assert write_report(found, tmp_path / "r.html") == ()


def test_without_logs_the_report_says_so(tmp_path: Path) -> None:
    result().save(tmp_path / "r.json")
    write_report(Identification.load(tmp_path / "r.json"), tmp_path / "r.html")
    page = page_of(tmp_path / "r.html")
    assert "A result holds no logs" in page
    assert "No file of the logs was hashed" in page
    assert len([d for d in Reader(page).all("div") if d.get("class") == "plot"]) == 3 + 2
    assert len(Reader(page).all("canvas")) == 1


VERDICT = Verdict("good", (Message("total_mass", "12 kg in all"),), Message("none", "nothing"))


@dataclass(frozen=True)
class Physical:
    names: tuple[str, ...]
    values: Array
    warnings: tuple[Message, ...] = ()
    notes: tuple[Message, ...] = ()
    verdict: Verdict = VERDICT


def test_physical_parameters_stand_beside_nominal_ones(tmp_path: Path) -> None:
    names = (*robot().parameter_names, "Fv1")
    values = np.append(1.01 * robot().parameters, 3.0)
    warning = Message("odd", "a warning of <bodies>", "take {option}", option=Option("snap", False))
    found = Physical(names, values, (warning,), (Message("plain", "a note of bodies"),))
    write_report(result(), tmp_path / "r.html", physical=found)
    page = page_of(tmp_path / "r.html")
    assert "physical" in sections_of(page)
    assert all(name in Reader(page).text for name in robot().parameter_names)
    assert "a warning of &lt;bodies&gt;; take snap=False" in page.partition('id="warnings"')[2]
    assert "a note of bodies" in page
    section = page.partition('id="physical"')[2].partition("</section>")[0]
    viscous = dict(robot().links[robot().active_links[0]].friction)["viscous"]
    assert f'data-key="{viscous}"' in section  # friction of the robot file is nominal, too


def test_bodies_lead_with_a_table_per_link(tmp_path: Path) -> None:
    """Total first, one row per link with units; a body that cannot exist is marked."""
    values = robot().parameters.copy()
    names = robot().parameter_names
    values[names.index("M" + robot().links[1].label)] = 5.0
    values[names.index("ZZ" + robot().links[1].label)] = -1.0
    write_report(result(), tmp_path / "r.html", physical=Physical(tuple(names), values))
    section = page_of(tmp_path / "r.html").partition('id="physical"')[2].partition("</section>")[0]
    rows = re.findall(r"<tr.*?</tr>", section.partition("<details>")[0], re.DOTALL)
    assert "mass [kg]" in rows[0]
    assert "all links" in rows[1]
    total = sum(values[names.index("M" + link.label)] for link in robot().links)
    assert f'data-key="{total}"' in rows[1]
    assert 'class="word bad"' in next(row for row in rows if f">{robot().links[1].name}<" in row)


def test_the_comparison_opens_with_an_answer(tmp_path: Path) -> None:
    first = result()
    k = [first.names.index(name) for name in ("Fv1", "Fv3")]
    values = first.values.copy()
    values[k] += np.array([3.5, 3.0]) * np.hypot(first.sigma[k], first.sigma[k])
    other = first.replace(values=values)
    for several, words in (
        ([first, first], f"The same within 2 sigma in all {len(first.names)} parameters"),
        ([first, other], f"The same within 2 sigma except for Fv1, Fv3 (2 of {len(first.names)} parameters"),
        ([first, first.replace(values=2.0 * values)], "The results differ: "),
    ):
        write_report(several, tmp_path / "c.html")
        part = page_of(tmp_path / "c.html").partition("<main>")[2]
        assert Reader(part).text.index(words) < Reader(part).text.index("verdict")


def test_several_results_stand_side_by_side(tmp_path: Path) -> None:
    several = [result("torque"), result("momentum"), result("power"), result("reaction")]
    write_report(several, tmp_path / "c.html")
    page = page_of(tmp_path / "c.html")
    assert sections_of(page) == ["overview", "errors", "intervals", "reproduce"]
    text = Reader(page).text
    assert all(f"gautier3, {model}, wls" in text for model in ("torque", "momentum", "power", "reaction"))
    assert all(name in text for found in several for name in found.names)
    assert "not directly comparable" in text
    overview = Reader(page.partition('id="overview"')[2].partition("</section>")[0]).text
    assert overview.count(", ".join(PLAIN)) == 3  # the base feels no friction
    assert "friction" in overview


def test_results_differ_by_combined_deviations() -> None:
    first, other = result("torque"), result("momentum")
    compared = ComparedResults.from_results([first, other], None, UNKNOWN_ORIGIN)
    for name in first.names:
        k, m = first.names.index(name), other.names.index(name)
        expected = abs(first.values[k] - other.values[m]) / np.hypot(first.sigma[k], other.sigma[m])
        assert compared.largest_difference(name) == pytest.approx(expected, rel=1e-12)
    plate = ComparedResults.from_results([first, result("reaction")], None, UNKNOWN_ORIGIN)
    shared = set(first.names) & set(result("reaction").names)
    assert any(np.isnan(plate.largest_difference(name)) for name in shared)  # ZZ1: rotors are not felt by the base


def test_different_robots_are_listed_without_a_comparison(tmp_path: Path) -> None:
    other = load_robot("puma560")
    log = recorded(other)
    write_report([result(), identify(other, log, friction=PLAIN)], tmp_path / "c.html", names=["a", "b"])
    page = page_of(tmp_path / "c.html")
    assert "different robots" in page
    assert "their parameters cannot be compared" in page
    assert len([d for d in Reader(page).all("div") if d.get("class") == "plot"]) == 2  # errors, each on its own axis


@pytest.mark.parametrize(
    ("given", "words"),
    [
        ({"logs": "all"}, "made from 1 logs, 2 were given"),
        ({"results": 1}, "two results or more"),
        ({"results": 2, "names": ["a"]}, "1 names were given for 2 results"),
        ({"results": 2, "logs": "all"}, "single result"),
        ({"logs": "nowhere.csv"}, "nowhere.csv"),
    ],
)
def test_what_makes_no_sense_is_refused(given: dict[str, Any], words: str, tmp_path: Path) -> None:
    options = dict(given)
    count = options.pop("results", None)
    about = result() if count is None else [result()] * int(str(count))
    if options.get("logs") == "all":
        options["logs"] = logs()
    with pytest.raises(DynidError, match=words):
        write_report(about, tmp_path / "r.html", **options)
    assert not list(tmp_path.iterdir())


def test_a_log_that_is_too_slow_is_refused(tmp_path: Path) -> None:
    found = result()
    assert found.cutoff is not None
    slow = recorded(robot(), rate=1.5 * found.cutoff, seconds=30.0, name="slow.csv")
    with pytest.raises(DynidError, match=r"slow\.csv.*too slow"):
        write_report(found, tmp_path / "r.html", validate=slow)


@pytest.mark.parametrize("case", ["offsets", "huber", "auto", "part", "loop", "scara", "unknown", "lost", "joints"])
def test_all_kinds_of_results(case: str, tmp_path: Path) -> None:
    arm, first, other = robot(), *logs()
    some: tuple[Log, ...] = (first,)
    match case:
        case "offsets":
            some = (first, other)
            found = identify(arm, some, friction=PLAIN, offsets_per_log=True)
        case "huber":
            found = identify(arm, first, friction=PLAIN, estimator="huber")
        case "auto":
            found = identify(arm, first)
        case "part":
            some = (first.part(0.0, 0.6),)
            found = identify(arm, some, friction=PLAIN)
        case "loop" | "scara":
            arm = load_robot({"loop": "sr400", "scara": "scara"}[case])
            some = (recorded(complete(arm), seconds=12.0),)
            found = identify(arm, some, friction=())
        case "unknown":
            arm = load_robot("scara")
            some = (recorded(arm, seconds=6.0),)
            found = identify(arm, some, friction=PLAIN, unknown=("A1", "A2"))
        case "lost":
            still = Motion(np.arange(0.0, 6.0, 0.01), *(np.zeros((600, 3)) for _ in range(3)))
            moved = smooth_path(arm, still.t, scale=2.0)
            one = Motion(still.t, *(np.where([True, True, False], x, 0.0) for x in (moved.q, moved.v, moved.a)))
            log = simulate(arm, one, noise=0.05)
            some = (Log(log.t, log.q, tau=log.tau),)
            found = identify(arm, some, friction=PLAIN)
        case _:
            found = identify(arm, first, friction=PLAIN, joints=[arm.joint_names[1]])
    replays = replay_logs(found, some, fitted=True)
    if len(some) == 1 and case != "huber":
        assert_allclose(replays[0].rmse, found.fit.rmse, rtol=1e-6)
    write_report(found, tmp_path / "r.html", logs=some)
    text = Reader(page_of(tmp_path / "r.html")).text
    assert all(lost.seen in text for lost in found.unidentifiable)
    assert all(sentence in text for sentence in (*found.notes, *found.warnings))


def complete(arm: Robot) -> Robot:
    """Some values where a table has none."""
    rng = np.random.default_rng(1)
    known = arm.parameters
    return arm.with_parameters(np.where(np.isnan(known), rng.uniform(0.5, 1.0, len(known)), known))


@pytest.mark.slow
def test_a_million_samples_of_seven_joints_stay_under_three_megabytes(tmp_path: Path) -> None:
    arm = with_friction(complete(load_robot("iiwa")))
    short = recorded(arm, seconds=20.0, rate=100.0)
    found = identify(arm, short, friction=PLAIN, validate=short)
    repeats = 1_000_000 // len(short)
    assert short.tau is not None
    t = np.linspace(0.0, 0.01 * (len(short) * repeats - 1), len(short) * repeats)
    there = np.arange(repeats) % 2 == 0  # to and fro: positions do not jump
    order = np.concatenate([np.arange(len(short))[:: 1 if ahead else -1] for ahead in there])
    long = Log(t, short.q[order], tau=short.tau[order], name="long")
    assert len(long) == 1_000_000
    write_report(found, tmp_path / "r.html", logs=long, validate=short)
    assert (tmp_path / "r.html").stat().st_size < 3_000_000


@pytest.mark.parametrize("name", bundled_robots())
def test_every_bundled_robot_can_be_drawn(name: str) -> None:
    arm = load_robot(name)
    drawing = draw_robot(arm, middle_posture(arm))
    assert drawing is not None
    body = json.loads(drawing.json)
    assert len(body["links"]) == len(arm.links)
    assert all(link["parent"] < k for k, link in enumerate(body["links"]))
    assert body["size"] > 0.0


def poses_by_the_page(arm: Robot, q: Array) -> tuple[list[Array], list[Array]]:
    """Rotations and positions of the links as the page's script computes them, in its order, from its JSON."""
    drawing = draw_robot(arm, q)
    assert drawing is not None
    body = json.loads(drawing.json)
    (pose,) = body["poses"]
    tree = np.frombuffer(base64.b64decode(pose["q"]["bdata"]), "<f4").astype(float)
    rotations: list[Array] = []
    positions: list[Array] = []
    for link in body["links"]:
        R, p = (
            (np.eye(3), np.zeros(3)) if link["parent"] < 0 else (rotations[link["parent"]], positions[link["parent"]])
        )
        angle = tree[link["joint"]] if link["joint"] >= 0 else 0.0
        A, B, C = np.reshape(link["rotation"], (3, 3, 3))
        rotations.append(R @ (A + B * np.sin(angle) + C * np.cos(angle) if link["kind"] == 1 else A))
        slide = angle * (rotations[-1] @ link["axis"]) if link["kind"] == 2 else 0.0
        positions.append(p + R @ link["translation"] + slide)
    return rotations, positions


@pytest.mark.parametrize("name", ["puma560", "scara", "sr400", "slider_crank", "iiwa"])
def test_the_drawing_poses_links_as_the_dynamics_do(name: str) -> None:
    arm = load_robot(name)
    q = middle_posture(arm) + 0.3
    poses = tree_poses(arm, q[None])
    rotations, positions = poses_by_the_page(arm, q)
    for i, k in enumerate(arm.topological_order):
        assert_allclose(rotations[i], poses.rotation[k][0], atol=1e-6)
        assert_allclose(positions[i], poses.position[k][0], atol=1e-6)


def test_loops_are_closed_in_the_drawing() -> None:
    arm = load_robot("slider_crank")
    drawing = draw_robot(arm, np.array([0.7]))
    assert drawing is not None
    rotations, positions = poses_by_the_page(arm, np.array([0.7]))
    ends = [
        np.array(loop["point"])
        if loop["link"] < 0
        else positions[loop["link"]] + rotations[loop["link"]] @ loop["point"]
        for loop in json.loads(drawing.json)["loops"]
    ]
    assert len(ends) == 2
    assert_allclose(ends[0], ends[1], atol=1e-6)
    assert np.linalg.norm(ends[1] - positions[1]) == pytest.approx(0.8, rel=1e-6)  # the rod
