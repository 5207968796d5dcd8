"""The main job on a simulated robot, as `dynid demo` shows it."""
