"""The same samples count once, whatever file or part they come from; what was trained on validates nothing."""

from __future__ import annotations

import gzip
import os
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from numpy.testing import assert_allclose

import dynid
from dynid.errors import IdentificationError, LogError
from dynid.logs.content import KEPT, Content, ContentMarker, find_recordings_alike
from dynid.logs.log import Samples
from dynid.storage.files import hash_file
from fourier import fourier_motion
from loads import LOAD, carrying

PLAIN = ("viscous", "coulomb", "offset")
ROBOT = dynid.load_robot("gautier3")
OPTIONS: dict[str, Any] = {"friction": PLAIN, "cutoff": 10.0}


def recorded(seed: int, robot: dynid.Robot = ROBOT, duration: float = 12.0) -> dynid.Log:
    return dynid.simulate(robot, fourier_motion(robot, seed=seed, duration=duration), noise=0.05, seed=seed)


def written(log: dynid.Log, path: Path) -> Path:
    assert log.tau is not None
    names = ["t", *(f"{c}{j}" for c in ("q", "tau") for j in (1, 2, 3))]
    rows = np.column_stack([log.t, log.q, log.tau])
    np.savetxt(path, rows, delimiter=",", header=",".join(names), comments="", fmt="%.17g")
    return path


def copies(path: Path) -> dict[str, Path]:
    """The same recording in other files."""
    import polars as pl

    copy, packed, parquet = (path.with_name(name) for name in ("copy.csv", "packed.csv.gz", "columns.parquet"))
    copy.write_bytes(path.read_bytes())
    packed.write_bytes(gzip.compress(path.read_bytes()))
    pl.read_csv(path).write_parquet(parquet)
    return {"itself": path, "copy": copy, "gzip": packed, "parquet": parquet}


@pytest.mark.parametrize("kind", ["itself", "copy", "gzip", "parquet"])
def test_a_log_that_is_given_twice_counts_once(kind: str, tmp_path: Path) -> None:
    one, other = written(recorded(0), tmp_path / "one.csv"), written(recorded(1), tmp_path / "other.csv")
    again = copies(one)[kind]
    for offsets in (False, True):
        alone = dynid.identify(ROBOT, [one, other], offsets_per_log=offsets, **OPTIONS)
        twice = dynid.identify(ROBOT, [one, again, other], offsets_per_log=offsets, **OPTIONS)
        assert twice.names == alone.names
        assert_allclose(twice.values, alone.values, rtol=1e-12)
        assert_allclose(twice.sigma, alone.sigma, rtol=1e-12)
        assert len(twice.findings) == 2
        (warning,) = set(twice.warnings) - set(alone.warnings)
        assert warning.startswith(str(again))
        assert warning.endswith("used once")
        assert ("given twice" if kind == "itself" else str(one)) in warning


def test_parts_that_overlap_count_once() -> None:
    log = recorded(0)
    whole = dynid.identify(ROBOT, log.between(0.0, 10.0), **OPTIONS)
    parts = dynid.identify(ROBOT, [log.between(0.0, 6.0), log.between(3.0, 10.0)], **OPTIONS)
    apart = dynid.identify(ROBOT, [log.between(0.0, 6.0), log.between(6.0, 10.0)], **OPTIONS)
    assert not [w for w in (*whole.warnings, *apart.warnings) if "used once" in w]
    assert len([w for w in parts.warnings if "used once" in w]) == 1
    seconds = [sum(factor[0].count for factor in result.factors) for result in (whole, parts, apart)]
    assert 0.85 * seconds[0] < seconds[1] <= seconds[0]
    assert np.median(parts.sigma / apart.sigma) > 0.95


def test_a_copy_of_a_part_in_memory_is_found() -> None:
    log = recorded(0)
    assert log.tau is not None
    cut = dynid.Log(100.0 + log.t[300:700], log.q[300:700].copy(), tau=log.tau[300:700].copy(), name="cut out")
    only = dynid.Log(log.t, log.q, tau=log.tau, name="whole")
    both = dynid.identify(ROBOT, [only, cut], **OPTIONS)
    alone = dynid.identify(ROBOT, only, **OPTIONS)
    assert "cut out holds the same samples as whole: they are used once" in both.warnings
    assert_allclose(both.sigma, alone.sigma, rtol=1e-12)


@pytest.mark.parametrize("kind", ["itself", "copy", "gzip", "parquet"])
def test_the_training_log_is_no_validation(kind: str, tmp_path: Path) -> None:
    one = written(recorded(0), tmp_path / "one.csv")
    again = copies(one)[kind]
    alone = dynid.identify(ROBOT, one, **OPTIONS)
    checked = dynid.identify(ROBOT, one, validate=again, **OPTIONS)
    assert checked.validation.source == alone.validation.source
    assert_allclose(checked.validation.nrmse, alone.validation.nrmse, rtol=1e-12)
    told = [w for w in checked.warnings if w not in alone.warnings]
    assert told[0].startswith(f"{again} does not count as validation")
    assert "held-out stretches" in told[1]


