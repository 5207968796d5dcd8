"""The command line run inside the test's own process, and motions and logs for it."""

from __future__ import annotations

import os
import stat
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pytest

from dynid.cli import main
from dynid.cli.output.recordings import write_log
from dynid.excitation.excitation import motion_csv_text
from dynid.robot.load import load_robot
from fourier import fourier_motion
from mistakes import arm_urdf
from robots import smooth_path


@dataclass(frozen=True)
class Done:
    """What a command left: exit code and both outputs."""

    code: int
    out: str
    err: str


class CommandLine:
    """Runs `dynid WORDS...`."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
        self.monkeypatch, self.capsys = monkeypatch, capsys

    def __call__(self, *words: object, code: int | None = 0) -> Done:
        self.monkeypatch.setattr("sys.argv", ["dynid", *map(str, words)])
        self.capsys.readouterr()
        with pytest.raises(SystemExit) as left:
            main()
        out, err = self.capsys.readouterr()
        done = Done(int(left.value.code or 0), out, err)
        assert code is None or done.code == code, f"{done.out}\n{done.err}"
        assert "Traceback" not in err
        return done

    def fails(self, *words: object) -> str:
        """Return the one or two lines of a command that refuses its input."""
        done = self(*words, code=2)
        assert done.err.startswith("dynid: ")
        assert 1 <= done.err.count("\n") <= 2, done.err
        return done.err


def make_full_device(path: Path) -> Path:
    """A device without room, one of our own where we could harm the machine's."""
    if os.geteuid():
        path.symlink_to("/dev/full")
        return path
    try:
        os.mknod(path, stat.S_IFCHR | 0o666, os.makedev(1, 7))
        path.open("wb").close()
    except OSError:
        pytest.skip("no device can be made here")
    return path


def write_motion(
    path: Path, robot: str = "puma560", *, seconds: float = 8.0, rate: float = 100.0, seed: int = 0
) -> Path:
    """Write a smooth motion as `dynid excite` does."""
    t = np.arange(0.0, seconds, 1.0 / rate)
    path.write_text(motion_csv_text(smooth_path(load_robot(robot), t, seed=seed, scale=2.0)))
    return path


def write_simulated(
    path: Path,
    robot: str = "gautier3",
    *,
    seconds: float = 8.0,
    rate: float = 100.0,
    seed: int = 0,
    noise: float = 0.05,
) -> Path:
    """Write a simulated log of a smooth motion."""
    from dynid import simulate

    loaded = load_robot(robot)
    t = np.arange(0.0, seconds, 1.0 / rate)
    write_log(path, simulate(loaded, smooth_path(loaded, t, seed=seed, scale=2.0), noise=noise, seed=seed))
    return path


def write_fleet_logs(place: Path) -> None:
    """Write what the page on fleets names: arm.urdf, two robots with five weeks in data/, logs in arriving/."""
    from dynid import simulate

    (place / "arm.urdf").write_text(arm_urdf())
    arm = load_robot(place / "arm.urdf")
    files = [f"data/robot={robot}/week=2026-W{week}/log.csv" for robot in ("R003", "R017") for week in range(27, 32)]
    files += [f"arriving/{k}.csv" for k in range(1, 8)]
    for seed, file in enumerate(files):
        (place / file).parent.mkdir(parents=True, exist_ok=True)
        write_log(place / file, simulate(arm, fourier_motion(arm, duration=12.0, seed=seed), noise=0.05, seed=seed))
