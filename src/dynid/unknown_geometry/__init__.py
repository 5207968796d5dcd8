"""Robots of unknown geometry: the model parameters of Ha, Ko and Kwon, exactly.

Start with `model_parameters`.
"""
