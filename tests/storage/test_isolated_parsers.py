"""Native parsers in a process of their own: what they return comes back, and only the child dies."""

from __future__ import annotations

import os
import re
import signal
from pathlib import Path

import numpy as np
import pytest

from dynid import DynidError
from dynid.errors import ParserDiedError, ParserFailedError
from dynid.storage.files import COLUMNS, LIMITS, check_regular_file, run_isolated

DOCS = Path(__file__).parents[2] / "docs" / "reliability.md"


def test_data_and_arrays_come_back_as_they_were() -> None:
    numbers = [np.arange(6.0).reshape(2, 3), np.zeros((3, 0)), np.arange(3)[::-1]]
    arrays = [*numbers, np.array(["ab", "c"]), np.array([True])]
    data, back = run_isolated(lambda: ({"name": "x", "list": [1, None]}, arrays))
    assert data == {"name": "x", "list": [1, None]}
    for one, other in zip(arrays, back, strict=True):
        assert one.dtype == other.dtype
        np.testing.assert_array_equal(one, other)


def test_an_array_longer_than_a_pipe_comes_back() -> None:
    assert run_isolated(lambda: (None, [np.ones(1_000_000)]))[1][0].sum() == 1_000_000


def _crash(number: signal.Signals) -> tuple[None, list[np.ndarray]]:
    os.kill(os.getpid(), number)
    return None, []


@pytest.mark.parametrize("number", [signal.SIGSEGV, signal.SIGABRT, signal.SIGBUS, signal.SIGFPE])
def test_a_crash_is_an_error_of_one_line(number: signal.Signals) -> None:
    with pytest.raises(ParserDiedError) as died:
        run_isolated(lambda: _crash(number))
    assert died.value.message.code == "parser_crashed"
    assert died.value.message.facts["name"] == number.name
    assert "\n" not in died.value.message


def test_an_exception_of_the_parser_is_its_text() -> None:
    with pytest.raises(ParserFailedError, match="division by zero"):
        run_isolated(lambda: (1 / 0, []))


def test_memory_beyond_the_limit_names_the_option(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("DYNID_MAX_MEMORY", "256")
    with pytest.raises(ParserDiedError) as died:
        run_isolated(lambda: (float(np.ones(1 << 27).sum()), []))
    assert died.value.message.code == "parser_out_of_memory"
    assert "DYNID_MAX_MEMORY" in died.value.message


def test_an_endless_loop_is_ended(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("DYNID_MAX_SECONDS", "1")

    def turn() -> tuple[None, list[np.ndarray]]:
        while True:
            pass

    with pytest.raises(ParserDiedError) as died:
        run_isolated(turn)
    assert died.value.message.code == "parser_too_slow"


def test_the_child_writes_nothing_to_the_terminal_and_no_files(
    tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    def chatter() -> tuple[None, list[np.ndarray]]:
        os.write(1, b"out")
        os.write(2, b"err")
        signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
        (tmp_path / "file").write_bytes(b"x")
        return None, []

    with pytest.raises(ParserFailedError):
        run_isolated(chatter)
    assert capfd.readouterr() == ("", "")
    assert (tmp_path / "file").stat().st_size == 0


@pytest.mark.parametrize("given", ["0", "-1", "many", "9" * 5000, "٣", "1e3"])
def test_a_limit_that_is_no_number_is_an_error(given: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(COLUMNS.variable, given)
    with pytest.raises(DynidError) as wrong:
        COLUMNS.exceeded("{figure}", 1)
    assert wrong.value.code == "limit_malformed"


def test_the_docs_have_all_limits_with_their_values() -> None:
    rows = dict(re.findall(r"^\| `(DYNID_MAX_\w+)` \| ([\d,]+) ", DOCS.read_text(), re.MULTILINE))
    assert rows == {limit.variable: f"{limit.default:,}" for limit in LIMITS}


def test_pipes_and_devices_are_no_files(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")
    (tmp_path / "file").touch()
    assert check_regular_file(tmp_path / "file") is None
    assert "pipe" in str(check_regular_file(tmp_path / "pipe"))
    assert "device" in str(check_regular_file(Path("/dev/null")))
