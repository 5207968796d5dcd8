"""Recordings: reading, cleaning, filtering and resampling.

Start with `read.read_log` and `log.Log`; file formats in `readers`, `filtering` prepares a log for regression.
"""
