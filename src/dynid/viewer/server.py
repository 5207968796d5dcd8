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


@dataclass(frozen=True, slots=True, eq=False)
class TorqueTraces:
    """Torques that were measured and those that a result predicts, per joint, on the times of a `JointPath`.

    t (N,) in s; measured, predicted (N, n), NaN where they are not known; rmse (n,): usual size of the residual.
    """

    t: Array
    measured: Array
    predicted: Array
    rmse: Array

    def at(self, time: float) -> tuple[Array, Array]:
        """Measured and predicted torques (n,) at an instant."""
        k = min(int(np.searchsorted(self.t, time)), len(self.t) - 1)
        return self.measured[k], self.predicted[k]


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


def add_visibility_switches(server: ViserServer, scene: Scene, *, has_path: bool = False) -> None:
    """Add the switches that show or hide skeleton, meshes, frames and the way of the tool."""
    meshes = server.gui.add_checkbox("meshes", scene.has_shapes, visible=scene.has_shapes)
    skeleton = server.gui.add_checkbox("skeleton", scene.shows_skeleton)
    frames = server.gui.add_checkbox("frames", True)
    meshes.on_update(lambda _: scene.show_meshes(meshes.value))
    skeleton.on_update(lambda _: scene.show_skeleton(skeleton.value))
    frames.on_update(lambda _: scene.show_frames(frames.value))
    if has_path:
        way = server.gui.add_checkbox("path of the tool", True)
        way.on_update(lambda _: scene.show_tool_path(way.value))


class Player:
    """Moves a scene along a path in real time, times the speed; `advance` is called again and again."""

    def __init__(
        self, server: ViserServer, scene: Scene, path: JointPath, on_time: Callable[[float], None] | None = None
    ) -> None:
        self._scene, self._path, self._on_time = scene, path, on_time
        self._playing, self._time, self._last = True, 0.0, time.monotonic()
        self.button: Any = server.gui.add_button("Pause")
        self.speed: Any = server.gui.add_slider("speed", min=0.1, max=5.0, step=0.1, initial_value=1.0)
        step = max(path.duration / 1000.0, 1e-3)
        self.slider: Any = server.gui.add_slider("time, s", min=0.0, max=path.duration, step=step, initial_value=0.0)
        self.button.on_click(lambda _: self.toggle_playing())
        self.slider.on_update(lambda event: self._seek_to_slider(event))
        self._show(0.0)

    def _show(self, instant: float) -> None:
        """Show the robot, and what else goes with the time, at an instant."""
        self._scene.show_position(self._path.positions_at(instant))
        if self._on_time is not None:
            self._on_time(instant)

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
        self._show(self._time)

    def _seek_to_slider(self, event: Any) -> None:
        """Seek to where a person moved the slider; its own moves have no client and are ignored."""
        if event.client is not None:
            self._time = float(self.slider.value)
            self._show(self._time)


WINDOW = 4.0
"""Seconds before and after the instant that is shown in the curves."""

REDRAWN = 0.2
"""Seconds between two pictures of the curves."""

NEAR = 0.02
"""Share of a joint's range from its limit within which it is at the limit."""


