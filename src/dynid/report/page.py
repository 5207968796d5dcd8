"""A page from sections: each fills its own template; all of it goes into one file that needs nothing else."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import cache
from importlib import resources
from typing import TYPE_CHECKING, Any, Generic, Protocol, TypeVar

from dynid.concurrency import after_fork
from dynid.report.words import visible

if TYPE_CHECKING:
    from jinja2 import Environment

T = TypeVar("T", contravariant=True)


class Section(Protocol, Generic[T]):
    """One part of a page: `name` is its anchor and its template, `title` its heading."""

    @property
    def name(self) -> str:
        """Anchor and template."""
        ...

    @property
    def title(self) -> str:
        """Heading."""
        ...

    def fill(self, subject: T) -> Mapping[str, Any] | None:
        """What the template shows, None where the section makes no sense."""
        ...


def render_page(title: str, subject: T, sections: Sequence[Section[T]], *, lead: str = "") -> str:
    """The whole HTML file; all texts are escaped by the templates."""
    from markupsafe import Markup

    parts = []
    for section in sections:
        filled = section.fill(subject)
        if filled is not None:
            body = visible(environment().get_template(f"{section.name}.html").render(**filled))
            parts.append({"name": section.name, "title": section.title, "body": Markup(body)})  # escaped: autoescape
    return (
        environment()
        .get_template("page.html")
        .render(title=visible(title), lead=visible(lead), parts=parts, plotly=plotly_script())
    )


@cache
def environment() -> Environment:
    """Templates of this package, with escaping everywhere."""
    from jinja2 import Environment, FunctionLoader, StrictUndefined

    return Environment(
        loader=FunctionLoader(_template), autoescape=True, trim_blocks=True, lstrip_blocks=True,
        undefined=StrictUndefined,
    )  # fmt: skip


after_fork(environment.cache_clear)  # its cache of templates has a lock, which another thread may hold


@cache
def plotly_script() -> str:
    """Plotly's JavaScript; it holds no end of a script element."""
    from plotly.offline import get_plotlyjs

    return str(get_plotlyjs()).replace("</script", "<\\/script")


def _template(name: str) -> str:
    return (resources.files("dynid.report") / "templates" / name).read_text(encoding="utf-8")
