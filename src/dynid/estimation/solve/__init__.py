"""Estimators on accumulated factors: weighted least squares, recursion, robust and sequential.

Start with `least_squares`.
"""
