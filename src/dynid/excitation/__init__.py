"""Exciting trajectories that reveal the base parameters, valid at every instant.

Start with `design.design_excitation`; shapes in `fourier` and `points`, optimality criteria in `criteria`.
"""
