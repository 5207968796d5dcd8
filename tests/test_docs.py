"""What README and docs show is true: their Python runs, their tables load, their commands exist."""

from __future__ import annotations

import inspect
import re
import sys
import tomllib
import types
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from bench.__main__ import TOPICS

import dynid
import public_names
from command_line import write_fleet_logs
from dynid import load_robot, simulate
from dynid.cli.output.recordings import write_log
from dynid.dynamics.friction import FRICTION
from dynid.dynamics.regressor import MODELS
from dynid.estimation.inference.cross_validation import DEFAULT, OPTIONAL
from fourier import fourier_motion
from mistakes import arm_urdf

ROOT = Path(__file__).parents[1]
FRICTION_PAGE = ROOT / "docs" / "friction.md"
PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md"))]


def blocks(language: str) -> list[tuple[str, str]]:
    found = []
    for page in PAGES:
        codes = re.findall(rf"```{language}\n(.*?)```", page.read_text(), re.DOTALL)
        codes = ["\n".join(codes)] if codes and page.parent.name == "extend" else codes  # these pages go on
        found += [(page.name, code) for code in codes]
    return found


@pytest.fixture(autouse=True)
def registered() -> Iterator[None]:
    """Models and friction blocks that a page adds are gone after it."""
    both: tuple[dict[str, Any], ...] = (FRICTION, MODELS)
    before = [(known, dict(known)) for known in both]
    yield
    for known, entries in before:
        known.clear()
        known.update(entries)


