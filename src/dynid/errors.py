"""What can go wrong on the user's side: one root, and children by subject.

Every error is a `Message`: `.code` for scripts, `.facts`, `.remedy`; its text says what, where and the remedy. All
are raised as `Error(code, template of what, template of the remedy, **facts)`.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from dynid.messages import Message, Wording

FIX_THE_BASE = Wording(
    "to fix its base, take the free joint out of the file (MJCF), or load it without floating_base",
    "to fix its base, take the free joint out of the file (MJCF), or leave out --floating-base",
)
"""Remedy where a robot floats."""


class DynidError(Exception):
    """The root of every error that a user can cause; its text says what is wrong, where, and what to do.

    Parameters
    ----------
    code : str or Message
        Identifier of what is wrong, for scripts, or the whole message.
    what : str
        Template of what is wrong and where; `{name}` stands for a fact.
    remedy : str
        Template of what to do about it.
    **facts : Any
        Numbers, names and options behind the text.

    Examples
    --------
    >>> from dynid import DynidError, load_robot
    >>> try:
    ...     load_robot("puma650")
    ... except DynidError as error:
    ...     print(error.code)
    unknown_robot
    """

    message: Message

    def __init__(self, code: str | Message, what: str = "", remedy: str = "", /, **facts: Any) -> None:
        self._set_message(code if isinstance(code, Message) else Message(code, what, remedy, **facts))

    def _set_message(self, message: Message) -> None:
        """Set the message of the error, also as the text of the exception."""
        self.message = message
        Exception.__init__(self, str(message))

    @property
    def code(self) -> str:
        """Identifier of what is wrong, for scripts."""
        return self.message.code

    @property
    def facts(self) -> dict[str, Any]:
        """Numbers, names and options behind the text."""
        return dict(self.message.facts)

    @property
    def remedy(self) -> str:
        """Text on what to do about it; empty where the message says all there is."""
        return self.message.remedy

    def __reduce__(self) -> tuple[object, ...]:
        """Travel between processes as it is: children take facts, not the text, so that pickle cannot call them."""
        return DynidError.__new__, (type(self), *self.args), self.__dict__


_MOST_LINES = 10
"""Mistakes of a robot file that its message lists."""


class RobotFileError(DynidError):
    """A robot file has mistakes; all of them are listed in `.problems`, each with its place and remedy.

    Parameters
    ----------
    file : str
        The file.
    code : str, Message or sequence of Message
        Code of a single problem, or all problems.
    what : str
        Template of what is wrong.
    remedy : str
        Template of what to do about it.
    **facts : Any
        Numbers, names and options behind the text.
    """

    def __init__(
        self, file: str, code: str | Sequence[Message], what: str = "", remedy: str = "", /, **facts: Any
    ) -> None:
        self.file = file
        if isinstance(code, str):
            code = [code if isinstance(code, Message) else Message(code, what, remedy, **facts)]
        self.problems = tuple(code)
        lines = [problem.about(file) for problem in self.problems[:_MOST_LINES]]
        if rest := len(self.problems) - len(lines):
            lines.append(Message("more_mistakes", "and {rest} more", rest=rest).about(file))
        self._set_message(lines[0] if len(lines) == 1 else Message.lines("several_mistakes", lines))


class UnknownRobotError(DynidError):
    """Neither a file nor the name of a bundled robot.

    Parameters
    ----------
    source : str
        What was asked for.
    bundled : sequence of str
        Names of the bundled robots.
    near : str
        A similar name, as a clause of the message.
    """

    def __init__(self, source: str, bundled: Sequence[str], near: str = "") -> None:
        self.source, self.bundled = source, tuple(bundled)
        remedy = "dynid robots lists the bundled ones" if near else "the bundled robots are {bundled}"
        super().__init__(
            "unknown_robot", "no robot '{source}': there is no such file{near}", remedy,
            source=source, bundled=self.bundled, near=near,
        )  # fmt: skip


class ExpressionError(DynidError):
    """A length or angle in a robot file is not an expression in the file's symbols.

    Parameters
    ----------
    text : str
        The expression.
    code : str
        Identifier of what is wrong.
    what : str
        Template of what is wrong.
    remedy : str
        Template of what to do about it.
    **facts : Any
        Numbers and names behind the text.
    """

    def __init__(self, text: str, code: str, what: str, remedy: str = "", /, **facts: Any) -> None:
        self.text = text
        super().__init__(code, "cannot read the expression '{text}': " + what, remedy, text=text, **facts)


class MotionError(DynidError):
    """The arrays of a motion do not describe a motion of this robot."""


class ModelError(DynidError):
    """A measurement model was asked for what it does not have."""


class UndecidedError(ModelError):
    """The exact method cannot decide a rank, whatever the number of digits; samples may (method='qr')."""


class LoopError(DynidError):
    """A closed loop cannot be closed at a sample.

    Parameters
    ----------
    sample : int
        The sample, counted from 0.
    residual : float
        How far the loop stays open, m or rad.
    frames : str
        The frames that should meet.
    time : float, optional
        Time of the sample, s.
    """

    def __init__(self, sample: int, residual: float, frames: str, time: float | None = None) -> None:
        self.sample, self.residual = sample, residual
        super().__init__(
            "loop_does_not_close", "the loop {frames} cannot close at sample {at}: {residual:.3g} m or rad are left",
            "keep the active joints inside the mechanism's workspace",
            frames=frames, sample=sample, time=time, residual=residual, at=_sample_and_time_text(sample, time),
        )  # fmt: skip


class SingularPathError(LoopError):
    """A sample can be reached only through a singular position, beyond which the assembly mode is not determined.

    Parameters
    ----------
    sample : int
        The sample, counted from 0.
    frames : str
        The frames of the loop.
    time : float, optional
        Time of the sample, s.
    """

    def __init__(self, sample: int, frames: str, time: float | None = None) -> None:
        self.sample, self.residual = sample, 0.0
        DynidError.__init__(
            self, "singular_path", "the loop {frames} passes a singular position between its stated assembly and "
            "sample {at}, beyond which its assembly mode is not determined",
            "keep the motion on one side of it, state start and at there, or write a parallelogram as [[coupling]]",
            frames=frames, sample=sample, time=time, at=_sample_and_time_text(sample, time),
        )  # fmt: skip


class DeadPointError(LoopError):
    """A closed loop is at a dead point, where the active joints do not determine the passive ones.

    Parameters
    ----------
    sample : int
        The sample, counted from 0.
    frames : str
        The frames of the loop.
    time : float, optional
        Time of the sample, s.
    """

    def __init__(self, sample: int, frames: str, time: float | None = None) -> None:
        self.sample, self.residual = sample, 0.0
        DynidError.__init__(
            self, "dead_point", "the loop {frames} is at a dead point at sample {at}: the passive joints' "
            "velocities are not determined there", "leave such samples out",
            frames=frames, sample=sample, time=time, at=_sample_and_time_text(sample, time),
        )  # fmt: skip


def _sample_and_time_text(sample: int, time: float | None) -> str:
    """Number of a sample, with its time where that is known."""
    return f"{sample}" if time is None else f"{sample} (t = {time:.6g} s)"


class ExcitationError(DynidError):
    """No motion can be designed as asked for."""


class LogError(DynidError):
    """A log cannot be used as it is; `.log` says which, `.problem` what is wrong and what to do.

    Parameters
    ----------
    log : str
        Name of the log.
    code : str or Message
        Identifier of what is wrong, or the whole message.
    what : str
        Template of what is wrong.
    remedy : str
        Template of what to do about it.
    **facts : Any
        Numbers, names and options behind the text.
    """

    def __init__(self, log: str, code: str | Message, what: str = "", remedy: str = "", /, **facts: Any) -> None:
        self.log = log
        self.problem = code if isinstance(code, Message) else Message(code, what, remedy, **facts)
        self._set_message(self.problem.about(log))


class IdentificationError(DynidError):
    """What was asked of an identification does not fit the robot or the data."""


class ControllerError(DynidError):
    """The description of a controller is wrong, or does not fit the robot or the log."""


class UnknownGeometryError(DynidError):
    """Model parameters of unknown geometry were asked of a robot that has none, or has too many."""


class ExportError(DynidError):
    """What was asked for cannot be written, or would not be the model that was identified."""


class PhysicalError(DynidError):
    """No real bodies can be found as asked for; says which link, bound or prior is in the way."""


class MeshRefusedError(DynidError):
    """A mesh of a robot file is not drawn; the text says why."""


class ParserDiedError(Exception):
    """The process that parsed a file ended before it was done; `.message` says why, in one line.

    Parameters
    ----------
    message : Message
        The reason.
    """

    def __init__(self, message: Message) -> None:
        super().__init__(str(message))
        self.message = message


class ParserFailedError(Exception):
    """The parser refused the file; the text is its own reason."""
