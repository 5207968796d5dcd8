"""The robot in the browser: skeleton or meshes, standing or moving.

Start with `server`.
"""
