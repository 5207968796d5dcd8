"""States of a fleet on disk: one file per robot and period, small, checksummed, written whole or not at all.

A file is a line that names format and version, the SHA-256 of the rest, the length of a JSON header, the header, and
the arrays as little-endian doubles in the order in which the header names them. Nothing in it is ever executed.
"""

from __future__ import annotations

import base64
import binascii
import hashlib
import json
import struct
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any
from urllib.parse import quote

import numpy as np

from dynid.errors import DynidError
from dynid.estimation.accumulate.factor import Block, ChannelFactor
from dynid.estimation.accumulate.one_pass import merge_neighbours
from dynid.estimation.accumulate.state import FindingsRecord, State, rebuild_findings
from dynid.messages import Message
from dynid.robot.transform import Array
from dynid.storage.files import write_bytes
from dynid.storage.records import DAMAGE, from_plain_data, pick_fields, to_plain_data

MAGIC = b"dynid fleet 1\n"
MOST_BYTES = 1_800_000
"""Bytes of the arrays of a state; blocks of time are merged until they fit."""

Data = dict[str, Any]


def write_arrays(path: Path, header: Mapping[str, Any], arrays: Iterable[Array]) -> None:
    """Write a header and arrays to a file, atomically."""
    several = [np.ascontiguousarray(array, dtype="<f8") for array in arrays]
    text = json.dumps({**header, "shapes": [list(a.shape) for a in several]}, allow_nan=False).encode()
    body = struct.pack("<Q", len(text)) + text + b"".join(a.tobytes() for a in several)
    path.parent.mkdir(parents=True, exist_ok=True)
    write_bytes(path, MAGIC + hashlib.sha256(body).digest() + body)


def read_arrays(path: Path) -> tuple[Data, list[Array]]:
    """Read what `write_arrays` wrote; DynidError where the file is damaged or of another version."""
    try:
        raw = path.read_bytes()
    except OSError as error:
        raise DynidError(
            "file_unreadable", "{path}: cannot be read: {reason}", path=path, reason=error.strerror or error,
        ) from error  # fmt: skip
    body = raw[len(MAGIC) + 32 :]
    if not raw.startswith(MAGIC) or hashlib.sha256(body).digest() != raw[len(MAGIC) : len(MAGIC) + 32]:
        what = "is damaged" if raw.startswith(MAGIC) else "is not a state of a fleet of this version"
        raise DynidError("fleet_state_damaged", "{path} {what}", "delete it: it is made again", path=path, what=what)
    try:
        (length,) = struct.unpack("<Q", body[:8])
        header = json.loads(body[8 : 8 + length])
        arrays, at = [], 8 + length
        for shape in header.pop("shapes"):
            size = int(np.prod(shape))
            arrays.append(np.frombuffer(body, dtype="<f8", count=size, offset=at).reshape(shape).astype(np.float64))
            at += 8 * size
    except (*DAMAGE, struct.error) as error:
        raise DynidError(
            "fleet_state_damaged", "{path} is damaged", "delete it: it is made again", path=path
        ) from error
    return header, arrays


def pack_numbers(values: Iterable[float]) -> str:
    """Numbers as text that is short and quickly read: doubles, little-endian, in base 64."""
    return base64.b64encode(np.array(list(values), dtype="<f8").tobytes()).decode("ascii")


def unpack_numbers(text: str) -> tuple[float, ...]:
    """Numbers from what `pack_numbers` wrote."""
    return tuple(np.frombuffer(binascii.a2b_base64(text, strict_mode=True), dtype="<f8").tolist())


def _compress(factor: ChannelFactor) -> ChannelFactor:
    """Factor with a triangle in place of more rows than columns."""
    if len(factor.R) <= factor.R.shape[1]:
        return factor
    return replace(factor, R=np.asarray(np.linalg.qr(factor.R, mode="r")))


def reduce_state(state: State, most: int = MOST_BYTES) -> State:
    """State without what only checks of residuals need, blocks merged until their arrays take few bytes."""
    blocks = [replace(block, head=(), tail=(), noise=(), unsettled=()) for block in state.blocks]
    while True:
        blocks = [replace(block, factors=tuple(map(_compress, block.factors))) for block in blocks]
        size = sum(_stored_size(factor) for block in blocks for factor in block.factors)
        if size <= 0.85 * most or len(blocks) <= state.logs:
            break
        blocks = merge_neighbours(blocks)
    settling = tuple(tuple(map(_compress, factors)) for factors in state.settling)
    floor = tuple(tuple(map(_compress, factors)) for factors in state.floor)
    size += sum(_stored_size(factor) for factors in settling for factor in factors)
    extra = sum(_stored_size(factor) for factors in floor for factor in factors)
    floor = floor if size + extra <= most else ()
    return replace(
        state, blocks=tuple(blocks), settling=settling, floor=floor, kept=(), loop=(), torques=(), kept_torques=()
    )


def _is_triangle(R: Array) -> bool:
    """Whether a factor is an upper triangle."""
    return R.shape[0] == R.shape[1] and not np.tril(R, -1).any()


def _stored_size(factor: ChannelFactor) -> int:
    """Bytes of a factor in a file."""
    k = factor.R.shape[1]
    return 4 * k * (k + 1) if _is_triangle(factor.R) else factor.R.nbytes