@pytest.mark.parametrize(("page", "code"), blocks("python"))
def test_python_of_the_docs_runs(page: str, code: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    if "my_robot.urdf" in code:
        write_own_robot(tmp_path)
    names: dict[str, Any] = {}
    if "arm.urdf" in code:
        make_cluster_packages(monkeypatch)
        write_fleet_logs(tmp_path)
        for path in ("/shared", "s3://bucket", "/volume"):
            code = code.replace(f'"{path}/', f'"{tmp_path}/')
    exec(compile(code, page, "exec"), names)
    if "client" in names:
        names["client"].retire_workers()  # a worker in this process that ends together with its scheduler may hang
        names["client"].close()
        names["cluster"].close()


def make_cluster_packages(monkeypatch: pytest.MonkeyPatch) -> None:
    """Packages that start clusters elsewhere, replaced: theirs is a worker in this process."""
    distributed = pytest.importorskip("distributed")

    def local_cluster(**_: object) -> Any:
        own = {"n_workers": 1, "threads_per_worker": 1, "processes": False, "dashboard_address": ":0"}
        cluster = distributed.LocalCluster(**own, host="127.0.0.1", protocol="tcp")
        cluster.scale = lambda jobs: None
        return cluster

    for package, name in (("dask_jobqueue", "SLURMCluster"), ("dask_kubernetes.operator", "KubeCluster")):
        module = types.ModuleType(package)
        setattr(module, name, local_cluster)
        monkeypatch.setitem(sys.modules, package, module)
    monkeypatch.setitem(sys.modules, "dask_kubernetes", types.ModuleType("dask_kubernetes"))


def write_own_robot(place: Path) -> None:
    """What a reader of the README has: a URDF and a log."""
    (place / "my_robot.urdf").write_text(arm_urdf())
    robot = load_robot(place / "my_robot.urdf")
    write_log(place / "log.csv", simulate(robot, fourier_motion(robot, duration=12.0), noise=0.05))


def test_the_readme_keeps_its_promise() -> None:
    """An install line, two commands, one line of shell and five of Python; its links lead somewhere."""
    text = (ROOT / "README.md").read_text()
    install, first, own = re.findall(r"```sh\n(.*?)```", text, re.DOTALL)
    assert install.startswith("pip install .")
    others = text.partition("## What others do not do")[2].partition("\n## ")[0]
    assert all("](" in line for line in re.findall(r"^- .*(?:\n  .*)*", others, re.MULTILINE))
    (code,) = re.findall(r"```python\n(.*?)```", text, re.DOTALL)
    assert [line.split()[1] for line in first.splitlines()] == ["demo", "test"]
    assert len(own.splitlines()) == 1
    assert len([line for line in code.splitlines() if line.strip()]) == 5
    for link, anchor in re.findall(r"\]\((?!http)([^)#]+)(?:#([^)]+))?\)", text):
        assert (ROOT / link).exists(), link
        titles = re.findall(r"^#+ (.*)$", (ROOT / link).read_text(), re.MULTILINE) if anchor else [anchor]
        assert anchor in [re.sub(r"[^a-z0-9 -]", "", title.lower()).replace(" ", "-") for title in titles], link


def test_every_public_name_is_in_the_reference() -> None:
    described = re.findall(r"^::: (\S+)$", (ROOT / "docs" / "reference.md").read_text(), re.MULTILINE)
    errors = [kind for kind in vars(dynid.errors).values() if inspect.isclass(kind) and issubclass(kind, Exception)]
    others = [thing for thing in public_names.exported().values() if not inspect.ismodule(thing)]
    wanted = {public_names.address(thing) for thing in (*errors, *others, *public_names.reached())}
    assert len(described) == len(set(described))
    assert set(described) == wanted
    assert public_names.PAGE.read_text().endswith(public_names.parts_of_results()), "run python tests/public_names.py"


def test_the_page_on_friction_names_every_block() -> None:
    rows = re.findall(r"^\| (`.*?`) \| .* \| (always|gate) \|$", FRICTION_PAGE.read_text(), re.MULTILINE)
    said = {when: {name for cell, w in rows if w == when for name in re.findall(r"`(\S+?)`", cell)} for _, when in rows}
    assert said == {"always": set(DEFAULT), "gate": set(OPTIONAL)}
    assert set(FRICTION) <= set(DEFAULT) | set(OPTIONAL)


@pytest.mark.parametrize(("page", "code"), [b for b in blocks("toml") if "[[joint]]" in b[1]])
def test_tables_of_the_docs_load(page: str, code: str, tmp_path: Path) -> None:
    file = tmp_path / "robot.toml"
    file.write_text(code)
    assert load_robot(file).n == len(tomllib.loads(code)["joint"])


def test_make_targets_of_the_docs_exist() -> None:
    targets = set(re.findall(r"^(\w+):", (ROOT / "Makefile").read_text(), re.MULTILINE))
    wanted = {page: set(re.findall(r"^make (\w+)", page.read_text(), re.MULTILINE)) for page in PAGES}
    assert {"demo", "test"} <= set().union(*wanted.values())
    for page in PAGES:
        assert wanted[page] <= targets, page


def test_commands_of_the_docs_exist() -> None:
    from dynid.cli.app import app

    commands = {command.callback.__name__ for command in app.registered_commands if command.callback}
    typed = [word for _, code in blocks("sh") for word in re.findall(r"^dynid (\w+)", code, re.MULTILINE)]
    assert "identify" in typed
    for name, code in blocks("sh"):
        assert set(re.findall(r"^dynid (\w+)", code, re.MULTILINE)) <= commands, name


def test_every_topic_of_the_benchmarks_is_on_their_page() -> None:
    text = (ROOT / "docs" / "benchmarks.md").read_text()
    assert set(re.findall(r"`python -m bench (\w+)`\. ", text)) == set(TOPICS)
    for section in text.split("\n## ")[1:]:
        assert re.search(r"`(python -m bench \w+|make bench-peers)`", section), section[:20]


def test_the_architecture_names_what_exists() -> None:
    """Every module and package that the page and its picture name is there, and no package is left out."""
    source = ROOT / "src" / "dynid"
    modules = {".".join(p.relative_to(source).with_suffix("").parts) for p in source.rglob("*.py")}
    packages = {name.removesuffix(".__init__") for name in modules if name.endswith(".__init__")}
    page, _, _formulas = (ROOT / "docs" / "architecture.md").read_text().partition("## Where the formulas")
    table = {row.split("|")[1] for row in page.splitlines() if row.startswith("| `") and row.count("|") == 4}
    named = set(re.findall(r"`([a-z_.]+)`", page))
    picture = set(
        re.findall(r"<text [^>]*>([a-z_]+(?:\.[a-z_]+)+)</text>", (ROOT / "docs/pictures/architecture.svg").read_text())
    )
    assert not {name for name in named | picture if "." in name} - modules - packages
    tops = {name for name in packages if "." not in name and name not in ("demo",)}
    assert not {top for top in tops if not any(f"`{top}" in cells for cells in table)}