def test_what_is_new_of_a_validation_log_validates() -> None:
    log, other = recorded(0), recorded(1)
    known, rest = log.between(0.0, 6.0), log.between(4.0, 12.0)
    result = dynid.identify(ROBOT, known, validate=rest, **OPTIONS)
    assert any("% of" in w and "does not count as validation" in w for w in result.warnings)
    assert result.validation.source == rest.name
    mixed = dynid.identify(ROBOT, log, validate=[log, other], **OPTIONS)
    clean = dynid.identify(ROBOT, log, validate=other, **OPTIONS)
    assert_allclose(mixed.validation.nrmse, clean.validation.nrmse, rtol=1e-12)
    assert not any("does not count" in w for w in clean.warnings)
    assert not any("does not count" in w for w in dynid.identify(ROBOT, log, validate=0.3, **OPTIONS).warnings)


def test_a_state_that_is_merged_twice_counts_once(tmp_path: Path) -> None:
    first = dynid.collect_state(ROBOT, recorded(0), **OPTIONS)
    second = dynid.collect_state(ROBOT, recorded(1), like=first)
    second.save(tmp_path / "second.json")
    again = dynid.State.load(tmp_path / "second.json")
    twice, once = dynid.identify_states([first, second, again]), dynid.identify_states([first, again])
    assert_allclose(twice.sigma, once.sigma, rtol=1e-10)
    assert_allclose(twice.values, once.values, rtol=1e-10)
    assert [w for w in twice.warnings if "used once" in w]
    assert not [w for w in once.warnings if "used once" in w]
    doubled = dynid.collect_state(ROBOT, [recorded(0), recorded(0)], **OPTIONS)
    doubled.save(tmp_path / "doubled.json")
    warnings = dynid.identify_states(dynid.State.load(tmp_path / "doubled.json")).warnings
    assert [w for w in warnings if "used once" in w]


def test_a_run_with_the_payload_is_not_the_one_without(tmp_path: Path) -> None:
    one = written(recorded(0), tmp_path / "one.csv")
    copy = copies(one)["copy"]
    loaded = recorded(1, carrying(ROBOT, LOAD))
    with pytest.raises(IdentificationError, match=r"copy\.csv, with the payload, holds samples of .*one\.csv"):
        dynid.identify_payload(ROBOT, copy, one, friction=PLAIN)
    with pytest.raises(IdentificationError, match="holds samples of"):
        dynid.identify_gains(ROBOT, copy, one, LOAD, friction=PLAIN)
    twice = dynid.identify_payload(ROBOT, loaded, [one, copy], **OPTIONS)
    once = dynid.identify_payload(ROBOT, loaded, one, **OPTIONS)
    assert_allclose(twice.values, once.values, rtol=1e-9)
    assert any("used once" in w for w in twice.warnings)
    results = [dynid.identify(ROBOT, path, **OPTIONS) for path in (one, copy)]
    with pytest.raises(IdentificationError, match="from the same logs"):
        dynid.payload_between(*results)


def test_comparisons_need_data_that_none_has_seen() -> None:
    log = recorded(0, duration=6.0)
    with pytest.raises(IdentificationError, match=r"does not count as validation.*share to hold out"):
        dynid.compare_estimators(ROBOT, log, validate=dynid.Log(log.t, log.q, tau=log.tau), friction=PLAIN, cutoff=10.0)


@pytest.mark.parametrize("way", ["replaced", "rewritten", "longer", "gone"])
@pytest.mark.parametrize("kind", ["itself", "parquet"])
def test_a_file_that_changes_while_it_is_read_is_an_error(way: str, kind: str, tmp_path: Path) -> None:
    (tmp_path / "new").mkdir()
    path = copies(written(recorded(1), tmp_path / "one.csv"))[kind]
    new = copies(written(recorded(2), tmp_path / "new" / "one.csv"))[kind]

    def meddle(text: str, _: float) -> None:  # the validation log was opened, and is read later
        if not text.startswith("reading"):
            return
        if way == "replaced" and new.exists():
            os.replace(new, path)
        elif way == "rewritten":
            path.write_bytes(new.read_bytes())
        elif way == "longer":
            path.write_bytes(path.read_bytes() + b"\n")
        elif way == "gone":
            path.unlink(missing_ok=True)

    problem = "cannot be opened: No such file" if way == "gone" else "the file has changed since it was opened"
    with pytest.raises(LogError, match=f"{path.name}: {problem}"):
        dynid.identify(ROBOT, recorded(0), validate=path, on_progress=meddle, **OPTIONS)


