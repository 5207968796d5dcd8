"""The numbered examples run, and show what they promise."""

from __future__ import annotations

import importlib.util
import re
import subprocess
import sys
import xml.etree.ElementTree as ElementTree
from pathlib import Path
from types import ModuleType

import pytest

EXAMPLES = Path(__file__).parents[1] / "examples"
DOCS = Path(__file__).parents[1] / "docs"
NUMBERED = sorted(EXAMPLES.glob("[0-9]*.py"))


@pytest.mark.parametrize("file", NUMBERED, ids=lambda file: file.stem)
def test_examples_run_and_draw(file: Path, tmp_path: Path) -> None:
    command = [sys.executable, str(file), "--quick", "--picture", "picture.svg"]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, timeout=300)
    assert done.returncode == 0, done.stderr
    assert done.stdout.strip()
    assert len(list(ElementTree.parse(tmp_path / "picture.svg").iter())) > 20


def test_docs_show_every_example_with_its_picture() -> None:
    page = (DOCS / "examples.md").read_text()
    for file in NUMBERED:
        assert f'--8<-- "examples/{file.name}"' in page
        drawn = re.search(rf"python examples/{file.name} .*--picture docs/(\S+)", page)
        assert drawn is not None, file.name
        assert f"({drawn[1]})" in page
        assert (DOCS / drawn[1]).stat().st_size < 150_000


@pytest.fixture(scope="module")
def noise_study() -> ModuleType:
    spec = importlib.util.spec_from_file_location("noise_study", EXAMPLES / "01_noise_study.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules["noise_study"] = module  # dataclasses look their module up
    spec.loader.exec_module(module)
    return module


def test_a_optimal_motions_err_less_under_fixed_noise(noise_study: ModuleType) -> None:
    found = noise_study.study(rows=(30,), starts=1, draws=400, seed=0)
    assert found.ratio(30, "energy") >= 1.5
    assert found.ratio(30, "joints") > 1.0
    assert found.ratio(30, "scaled") < 1.0, "noise that grows with max|Y| favours the condition number"
    for outcome in found.outcomes:
        errors = outcome.errors["energy"]
        assert errors.rms == pytest.approx(outcome.expected, rel=0.1), "Monte Carlo and covariance agree"
        assert errors.low < errors.mean < errors.high
    ElementTree.fromstring(noise_study.picture(found))
