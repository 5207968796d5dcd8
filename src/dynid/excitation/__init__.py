"""Motions that reveal the base parameters, valid at every instant."""