def test_a_file_that_changes_in_the_middle_of_a_pass_is_an_error(tmp_path: Path) -> None:
    path = written(recorded(0), tmp_path / "one.csv")
    chunks = dynid.read_log(path, ROBOT).chunks(100)
    next(chunks)
    written(recorded(1), path)
    with pytest.raises(LogError, match="has changed since it was opened"):
        list(chunks)


def test_the_hash_is_that_of_the_samples_that_were_used(tmp_path: Path) -> None:
    one, other = written(recorded(0), tmp_path / "one.csv"), written(recorded(1), tmp_path / "other.csv")
    expected, before = dynid.identify(ROBOT, one, **OPTIONS), hash_file(one)

    def meddle(_: str, __: float) -> None:  # a short log has been read by now
        if other.exists():
            os.replace(other, one)

    result = dynid.identify(ROBOT, one, on_progress=meddle, **OPTIONS)
    assert_allclose(result.values, expected.values, rtol=1e-12)
    assert result.origin.inputs == (before,)
    log = dynid.read_log(one, ROBOT)
    written(recorded(2), one)
    with pytest.raises(LogError, match="has changed since it was opened"):
        dynid.identify(ROBOT, log, **OPTIONS)


def content(q: np.ndarray, tau: np.ndarray, rows: int = 1000) -> Content:
    marking = ContentMarker()
    samples = Samples(np.arange(len(q)) / 100.0, q, None, None, tau)
    for start in range(0, len(q), rows):
        marking.add_samples(samples.select_rows(slice(start, start + rows)))
    return marking.content()


def test_marks_do_not_depend_on_chunks_nor_on_held_rows() -> None:
    q, tau = np.random.default_rng(0).standard_normal((2, 20_000, 3))
    whole = content(q, tau, 20_000)
    assert len(whole.marks) == KEPT
    for rows in (1, 15, 16, 17, 5000):
        some = content(q[:3000], tau[:3000], rows)
        assert np.array_equal(some.marks, content(q[:3000], tau[:3000]).marks)
        held = content(np.repeat(q[:3000], 3, axis=0), np.repeat(tau[:3000], 3, axis=0), rows)
        assert np.array_equal(some.marks, held.marks)
    assert content(q[:9], tau[:9]).shared_intervals(content(q[:9], tau[:9], 2)) == [(-np.inf, np.inf)]
    assert content(q[:9], tau[:9]).shared_intervals(content(q[:10], tau[:10])) == []
    assert content(q[5000:], tau[5000:]).shared_intervals(content(q[:5000], tau[:5000])) == []


def test_standstill_with_coarse_sensors_is_nothing_in_common() -> None:
    """Two recordings of one joint at rest at the same place: an encoder that flickers, currents of few levels."""
    rng = np.random.default_rng(0)
    pair = []
    for seed in (1, 2):
        rest = 0.5 + 1e-3 * (rng.random((4000, 1)) < 0.05)
        move = np.round(0.5 + np.sin(0.01 * seed * np.arange(3000))[:, None], 3)
        q = np.concatenate([rest, move, rest[::-1]])
        pair.append(content(q, np.round(5.0 * np.cos(q) + 0.02 * rng.standard_normal(q.shape), 2)))
    assert pair[0].shared_intervals(pair[1]) == pair[1].shared_intervals(pair[0]) == []


def test_recordings_alike_are_those_that_share_samples() -> None:
    """Of many recordings, all pairs that share intervals are found, in order, without a look at every pair."""
    rng = np.random.default_rng(3)
    pools = rng.integers(0, 1 << 60, (8, 40), dtype=np.uint64)
    contents: list[Content | None] = [None]
    for _ in range(60):
        some = [pool[: rng.integers(5, 40)] for pool in pools[rng.random(8) < 0.2]]
        marks = np.unique(np.concatenate([*some, rng.integers(0, 1 << 60, 10, dtype=np.uint64)]))
        contents.append(Content(marks, np.sort(rng.uniform(0.0, 9.0, len(marks)))))
    contents.append(contents[5])
    found = {(place, other) for place, others in find_recordings_alike(contents, first=20) for other in others}
    shared = {
        (k, h)
        for k, a in enumerate(contents)
        for h, b in enumerate(contents[:k])
        if k >= 20 and a is not None and b is not None and np.isin(a.marks, b.marks).any()
    }
    assert found == shared
    assert 100 < len(shared) < 1500
    assert (61, 5) in shared
    for k, a in enumerate(contents[20:], start=20):
        for h, b in enumerate(contents[:k]):
            assert a is None or b is None or not a.shared_intervals(b) or (k, h) in found
    assert [next(others) for _, others in find_recordings_alike([contents[5]] * 2000)] == [0] * 1999
