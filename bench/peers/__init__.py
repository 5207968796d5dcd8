"""Timings against other packages, which live in an environment of their own: `python -m bench.peers`."""
