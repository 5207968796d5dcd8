"""What the site needs beyond its generator, so that it is complete without a network.

An extension of Python-Markdown while it is built: formulas become MathML.
Afterwards, `python -m bench.site FOLDER`: the one script that pages would fetch from elsewhere is the folder's own.
"""

from __future__ import annotations

import html
import os
import re
import sys
from pathlib import Path
from typing import Any

from markdown import Extension, Markdown
from markdown.postprocessors import Postprocessor

FORMULA = re.compile(r'<(span|div) class="arithmatex">\\([(\[])(.*?)\\[)\]]</\1>', re.DOTALL)


class _ToMathML(Postprocessor):  # type: ignore[misc]  # markdown has no types
    """Replaces the TeX that `pymdownx.arithmatex` marks."""

    def run(self, text: str) -> str:
        """Page with MathML in place of TeX, and without headings of columns that have none."""
        from latex2mathml.converter import convert

        def drawn(found: re.Match[str]) -> str:
            display = "block" if found[2] == "[" else "inline"
            return str(convert(html.unescape(found[3]).strip(), display=display))

        return FORMULA.sub(drawn, text).replace("<th></th>", "<td></td>")


class Formulas(Extension):  # type: ignore[misc]
    """Formulas as MathML."""

    def extendMarkdown(self, md: Markdown) -> None:  # noqa: N802
        """Convert after everything else."""
        md.postprocessors.register(_ToMathML(md), "mathml", 0)


def makeExtension(**options: Any) -> Formulas:  # noqa: N802
    """Return the extension; Python-Markdown asks for this name."""
    return Formulas(**options)


SHIM, OWN = re.compile(r"https://[^\"\s>]*/iframe-worker/shim"), Path("assets/iframe-worker.js")
"""What lets search run in pages that are opened from the disk."""


def main(folder: Path) -> None:
    """Make all pages of a site complete."""
    for page in folder.rglob("*.html"):
        own = os.path.relpath(folder / OWN, page.parent)
        page.write_text(SHIM.sub(own, page.read_text(encoding="utf-8")), encoding="utf-8")


if __name__ == "__main__":
    main(Path(sys.argv[1]))
