"""A page from sections: each fills its own template; all of it goes into one file that needs nothing else."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from importlib import resources
from typing import TYPE_CHECKING, Any, Generic, Protocol, TypeVar

import numpy as np

from dynid.concurrency import run_after_fork
from dynid.dynamics.friction import PLAIN
from dynid.estimation.diagnostics.verdict import Verdict
from dynid.estimation.identification import Identification, Origin
from dynid.messages import Message
from dynid.report.elements import escape_control_characters
from dynid.report.replay import Replay, nominal_values_by_name
from dynid.robot.robot import Robot
from dynid.robot.transform import Array

if TYPE_CHECKING:
    from jinja2 import Environment

T = TypeVar("T", contravariant=True)


class Section(Protocol, Generic[T]):
    """One part of a page: `name` is its anchor and its template, `title` its heading."""

    @property
    def name(self) -> str:
        """Anchor and template of the section."""
        ...

    @property
    def title(self) -> str:
        """Heading of the section."""
        ...

    def build_content(self, subject: T) -> Mapping[str, Any] | None:
        """Values for the section's template; None where the section makes no sense."""
        ...


def render_page(title: str, subject: T, sections: Sequence[Section[T]], *, lead: str = "") -> str:
    """Render the whole HTML page; all texts are escaped by the templates."""
    from markupsafe import Markup

    parts = []
    for section in sections:
        filled = section.build_content(subject)
        if filled is not None:
            body = escape_control_characters(
                template_environment().get_template(f"{section.name}.html").render(**filled)
            )
            parts.append({"name": section.name, "title": section.title, "body": Markup(body)})  # escaped: autoescape
    return (
        template_environment()
        .get_template("page.html")
        .render(
            title=escape_control_characters(title),
            lead=escape_control_characters(lead),
            parts=parts,
            plotly=plotly_script(),
        )
    )


@cache
def template_environment() -> Environment:
    """Jinja environment with the templates of this package, escaping everywhere."""
    from jinja2 import Environment, FunctionLoader, StrictUndefined

    return Environment(
        loader=FunctionLoader(_load_template), autoescape=True, trim_blocks=True, lstrip_blocks=True,
        undefined=StrictUndefined,
    )  # fmt: skip


run_after_fork(template_environment.cache_clear)  # its cache of templates has a lock, which another thread may hold


@cache
def plotly_script() -> str:
    """Plotly's JavaScript (npm package `plotly.js-cartesian-dist-min`), which holds no end of a script element."""
    text = (resources.files("dynid.report") / "plotly" / "plotly-cartesian.min.js").read_text(encoding="utf-8")
    return text.replace("</script", "<\\/script")


def _load_template(name: str) -> str:
    """Text of a template."""
    return (resources.files("dynid.report") / "templates" / name).read_text(encoding="utf-8")


# What a page is about: a result, logs read again, and where all of it came from.


class StandardValues(Protocol):
    """Values of standard parameters, such as physically consistent ones (`PhysicalParameters`)."""

    @property
    def names(self) -> tuple[str, ...]:
        """Standard names."""
        ...

    @property
    def values(self) -> Array:
        """Values of the parameters, one per name."""
        ...

    @property
    def verdict(self) -> Verdict:
        """Verdict on the values, the total mass first."""
        ...

    @property
    def warnings(self) -> tuple[Message, ...]:
        """Warnings on the values."""
        ...

    @property
    def notes(self) -> tuple[Message, ...]:
        """Notes on decisions behind the values."""
        ...


@dataclass(frozen=True, slots=True, eq=False)
class ReportSubject:
    """A result with its logs: those it was made from, and others that it had to predict.

    origin: of the page; page_warnings: warnings that are the page's own; further: those of what was done beside it.
    truth: the robot that was simulated, where the logs are no recordings; it is shown in place of nominal values.
    """

    result: Identification
    origin: Origin
    used: tuple[Replay, ...] = ()
    held_out: tuple[Replay, ...] = ()
    physical: StandardValues | None = None
    page_warnings: tuple[Message, ...] = ()
    further: tuple[Message, ...] = ()
    truth: Robot | None = None

    @property
    def reference(self) -> tuple[str, Robot]:
        """What identified values are compared with, in a word, and the robot that has it."""
        return ("nominal", self.result.robot) if self.truth is None else ("true", self.truth)

    @property
    def reference_values(self) -> dict[str, float]:
        """Values to compare the result's with, by name; friction only where no other terms share it."""
        values = nominal_values_by_name(self.result, self.reference[1])
        if set(self.result.friction) <= set(PLAIN):
            return values
        return {name: value for name, value in values.items() if name in self.result.equation.base.names}

    @property
    def warnings(self) -> tuple[Message, ...]:
        """Warnings of the page, the result and its bodies, once each."""
        bodies = self.physical.warnings if self.physical else ()
        return tuple(dict.fromkeys((*self.page_warnings, *self.result.warnings, *bodies, *self.further)))

    @property
    def replays(self) -> tuple[Replay, ...]:
        """Replays of all logs, read again once: those of the result, then the others."""
        return (*self.used, *self.held_out)

    @property
    def nominal_nrmse(self) -> Array | None:
        """NRMSE per channel of the nominal values, the mean over the logs not used, else over those used; or None."""
        found = [replay.nominal_nrmse for replay in self.held_out or self.used if replay.nominal_nrmse is not None]
        return np.mean(found, axis=0) if found else None

    @property
    def identified_nrmse(self) -> Array | None:
        """NRMSE per channel of the result on the same logs as `nominal_nrmse`; None without logs."""
        replays = self.held_out or self.used
        return np.mean([replay.nrmse for replay in replays], axis=0) if replays else None

    @property
    def results(self) -> tuple[Identification, ...]:
        """Results that the page is about: this one."""
        return (self.result,)
