"""What can go wrong on the user's side: one root, children that carry the facts."""

from __future__ import annotations

from collections.abc import Sequence

FIX_THE_BASE = "to fix its base, take the free joint out of the file (MJCF), or load it without floating_base"
"""Remedy where a robot floats."""


class DynidError(Exception):
    """The root of every error that a user can cause; its text says what, where and the remedy."""

    def __reduce__(self) -> tuple[object, ...]:
        """Travel between processes as it is: children take facts, not the text, so that pickle cannot call them."""
        return DynidError.__new__, (type(self), *self.args), self.__dict__


class RobotFileError(DynidError):
    """A robot file has mistakes; all of them are listed, each with its place and remedy."""

    def __init__(self, file: str, problems: Sequence[str]) -> None:
        self.file, self.problems = file, tuple(problems)
        super().__init__("\n".join(f"{file}: {problem}" for problem in self.problems))


class UnknownRobotError(DynidError):
    """Neither a file nor the name of a bundled robot."""

    def __init__(self, source: str, bundled: Sequence[str], near: str = "") -> None:
        self.source, self.bundled = source, tuple(bundled)
        others = (
            "; dynid robots lists the bundled ones" if near else f", and the bundled robots are {', '.join(bundled)}"
        )
        super().__init__(f"no robot '{source}': there is no such file{near}{others}")


class ExpressionError(DynidError):
    """A length or angle in a robot file is not an expression in the file's symbols."""

    def __init__(self, text: str, reason: str) -> None:
        self.text, self.reason = text, reason
        super().__init__(f"cannot read the expression '{text}': {reason}")


class MotionError(DynidError):
    """The arrays of a motion do not describe a motion of this robot."""


class ModelError(DynidError):
    """A measurement model was asked for what it does not have."""


class UndecidedError(ModelError):
    """The exact method cannot decide a rank, whatever the number of digits; samples may (method='qr')."""


class LoopError(DynidError):
    """A closed loop cannot be closed at a sample; `where` says so, without a remedy."""

    def __init__(self, sample: int, residual: float, frames: str, time: float | None = None) -> None:
        self.sample, self.residual = sample, residual
        self._say(
            f"the loop {frames} cannot close at sample {_instant(sample, time)}: {residual:.3g} m or rad are left",
            "keep the active joints inside the mechanism's workspace",
        )

    def _say(self, where: str, remedy: str) -> None:
        self.where = where
        DynidError.__init__(self, f"{where}; {remedy}")


class SingularPathError(LoopError):
    """A sample can be reached only through a singular position, beyond which the assembly mode is not determined."""

    def __init__(self, sample: int, frames: str, time: float | None = None) -> None:
        self.sample, self.residual = sample, 0.0
        self._say(
            f"the loop {frames} passes a singular position between its stated assembly and sample "
            f"{_instant(sample, time)}, beyond which its assembly mode is not determined",
            "keep the motion on one side of it, state start and at there, or write a parallelogram as [[coupling]]",
        )


class DeadPointError(LoopError):
    """A closed loop is at a dead point, where the active joints do not determine the passive ones."""

    def __init__(self, sample: int, frames: str, time: float | None = None) -> None:
        self.sample, self.residual = sample, 0.0
        self._say(
            f"the loop {frames} is at a dead point at sample {_instant(sample, time)}: the passive joints' velocities "
            "are not determined there",
            "leave such samples out",
        )


def _instant(sample: int, time: float | None) -> str:
    return f"{sample}" if time is None else f"{sample} (t = {time:.6g} s)"


class ExcitationError(DynidError):
    """No motion can be designed as asked for."""


class LogError(DynidError):
    """A log cannot be used as it is; says which, what is wrong and the remedy."""

    def __init__(self, log: str, problem: str) -> None:
        self.log, self.problem = log, problem
        super().__init__(f"{log}: {problem}")


class IdentificationError(DynidError):
    """What was asked of an identification does not fit the robot or the data."""


class UnknownGeometryError(DynidError):
    """Model parameters without known geometry were asked of a robot that has none, or too many."""


class ExportError(DynidError):
    """What was asked for cannot be written, or would not be the model that was identified."""


class PhysicalError(DynidError):
    """No real bodies can be found as asked for; says which link, bound or prior is in the way."""


class MeshRefusedError(DynidError):
    """A mesh of a robot file is not drawn; the text says why."""
