"""Robots of unknown geometry: the model parameters of Ha, Ko and Kwon, exactly."""
