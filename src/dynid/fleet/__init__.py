"""Fleets of robots: logs by robot and period, read by workers, compared with each robot's baseline.

Start with `fleet`; the statistics are in `changes`.
"""
