"""Installation as README and docs say it: a wheel with all that is needed, and no command asks for what is nowhere."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
import tomllib
import zipfile
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
QUIET = ("--quiet", "--disable-pip-version-check")


def run(*words: object, cwd: Path, seconds: float = 280.0) -> subprocess.CompletedProcess[str]:
    """Run a program that knows nothing of this source tree."""
    environment = {key: value for key, value in os.environ.items() if key not in ("PYTHONPATH", "VIRTUAL_ENV")}
    return subprocess.run(
        list(map(str, words)), cwd=cwd, env=environment, capture_output=True, text=True, check=False, timeout=seconds
    )


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The wheel that `make wheel` builds, from a copy of the sources."""
    pytest.importorskip("setuptools")
    source, dist = tmp_path_factory.mktemp("source"), tmp_path_factory.mktemp("dist")
    for name in ("pyproject.toml", "README.md", "LICENSE"):
        shutil.copy(ROOT / name, source)
    shutil.copytree(ROOT / "src", source / "src", ignore=shutil.ignore_patterns("__pycache__", "*.egg-info"))
    build = ("wheel", *QUIET, "--no-build-isolation", "--no-deps", "--wheel-dir", dist, source)
    done = run(sys.executable, "-m", "pip", *build, cwd=source)
    assert done.returncode == 0, done.stderr
    (found,) = dist.glob("*.whl")
    return found


def test_the_wheel_holds_every_file_of_the_package(wheel: Path) -> None:
    files = [path.relative_to(ROOT / "src") for path in (ROOT / "src" / "dynid").rglob("*") if path.is_file()]
    expected = {str(path) for path in files if "__pycache__" not in path.parts}
    names = {name for name in zipfile.ZipFile(wheel).namelist() if ".dist-info/" not in name}
    assert names == expected


@pytest.mark.slow
def test_the_wheel_in_an_empty_environment_runs_the_demo(wheel: Path, tmp_path: Path) -> None:
    index = (sys.executable, "-m", "pip", "download", *QUIET, "--no-deps", "--dest", tmp_path / "one", "lazy-loader")
    if run(*index, cwd=tmp_path).returncode != 0:
        pytest.skip("the package index that pip is set up with cannot be reached")
    assert run(sys.executable, "-m", "venv", tmp_path / "empty", cwd=tmp_path).returncode == 0
    binaries = tmp_path / "empty" / "bin"
    pins = ("-c", ROOT / "requirements.txt")
    done = run(binaries / "pip", "install", *QUIET, *pins, wheel, cwd=tmp_path, seconds=1200.0)
    assert done.returncode == 0, done.stderr
    where = run(binaries / "python", "-c", "import dynid; print(dynid.__file__)", cwd=tmp_path).stdout
    assert Path(where.strip()).is_relative_to(tmp_path / "empty")
    done = run(binaries / "dynid", "demo", "--out", "demo", cwd=tmp_path, seconds=1200.0)
    assert done.returncode == 0, done.stderr
    for name in ("result.json", "robot.urdf", "report.html"):
        assert (tmp_path / "demo" / name).stat().st_size > 0
    assert run(binaries / "dynid", "init", "puma560", "demo/log.csv", cwd=tmp_path).returncode == 0
    assert "verdict: good" in run(binaries / "dynid", "identify", cwd=tmp_path, seconds=1200.0).stdout


def test_no_text_asks_an_index_for_dynid() -> None:
    """It is in none: it is installed from its folder or its wheel, and what else is asked for is a dependency of it."""
    data = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    extras = [name for names in data["optional-dependencies"].values() for name in names]
    known = {re.split(r"[^\w.-]", name)[0] for name in (*data["dependencies"], *extras)} - {"dynid"}
    known |= {"pycollada", "mujoco[sysid]"}  # of viser's meshes; of another tool, on the page of comparisons
    pages = (ROOT / "README.md", ROOT / "CONTRIBUTING.md", *ROOT.glob("docs/**/*.md"), *ROOT.glob("src/**/*.py"))
    command = re.compile(r"pipx? install (?:-c \S+ )?[\\'\"]*([\w.,/*\[\]-]+)")
    asked = {word for page in pages for word in command.findall(page.read_text(encoding="utf-8"))}
    assert {".", "viser", "rosbags", "h5py"} <= asked
    for word in asked - known:
        folder, _, extras_asked = word.rstrip("]").partition("[")
        assert folder == "." or folder.startswith("dist/"), f"pip install {word}"
        assert set(filter(None, extras_asked.split(","))) <= data["optional-dependencies"].keys()
