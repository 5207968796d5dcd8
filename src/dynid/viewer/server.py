"""Running the viewer: a server on this machine only, until it is stopped."""

from __future__ import annotations

import signal
import socket
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, redirect_stdout
from dataclasses import dataclass
from io import StringIO
from typing import TYPE_CHECKING, Any

import numpy as np

from dynid.dynamics.kernels.loops import LoopMap, loop_map
from dynid.errors import DynidError
from dynid.messages import Option
from dynid.robot.robot import Robot
from dynid.robot.transform import Array
from dynid.viewer.scene import Scene, Shape, make_skeleton

if TYPE_CHECKING:
    from viser import ViserServer

# What is shown: positions of all joints of the tree over time, loops closed.


RATE = 50.0
"""Positions per second that are kept for drawing."""

MOST = 200_000
"""Positions that are kept at most; longer recordings are shown more coarsely."""


@dataclass(frozen=True, slots=True, eq=False)
class JointPath:
    """Positions q (N, joints of the tree) at the instants t (N,) in s from 0 on."""

    t: Array
    q: Array

    @property
    def duration(self) -> float:
        """Duration in s."""
        return float(self.t[-1])

    def positions_at(self, time: float) -> Array:
        """Positions (1, joints) at an instant."""
        return np.array([[np.interp(time, self.t, column) for column in self.q.T]])


def make_joint_path(robot: Robot, t: Array, q: Array) -> JointPath:
    """Thin the active joints' positions q (N, n) for drawing, and close the loops.

    Samples without numbers, and those whose time does not go on, are passed over.
    """
    there = np.isfinite(t) & np.isfinite(q).all(axis=1)
    t, q = t[there], q[there]
    ahead = np.diff(np.maximum.accumulate(t), prepend=-np.inf) > 0.0 if len(t) else there[:0]
    t, q = t[ahead], q[ahead]
    if len(t) < 2:
        raise DynidError(
            "trajectory_not_showable", "a trajectory to be shown needs two samples at least, of finite numbers and "
            "growing times",
        )  # fmt: skip
    length = float(t[-1] - t[0])
    count = int(min(np.ceil(length * RATE) + 1, MOST))
    grid = np.linspace(0.0, length, max(count, 2))
    active = np.column_stack([np.interp(grid, t - t[0], column) for column in q.T])
    return JointPath(grid, tree_positions(active, loop_map(robot)))


def tree_positions(q: Array, loop: LoopMap | None) -> Array:
    """Positions (N, joints of the tree) from those of the active joints (N, n)."""
    if loop is None:
        return np.asarray(q)
    still = np.zeros_like(q)
    return np.asarray(loop.tree_motion(q, still, still).q)


def initial_positions(robot: Robot) -> Array:
    """Positions (n,) shown at first: where a closed loop is known to close, else zero, inside the limits."""
    loop = loop_map(robot)
    if loop is not None and robot.closures:
        return np.array(loop.at, dtype=np.float64)
    return np.clip(np.zeros(robot.n), robot.limits.position[:, 0], robot.limits.position[:, 1])


# The controls beside the robot: play, pause, speed and time along a path, or a slider per joint without one.


TICK = 1.0 / 30.0
"""Seconds between two pictures."""

HINT = "Give a trajectory to see it move: `dynid view ROBOT traj.csv`."


def add_visibility_switches(server: ViserServer, scene: Scene) -> None:
    """Add the switches that show or hide skeleton, meshes and frames."""
    meshes = server.gui.add_checkbox("meshes", scene.has_shapes, visible=scene.has_shapes)
    skeleton = server.gui.add_checkbox("skeleton", scene.shows_skeleton)
    frames = server.gui.add_checkbox("frames", True)
    meshes.on_update(lambda _: scene.show_meshes(meshes.value))
    skeleton.on_update(lambda _: scene.show_skeleton(skeleton.value))
    frames.on_update(lambda _: scene.show_frames(frames.value))


class Player:
    """Moves a scene along a path in real time, times the speed; `advance` is called again and again."""

    def __init__(self, server: ViserServer, scene: Scene, path: JointPath) -> None:
        self._scene, self._path = scene, path
        self._playing, self._time, self._last = True, 0.0, time.monotonic()
        self.button: Any = server.gui.add_button("Pause")
        self.speed: Any = server.gui.add_slider("speed", min=0.1, max=5.0, step=0.1, initial_value=1.0)
        step = max(path.duration / 1000.0, 1e-3)
        self.slider: Any = server.gui.add_slider("time, s", min=0.0, max=path.duration, step=step, initial_value=0.0)
        self.button.on_click(lambda _: self.toggle_playing())
        self.slider.on_update(lambda event: self._seek_to_slider(event))
        scene.show_position(path.positions_at(0.0))

    @property
    def time(self) -> float:
        """The instant that is shown, in s."""
        return self._time

    def toggle_playing(self) -> None:
        """Pause, or play on."""
        self._playing = not self._playing
        self.button.label = "Pause" if self._playing else "Play"

    def advance(self) -> None:
        """Show the position of this instant; after the last comes the first again."""
        now = time.monotonic()
        passed, self._last = now - self._last, now
        if not self._playing:
            return
        self._time = (self._time + passed * float(self.speed.value)) % max(self._path.duration, 1e-9)
        self.slider.value = round(self._time, 3)
        self._scene.show_position(self._path.positions_at(self._time))

    def _seek_to_slider(self, event: Any) -> None:
        """Seek to where a person moved the slider; its own moves have no client and are ignored."""
        if event.client is not None:
            self._time = float(self.slider.value)
            self._scene.show_position(self._path.positions_at(self._time))


