"""Robots: tables, URDF and MJCF files, standard parameters, motions."""
