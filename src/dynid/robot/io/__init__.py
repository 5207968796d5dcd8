"""Robot files: URDF, MJCF and TOML tables, read and written.

Start with `urdf`, `mjcf` or `toml_table`; all XML passes `xml`, which expands no entities; `meshes` finds their meshes.
"""
