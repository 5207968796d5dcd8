"""Draw docs/pictures/architecture.svg: the way of a sample through the modules, as traced, and the layers below it.

python -m bench.architecture [FILE]
"""

from __future__ import annotations

import sys
import tomllib
from html import escape
from pathlib import Path

from bench.structure import way_of_a_sample

ROOT = Path(__file__).resolve().parent.parent
STAGES = (
    ("robot", "robot/", "storage/"),
    ("read", "logs/read", "logs/readers/", "logs/column", "logs/log", "logs/content"),
    ("clean", "logs/survey", "logs/ordering", "logs/stray_times", "logs/findings", "logs/segments"),
    ("filter", "logs/cutoff", "logs/filtering"),
    ("base parameters", "identifiability/"),
    ("write rows", "dynamics/", "estimation/regression/"),
    ("accumulate", "estimation/accumulate/"),
    ("solve", "estimation/solve/", "estimation/estimate"),
    ("infer", "estimation/inference/"),
    ("judge", "estimation/diagnostics/"),
    ("result", "estimation/"),
)
"""Stages of the way and where their modules live; the first that fits counts."""

WIDTH, LINE, GAP, COLUMNS = 236, 15, 14, 4


def stages(way: list[str]) -> dict[str, list[str]]:
    """Modules of the traced way by stage; files that belong to none (threads, messages) are left out."""
    found: dict[str, list[str]] = {name: [] for name, *_ in STAGES}
    for module in way:
        for name, *places in STAGES:
            if module.startswith(tuple(places)):
                found[name].append(module.removesuffix(".py").replace("/", "."))
                break
    return found


def layers() -> list[str]:
    """Packages from the command line down to the errors, as import-linter holds them."""
    contracts = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["tool"]["importlinter"][
        "contracts"
    ]
    return [layer.replace("dynid.", "") for contract in contracts if contract["type"] == "layers"
            for layer in contract["layers"]]  # fmt: skip


def draw(found: dict[str, list[str]], packages: list[str]) -> str:
    """Return the picture: a box for each stage in reading order, then the layers in one line."""
    parts, y = [], 10
    names = list(found)
    rows = [names[k : k + COLUMNS] for k in range(0, len(names), COLUMNS)]
    for number, row in enumerate(rows):
        height = 34 + LINE * max(len(found[name]) for name in row)
        for k, name in enumerate(row):
            x = 10 + k * (WIDTH + GAP)
            parts.append(f'<rect x="{x}" y="{y}" width="{WIDTH}" height="{height}" rx="6" class="box"/>')
            step = number * COLUMNS + k + 1
            parts.append(f'<text x="{x + 8}" y="{y + 20}" class="stage">{step}. {escape(name)}</text>')
            for line, module in enumerate(found[name]):
                parts.append(f'<text x="{x + 8}" y="{y + 38 + LINE * line}">{escape(module)}</text>')
            if k + 1 < len(row):
                parts.append(f'<path d="M{x + WIDTH} {y + 17} h{GAP - 4}" class="arrow"/>')
        y += height + GAP
    parts.append(f'<text x="10" y="{y + 12}" class="stage">Imports point only downwards</text>')
    for k, layer in enumerate(packages):
        place = f'x="{10 + k % 8 * 125}" y="{y + 32 + LINE * (k // 8)}"'
        parts.append(f"<text {place}>{'&#8594; ' if k else ''}{escape(layer)}</text>")
    y += 40 + LINE * (1 + len(packages) // 8)
    width = 20 + COLUMNS * (WIDTH + GAP)
    style = (
        "text{font:11px sans-serif;fill:#223}.stage{font-weight:bold;font-size:12px}.box{fill:#f4f7fb;stroke:#7a92b5}"
        ".arrow{stroke:#7a92b5;stroke-width:2;marker-end:url(#a)}"
    )
    marker = '<marker id="a" refX="3" refY="3" markerWidth="7" markerHeight="6" orient="auto"><path d="M0 0L6 3L0 6z" fill="#7a92b5"/></marker>'  # noqa: E501
    body = "\n".join(parts)
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {y}" role="img"><style>{style}</style>'
        f'<defs>{marker}</defs><rect width="100%" height="100%" fill="white"/>\n{body}\n</svg>\n'
    )


def main() -> None:
    """Trace, draw, write."""
    file = Path(sys.argv[1]) if len(sys.argv) > 1 else ROOT / "docs" / "pictures" / "architecture.svg"
    file.write_text(draw(stages(way_of_a_sample(ROOT / "src")), layers()), encoding="utf-8")
    print(f"wrote {file}")


if __name__ == "__main__":
    main()
