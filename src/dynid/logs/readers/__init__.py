"""One module per log format, each giving named columns batch by batch.

Start with `table`, what every format is to the rest.
"""
