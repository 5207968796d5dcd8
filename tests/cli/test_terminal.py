"""What a person sees in a terminal: the verdict first, in colour, and no number broken, however narrow it is."""

from __future__ import annotations

import io
import re
from pathlib import Path

import numpy as np
import pytest
from rich.console import Console

from bodies import with_bodies
from command_line import CommandLine, write_simulated
from dynid import Identification, identify, physical_parameters, simulate
from dynid.cli.output import identification, inertial
from dynid.cli.output.identification import shorten_file_lists, value_and_half_width_text
from robots import smooth_path

PLAIN = ("--friction", "viscous,coulomb,offset", "--cutoff", "20")
NUMBER = re.compile(r"(?<![\w.])-?\d+\.\d+(?:e[-+]?\d+)?(?![\w.])")


@pytest.fixture
def dynid(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> CommandLine:
    return CommandLine(monkeypatch, capsys)


@pytest.fixture(scope="module")
def log(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_simulated(tmp_path_factory.mktemp("logs") / "log.csv")


@pytest.fixture(scope="module")
def result() -> Identification:
    """Six joints with long names: more than fits into 80 columns side by side."""
    robot = with_bodies("ur10")
    motion = smooth_path(robot, np.arange(0.0, 6.0, 0.01), scale=2.0)
    return identify(robot, simulate(robot, motion, noise=0.1), friction=("viscous", "coulomb", "offset"), cutoff=20.0)


def rendered(show: object, width: int, monkeypatch: pytest.MonkeyPatch) -> str:
    """What a terminal of some width shows, with its colours."""
    from dynid.cli import terminal

    monkeypatch.setenv("COLUMNS", str(width))
    monkeypatch.setenv("FORCE_COLOR", "1")
    screen = terminal.make_console()
    screen.file = io.StringIO()
    assert isinstance(screen, Console)
    assert screen.width == width
    show(screen)  # type: ignore[operator]
    return screen.file.getvalue()


def plain(text: str) -> str:
    return re.sub(r"\x1b\[[0-9;]*m", "", text)


def numbers(text: str) -> list[str]:
    """All numbers with a point, the sign of a half width taken off: its place differs by layout."""
    return sorted(NUMBER.findall(text.replace("+-", "  ")))


@pytest.mark.parametrize("details", [False, True])
def test_no_number_breaks_in_80_columns(result: Identification, monkeypatch: pytest.MonkeyPatch, details: bool) -> None:
    def show(screen: Console) -> None:
        identification.show_identification(result, screen, details=details)

    wide, narrow = (plain(rendered(show, width, monkeypatch)) for width in (300, 80))
    texts = [line for line in narrow.splitlines() if not line.startswith("next: ")]
    assert max(map(len, texts)) <= 80
    assert "…" not in narrow
    assert numbers(narrow) == numbers(wide)
    assert len(numbers(wide)) > 50


def test_bodies_fit_into_80_columns(result: Identification, monkeypatch: pytest.MonkeyPatch) -> None:
    found = physical_parameters(result)
    wide, narrow = (
        plain(rendered(lambda screen: screen.print(inertial.bodies_table(found)), 300, monkeypatch)),
        plain(
            rendered(lambda screen: inertial.show_physical_parameters(found, screen, details=False), 80, monkeypatch)
        ),
    )
    assert "…" not in narrow
    assert set(numbers(wide)) <= set(numbers(narrow))


def test_the_verdict_comes_first_and_in_colour(result: Identification, monkeypatch: pytest.MonkeyPatch) -> None:
    text = rendered(lambda screen: identification.show_identification(result, screen), 80, monkeypatch)
    style = {"good": "32", "usable": "33", "weak": "35", "do not trust": "31"}[result.verdict.level]
    assert text.startswith(f"\x1b[1;{style}mverdict: {result.verdict.level}")
    order = [text.index(part) for part in ("verdict: ", "next: ", "RMSE\x1b", "essential", "--details")]
    assert order == sorted(order)
    assert all(plain(text).count(name) >= 1 for name in result.essential)
    others = set(result.names) - set(result.essential)
    assert not [name for name in others if re.search(rf"^ {re.escape(name)} ", plain(text), re.MULTILINE)]


@pytest.mark.parametrize(
    ("value", "half", "shown"),
    [
        (1.73049, 0.0153, ("1.730", "0.015")), (13.868, 15.2, ("14", "15")), (-184.2, 240.0, ("-180", "240")),
        (0.5, 0.0996, ("0.50", "0.10")), (2.5, 0.0, ("2.5", "fixed")), (0.00012, 1.5e-6, ("0.0001200", "0.0000015")),
    ],
)  # fmt: skip
def test_digits_follow_the_deviation(value: float, half: float, shown: tuple[str, str]) -> None:
    assert value_and_half_width_text(value, half) == shown


def test_report_and_urdf_without_a_name_are_written_beside_the_log(
    dynid: CommandLine, log: Path, tmp_path: Path
) -> None:
    own = tmp_path / "run.csv"
    own.write_bytes(log.read_bytes())
    done = dynid("identify", "gautier3", own, "--report", *PLAIN, "--urdf", code=None)
    assert (tmp_path / "run_report.html").is_file()
    assert (tmp_path / "run_identified.urdf").is_file()
    assert "run_report.html" in done.out
    named = tmp_path / "page.html"
    dynid("identify", "gautier3", f"{own}@0%:90%", *PLAIN, "--report", named)
    assert named.is_file()
    assert "the name must end in .html" in dynid.fails("identify", "gautier3", own, "--report", "page.pdf")


def test_a_command_with_thousands_of_files_is_a_short_line() -> None:
    """The next command is for the eye where a glob stood for its files; a few files are all named."""
    many = " ".join(f"logs/run{k}.csv" for k in range(10_000))
    assert shorten_file_lists(f"dynid identify arm.urdf {many} --model power") == (
        "dynid identify arm.urdf logs/run0.csv ... logs/run9999.csv (10000 files) --model power"
    )
    few = "dynid identify arm.urdf " + " ".join(f"run{k}.csv" for k in range(20))
    assert shorten_file_lists(few) == few
