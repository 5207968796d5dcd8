"""Models for other software: URDF, MJCF, TOML, JSON and C code, each loaded again and compared.

Start with `export.export`. (Not `export`: the package would hide the function of that name.)
"""
