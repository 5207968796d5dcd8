"""The command line as a person uses it: output, files, exit codes, and its weight."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace

import pytest

from command_line import CommandLine
from dynid import load_robot

HEAVY = ("numba", "pinocchio", "sympy", "plotly", "polars", "scipy", "pydantic", "mujoco", "flint")


def dynid(*words: str, code: int = 0) -> subprocess.CompletedProcess[str]:
    done = subprocess.run(
        [sys.executable, "-m", "dynid", *words], capture_output=True, text=True, check=False, timeout=280
    )
    assert done.returncode == code, done.stderr
    assert "Traceback" not in done.stderr
    return done


@pytest.fixture
def run(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> CommandLine:
    """Command line in this process, for what is refused before any work."""
    return CommandLine(monkeypatch, capsys)


def loaded_modules(code: str) -> set[str]:
    script = f"import sys\n{code}\nprint(*sys.modules)"
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True, timeout=280)
    return set(done.stdout.splitlines()[-1].split())


def test_import_is_light() -> None:
    assert not loaded_modules("import dynid; dir(dynid)") & {*HEAVY, "numpy", "rich", "typer"}


def test_help_is_light() -> None:
    code = "from typer.testing import CliRunner; from dynid.cli.app import app; CliRunner().invoke(app, ['--help'])"
    assert not loaded_modules(code) & {*HEAVY, "numpy"}


def test_the_entry_loads_the_commands_only_when_it_runs() -> None:
    """Ctrl-C while they load is caught."""
    assert not loaded_modules("import dynid.cli") & {"typer", "click", "rich", "dynid.cli.app"}


def exit_code_of_main(app: Callable[..., object], monkeypatch: pytest.MonkeyPatch) -> object:
    """Exit code of the entry with other commands, where Ctrl-C is not ignored as it is in a background shell."""
    from dynid.cli import main

    before = signal.getsignal(signal.SIGINT)
    signal.signal(signal.SIGINT, signal.default_int_handler)
    monkeypatch.setitem(sys.modules, "dynid.cli.app", SimpleNamespace(app=app))
    try:
        with pytest.raises(SystemExit) as left:
            main()
    finally:
        signal.signal(signal.SIGINT, before)
    return left.value.code


@pytest.mark.parametrize("error", [KeyboardInterrupt, ImportError("a library failed to import")])
def test_ctrl_c_while_loading_is_quiet(
    error: BaseException, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Also where a library turns it into an error of its own."""

    def app(**_: object) -> None:
        try:
            signal.raise_signal(signal.SIGINT)
        except KeyboardInterrupt:
            raise error from None

    assert exit_code_of_main(app, monkeypatch) == 130
    assert capsys.readouterr().err == "dynid: interrupted\n"


