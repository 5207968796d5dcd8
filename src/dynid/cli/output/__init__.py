"""Tables, notes and machine-readable facts of each kind of result.

Start with `identification`.
"""
