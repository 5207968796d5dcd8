"""Files made to crash, hang or fill memory, and to steer a terminal: one line, in time, whatever they hold."""

from __future__ import annotations

import contextlib
import gzip
import os
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from campaign import files, fuzz

from dynid import DynidError, Identification, load_robot, read_log
from dynid.excitation.cell import robot_solids
from dynid.logs.filtering import Lowpass
from dynid.logs.readers import csv_text
from dynid.messages import Message, printable
from dynid.storage.files import read_toml

MESH = '<collision><geometry><mesh filename="{}"/></geometry></collision></link>\n  <joint name="a"'


@pytest.fixture
def arm(tmp_path: Path) -> Path:
    (tmp_path / "arm.toml").write_text(files.TABLE)
    return tmp_path / "arm.toml"


def _log_text(change: Callable[[list[str]], list[str]]) -> str:
    return "\n".join(change(files.text(files.columns(np.random.default_rng(0))).decode().split("\n")))


# Parsers written in C and C++.


@pytest.mark.parametrize("share", [0.3, 0.6, 0.97])
@pytest.mark.parametrize("kind", ["ply", "stl", "obj"])
def test_truncated_meshes_are_a_warning(kind: str, share: float, tmp_path: Path) -> None:
    raw = fuzz._MESHES[kind]
    (tmp_path / f"m.{kind}").write_bytes(raw[: int(share * len(raw))])
    (tmp_path / "arm.urdf").write_text(files.URDF.replace('</link>\n  <joint name="a"', MESH.format(f"m.{kind}"), 1))
    robot = load_robot(tmp_path / "arm.urdf")
    solids = robot_solids(robot, robot.limits)
    assert solids.unread is None or ("\n" not in solids.unread and solids.unread.code == "self_collision_not_checked")


@pytest.mark.parametrize("kind", ["ply", "stl", "obj"])
def test_whole_meshes_are_read(kind: str, tmp_path: Path) -> None:
    (tmp_path / f"m.{kind}").write_bytes(fuzz._MESHES[kind])
    (tmp_path / "arm.urdf").write_text(files.URDF.replace('</link>\n  <joint name="a"', MESH.format(f"m.{kind}"), 1))
    robot = load_robot(tmp_path / "arm.urdf")
    (solid,) = robot_solids(robot, robot.limits).solids
    np.testing.assert_allclose(np.ptp(solid.points, axis=0), 0.1, atol=1e-6)  # turned by 1.5708


def test_a_pipe_named_as_a_mesh_is_not_waited_for(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "m.stl")
    (tmp_path / "arm.urdf").write_text(files.URDF.replace('</link>\n  <joint name="a"', MESH.format("m.stl"), 1))
    robot = load_robot(tmp_path / "arm.urdf")
    assert robot_solids(robot, robot.limits).unread is not None


def test_damaged_mat_files_are_refused_in_words(tmp_path: Path, arm: Path) -> None:
    """Of 1,500 such files, 15 crashed scipy's reader; these seeds are among them and their neighbours."""
    robot = load_robot(arm)
    for seed in range(40):
        (tmp_path / "x.mat").write_bytes(fuzz._damaged_mat(np.random.default_rng(seed), tmp_path))
        with contextlib.suppress(DynidError):
            read_log(tmp_path / "x.mat", robot)


def test_one_group_of_rows_is_read_in_slices(tmp_path: Path, arm: Path) -> None:
    """A Parquet file of one group gives the numbers of the same file in groups of 1000 rows."""
    import polars as pl

    from dynid.logs.readers import parquet
    from dynid.logs.readers.table import Wanted

    n = 30_000
    wave = np.sin(np.arange(n) / 30.0)
    frame = pl.DataFrame({"t": np.arange(n) / 100.0, **dict.fromkeys(("q1", "q2", "tau1", "tau2"), wave)})
    found = []
    for rows in (n, 1000):
        frame.write_parquet(tmp_path / "log.parquet", row_group_size=rows)
        table = parquet.open_parquet(tmp_path / "log.parquet")
        wanted = tuple(Wanted(name) for name in frame.columns)
        before, parquet._MOST_VALUES = parquet._MOST_VALUES, 5 * 4096
        try:
            parts = [dict(part) for part in table.batches(wanted, 1024)]
        finally:
            parquet._MOST_VALUES = before
        assert max(len(part["t"]) for part in parts) <= 1024
        found.append(np.concatenate([part["tau2"] for part in parts]))
    np.testing.assert_array_equal(found[0], frame["tau2"].to_numpy())
    np.testing.assert_array_equal(found[0], found[1])