def test_ctrl_c_that_a_loading_library_prints_is_quiet(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """As NumPy's `import_array` does in compiled modules, before it raises an error of its own."""

    def app(**_: object) -> None:
        try:
            signal.raise_signal(signal.SIGINT)
        except KeyboardInterrupt:
            sys.excepthook(*sys.exc_info())
            raise ImportError("a library failed to import") from None

    monkeypatch.setattr(sys, "excepthook", sys.__excepthook__)
    assert exit_code_of_main(app, monkeypatch) == 130
    assert capsys.readouterr().err == "dynid: interrupted\n"


INTERRUPTED = """
import signal, sys
signal.signal(signal.SIGINT, signal.default_int_handler)  # a background shell ignores it
sys.argv = ["dynid", "robots"]

class Interrupt:
    def find_spec(self, name, *_):
        if name == "{module}":
            signal.raise_signal(signal.SIGINT)

sys.meta_path.insert(0, Interrupt())
from dynid.cli import main
main()
"""


@pytest.mark.parametrize(
    "module", ["lazy_loader", "dynid.messages", "typer", "rich.console", "numpy", "numpy._core.overrides"]
)
def test_ctrl_c_at_start_up_is_one_line(module: str) -> None:
    """From the first line of the package on; NumPy cannot be loaded again where its loading was interrupted."""
    words = [sys.executable, "-c", INTERRUPTED.format(module=module)]
    done = subprocess.run(words, capture_output=True, text=True, check=False, timeout=280)
    assert (done.returncode, done.stderr) == (130, "dynid: interrupted\n")


FIRST_READ = """
import _signal, sys
sys.argv = ["dynid", "robots"]
for name in ("signal", "__future__"):
    sys.modules.pop(name, None)
_signal.signal(_signal.SIGINT, _signal.default_int_handler)

class Interrupt:
    def find_spec(self, name, *_):
        if name != "dynid":
            _signal.raise_signal(_signal.SIGINT)

sys.meta_path.insert(0, Interrupt())
from dynid.cli import main
main()
"""


def test_ctrl_c_is_caught_before_the_package_reads_another_file() -> None:
    """It was a traceback while `__future__` and `signal` were loaded."""
    done = subprocess.run([sys.executable, "-c", FIRST_READ], capture_output=True, text=True, check=False, timeout=280)
    assert (done.returncode, done.stderr) == (130, "dynid: interrupted\n")


def test_ctrl_c_while_standard_error_is_moved_is_said() -> None:
    """It was exit code 130 without a word."""
    script = INTERRUPTED.replace("from dynid.cli import main", """
import os
dup2 = os.dup2
def interrupted(*words):
    done = dup2(*words)
    signal.raise_signal(signal.SIGINT)
    return done
os.dup2 = interrupted
from dynid.cli import main""")  # fmt: skip
    words = [sys.executable, "-c", script.format(module="no such module")]
    done = subprocess.run(words, capture_output=True, text=True, check=False, timeout=280)
    assert (done.returncode, done.stderr) == (130, "dynid: interrupted\n")


@pytest.mark.parametrize("late", [False, True])
def test_ctrl_c_while_a_mistake_is_described_is_one_line(late: bool) -> None:
    """It was a traceback of both; late: while Python is taken down."""
    script = f"""
import signal, sys, types
signal.signal(signal.SIGINT, signal.default_int_handler)
sys.argv = ["dynid"]
class Odd(Exception):
    def format_message(self, late={late}):
        if not late:
            signal.raise_signal(signal.SIGINT)
        return "odd"
def app(**_):
    raise Odd
sys.modules["dynid.cli.app"] = types.SimpleNamespace(app=app)
from dynid.cli import main
try:
    main()
finally:
    signal.raise_signal(signal.SIGINT)
"""
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=False, timeout=280)
    said = "dynid: odd (see --help)\ndynid: interrupted\n" if late else "dynid: interrupted\n"
    assert (done.returncode, done.stderr) == (130, said)


@pytest.mark.slow
def test_ctrl_c_at_every_step_of_a_command_is_one_line(tmp_path: Path) -> None:
    """From the first line of the package to the end of Python: imports, functions of dynid, a sample of the others."""
    from campaign.start_up import interrupt_everywhere

    found = interrupt_everywhere(["robots"], tmp_path, every=60)
    assert len(found) > 500
    assert {what for what, _ in found} <= {"interrupted: one line, 130", "work was done"}


def test_ctrl_c_in_a_finaliser_is_not_lost(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    """Python prints what is raised there and goes on."""

    class Late:
        def __del__(self) -> None:
            signal.raise_signal(signal.SIGINT)

    def app(**_: object) -> int:
        Late()
        for _k in range(1000):
            time.sleep(0.01)
        return 0

    monkeypatch.setattr(sys, "unraisablehook", sys.__unraisablehook__)
    assert exit_code_of_main(app, monkeypatch) == 130
    assert capsys.readouterr().err == "dynid: interrupted\n"


def test_ctrl_c_at_the_very_end_changes_nothing() -> None:
    script = """
import os, sys
sys.argv = ["dynid", "robots"]
from dynid.cli import main

class Late:
    def __del__(self, kill=os.kill, own=os.getpid()):
        kill(own, 2)

keep = Late()
main()
"""
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=False, timeout=280)
    assert (done.returncode, done.stderr) == (0, "")


