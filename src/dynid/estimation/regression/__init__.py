"""The linear equation of an identification: its columns, and its rows along a log.

Start with `equation`; `rows` writes what `accumulate` collects.
"""
