"""Files on disk: written whole or not at all, and results as versioned JSON by their declared fields.

Start with `files.write_bytes` for how a file is replaced, and with `records` for what a result file may hold.
"""
