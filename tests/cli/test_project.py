"""A project file gives what is not typed: the same figures as the typed command, clear refusals, and dynid init."""

from __future__ import annotations

import json
import shlex
import tomllib
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal

from command_line import CommandLine, write_motion, write_simulated
from commands_page import commands
from dynid import DynidError, Identification, Wiring, load_robot, read_log
from dynid.cli import project
from dynid.cli.output.recordings import write_log
from loads import LOAD, robot_with_friction, two_logs
from mistakes import arm_urdf, csv, recorded

PLAIN = ("--friction", "viscous,coulomb,offset")
WIRED = Wiring(
    order_tau=np.array([1, 0, 2]), sign_q=np.array([-1.0, 1.0, 1.0]), sign_tau=np.array([1.0, 1.0, -1.0]),
    zero=np.array([0.0, -np.pi / 2, 0.0]),
)  # fmt: skip
SMALL = 'robot = "gautier3"\nlogs = ["run.csv"]\n'


@pytest.fixture(scope="module")
def recordings(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Logs of gautier3, one of them wired wrongly and with other names and units, and logs with a payload."""
    folder = tmp_path_factory.mktemp("recordings")
    write_simulated(folder / "run.csv")
    write_simulated(folder / "other.csv", seed=1)
    loaded, unloaded = two_logs(robot_with_friction("gautier3"), LOAD, noise=0.01)
    write_log(folder / "with.csv", loaded)
    write_log(folder / "without.csv", unloaded)
    wrong = unloaded.rewired(WIRED)
    assert wrong.tau is not None
    table = np.column_stack([1e3 * wrong.t, np.degrees(wrong.q), 1e3 * wrong.tau])
    np.savetxt(folder / "raw.csv", table, delimiter=",", header="clock,a,b,c,x,y,z", comments="")
    return folder


@pytest.fixture
def folder(recordings: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The current folder, with the recordings."""
    for path in recordings.iterdir():
        (tmp_path / path.name).symlink_to(path)
    monkeypatch.chdir(tmp_path)
    return tmp_path


@pytest.fixture
def dynid(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> CommandLine:
    return CommandLine(monkeypatch, capsys)


def run(dynid: CommandLine, *words: object, code: int | None = None) -> Any:
    return json.loads(dynid(*words, "--json", "-", code=code).out)


def refuse(dynid: CommandLine, *words: object) -> tuple[str, str]:
    """The code of an error, and the one line that a person sees."""
    done = dynid(*words, "--json", "-", code=2)
    assert done.err.count("\n") == 1, done.err
    assert len(done.err) < 600
    return str(json.loads(done.out)["error"]["code"]), done.err


def test_it_gives_the_figures_of_the_typed_command(dynid: CommandLine, folder: Path) -> None:
    (folder / "dynid.toml").write_text("""
robot = "gautier3"
logs = ["raw.csv@:70%"]
validate = "raw.csv@70%:"
units = { t = "ms", q = "deg", tau = "Nmm" }
sign = ["tau.3", "q.1"]
zero = { "2" = "90deg" }
order = { tau = ["2", "1", "3"] }

[column]
t = "clock"
q = ["a", "b", "c"]
tau = ["x", "y", "z"]

[options]
friction = ["viscous", "coulomb", "offset"]
rotor-inertia = false
cutoff = 12
known = { M3 = 1.5 }
""")
    wired = ("--sign", "tau.3", "--sign", "q.1", "--zero", "2=90deg", "--order", "tau=2,1,3")
    columns = ("--column", "t=clock", "--column", "q=a,b,c", "--column", "tau=x,y,z", "--units", "t=ms,q=deg,tau=Nmm")
    options = ("--no-rotor-inertia", "--cutoff", 12, "--known", "M3=1.5", *PLAIN)
    files = ("gautier3", "raw.csv@:70%", "--validate", "raw.csv@70%:")
    typed = run(dynid, "identify", *files, *columns, *wired, *options, "--project", "none")
    given = run(dynid, "identify")
    quoted = given.pop("project")
    notes = typed["verdict"].pop("next_step"), given["verdict"].pop("next_step")
    assert quoted["file"] == "dynid.toml"
    assert quoted["values"]["zero"] == {"2": "90deg"}
    assert shlex.split(notes[1])[:4] == ["dynid", "identify", "gautier3", "raw.csv@:70%"]
    assert {key: typed[key] for key in given if key != "messages"} == {
        k: v for k, v in given.items() if k != "messages"
    }
    assert np.mean(given["validation"]["nrmse"]) < 0.05


def test_a_table_without_a_header_by_names_or_by_numbers(dynid: CommandLine, folder: Path) -> None:
    table = np.loadtxt(folder / "raw.csv", delimiter=",", skiprows=1)
    np.savetxt(folder / "bare.csv", table, delimiter=",")
    start = 'robot = "gautier3"\nlogs = "bare.csv"\nunits = { t = "ms", q = "deg", tau = "Nmm" }\n'
    wired = 'sign = ["tau.3", "q.1"]\nzero = { "2" = 1.5707963267948966 }\norder = { tau = ["2", "1", "3"] }\n'
    words = shlex.split("--units t=ms,q=deg,tau=Nmm --sign tau.3 --sign q.1 --zero 2=90deg --order tau=2,1,3")
    typed = ("identify", "gautier3", "bare.csv", "--header", "t,q*3,tau*3", "--rows", "101:900", *words, *PLAIN)
    wanted = run(dynid, *typed)["values"]
    for header, rows in (
        ('header = "t,q*3,tau*3"', 'rows = "101:900"'),
        ('header = ["t", "q*3", "tau*3"]', "rows = [101, 900]"),
        ('column = { t = "1", q = "2:4", tau = "5:7" }', 'logs = "bare.csv@#101:900"'),
    ):
        lines = start if rows.startswith("rows") else start.replace('logs = "bare.csv"\n', "")
        (folder / "dynid.toml").write_text(f"{lines}{wired}{header}\n{rows}\n")
        assert_allclose(run(dynid, "identify", *PLAIN)["values"], wanted, rtol=1e-12)


def test_a_list_in_the_list_of_logs_is_one_recording(dynid: CommandLine, folder: Path) -> None:
    table = np.loadtxt(folder / "run.csv", delimiter=",", skiprows=1)
    names = (folder / "run.csv").read_text().partition("\n")[0].split(",")
    for file, letter in (("q.csv", "q"), ("tau.csv", "tau")):
        kept = [k for k, name in enumerate(names) if name == "t" or name.rstrip("123") == letter]
        named = ",".join(names[k] for k in kept)
        np.savetxt(folder / file, table[:, kept], delimiter=",", header=named, comments="")
    wanted = run(dynid, "identify", "gautier3", "q.csv+tau.csv", *PLAIN)["values"]
    inside = folder / "inside"
    inside.mkdir()
    for logs in ('[["q.csv", "tau.csv"]]', '["q.csv+tau.csv"]'):
        (folder / "dynid.toml").write_text(f'robot = "gautier3"\nlogs = {logs}\n')
        assert_allclose(run(dynid, "identify", *PLAIN)["values"], wanted, rtol=1e-12)
        dynid.monkeypatch.chdir(inside)
        assert_allclose(run(dynid, "identify", "--project", "../dynid.toml", *PLAIN)["values"], wanted, rtol=1e-12)
        dynid.monkeypatch.chdir(folder)


def test_what_is_typed_wins_and_the_rest_stays(dynid: CommandLine, folder: Path) -> None:
    (folder / "dynid.toml").write_text(SMALL + '[options]\nfriction = "none"\ncutoff = 5.0\nrotor_inertia = false\n')
    assert run(dynid, "identify")["cutoff"] == 5.0
    found = run(dynid, "identify", "--cutoff", 8, "--rotor-inertia")
    assert (found["cutoff"], found["friction"], found["logs"][0]["name"]) == (8.0, [], "run.csv")
    assert "Ia3" in found["names"]
    assert set(found["project"]["values"]) == {"robot", "logs", "friction"}
    found = run(dynid, "identify", "gautier3", "other.csv")
    assert found["logs"][0]["name"] == "other.csv"
    assert set(found["project"]["values"]) == {"friction", "cutoff", "rotor_inertia"}
    assert run(dynid, "identify", "gautier3", "run.csv", "--project", "none")["friction"] != []


def test_the_result_says_what_came_from_it_and_can_be_made_again(dynid: CommandLine, folder: Path) -> None:
    (folder / "dynid.toml").write_text(
        SMALL + '[options]\nfriction = "none"\nout = "result.json"\nreport = "page.html"\n'
    )
    done = dynid("identify", code=None)
    assert done.out.startswith("verdict: ")
    assert ("\nnote: from dynid.toml: gautier3 run.csv --friction none --out result.json") in done.out
    assert "dynid.toml" in (folder / "page.html").read_text()
    first = Identification.load(folder / "result.json")
    words = shlex.split(first.origin.command)
    assert words[:2] == ["dynid", "identify"]
    assert words[-2:] == ["--project", "dynid.toml"]
    (folder / "dynid.toml").unlink()
    (folder / "result.json").unlink()
    dynid(*words[1:-2], code=None)
    second = Identification.load(folder / "result.json")
    assert (first.names, first.origin.inputs) == (second.names, second.origin.inputs)
    assert_array_equal(first.values, second.values)


def test_paths_are_relative_to_the_file_and_parents_are_not_searched(dynid: CommandLine, folder: Path) -> None:
    (folder / "arm.toml").write_text("[[joint]]\n[[joint]]\nalpha = -1.5707963267948966\nd = 0.3\n")
    (folder / "dynid.toml").write_text('robot = "arm.toml"\nlogs = ["run.csv@2:6"]\n')
    inside = folder / "inside"
    inside.mkdir()
    dynid.monkeypatch.chdir(inside)
    assert refuse(dynid, "base")[0] == "wrong_usage"
    found = run(dynid, "base", "--project", "../dynid.toml")
    assert found["robot"] == "arm"
    found = run(dynid, "identify", "--project", "../dynid.toml", *PLAIN)
    assert found["logs"][0]["name"].startswith("../run.csv")
    assert run(dynid, "base", "--project", folder / "dynid.toml")["project"]["file"] == str(folder / "dynid.toml")


def test_every_command_on_a_robot_or_logs_takes_its_arguments_from_it(dynid: CommandLine, folder: Path) -> None:
    write_motion(folder / "traj.csv", "gautier3")
    (folder / "dynid.toml").write_text(
        SMALL + 'loaded = ["with.csv"]\nunloaded = ["without.csv"]\nlock = { "3" = 0.5 }\n'
    )
    for words in (("mdh",), ("base",), ("unknown", "--count-only"), ("check",)):
        found = run(dynid, *words)
        assert found["project"]["values"]["robot"] == "gautier3"
    assert run(dynid, "base")["count"] == run(dynid, "base", "gautier3", "--lock", "3=0.5")["count"]
    (folder / "dynid.toml").write_text((folder / "dynid.toml").read_text().replace("lock", "# lock"))
    limits = ("--velocity", 1, "--acceleration", 4, "--position", 1.5, "--starts", 1)
    assert run(dynid, "excite", *limits)["project"]["values"] == {"robot": "gautier3"}
    assert run(dynid, "simulate", "traj.csv")["project"]["values"] == {"robot": "gautier3"}
    assert run(dynid, "simulate", "gautier3", "traj.csv").get("project") is None
    assert abs(run(dynid, "payload", *PLAIN)["mass"] - 2.0) < 0.1
    if find_spec("viser"):
        assert (
            run(dynid, "view", "--no-browser", "--port", 0, "--seconds", 0.1)["project"]["values"]["robot"]
            == "gautier3"
        )
    gains = run(dynid, "gains", *PLAIN, "--mass", 2, "--com", "0.05,-0.03,0.12")
    assert set(gains["project"]["values"]) == {"robot", "loaded", "unloaded"}


def test_options_of_a_file_that_a_command_cannot_use_are_left(dynid: CommandLine, folder: Path) -> None:
    """What is refused beside other words when typed is only for other runs when it stands in a file."""
    text = SMALL + 'sensor = "plate.toml"\ncolumn = { v = "" }\n[options]\nmodel = "energy"\nout = "one.json"\n'
    (folder / "dynid.toml").write_text(text)
    if find_spec("viser"):
        dynid("view", "--no-browser", "--port", 0, "--seconds", 0.1)
    found = run(dynid, "identify", *PLAIN)
    assert found["model"] == "energy"
    assert "sensor" not in found["project"]["values"]
    dynid("report", "one.json", code=None)
    found = run(dynid, "report", "one.json", "--log", "run.csv")
    assert found["project"]["values"] == {"column": {"v": ""}}
    assert refuse(dynid, "report", "one.json", "--project", "dynid.toml")[0] == "option_not_applicable"


def test_controllers_of_drives_stand_in_the_file_or_are_named_by_it(folder: Path) -> None:
    from dynid.actuators.controller import read_controller

    text = 'robot = "leg"\nlogs = ["run.csv"]\n'
    (folder / "dynid.toml").write_text(text + "[controller]\nkp = 40.0\n[controller.joint.knee]\nkp = 25.0\n")
    given = commands()["actuators"].make_context("actuators", []).params
    found = read_controller(given["controller"], load_robot("leg"))
    assert found.kp.tolist() == [40.0, 40.0, 25.0]
    (folder / "dynid.toml").write_text(text + 'controller = "drives.toml"\n')
    with pytest.raises(DynidError) as caught:
        commands()["actuators"].make_context("actuators", [])
    assert caught.value.code == "file_not_found"
    (folder / "drives.toml").write_text('kp = 30.0\nkind = "position"\n')
    given = commands()["actuators"].make_context("actuators", []).params
    assert read_controller(given["controller"], load_robot("leg")).kp.tolist() == [30.0] * 3
    project.forget_values_in_use()


def test_options_that_other_words_make_idle_are_not_taken(folder: Path) -> None:
    options = 'model = "reaction"\nestimator = "huber"\ngravity = [0, 0, 9.81]\ncutoff = 5\n'
    (folder / "dynid.toml").write_text(f'{SMALL}sensor = "p.toml"\ngain = 2\n[options]\n{options}')
    (folder / "p.toml").write_text("")
    given = commands()["identify"].make_context("identify", ["--compare"]).params
    assert (given["model"], given["estimator"], given["sensor"]) == ("torque", "wls", None)
    assert (given["gravity"], given["cutoff"], given["gain"]) == ("0,0,9.81", 5.0, "2")
    given = commands()["identify"].make_context("identify", []).params
    assert (given["model"], given["estimator"], str(given["sensor"])) == ("reaction", "huber", "p.toml")
    given = commands()["payload"].make_context("payload", ["--loaded", "a.json", "--unloaded", "b.json"]).params
    assert (given["gravity"], given["cutoff"], given["gain"]) == ("0,0,9.81", None, None)
    project.forget_values_in_use()


@pytest.mark.parametrize("words", [("robots",), ("identify", "--help"), ("mdh", "--project", "none", "gautier3")])
def test_what_needs_nothing_from_it_does_not_read_it(dynid: CommandLine, folder: Path, words: tuple[str, ...]) -> None:
    (folder / "dynid.toml").write_text("not TOML at all")
    dynid(*words)


def test_packages_go_with_the_robot_of_the_file(dynid: CommandLine, folder: Path) -> None:
    """A folder that is named from the file; xacro, which evaluates expressions, is not taken from it."""
    (folder / "packages").mkdir()
    (folder / "arm.urdf").write_text(arm_urdf())
    (folder / "dynid.toml").write_text('robot = "arm.urdf"\n[options]\npackage_path = ["packages"]\n')
    assert run(dynid, "base")["project"]["values"]["package_path"] == ["packages"]
    (folder / "dynid.toml").write_text('robot = "arm.urdf"\n[options]\nxacro = true\n')
    assert refuse(dynid, "base")[0] == "unknown_project_key"


def test_locks_go_with_the_robot_of_the_file(dynid: CommandLine, folder: Path) -> None:
    (folder / "arm.urdf").write_text(arm_urdf(gripper=True))
    (folder / "dynid.toml").write_text('robot = "arm.urdf"\n[lock]\nfinger_left = 0\nfinger_right = 0.01\n')
    assert run(dynid, "base")["project"]["values"]["lock"] == {"finger_left": 0, "finger_right": 0.01}
    assert run(dynid, "base", "./arm.urdf")["count"] == run(dynid, "base")["count"]
    assert "project" not in run(dynid, "base", "gautier3")
    assert refuse(dynid, "base", "gautier3", "--project", "dynid.toml")[0] == "unknown_joint"


def test_a_robot_alone_takes_no_logs_from_the_file(dynid: CommandLine, folder: Path) -> None:
    (folder / "dynid.toml").write_text(SMALL)
    assert refuse(dynid, "identify", "gautier3")[0] == "arguments_incomplete"
    (folder / "dynid.toml").write_text('robot = "gautier3"\n')
    code, line = refuse(dynid, "identify")
    assert code == "project_key_missing"
    assert "'logs'" in line
    assert run(dynid, "identify", "other.csv", *PLAIN)["logs"][0]["name"] == "other.csv"


@pytest.mark.parametrize("text", [SMALL, 'robot = "gautier3"\n'])
def test_logs_alone_take_the_robot_from_the_file(dynid: CommandLine, folder: Path, text: str) -> None:
    (folder / "dynid.toml").write_text(text)
    (folder / "other.dat").symlink_to(folder / "other.csv")
    for words in (("other.csv", "run.csv"), ("other.csv@0:5",), ("other.dat", "run.csv@#1:500")):
        found = run(dynid, "identify", *words, *PLAIN)
        assert [log["name"].split()[0] for log in found["logs"]] == [word.partition("@")[0] for word in words]
        assert found["project"]["values"] == {"robot": "gautier3"}
    assert refuse(dynid, "identify", "nothing.csv", "run.csv")[0] == "file_not_found"
    assert refuse(dynid, "simulate", "run.csv", "other.csv")[0] == "unsupported_suffix"


WRONG = [
    ("robot = ", "not_toml", "line 1"),
    ("robot = 'gautier3'\nrobot = 'scara'", "not_toml", "line 2"),
    ("robt = 'gautier3'", "unknown_project_key", "line 1: there is no key 'robt'; did you mean 'robot'?"),
    ("robot = 'scara'\n\nlog = ['run.csv']", "unknown_project_key", "line 3: there is no key 'log'; did you mean 'lo"),
    ("lock" + ".a" * 3000 + " = 1", "not_toml", "dynid.toml: "),
    (SMALL + "gain = 1" + "0" * 5000, "not_toml", "dynid.toml: "),
    ("xyzzy = 1", "unknown_project_key", "line 1"),
    ('"\\u001b[2J" = 1', "unknown_project_key", "'\\x1b[2J'"),
    (SMALL + "cutoff = 5", "unknown_project_key", "line 3: there is no key 'cutoff'; write it below [options]"),
    (SMALL + "[options]\ncutof = 5", "unknown_project_key", "line 4: [options] has no 'cutof'; did you mean 'cutoff'?"),
    (SMALL + "[options]\nunits = {q = 'deg'}", "unknown_project_key", "line 4"),
    (SMALL + "[options]\njson = 'x.json'", "unknown_project_key", "line 4"),
    (SMALL + "[options]\ncutoff = '5'", "project_value_malformed", "line 4: cutoff"),
    (SMALL + "[options]\npartial = 1", "project_value_malformed", "line 4: partial"),
    (SMALL + "[options]\ncutoff = true", "project_value_malformed", "line 4: cutoff"),
    (SMALL + "[options]\nout = '/tmp/result.json'", "output_outside_project", "line 4: out"),
    (SMALL + "[options]\nout = '../result.json'", "output_outside_project", "line 4: out"),
    (SMALL + "options = 3", "project_value_malformed", "line 3"),
    ("robot = ['gautier3']\nlogs = ['run.csv']", "project_value_malformed", "line 1: robot"),
    ("robot = 'gautier3'\nlogs = 3", "project_value_malformed", "line 2: logs"),
    ("robot = 'gautier3'\nlogs = ['']", "project_value_malformed", "line 2: logs"),
    ("robot = 'gautier3'\nlogs = []", "project_value_malformed", "line 2: logs"),
    (SMALL + "gain = true", "project_value_malformed", "line 3: gain"),
    (SMALL + "lock = { '3' = 1979-05-27 }", "project_value_malformed", "line 3: lock"),
    (SMALL + "[column]\nq = [['q1'], 'q2', 'q3']", "project_value_malformed", "line 3: column"),
    (SMALL + "column = { q = ['a,b', 'c', 'd'] }", "separator_in_name", "line 3: column"),
    (SMALL + "topic = ['/a', '/b']\n", "topic_not_applicable", "(from dynid.toml: robot, logs, topic)"),
    ("robot = 'nobody.urdf'\nlogs = ['run.csv']", "file_not_found", "line 1: robot"),
    ("robot = 'gautier3'\nlogs = ['rum.csv']", "file_not_found", "line 2: logs: there is no file 'rum.csv' (did you"),
    ("robot = 'gautier3'\nlogs = [['run.csv', 'torques.csv']]", "file_not_found", "line 2: logs: there is no file 't"),
    (SMALL + "validate = ['nowhere/run.csv@2:3']", "file_not_found", "line 3: validate"),
    (SMALL + "sensor = 'plate.toml'\n[options]\nmodel = 'reaction'", "file_not_found", "line 3: sensor"),
    ("robot = 'nobody'\nlogs = ['run.csv']", "unknown_robot", "(from dynid.toml: robot, logs)"),
    (SMALL + "lock = { elbow = 0 }", "unknown_joint", "(from dynid.toml: robot, logs, lock)"),
    (SMALL + "units = { q = 'furlong' }", "unknown_unit", "(from dynid.toml: robot, logs, units)"),
    (SMALL + "[options]\nmodel = 'heat'", "unknown_model", "(from dynid.toml: robot, logs, model)"),
]  # fmt: skip


@pytest.mark.parametrize(("text", "code", "place"), WRONG)
def test_a_wrong_file_gives_one_line_with_file_and_place(
    dynid: CommandLine, folder: Path, text: str, code: str, place: str
) -> None:
    (folder / "dynid.toml").write_text(text)
    found, line = refuse(dynid, "identify")
    assert "dynid.toml" in line
    assert place in line
    assert found == code


def test_files_that_are_no_text_or_not_there(dynid: CommandLine, folder: Path) -> None:
    (folder / "dynid.toml").write_bytes(b"robot = 'gautier3'\n# caf\xe9\n")
    assert refuse(dynid, "base")[0] == "not_utf8"
    (folder / "dynid.toml").write_bytes(b"#" * 2_000_000)
    assert refuse(dynid, "base")[0] == "file_too_large"
    assert refuse(dynid, "base", "--project", "nowhere.toml")[0] == "file_unreadable"
    assert refuse(dynid, "base", "--project", ".")[0] == "file_unreadable"
    (folder / "dynid.toml").write_bytes(b"\xef\xbb\xbfrobot = 'gautier3'\r\n")  # as Windows writes it
    assert run(dynid, "base")["project"]["values"] == {"robot": "gautier3"}
    (folder / "dynid.toml").write_text("[[joint]]\n")  # a robot may be called so
    assert run(dynid, "base", "dynid.toml")["robot"] == "dynid"


def test_init_writes_what_it_finds(dynid: CommandLine, folder: Path) -> None:
    dynid("mdh", "puma560", "--out", "z.toml")
    dynid("mdh", "gautier3", "--out", "zz.toml")
    (folder / "notes.txt").write_text("buy milk\n")
    (folder / "raw.csv").unlink()
    write_motion(folder / "traj.csv", "gautier3")
    log = read_log("run.csv", load_robot("gautier3"))
    np.savez(folder / "same.npz", t=log.t, q=log.q.round(6), tau=np.round(np.asarray(log.tau), 6))
    facts = run(dynid, "init", code=0)
    text = (folder / "dynid.toml").read_text()
    data = tomllib.loads(text)
    assert data["robot"] == facts["robot"] == "zz.toml"  # the one that fits, not the first
    assert data["logs"] == ["other.csv", "run.csv", "with.csv"]
    assert data["validate"] == ["without.csv"]
    assert set(facts["left_out"]) == {"notes.txt", "same.npz", "traj.csv"}
    for part in ('"z.toml"', '# tau (N m or N): "tau1", "tau2", "tau3"', "100 Hz", "notes.txt", "traj.csv"):
        assert part in text
    assert [path.name for path in folder.iterdir() if path.name.startswith(".")] == []
    assert len(run(dynid, "identify", *PLAIN)["logs"]) == 3
    assert refuse(dynid, "init", "gautier3")[0] == "file_exists"
    assert (folder / "dynid.toml").read_text() == text


def test_init_guesses_units_and_locks_with_the_reason(dynid: CommandLine, folder: Path) -> None:
    for path in folder.iterdir():
        path.unlink()
    names = ("turn", "lift", "bend")
    (folder / "arm.urdf").write_text(arm_urdf(gripper=True))
    (folder / "plain.urdf").write_text(arm_urdf())
    robot = load_robot("plain.urdf")
    (folder / "plain.urdf").unlink()
    (folder / "test.csv").write_text(csv(recorded(robot), names, factor=180.0 / np.pi))
    (folder / "train.csv").write_text(csv(recorded(robot, scale=2.2), names, factor=180.0 / np.pi))
    dynid("init")
    text = (folder / "dynid.toml").read_text()
    data = tomllib.loads(text)
    assert data["units"] == {"q": "deg"}
    assert data.get("lock", {"finger_left": 0.0, "finger_right": 0.0}) == {"finger_left": 0.0, "finger_right": 0.0}
    assert (data["logs"], data["validate"]) == (["train.csv"], ["test.csv"])
    assert "looks like degrees" in text
    assert "position.turn" in text
    found = run(dynid, "identify", *PLAIN)
    assert np.mean(found["validation"]["nrmse"]) < 0.05


def test_init_takes_one_log_without_a_robot_and_odd_names(dynid: CommandLine, folder: Path) -> None:
    odd = 'run "1" #=\\x [red]\n\x7f.csv'
    (folder / odd).symlink_to(folder / "run.csv")
    dynid("mdh", "gautier3", "--out", 'my "arm".toml')
    dynid("init", odd)
    data = tomllib.loads((folder / "dynid.toml").read_text())
    assert (data["robot"], data["logs"], data["validate"]) == ('my "arm".toml', [odd], "30%")
    assert run(dynid, "identify", *PLAIN)["logs"]


def test_init_refuses_what_it_cannot_use(dynid: CommandLine, folder: Path) -> None:
    assert refuse(dynid, "init")[0] == "no_robot_found"
    assert refuse(dynid, "init", "gautier3", "nowhere.csv")[0] == "file_not_found"
    assert refuse(dynid, "init", "nobody.urdf")[0] == "unknown_robot"
    assert not (folder / "dynid.toml").exists()
    done = dynid("init", "gautier3", "raw.csv", "run.csv", code=1)
    assert done.err.startswith("warning: raw.csv: ")
    assert tomllib.loads((folder / "dynid.toml").read_text())["logs"] == ["run.csv"]


def test_no_file_that_init_cannot_read_again_is_written(folder: Path) -> None:
    """Comments and names hold any text."""
    look = project.LogLook(
        "a\u2028b.csv", {"lock": {"x\ny": 0.0}, "units": {"q": ["deg", "rad"]}}, comments=("\x00\x1b",)
    )
    sketch = project.Sketch("\u202e.urdf", ("[a]",), (look,), (), False)
    values = project.parse_project(Path("dynid.toml"), sketch.project_file_text().encode()).values
    assert values["lock"] == {"x\ny": 0.0}
    assert values["logs"] == ["a\u2028b.csv"]
