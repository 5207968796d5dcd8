"""Timings, side by side and from one run: `python -m bench [topic ...] [--json FILE]`."""
