"""Actuators from commands and positions, without torque sensors: armature, friction, delay, gains; rollouts of them.

Start with `identify_actuators`.
"""