@pytest.mark.parametrize("command", ["robots", "mdh", "base", "excite", "demo"])
def test_every_command_has_an_example(command: str, run: CommandLine) -> None:
    assert "Example: dynid" in run(command, "--help").out


def test_robots_lists_joints_structure_and_source(tmp_path: Path) -> None:
    file = tmp_path / "robots.json"
    text = dynid("robots", "--json", str(file)).stdout
    for name in ("puma560", "slider_crank", "kr300"):
        assert name in text
    facts = json.loads(file.read_text())
    assert facts["scara"]["structure"] == "serial RRPR"
    assert facts["sr400"]["structure"].startswith("closed")
    assert "Gautier" in facts["puma560"]["source"]
    assert facts["lwr4"]["published"]["moving"] == pytest.approx(14.4)
    assert facts["rx90"]["published"]["total"] is None


def test_mdh_writes_a_table_that_loads(tmp_path: Path, run: CommandLine) -> None:
    out, facts = tmp_path / "panda.toml", tmp_path / "panda.json"
    text = run("mdh", "panda", "--out", str(out), "--json", str(facts)).out
    assert "alpha" in text
    assert load_robot(out).joint_names == load_robot("panda").joint_names
    assert len(json.loads(facts.read_text())["joints"]) == 7
    assert [f.name for f in tmp_path.iterdir() if f.name.startswith(".")] == []


def test_base_shows_groups_relations_and_meaning(tmp_path: Path, run: CommandLine) -> None:
    facts, values = tmp_path / "base.json", tmp_path / "values.json"
    values.write_text(json.dumps({"XX4": 0.06, "YY4": 0.5, "YY5": 0.02}))
    text = run("base", "puma560", "--json", str(facts), "--values", str(values)).out
    for words in ("no effect", "regrouped", "17 relations", "XXR4 = XX4 - YY4 + YY5", "-0.42", "40 combinations"):
        assert words in text, words
    data = json.loads(facts.read_text())
    assert data["count"] == 40
    assert data["values"]["XX4"] == pytest.approx(-0.42)
    assert data["values"]["ZZ1"] is None
    assert data["coefficients"]["ZZ1"]["M3"] == "D3**2 + R3**2"


def test_base_compares_and_writes_latex(run: CommandLine) -> None:
    text = run("base", "puma560", "--method", "all", "--latex").out
    assert "agree" in text
    assert "R3^{2}" in text or "R_{3}^{2}" in text or "^2" in text


def test_base_warns_with_exit_code_1(tmp_path: Path) -> None:
    file = tmp_path / "almost.toml"
    file.write_text("[[joint]]\n[[joint]]\nalpha = 2e-4\nd = 0.3\n")
    assert "warning: " in dynid("base", str(file), code=1).stderr


@pytest.mark.parametrize(
    ("words", "answer"),
    [
        (("--method", "magic"), "methods are"),
        (("--model", "heat"), "base parameters exist for"),
        (("--values", "nowhere.json"), "nowhere.json"),
        (("--tared",), "reaction"),
        (("--seed", "-1"), "--seed"),
        (("--json", "no/x.json"), "there is no folder 'no'"),
    ],
)
def test_base_with_mistakes(words: tuple[str, ...], answer: str, run: CommandLine) -> None:
    error = run("base", "puma560", *words, code=2).err
    assert answer in error
    assert error.count("\n") == 1


