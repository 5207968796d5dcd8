"""Files on disk: written whole or not at all, links followed, devices written to.

Start with `files.write_whole`; what a result file holds is written by its own package.
"""
