"""The commands: each parses its options, calls and renders; light, so that help and completion are quick.

Start with `identify`.
"""
