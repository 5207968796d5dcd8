"""A fixed-seed part of the campaign of damaged files: exit code 0, 1 or 2, no traceback, in time."""

from __future__ import annotations

from pathlib import Path

import pytest
from campaign.files import FORMATS, check, run

from dynid.cli import main

EACH = 8


@pytest.mark.parametrize("kind", FORMATS)
def test_damaged_files_end_in_words(kind: str, tmp_path: Path) -> None:
    pytest.importorskip({"h5": "h5py", "db3": "rosbags", "mcap": "rosbags"}.get(kind, "numpy"))
    first = FORMATS.index(kind)
    assert [finding for k in range(EACH) if (finding := check(first + k * len(FORMATS), tmp_path))] == []


def test_a_defect_has_an_exit_code_of_its_own(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Exit code 1 means done with warnings: nothing that was not finished may end with it."""

    def broken(*_: object, **__: object) -> None:
        raise AssertionError("oops")

    monkeypatch.setattr("dynid.cli.app.app", broken)
    monkeypatch.setattr("sys.argv", ["dynid"])
    with pytest.raises(SystemExit) as left:
        main()
    assert left.value.code == 70
    assert "AssertionError: oops" in capsys.readouterr().err
    assert "exit code 70" in str(run(["robots"], "this"))
