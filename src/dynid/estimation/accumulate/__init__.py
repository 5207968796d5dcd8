"""One pass over the logs: rows become triangular factors per block of time.

Start with `one_pass`; a `state` is all that is kept of the logs, mergeable and saved.
"""
