"""The main job on a simulated robot, as `dynid demo` shows it.

Start with `job`.
"""
