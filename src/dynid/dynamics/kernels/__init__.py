"""Compiled loops over samples: geometry in, regressor rows and their adjoints out.

Start with `rows`; `closing` and `loops` solve closed kinematic loops. Knows neither parameter names nor files.
"""