def test_excite_writes_a_motion_for_people_ros_and_browsers(tmp_path: Path, run: CommandLine) -> None:
    out, facts = tmp_path / "traj.csv", tmp_path / "traj.json"
    words = ("--velocity", "1", "--acceleration", "4", "--position", "1.5", "--starts", "1", "--rate", "50")
    text = run("excite", "gautier3", "--out", str(out), "--json", str(facts), *words).out
    for part in ("condition", "peak over limit", "expected standard deviation", "wrote"):
        assert part in text
    assert out.read_text().startswith("t,q1,q2,q3,v1")
    assert "joint_names" in out.with_suffix(".yaml").read_text()
    page = out.with_suffix(".html").read_text()
    assert "Exciting motion for gautier3" in page
    assert 'src="http' not in page
    data = json.loads(facts.read_text())
    assert data["margin"] >= 0.0
    assert len(data["expected_errors"]) == 25


def test_excite_shows_the_front_of_condition_and_scaling(tmp_path: Path, run: CommandLine) -> None:
    facts = tmp_path / "front.json"
    words = ("--shape", "points", "--points", "4", "--position", "1.5", "--velocity", "2", "--starts", "1")
    text = run("excite", "one_link", "--pareto", "--json", str(facts), *words).out
    front = json.loads(facts.read_text())["front"]
    assert front
    assert f"{front[0]['condition']:.4g}" in text
    chosen = ("--criterion", "condition+scaling", "--weights", ",".join(map(str, front[0]["weights"])))
    run("excite", "one_link", *words, *chosen, "--json", str(facts))
    assert json.loads(facts.read_text())["condition"] == pytest.approx(front[0]["condition"], rel=1e-6)


def test_excite_in_a_cell_opens_with_what_to_know_before_a_run(tmp_path: Path, run: CommandLine) -> None:
    cell, out, facts = (tmp_path / name for name in ("my cell.toml", "traj.csv", "traj.json"))
    cell.write_text("[[box]]\nname = 'table'\nsize = [0.4, 0.4, 0.4]\nposition = [1.2, 0.0, 0.0]\n")
    words = ("--velocity", "1", "--acceleration", "4", "--position", "1.5", "--starts", "1", "--time-budget", "2")
    given = ("--obstacles", str(cell), "--floor", "-1.5", "--clearance", "0.05", "--tool-speed", "0.8")
    text = run("excite", "gautier3", "--out", str(out), "--json", str(facts), *words, *given, code=1).out
    assert "before you run it" in text.splitlines()[0]
    data = json.loads(facts.read_text())
    known = data["before_run"]
    assert known["tool_speed"] <= 0.8
    assert min(known["lowest"].values()) >= -1.45
    assert {"clearance_proven", "tool_speed_proven"} <= {entry["code"] for entry in data["messages"]}
    page = out.with_suffix(".html").read_text()
    assert page.index('id="before"') < page.index('id="motion"')
    assert "--obstacles" in page


def test_excite_with_a_bound_says_how_far_it_is(tmp_path: Path, run: CommandLine) -> None:
    facts = tmp_path / "traj.json"
    words = ("--position", "1.5", "--velocity", "2", "--acceleration", "8", "--criterion", "d", "--starts", "1")
    text = run("excite", "one_link", "--bound", "--json", str(facts), *words).out
    data = json.loads(facts.read_text())
    assert data["bound"] < data["value"]
    assert data["bound_is_proven"]
    assert 1.0 < data["excess_over_bound"] < 5.0
    assert f"within {data['excess_over_bound']:.2g} of what any motion inside these limits can reach (proven" in text


