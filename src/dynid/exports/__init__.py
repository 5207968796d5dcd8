"""Models that other software loads: URDF, MJCF, tables, JSON and C code."""