class JointSliders:
    """A slider per active joint."""

    def __init__(self, server: ViserServer, scene: Scene, robot: Robot) -> None:
        self._scene, self._loop = scene, loop_map(robot)
        start = initial_positions(robot)
        self._note: Any = server.gui.add_markdown(HINT)
        self.sliders: list[Any] = []
        for j, name in enumerate(robot.joint_names):
            turns = robot.links[robot.active_links[j]].kind == "revolute"
            lower, upper = (float(x) for x in robot.limits.position[j])
            lower = lower if np.isfinite(lower) else min(start[j], 0.0) - (np.pi if turns else 0.5)
            upper = upper if np.isfinite(upper) else max(start[j], 0.0) + (np.pi if turns else 0.5)
            unit = "rad" if turns else "m"
            slider = server.gui.add_slider(
                f"{name}, {unit}", min=lower, max=upper, step=(upper - lower) / 400.0, initial_value=float(start[j])
            )
            slider.on_update(lambda _: self.show_slider_positions())
            self.sliders.append(slider)
        self.show_slider_positions()

    def show_slider_positions(self) -> None:
        """Show the position of the sliders; one at which a loop cannot close is reported and not shown."""
        q = np.array([[float(slider.value) for slider in self.sliders]])
        try:
            tree = tree_positions(q, self._loop)
        except DynidError:  # its text has names from the file, which must not be read as markdown
            self._note.content = "The loop cannot close there; move back."
            return
        self._note.content = HINT
        self._scene.show_position(tree)

    def advance(self) -> None:
        """Do nothing: sliders show their own moves at once."""


HOST = "127.0.0.1"
INSTALL = "pip install viser"


def check_viewer_installed() -> None:
    """Raise DynidError that says how to install what the viewer needs, where it is missing."""
    try:
        with _delay_interrupt():
            import trimesh  # noqa: F401
            import viser  # noqa: F401
    except ImportError as error:
        missing = getattr(error, "name", None) or "viser"
        raise DynidError(
            "needs_extra_package", "dynid view needs {package}, which is not installed", INSTALL, package=missing,
        ) from error  # fmt: skip


@contextmanager
def _delay_interrupt() -> Iterator[None]:
    """Context that holds Ctrl-C back until its end: trimesh takes it for a missing package while imported."""
    alone = threading.current_thread() is not threading.main_thread()
    if alone or signal.getsignal(signal.SIGINT) in (signal.SIG_IGN, None):  # in the background of a script
        yield
        return
    pressed: list[int] = []
    before = signal.signal(signal.SIGINT, lambda number, _: pressed.append(number))
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, before)
    if pressed:
        raise KeyboardInterrupt


def run_viewer(
    robot: Robot,
    path: JointPath | None,
    shapes: Sequence[Shape],
    *,
    port: int,
    seconds: float | None,
    on_start: Callable[[str], None],
) -> None:
    """Serve the viewer until Ctrl-C, or for some seconds; `on_start` gets its address."""
    with_loops = tree_positions(initial_positions(robot)[None, :], loop_map(robot)) if path is None else path.q
    server = _start_server(port, robot.name)
    try:
        scene = Scene(server, robot, make_skeleton(robot, with_loops), shapes)
        player = JointSliders(server, scene, robot) if path is None else Player(server, scene, path)
        add_visibility_switches(server, scene)
        on_start(f"http://{HOST}:{server.get_port()}")
        end = None if seconds is None else time.monotonic() + seconds
        while end is None or time.monotonic() < end:
            player.advance()
            time.sleep(TICK)
    except KeyboardInterrupt:
        pass  # the usual way to end it
    finally:
        with redirect_stdout(StringIO()):  # viser prints a farewell, verbose or not
            server.stop()


def _start_server(port: int, label: str) -> ViserServer:
    """Start a server on this machine only; DynidError where the port is taken or none."""
    import viser

    if not 0 <= port < 65536:
        raise DynidError(
            "port_out_of_range", "{option}: a port lies between 0 (any that is free) and 65535", port=port,
            option=Option("port", port),
        )  # fmt: skip
    with socket.socket() as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind((HOST, port))
        except OSError as error:
            raise DynidError(
                "port_unavailable", "{option}: {reason}", "choose another, or 0 for any that is free", port=port,
                option=Option("port", port), reason=error.strerror,
            ) from error  # fmt: skip
        free = int(probe.getsockname()[1])
    with redirect_stdout(StringIO()):  # and a table of addresses
        return viser.ViserServer(host=HOST, port=free, label=f"dynid: {label}", verbose=False)
