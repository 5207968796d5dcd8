"""Base parameters: which combinations of the standard parameters can be identified at all.

Start with `base_parameters`; `numeric` (QR, SVD), `rules` (closed form), `nullspace` and `finite_field` (exact).
"""