def pack_state(state: State) -> tuple[Data, list[Array]]:
    """Header and arrays of a state, without its equation."""
    arrays: list[Array] = []

    def pack(factors: tuple[ChannelFactor, ...]) -> list[Any]:
        rows = []
        for factor in factors:
            triangle = _is_triangle(factor.R)
            arrays.append(factor.R[np.triu_indices(len(factor.R))] if triangle else factor.R)
            rows.append([factor.count, factor.total, factor.R.shape[1] if triangle else 0])
        return rows

    findings = [to_plain_data(FindingsRecord, _record_findings(found)) for found in state.findings]
    header = {
        "blocks": [[block.log, block.start, block.stop, pack(block.factors)] for block in state.blocks],
        "settling": [pack(factors) for factors in state.settling],
        "floor": [pack(factors) for factors in state.floor],
        "findings": findings, "motion_noise": state.motion_noise, "noise_unsure": state.noise_unsure,
    }  # fmt: skip
    return header, arrays


def _record_findings(found: Any) -> FindingsRecord:
    """Findings of a log for a file."""
    return FindingsRecord(**pick_fields(FindingsRecord, found))


def unpack_state(plan: State, header: Data, arrays: list[Array]) -> State:
    """State of an equation from header and arrays."""
    left = iter(arrays)
    widths = [len(channel.columns) + 1 for channel in plan.equation.channels]

    def unpack(rows: list[Any]) -> tuple[ChannelFactor, ...]:
        factors = []
        for (count, total, width), expected in zip(rows, widths, strict=True):
            R = next(left)
            if width:
                square = np.zeros((width, width))
                square[np.triu_indices(width)] = R
                R = square
            if R.ndim != 2 or R.shape[1] != expected or not np.isfinite(R).all():
                raise ValueError("factors do not have the equation's columns")
            factors.append(ChannelFactor(R, int(count), float(total)))
        return tuple(factors)

    blocks = tuple(Block(int(log), start, stop, unpack(rows)) for log, start, stop, rows in header["blocks"])
    settling = tuple(unpack(rows) for rows in header["settling"])
    floor = tuple(unpack(rows) for rows in header["floor"])
    findings = tuple(rebuild_findings(from_plain_data(FindingsRecord, found)) for found in header["findings"])
    if len(findings) != len(settling) or any(not 0 <= block.log < len(settling) for block in blocks):
        raise ValueError("blocks and logs do not belong together")
    return replace(
        plan, blocks=blocks, settling=settling, floor=floor, findings=findings,
        motion_noise=float(header["motion_noise"]), noise_unsure=float(header["noise_unsure"]),
    )  # fmt: skip


@dataclass(frozen=True, slots=True, eq=False)
class PeriodResult:
    """What one period of one robot gave: parameters with deviations, verdict, and logs that were refused.

    logs: SHA-256 of those that were used; refused: log, code and reason. parameters is empty where no log was usable.
    """

    robot: str
    period: str
    key: str
    logs: tuple[str, ...]
    names: tuple[str, ...]
    values: tuple[float, ...]
    sigma: tuple[float, ...]
    verdict: str
    seconds: float
    refused: tuple[tuple[str, str, str], ...]
    temperature: float | None = None

    def record(self) -> Data:
        """Plain data for a file."""
        return {name: getattr(self, name) for name in self.__slots__}

    @staticmethod
    def from_record(data: Data) -> PeriodResult:
        """Build from plain data."""
        rows = {**data, "refused": tuple((str(a), str(b), str(c)) for a, b, c in data["refused"])}
        for name in ("logs", "names", "values", "sigma"):
            rows[name] = tuple(rows[name])
        return PeriodResult(**rows)


@dataclass(frozen=True, slots=True)
class Store:
    """The folder of a fleet."""

    folder: Path

    def state_file(self, robot: str, period: str, key: str) -> Path:
        """File of one robot and period, addressed by what it was made from."""
        return self.folder / "states" / quote(robot, safe=" ") / f"{quote(period, safe=' ')}.{key[:24]}.state"

    def write_period(self, result: PeriodResult, state: State | None) -> None:
        """Write the state and the result of one period."""
        header, arrays = ({}, []) if state is None else pack_state(state)
        whole = {"result": result.record(), "state": None if state is None else header}
        write_arrays(self.state_file(result.robot, result.period, result.key), whole, arrays)

    def read_period(self, robot: str, period: str, key: str, plan: State) -> tuple[PeriodResult, State | None]:
        """Read the state and the result of one period."""
        path = self.state_file(robot, period, key)
        header, arrays = read_arrays(path)
        try:
            result = PeriodResult.from_record(header["result"])
            state = None if header["state"] is None else unpack_state(plan, header["state"], arrays)
        except (*DAMAGE, StopIteration) as error:
            raise DynidError(
                "fleet_state_damaged", "{path} is damaged: {reason}", "delete it: it is made again", path=path,
                reason=error,
            ) from error  # fmt: skip
        return result, state

    def has_period(self, robot: str, period: str, key: str) -> bool:
        """Whether a period was computed from the same logs, robot and options."""
        return self.state_file(robot, period, key).is_file()


def refused_row(log: str, message: Message) -> tuple[str, str, str]:
    """Log, code and text of the message why it was refused, without the log's name."""
    return log, message.code, " ".join(str(message).split()).removeprefix(f"{log}: ")
