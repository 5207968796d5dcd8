"""Sections of the report, each with a template of its own name.

Start with `answer`, what a reader sees first.
"""
