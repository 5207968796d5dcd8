"""Measurement models: what a sensor channel sees, linear in the parameters."""
