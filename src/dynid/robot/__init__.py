"""The robot: a frozen tree of links with joints, gravity, limits, loops and nominal parameters.

Start with `robot.Robot` and `load.load_robot`; `io` reads and writes robot files.
"""
