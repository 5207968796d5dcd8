"""A parameter as a value: text and key by its name, and what it is a parameter of."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, Literal, NoReturn

ParameterKind = Literal["inertial", "rotor", "friction", "offset", "column", "model", "gain"]


class Parameter(str):
    """Name of a parameter with its meaning: `ZZ1`, `Fv:arm`, `Fo2@3`.

    As text and as a key of a mapping it is its name.

    Parameters
    ----------
    name : str
        The name itself.
    symbol : str
        What the name begins with: `ZZ`, `Ia`, `Fv`, `OFx`, `X`.
    kind : str
        `inertial` and `rotor` (standard parameters), `friction` (and the other blocks of a joint), `offset` (of a
        channel of the force plate), `column` (of the user), `model` (of unknown geometry) or `gain` (of a drive).
    unit : str
        SI unit.
    link : str, optional
        Name of the link to which it belongs.
    joint : str, optional
        Name of the joint to which it belongs.
    log : int, optional
        Number of the log, from 1, where every log has its own; None: one for all logs.

    Examples
    --------
    >>> from dynid import load_robot
    >>> name = load_robot("gautier3").parameter_names[5]
    >>> name, name.symbol, name.unit, name.link
    ('ZZ1', 'ZZ', 'kg m^2', '1')
    """

    __slots__ = ("joint", "kind", "link", "log", "symbol", "unit")
    symbol: str
    kind: ParameterKind
    unit: str
    link: str | None
    joint: str | None
    log: int | None

    def __new__(
        cls,
        name: str,
        *,
        symbol: str,
        kind: ParameterKind,
        unit: str,
        link: str | None = None,
        joint: str | None = None,
        log: int | None = None,
    ) -> Parameter:
        """Make the value; name: without its log."""
        made = super().__new__(cls, name if log is None else f"{name}@{log}")
        for key, value in (
            ("symbol", symbol), ("kind", kind), ("unit", unit), ("link", link), ("joint", joint), ("log", log)
        ):  # fmt: skip
            object.__setattr__(made, key, value)
        return made

    def __setattr__(self, key: str, value: object) -> NoReturn:
        raise AttributeError(f"parameter '{self}' is a value; '{key}' cannot be set")

    def __delattr__(self, key: str) -> NoReturn:
        raise AttributeError(f"parameter '{self}' is a value; '{key}' cannot be deleted")

    @classmethod
    def __get_pydantic_core_schema__(cls, source: object, handler: object) -> Any:
        """Let files hold names; who reads them turns them into values with `parameters_by_name`."""
        from pydantic_core import core_schema

        return core_schema.str_schema(serialization=core_schema.to_string_ser_schema())

    def __reduce__(self) -> tuple[Any, ...]:
        """Travel between processes and into copies as it is."""
        return _create_parameter, (str(self.of_all_logs), self._identifying_fields, self.log)

    @property
    def _identifying_fields(self) -> dict[str, Any]:
        """Fields that tell parameters apart, without the log: symbol, kind, unit, link, joint."""
        return {key: getattr(self, key) for key in ("symbol", "kind", "unit", "link", "joint")}

    @property
    def label(self) -> str:
        """Label after the symbol, without the log: the joint's number (`1`), or `:arm`."""
        return str(self.of_all_logs)[len(self.symbol) :]

    @property
    def is_dissipation(self) -> bool:
        """Whether it is viscous or Coulomb friction, not negative where no other block shares its shape."""
        return self.kind == "friction" and self.symbol in ("Fv", "Fc")

    @property
    def of_all_logs(self) -> Parameter:
        """The parameter without its log: `Fo2` of `Fo2@3`."""
        return self if self.log is None else Parameter(self[: -len(f"@{self.log}")], **self._identifying_fields)

    def of_log(self, log: int) -> Parameter:
        """The parameter of one log, counted from 1: `Fo2` of log 3 is `Fo2@3`.

        Parameters
        ----------
        log : int
            Number of the log.

        Returns
        -------
        Parameter
            The name with the number of the log.
        """
        return Parameter(str(self.of_all_logs), **self._identifying_fields, log=log)


def _create_parameter(name: str, facts: dict[str, Any], log: int | None) -> Parameter:
    """Restore a pickled parameter from what `__reduce__` stored."""
    return Parameter(name, **facts, log=log)


def parameters_by_name(parameters: Iterable[Parameter], logs: int) -> dict[str, Parameter]:
    """Parameters by all names that results and their files may hold: these, and each of them in every log."""
    own = tuple(parameters)
    named: dict[str, Parameter] = {str(p): p for p in (p.of_log(log) for p in own for log in range(1, logs + 1))}
    return named | {str(p): p for p in own}
