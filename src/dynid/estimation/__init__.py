"""From logs to an `Identification`: regression, accumulation, solution, inference, diagnostics.

Start with `identify.identify`; the result is in `identification`.
"""
