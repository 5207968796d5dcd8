"""Parameters that real bodies can have: the cone of pseudo-inertias, priors, and what the data say of them."""
