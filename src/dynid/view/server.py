"""Running the viewer: a server on this machine only, until it is stopped."""

from __future__ import annotations

import signal
import socket
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, redirect_stdout
from io import StringIO
from typing import TYPE_CHECKING

from dynid.errors import DynidError
from dynid.kernel.loops import loop_map
from dynid.robot.robot import Robot
from dynid.view.path import Path, rest, tree_positions
from dynid.view.player import TICK, Player, Poser, add_switches
from dynid.view.scene import Scene
from dynid.view.skeleton import skeleton_of
from dynid.view.visuals import Shape

if TYPE_CHECKING:
    from viser import ViserServer

HOST = "127.0.0.1"
INSTALL = "pip install 'dynid[view]'"


def check_installed() -> None:
    """Say how to install what the viewer needs."""
    try:
        with _late_interrupt():
            import trimesh  # noqa: F401
            import viser  # noqa: F401
    except ImportError as error:
        missing = getattr(error, "name", None) or "viser"
        raise DynidError(f"dynid view needs {missing}, which is not installed; {INSTALL}") from error


@contextmanager
def _late_interrupt() -> Iterator[None]:
    """Hold Ctrl-C back until the end: trimesh takes it for a missing package while it is imported."""
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


def run(
    robot: Robot,
    path: Path | None,
    shapes: Sequence[Shape],
    *,
    port: int,
    seconds: float | None,
    on_start: Callable[[str], None],
) -> None:
    """Serve the viewer until Ctrl-C, or for some seconds; `on_start` is told its address."""
    with_loops = tree_positions(rest(robot)[None, :], loop_map(robot)) if path is None else path.q
    server = _start(port, robot.name)
    try:
        scene = Scene(server, robot, skeleton_of(robot, with_loops), shapes)
        player = Poser(server, scene, robot) if path is None else Player(server, scene, path)
        add_switches(server, scene)
        on_start(f"http://{HOST}:{server.get_port()}")
        end = None if seconds is None else time.monotonic() + seconds
        while end is None or time.monotonic() < end:
            player.tick()
            time.sleep(TICK)
    except KeyboardInterrupt:
        pass  # the usual way to end it
    finally:
        with redirect_stdout(StringIO()):  # viser prints a farewell, verbose or not
            server.stop()


def _start(port: int, label: str) -> ViserServer:
    import viser

    if not 0 <= port < 65536:
        raise DynidError(f"--port {port}: a port lies between 0 (any that is free) and 65535")
    with socket.socket() as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind((HOST, port))
        except OSError as error:
            raise DynidError(f"--port {port}: {error.strerror}; choose another, or 0 for any that is free") from error
        free = int(probe.getsockname()[1])
    with redirect_stdout(StringIO()):  # and a table of addresses
        return viser.ViserServer(host=HOST, port=free, label=f"dynid: {label}", verbose=False)
