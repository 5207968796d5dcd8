"""From logs to parameters: rows, mergeable factors, least squares, and how far to trust them."""
