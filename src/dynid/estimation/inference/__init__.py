"""Confidence intervals, cross validation, and the choice of friction blocks.

Start with `jackknife`.
"""
