"""The controls beside the robot: play, pause, speed and time along a path, or a slider per joint without one."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Any

import numpy as np

from dynid.errors import DynidError
from dynid.kernel.loops import loop_map
from dynid.robot.robot import Robot
from dynid.view.path import Path, rest, tree_positions
from dynid.view.scene import Scene

if TYPE_CHECKING:
    from viser import ViserServer

TICK = 1.0 / 30.0
"""Seconds between two pictures."""

HINT = "Give a trajectory to see it move: `dynid view ROBOT traj.csv`."


def add_switches(server: ViserServer, scene: Scene) -> None:
    """Add the switches of what is drawn."""
    meshes = server.gui.add_checkbox("meshes", scene.has_shapes, visible=scene.has_shapes)
    skeleton = server.gui.add_checkbox("skeleton", not scene.has_shapes)
    frames = server.gui.add_checkbox("frames", True)
    meshes.on_update(lambda _: scene.show_meshes(meshes.value))
    skeleton.on_update(lambda _: scene.show_skeleton(skeleton.value))
    frames.on_update(lambda _: scene.show_frames(frames.value))


class Player:
    """Moves a scene along a path in real time, times the speed; `tick` is called again and again."""

    def __init__(self, server: ViserServer, scene: Scene, path: Path) -> None:
        self._scene, self._path = scene, path
        self._playing, self._time, self._last = True, 0.0, time.monotonic()
        self.button: Any = server.gui.add_button("Pause")
        self.speed: Any = server.gui.add_slider("speed", min=0.1, max=5.0, step=0.1, initial_value=1.0)
        step = max(path.length / 1000.0, 1e-3)
        self.slider: Any = server.gui.add_slider("time, s", min=0.0, max=path.length, step=step, initial_value=0.0)
        self.button.on_click(lambda _: self.toggle())
        self.slider.on_update(lambda event: self._seek(event))
        scene.show(path.at(0.0))

    @property
    def time(self) -> float:
        """The instant that is shown, in s."""
        return self._time

    def toggle(self) -> None:
        """Pause, or play on."""
        self._playing = not self._playing
        self.button.label = "Pause" if self._playing else "Play"

    def tick(self) -> None:
        """Show the next position; after the last comes the first."""
        now = time.monotonic()
        passed, self._last = now - self._last, now
        if not self._playing:
            return
        self._time = (self._time + passed * float(self.speed.value)) % max(self._path.length, 1e-9)
        self.slider.value = round(self._time, 3)
        self._scene.show(self._path.at(self._time))

    def _seek(self, event: Any) -> None:
        """Go to where a person moved the slider; our own moves of it have no client."""
        if event.client is not None:
            self._time = float(self.slider.value)
            self._scene.show(self._path.at(self._time))


class Poser:
    """A slider per active joint."""

    def __init__(self, server: ViserServer, scene: Scene, robot: Robot) -> None:
        self._scene, self._loop = scene, loop_map(robot)
        start = rest(robot)
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
            slider.on_update(lambda _: self.pose())
            self.sliders.append(slider)
        self.pose()

    def pose(self) -> None:
        """Show the position of the sliders; one that a loop cannot take is told and not shown."""
        q = np.array([[float(slider.value) for slider in self.sliders]])
        try:
            tree = tree_positions(q, self._loop)
        except DynidError:  # its text has names from the file, which must not be read as markdown
            self._note.content = "The loop cannot close there; move back."
            return
        self._note.content = HINT
        self._scene.show(tree)

    def tick(self) -> None:
        """Nothing moves by itself."""