class JointPanel:
    """Torques, residual and position of one joint beside the robot, tied to the time; all joints in their colours."""

    def __init__(
        self, server: ViserServer, scene: Scene, robot: Robot, path: JointPath, torques: TorqueTraces | None
    ) -> None:
        self._scene, self._robot, self._path, self._torques = scene, robot, path, torques
        place = {k: j for j, k in enumerate(robot.tree_joints)}
        self._columns = [place[k] for k in robot.active_links]
        self._time, self._drawn = 0.0, -np.inf
        self.joint: Any = server.gui.add_dropdown("joint", [str(name) for name in robot.joint_names])
        self.position: Any = server.gui.add_text("position", "", disabled=True)
        self.torque: Any = None
        self.residual: Any = None
        self.curves: list[Any] = []
        if torques is not None:
            self.torque = server.gui.add_text("torque", "", disabled=True)
            self.residual = server.gui.add_text("residual", "", disabled=True)
            self._add_curves(server)
        self.joint.on_update(lambda _: self._redraw())

    def _add_curves(self, server: ViserServer) -> None:
        """Add the curves: measured and identified torque, and the residual."""
        from viser import uplot

        def line(label: str, colour: str, **more: Any) -> Any:
            return uplot.Series(label=label, stroke=colour, width=1.5, **more)  # type: ignore[typeddict-item]

        now = line("now", "#000000", points={"show": True, "size": 8})
        time = uplot.Series(label="time, s")
        for title, lines in (
            ("torque", (line("measured", "#555555"), line("identified", "#e69f00"))),
            ("residual", (line("residual", "#0072b2"),)),
        ):
            data, scales = self._curve_data(title), self._scales(title)
            self.curves.append(server.gui.add_uplot(data, (time, *lines, now), title=title, scales=scales, aspect=1.8))

    @property
    def _chosen(self) -> int:
        """Number of the chosen joint."""
        return self._robot.joint_names.index(self.joint.value)

    def _scales(self, title: str) -> Any:
        """Scales of the curves: those of the whole log, so that the height of a curve means something."""
        assert self._torques is not None
        y, p = self._torques.measured[:, self._chosen], self._torques.predicted[:, self._chosen]
        shown = np.concatenate([y, p] if title == "torque" else [y - p])
        shown = shown[np.isfinite(shown)]
        low, high = (float(shown.min()), float(shown.max())) if len(shown) else (-1.0, 1.0)
        room = 0.05 * (high - low) or 1.0
        return {"x": {"time": False}, "y": {"auto": False, "range": (low - room, high + room)}}

    def _curve_data(self, title: str) -> tuple[Array, ...]:
        """Times and curves around the instant that is shown, with a point at it."""
        assert self._torques is not None
        t, j = self._torques.t, self._chosen
        part = slice(*np.searchsorted(t, [self._time - WINDOW, self._time + WINDOW]).tolist())
        y, p = self._torques.measured[part, j], self._torques.predicted[part, j]
        shown = (y, p) if title == "torque" else (y - p,)
        now = np.full(len(y), np.nan)
        if len(now):
            k = min(int(np.searchsorted(t[part], self._time)), len(now) - 1)
            now[k] = shown[0][k]
        return tuple(np.ascontiguousarray(x, dtype=np.float64) for x in (t[part], *shown, now))

    def show_time(self, instant: float) -> None:
        """Show figures, colours and limits at an instant; curves a few times a second."""
        self._time = instant
        q = self._path.positions_at(instant)[0, self._columns]
        self._scene.mark_limits(limit_texts(self._robot, q))
        j = self._chosen
        turns = self._robot.links[self._robot.active_links[j]].kind == "revolute"
        low, high = self._robot.limits.position[j]
        limits = f" ({low:.4g} .. {high:.4g})" if np.isfinite([low, high]).all() else ""
        self.position.value = f"{q[j]:.4g} {'rad' if turns else 'm'}{limits}"
        if self._torques is not None:
            y, p = self._torques.at(instant)
            sizes = (y - p) / np.where(self._torques.rmse > 0.0, self._torques.rmse, np.nan)
            self._scene.colour_joints(dict(zip(self._robot.active_links, sizes.tolist(), strict=True)))
            unit = "N m" if turns else "N"
            self.torque.value = f"{y[j]:.4g}, identified {p[j]:.4g} {unit}"
            self.residual.value = f"{y[j] - p[j]:.3g} {unit}, {abs(sizes[j]):.2g} x RMSE"
            if abs(time.monotonic() - self._drawn) > REDRAWN:
                self._draw_curves()

    def _redraw(self) -> None:
        """Show another joint at once."""
        self.show_time(self._time)
        if self._torques is not None:
            for title, curve in zip(("torque", "residual"), self.curves, strict=True):
                curve.scales = self._scales(title)
            self._draw_curves()

    def _draw_curves(self) -> None:
        """Draw the curves around the instant."""
        self._drawn = time.monotonic()
        for title, curve in zip(("torque", "residual"), self.curves, strict=True):
            curve.data = self._curve_data(title)


def limit_texts(robot: Robot, q: Array) -> dict[int, str]:
    """Texts on joints at or beyond a limit of position, by link; q (n,)."""
    texts = {}
    for j, k in enumerate(robot.active_links):
        low, high = (float(x) for x in robot.limits.position[j])
        room = NEAR * (high - low) if np.isfinite([low, high]).all() else 0.0
        for end, past in (("lower", low - q[j]), ("upper", q[j] - high)):
            if past > 0.0:
                texts[k] = f"beyond its {end} limit"
            elif past > -room:
                texts[k] = f"at its {end} limit"
    return texts


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
    torques: TorqueTraces | None = None,
    floor: float | None = None,
) -> None:
    """Serve the viewer until Ctrl-C, or for some seconds; `on_start` gets its address.

    torques: those of the path's log and of a result, where there is one; floor: its height, m.
    """
    with_loops = tree_positions(initial_positions(robot)[None, :], loop_map(robot)) if path is None else path.q
    server = _start_server(port, robot.name)
    try:
        scene = Scene(server, robot, make_skeleton(robot, with_loops), shapes, floor=floor)
        player: JointSliders | Player
        if path is None:
            player = JointSliders(server, scene, robot)
        else:
            scene.draw_tool_path(path.q)
            panel = JointPanel(server, scene, robot, path, torques)
            player = Player(server, scene, path, panel.show_time)
        add_visibility_switches(server, scene, has_path=path is not None)
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


@contextmanager
def _own_origin_only(port: int) -> Iterator[None]:
    """Context in which a server is made that refuses pages of other sites, which could read and steer it.

    A browser lets any page open a WebSocket to this machine and says where the page comes from; viser does not look.
    Programs that are not browsers say nothing, and are let in.
    """
    import websockets.asyncio.server as library

    own = [f"http://{name}:{port}" for name in (HOST, "localhost")]
    serve = library.serve

    def serve_own_pages(*args: Any, **options: Any) -> Any:
        return serve(*args, **{"origins": [*own, None], **options})

    library.serve = serve_own_pages  # type: ignore[assignment, misc]
    try:
        yield
    finally:
        library.serve = serve  # type: ignore[misc]


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
    with redirect_stdout(StringIO()), _own_origin_only(free):  # and a table of addresses
        server = viser.ViserServer(host=HOST, port=free, label=f"dynid: {label}", verbose=False)
    server.gui.configure_theme(show_share_button=False)  # it would put the page on the internet
    return server
