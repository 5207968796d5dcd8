"""`dynid report` and `dynid identify --report` as a person uses them: files, words, exit codes."""

from __future__ import annotations

import hashlib
import html
import json
import re
import shutil
from importlib import resources
from pathlib import Path

import pytest

from command_line import CommandLine, write_simulated
from dynid import Identification, identify, load_robot, read_log

PLAIN = ("--friction", "viscous,coulomb,offset")


@pytest.fixture
def dynid(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> CommandLine:
    return CommandLine(monkeypatch, capsys)


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with a log, another one, and results of the first by two models."""
    folder = tmp_path_factory.mktemp("made")
    write_simulated(folder / "log.csv", seconds=8.0)
    write_simulated(folder / "other.csv", seconds=6.0, seed=4)
    robot = load_robot("gautier3")
    log = read_log(folder / "log.csv", robot)
    for name, model in (("result", "torque"), ("momentum", "momentum")):
        identify(robot, log, friction=("viscous", "coulomb", "offset"), model=model).save(folder / f"{name}.json")
    return folder


@pytest.fixture
def place(made: Path, tmp_path: Path) -> Path:
    """A copy of the folder, to write into."""
    return Path(shutil.copytree(made, tmp_path / "place"))


def test_help_has_an_example(dynid: CommandLine) -> None:
    assert "Example: dynid report result.json --log log.csv" in dynid("report", "--help").out
    assert "--report" in dynid("identify", "--help").out


def test_a_result_alone_says_that_curves_are_missing(dynid: CommandLine, place: Path) -> None:
    done = dynid("report", place / "result.json", code=_code(place))
    assert f"wrote {place / 'result.html'}" in done.out
    assert "no curves: a result holds no logs; --log" in done.out
    assert "A result holds no logs" in (place / "result.html").read_text()


def test_logs_are_read_again_and_hashed(dynid: CommandLine, place: Path) -> None:
    out, facts = place / "page.html", place / "facts.json"
    log, other = place / "log.csv", place / "other.csv"
    done = dynid(
        "report", place / "result.json", "--log", f"{log}@0%:100%", "--validate", other, "--out", out, "--json", facts,
        code=_code(place),
    )  # fmt: skip
    assert "no curves" not in done.out
    page = out.read_text()
    for file in (log, other, place / "result.json"):
        assert hashlib.sha256(file.read_bytes()).hexdigest() in page
    assert "dynid report" in page
    assert hashlib.sha256((resources.files("dynid.robot") / "library/gautier3.toml").read_bytes()).hexdigest() in page
    data = json.loads((place / "result.json").read_text())
    assert data["origin"]["inputs"][0]["sha256"] == hashlib.sha256(log.read_bytes()).hexdigest()
    assert "other.csv (validation)" in page
    assert json.loads(facts.read_text())["bytes"] == out.stat().st_size


def test_a_log_that_has_changed_is_told(dynid: CommandLine, place: Path) -> None:
    log = place / "log.csv"
    log.write_text(log.read_text().rstrip("\n").rpartition("\n")[0] + "\n")
    done = dynid("report", place / "result.json", "--log", log, code=1)
    assert "not the log that the result was made from" in done.err
    page = (place / "result.html").read_text()
    assert "not the log that the result was made from" in page.partition('id="warnings"')[2]
    kept = json.loads((place / "result.json").read_text())["origin"]["inputs"][0]["sha256"]
    assert kept in page  # of the log as it was


def _code(place: Path) -> int:
    return 1 if Identification.load(place / "result.json").warnings else 0


def test_identify_writes_the_report_in_one_go(dynid: CommandLine, place: Path) -> None:
    out = place / "page.html"
    robot = place / "robot.toml"
    dynid("mdh", "gautier3", "--out", robot)
    bodies = ("--physical", place / "bodies.json")
    done = dynid("identify", robot, place / "log.csv", *PLAIN, "--validate", "30%", "--report", out, *bodies, code=None)
    assert str(out) in done.out
    page = out.read_text()
    assert hashlib.sha256(robot.read_bytes()).hexdigest() in page
    assert hashlib.sha256((place / "log.csv").read_bytes()).hexdigest() in page
    assert "dynid identify" in page
    assert 'id="physical"' in page  # the bodies that were asked for stand beside nominal values
    dynid("report", place / "bodies.json", "--out", place / "again.html", code=done.code)
    again = (place / "again.html").read_text()
    assert 'id="physical"' in again
    assert hashlib.sha256(robot.read_bytes()).hexdigest() in again
    assert again.count("dynid identify") == 2  # how it was made, and the next step of the verdict
    assert again.count("dynid report RESULT") == again.count("dynid report /") == 1
    assert page.count("(validation)</h4>") == page.count("(used for fitting)</h4>") == 1


def test_several_results_are_compared(dynid: CommandLine, place: Path) -> None:
    done = dynid("report", place / "result.json", place / "momentum.json", code=_code(place))
    assert f"wrote {place / 'comparison.html'}" in done.out
    page = (place / "comparison.html").read_text()
    assert "2 results for gautier3" in page
    assert ">momentum<" in page


def test_warnings_are_told_and_make_exit_code_1(dynid: CommandLine, place: Path) -> None:
    data = json.loads((place / "result.json").read_text())
    data["warnings"] = ["something <b>must</b> be read"]
    (place / "warned.json").write_text(json.dumps(data))
    done = dynid("report", place / "warned.json", code=1)
    assert "warning: something <b>must</b> be read" in done.err
    assert "something &lt;b&gt;must&lt;/b&gt; be read" in (place / "warned.html").read_text()


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["nowhere.json"], "nowhere.json: cannot be read"),
        (["log.csv"], "not a JSON"),
        (["result.json", "result.json"], "named twice"),
        (["result.json", "momentum.json", "--log", "log.csv"], "single RESULT"),
        (["result.json", "--out", "page.pdf"], "must end in .html"),
        (["result.json", "--out", "missing/page.html"], "there is no folder"),
        (["result.json", "--out", "page.html", "--json", "page.html"], "different names"),
        (["result.json", "--log", "nowhere.csv"], "nowhere.csv"),
        (["result.json", "--log", "log.csv", "--log", "other.csv"], "--validate"),
        (["result.json", "--log", "log.csv@20:30"], "it lasts"),
        (["result.json", "--log", "log.csv", "--column", "tau=nothing"], "nothing"),
    ],
)
def test_mistakes_are_told_in_a_line_or_two(
    dynid: CommandLine, place: Path, monkeypatch: pytest.MonkeyPatch, words: list[str], said: str
) -> None:
    monkeypatch.chdir(place)
    before = {file.name: file.read_bytes() for file in place.iterdir()}
    assert said in dynid.fails("report", *words)
    assert {file.name: file.read_bytes() for file in place.iterdir()} == before


def test_inputs_are_never_overwritten(dynid: CommandLine, place: Path) -> None:
    shutil.copy(place / "result.json", place / "result.html")
    assert "one of the inputs" in dynid.fails("report", place / "result.html")
    shutil.copy(place / "log.csv", place / "log.html")
    assert "one of the inputs" in dynid.fails(
        "report", place / "result.json", "--log", place / "log.html", "--out", place / "log.html"
    )
    log = place / "log.html"
    assert "one of the inputs" in dynid.fails("identify", "gautier3", log, "--report", log)
    assert "both name" in dynid.fails(
        "identify", "gautier3", place / "log.csv", "--json", place / "x.html", "--report", place / "x.html"
    )
    assert "single result" in dynid.fails(
        "identify", "gautier3", place / "log.csv", "--compare", "--report", place / "x.html"
    )


def test_no_half_written_page(dynid: CommandLine, place: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    page = place / "result.html"
    page.write_text("the page of yesterday")

    def full(*_: object) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("dynid.storage.files.os.replace", full)
    files = sorted(place.iterdir())
    assert "No space left" in dynid.fails("report", place / "result.json")
    assert page.read_text() == "the page of yesterday"
    assert sorted(place.iterdir()) == files


def test_there_is_one_list_of_warnings(dynid: CommandLine, place: Path) -> None:
    """Terminal, page and --json name the same warnings, each once, and the tile counts them."""
    out, facts, page = place / "all.json", place / "facts.json", place / "page.html"
    done = dynid(
        "identify", "gautier3", place / "log.csv", "--validate", "35%", "--cutoff", 3, "--physical", place / "p.json",
        "--urdf", place / "p.urdf", "--report", page, "--json", facts, "--out", out, code=1,
    )  # fmt: skip
    told = [line.removeprefix("warning: ") for line in done.err.splitlines() if line.startswith("warning: ")]
    stated = json.loads(facts.read_text())["warnings"]
    assert len(told) == len(stated) == len(set(stated))
    assert len(stated) > len(Identification.load(out).warnings)  # those of the bodies and of the URDF are among them
    assert _warnings(page) == stated
    assert not [text for text in told if text in done.out.split("verdict:")[0]]
    done = dynid("report", place / "p.json", "--json", facts, "--out", page, code=1)
    assert _warnings(page) == json.loads(facts.read_text())["warnings"]
    assert done.err.count("warning: ") == len(_warnings(page))


def _warnings(page: Path) -> list[str]:
    """Sentences of a page's last section but one, as many as its first tile counts."""
    text = page.read_text()
    shown = re.findall(r'<p class="warning">(.*?)</p>', text[text.index('id="warnings"') :], flags=re.DOTALL)
    tile = re.search(r"<b>(\d+)</b><span>warnings?</span>", text)
    assert tile is not None
    assert int(tile[1]) == len(shown)
    return [html.unescape(one) for one in shown]


def test_parts_of_a_log_count_their_own_rows(dynid: CommandLine, place: Path) -> None:
    page = place / "page.html"
    dynid("identify", "gautier3", place / "log.csv", *PLAIN, "--validate", "25%", "--report", page, code=None)
    rows = (place / "log.csv").read_text().count("\n") - 1
    table = page.read_text().split("Logs, read again for this page")[-1]
    cells = [re.sub("<[^>]+>", "", text).strip() for text in re.split("</td>", table)]
    counts = [int(cells[k + 1].replace(",", "")) for k, text in enumerate(cells) if text.endswith(" Hz")][:2]
    assert sum(counts) == rows
    assert counts[1] == pytest.approx(0.25 * rows, abs=2)