@pytest.mark.parametrize(
    ("words", "answer"),
    [
        ((), "acceleration limit; give --velocity, or put them into the robot file"),
        (("--velocity", "1", "--rate", "0", "--out", "x.csv"), "--rate 0: give a positive number"),
        (("--velocity", "1", "--out", "no/x.csv"), "there is no folder 'no'"),
        (("--velocity", "1,2"), "3 joints"),
        (("--velocity", "fast"), "one number"),
        (("--velocity", "1", "--duration", "0"), "duration"),
        (("--velocity", "1", "--out", "x.txt"), ".csv"),
        (("--velocity", "1", "--lock", "arm"), "NAME=POSITION"),
        (("--velocity", "1", "--shape", "points", "--out", "x.csv"), "--acceleration"),
        (("--velocity", "1", "--obstacles", "no.toml"), "no.toml: cannot be read"),
        (("--velocity", "1", "--clearance", "0.1"), "--floor"),
        (("--velocity", "1", "--tool-speed", "-1"), "--tool-speed must be a speed in m/s"),
        (("--velocity", "1", "--shape", "points", "--floor", "0"), "a cell needs a motion"),
        (("--velocity", "1", "--criterion", "condition", "--bound"), "criteria with a bound are"),
        (("--velocity", "1", "--criterion", "d", "--bound"), "--acceleration for a bound"),
        (("--velocity", "1", "--pareto", "--criterion", "d"), "--pareto compares designs"),
        (("--velocity", "1", "--weights", "1"), "two numbers"),
        (("--velocity", "1", "--criterion", "condition+scaling", "--weights", "1,1,0.5"), "a power of at least 1"),
    ],
)
def test_excite_with_mistakes(words: tuple[str, ...], answer: str, run: CommandLine) -> None:
    error = run("excite", "gautier3", *words, code=2).err
    assert answer in error
    assert error.count("\n") == 1


def test_demo_does_the_main_job(tmp_path: Path) -> None:
    folder, machine = tmp_path / "demo", tmp_path / "facts.json"
    text = dynid("demo", "--out", str(folder), "--json", str(machine)).stdout
    report = (folder / "report.html").read_text(encoding="utf-8")
    assert len(report.encode()) <= 2_500_000
    assert "true values are inside their 95 % intervals" in report
    assert "off nominal" not in report  # the table's values are not those of the bodies that were simulated
    summary = dict(line.split(maxsplit=1) for line in text.splitlines()[-10:])
    assert list(summary) == [
        "robot", "motion", "recording", "parameters", "validation", "bodies", "verdict", "next", "report", "model"
    ]  # fmt: skip
    assert "40 of 66" in summary["robot"]
    assert "5 % of every limit is left unused" in summary["motion"]
    assert "of 40 true values lie inside" in summary["parameters"]
    assert summary["verdict"].startswith("good")
    assert summary["report"].startswith(f"{folder / 'report.html'} ")
    assert summary["model"].startswith(f"{folder / 'robot.urdf'}: verified")
    for name in ("motion.csv", "motion.html", "log.csv", "result.json", "physical.json", "robot.urdf", "report.html"):
        assert (folder / name).is_file()
    facts = json.loads(machine.read_text())
    assert facts["verdict"] == "good"
    assert facts["inside"] >= 34  # of 40: honest intervals miss that in three of a thousand runs
    assert facts["validation_nrmse"] < 0.02


def test_mistakes_exit_2_with_one_line(tmp_path: Path, run: CommandLine) -> None:
    assert dynid("mdh", "nobody", code=2).stderr.count("\n") == 1
    broken = tmp_path / "broken.toml"
    broken.write_text("[[joint]]\nalpah = 1\n")
    assert "did you mean 'alpha'" in run("mdh", str(broken), code=2).err
    assert "there is no folder" in run("mdh", "panda", "--out", str(tmp_path / "no" / "x.toml"), code=2).err
    assert "cannot make this folder" in run("demo", "one_link", "--out", str(broken), code=2).err
    assert run("mdh", "panda", "--out", str(tmp_path / "x.urdf"), code=2).err.count("\n") == 1
    run("mdh", code=2)
    run("nonsense", code=2)


def test_names_from_files_are_printed_as_they_are(tmp_path: Path, run: CommandLine) -> None:
    file = tmp_path / "odd.toml"
    file.write_text('[[joint]]\nname = "[red]j[/red]"\n')
    assert "[red]j[/red]" in run("mdh", str(file)).out