# Cost grows with the size of a file, not with its square.


def _seconds(work: Callable[[], object]) -> float:
    best = np.inf
    for _ in range(3):
        start = time.process_time()
        try:
            work()
        except DynidError:
            pass
        best = min(best, time.process_time() - start)
    return best


@pytest.mark.parametrize(
    "work",
    [
        lambda n: csv_text._strip_cells(b"1,2" + b" " * n + b"x,3\n", ","),
        lambda n: csv_text._strip_cells((b"1" + b" " * 50 + b"x,") * (n // 50), ","),
        lambda n: csv_text._strip_cells(b"1,2" + b"\t " * (n // 2) + b"x,3\n", ","),
        lambda n: csv_text._drop_blank_lines(b"1,2\n" + b" \n" * n + b" " * n + b"3,4\n"),
        lambda n: csv_text.parse_clock_time("9" * n + "x"),
        lambda n: csv_text.split_line('"' * n, ","),
        lambda n: printable("\x1b\u202e" * n),
        lambda n: Message("x", "{text}", text="\n" * n),
    ],
)
def test_work_on_text_is_linear(work: Callable[[int], object]) -> None:
    """Four times the text costs at most nine times as much (linear: 4, quadratic: 16), beyond a millisecond."""
    n = 40_000
    assert _seconds(lambda: work(4 * n)) <= 9.0 * _seconds(lambda: work(n)) + 1e-3


@pytest.mark.parametrize(
    "change",
    [
        lambda lines: [lines[0] + "," + "." * 130_000, *lines[1:]],
        lambda lines: [lines[0] + "," + "a." * 65_000, *lines[1:]],
        lambda lines: [lines[0] + ", a" + " " * 200_000 + "x", *lines[1:]],
        lambda lines: [lines[0], lines[1] + " " * 200_000 + "x", *lines[2:]],
        lambda lines: [",".join([lines[0], *(f"c{k}" for k in range(50_000))]), *lines[1:]],
    ],
)
def test_monstrous_headers_and_cells_are_refused_at_once(
    change: Callable[[list[str]], list[str]], tmp_path: Path, arm: Path
) -> None:
    (tmp_path / "log.csv").write_text(_log_text(change))
    start = time.process_time()
    with pytest.raises(DynidError) as refused:
        read_log(tmp_path / "log.csv", load_robot(arm))
    assert time.process_time() - start < 10.0  # 40 s and more before
    assert len(str(refused.value)) < 1000
    assert "\n" not in str(refused.value)


def test_tabs_around_cells_are_blanks_and_no_message_repeats_a_long_cell(tmp_path: Path, arm: Path) -> None:
    """A cell with 150,000 tabs behind it was a message of 400,000 characters."""
    robot = load_robot(arm)
    (tmp_path / "log.csv").write_text(_log_text(lambda lines: lines))
    whole = read_log(tmp_path / "log.csv", robot)
    for mark in ("\t", "\t" * 150_000, " \t"):
        lines = _log_text(lambda lines: lines).split("\n")
        (tmp_path / "tabs.csv").write_text("\n".join([*lines[:3], lines[3] + mark, *lines[4:]]))
        np.testing.assert_array_equal(read_log(tmp_path / "tabs.csv", robot).q, whole.q)
    (tmp_path / "x.csv").write_text(_log_text(lambda lines: [*lines[:3], lines[3] + "\x0b" * 150_000, *lines[4:]]))
    with pytest.raises(DynidError, match="line") as refused:
        read_log(tmp_path / "x.csv", robot)
    assert len(str(refused.value)) < 2000


def test_a_megabyte_of_gzipped_blank_lines_is_read_in_bounded_memory(tmp_path: Path, arm: Path) -> None:
    import resource

    (tmp_path / "log.csv.gz").write_bytes(gzip.compress(b"t,q1,q2,tau1,tau2\n" + b"\n" * 100_000_000, 1))
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    with pytest.raises(DynidError, match="no samples"):
        read_log(tmp_path / "log.csv.gz", load_robot(arm))
    assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before < 400_000  # kB; 1.9 GB before


def test_columns_above_the_limit_name_the_figure_and_the_option(
    tmp_path: Path, arm: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "log.csv").write_text(_log_text(lambda lines: lines))
    monkeypatch.setenv("DYNID_MAX_COLUMNS", "4")
    with pytest.raises(DynidError, match="5 columns in it, above the limit of 4; set DYNID_MAX_COLUMNS"):
        read_log(tmp_path / "log.csv", load_robot(arm))


# Robot files.


def test_includes_that_multiply_each_other_are_refused(tmp_path: Path) -> None:
    """Seven files, each of which includes the next ten times: more than 90 s before."""
    for k in range(7):
        inside = f'<include file="{k + 1}.xml"/>' * 10 if k < 6 else '<geom size="1"/>'
        (tmp_path / f"{k}.xml").write_text(f"<mujoco><worldbody><body>{inside}</body></worldbody></mujoco>")
    start = time.process_time()
    with pytest.raises(DynidError, match="files are included"):
        load_robot(tmp_path / "0.xml")
    assert time.process_time() - start < 10.0


@pytest.mark.parametrize("tag", ["replicate", "composite", "flexcomp"])
def test_elements_that_mujoco_would_multiply_are_counted(tag: str, tmp_path: Path) -> None:
    part = f'<{tag} count="1000000"><geom size="1"/></{tag}>'
    (tmp_path / "arm.xml").write_text(files.MJCF.replace('<body name="two"', f'{part}<body name="two"'))
    with pytest.raises(DynidError, match="DYNID_MAX_ELEMENTS"):
        load_robot(tmp_path / "arm.xml")


@pytest.mark.parametrize("place", ["/etc/passwd", "../../../../../../../../../../etc/passwd"])
def test_meshes_of_an_mjcf_stay_in_the_folders_of_the_robot(place: str, tmp_path: Path) -> None:
    pytest.importorskip("mujoco")
    text = files.MJCF.replace("<worldbody>", f'<asset><mesh name="m" file="{place}"/></asset><worldbody>')
    text = text.replace('<inertial pos="0 0 0" mass="2" diaginertia="0.1 0.1 0.1"/>', '<geom type="mesh" mesh="m"/>')
    (tmp_path / "arm.xml").write_text(text)
    robot = load_robot(tmp_path / "arm.xml")
    (note,) = (note for note in robot.notes if note.code == "shape_inertias_unknown")
    assert "outside of" in note


@pytest.mark.parametrize("mass", ["1e16", "1e300"])
def test_masses_that_no_robot_has_are_refused(mass: str, tmp_path: Path) -> None:
    """A result with one could be written, and not be read again."""
    (tmp_path / "arm.toml").write_text(files.TABLE.replace("mass = 3.0", f"mass = {mass}"))
    with pytest.raises(DynidError) as refused:
        load_robot(tmp_path / "arm.toml")
    assert refused.value.code == "value_too_large"


def test_joints_above_the_limit_name_the_option(arm: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("DYNID_MAX_JOINTS", "1")
    with pytest.raises(DynidError, match="2 joints in it, above the limit of 1; set DYNID_MAX_JOINTS"):
        load_robot(arm)


# What reaches the terminal.

NASTY = "a\x1b[2J\u202eb\u2028c\x07\rd\n\x9be"


def test_names_from_files_reach_the_terminal_as_escapes(tmp_path: Path, arm: Path) -> None:
    assert printable(NASTY).isprintable()
    message = Message("x", "{name}: {names:3}", name=NASTY, names=[NASTY])
    assert message.isprintable()
    assert message.about(NASTY).isprintable()
    log = tmp_path / "log.csv"
    raw = files.text(files.columns(np.random.default_rng(0)))
    log.write_bytes(raw.replace(b"0.02,", b"0.02\x1b]0;x\x07,", 1))
    with pytest.raises(DynidError) as refused:
        read_log(log, load_robot(arm))
    assert str(refused.value).isprintable()


def _dynid(*words: str, **environment: str) -> subprocess.CompletedProcess[str]:
    """Run the command in a process of its own."""
    command = [sys.executable, "-c", "from dynid.cli import main; main()", *words]
    paths = os.pathsep.join(path for path in sys.path if path)
    inherited = {key: value for key, value in os.environ.items() if key in ("PATH", "TMPDIR")}
    return subprocess.run(
        command, env={**inherited, "PYTHONPATH": paths, **environment}, capture_output=True, text=True, check=False
    )


def test_a_command_works_without_home_in_the_c_locale_with_odd_thread_counts(arm: Path, tmp_path: Path) -> None:
    done = _dynid("base", str(arm), LANG="C", LC_ALL="C", DYNID_THREADS="9" * 5000, HOME=str(tmp_path / "missing"))
    assert done.returncode == 0, done.stderr
    assert done.stderr == ""


def test_full_disks_and_long_names_are_one_line(arm: Path) -> None:
    for place in ("/dev/full", f"/tmp/{'x' * 300}.json", "/proc/nothing/x.json"):
        done = _dynid("base", str(arm), "--json", place)
        assert done.returncode == 2
        assert done.stderr.count("\n") == 1, done.stderr


# Devices and pipes in place of files, and numbers that only a header claims.


def test_devices_and_pipes_in_place_of_files_are_one_line(tmp_path: Path) -> None:
    """A device may never end: 18 s and 7 GB before."""
    os.mkfifo(tmp_path / "pipe.toml")
    for read, place in (
        (load_robot, "/dev/zero"),
        (load_robot, str(tmp_path / "pipe.toml")),
        (Identification.load, "/dev/zero"),
        (lambda place: read_toml(Path(place)), "/dev/zero"),
    ):
        with pytest.raises(DynidError, match=r"this is a (device|pipe), not a file"):
            read(place)


def test_rows_that_only_a_header_claims_are_refused(tmp_path: Path, arm: Path) -> None:
    h5py = pytest.importorskip("h5py")
    with h5py.File(tmp_path / "log.h5", "w") as file:
        for name in ("t", "q1", "q2", "tau1", "tau2"):
            file.create_dataset(name, shape=(10**11,), dtype="f8", chunks=(10_000,))
    with pytest.raises(DynidError, match=r"100000000000 rows in it, above the limit .*DYNID_MAX_ROWS"):
        read_log(tmp_path / "log.h5", load_robot(arm))


def test_data_sets_that_were_never_written_and_deep_groups_are_refused(tmp_path: Path, arm: Path) -> None:
    h5py = pytest.importorskip("h5py")
    with h5py.File(tmp_path / "log.h5", "w") as file:
        for name in ("t", "q1", "q2", "tau1", "tau2"):
            file.create_dataset(name, shape=(1000,), dtype="f8", chunks=(100,))
    with pytest.raises(DynidError, match="was never written"):
        read_log(tmp_path / "log.h5", load_robot(arm))
    with h5py.File(tmp_path / "deep.h5", "w") as file:
        group = file
        for _ in range(300):
            group = group.create_group("a")
    with pytest.raises(DynidError, match="nested more than 100 deep"):
        read_log(tmp_path / "deep.h5", load_robot(arm))


def test_numbers_of_hundreds_of_digits_are_refused(arm: Path, tmp_path: Path) -> None:
    from dynid.cli.output.identifiability import read_standard_values
    from dynid.cli.output.recordings import read_motion

    (tmp_path / "values.json").write_text('{"XX1": %s}' % ("9" * 400))
    with pytest.raises(DynidError, match="larger than any"):
        read_standard_values(tmp_path / "values.json", load_robot(arm))
    point = '{"positions": [%s, 0], "velocities": [0, 0], "accelerations": [0, 0]}' % ("9" * 400)
    (tmp_path / "motion.json").write_text(f'{{"joint_names": ["a", "b"], "points": [{point}]}}')
    with pytest.raises(DynidError, match="not made of numbers"):
        read_motion(tmp_path / "motion.json", load_robot(arm))


@pytest.mark.parametrize("cutoff", [1e-300, 1e-6, 1e-3])
def test_cutoffs_that_need_gigabytes_are_refused(cutoff: float) -> None:
    """A filter of 10^6 samples for a recording of 300: 74 GB before."""
    with pytest.raises(DynidError, match="too low for samples at 50 Hz"):
        Lowpass(cutoff, 50.0)


def test_hundreds_of_mistakes_are_counted_not_listed(tmp_path: Path) -> None:
    line = '<inertial pos="0.1 0 0" mass="3" diaginertia="0.1 0.1 0.1"/>'
    (tmp_path / "arm.xml").write_text(files.MJCF.replace(line, f"{line}\n" * 300))
    with pytest.raises(DynidError) as refused:
        load_robot(tmp_path / "arm.xml")
    assert str(refused.value).count("\n") == 10
    assert str(refused.value).endswith("and 289 more")
