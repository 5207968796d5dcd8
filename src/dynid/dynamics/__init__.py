"""Measurement models: what a sensor channel sees, linear in the parameters (y = W X).

Start with `regressor.regressor`; one module per model, friction columns in `friction`, compiled loops in `kernels`.
"""
