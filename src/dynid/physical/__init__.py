"""Physically consistent parameters: pseudo-inertia cones, priors, constraints.

Start with `find.physical_parameters`; `check` judges any robot file.
"""
