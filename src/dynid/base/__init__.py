"""Base parameters: which combinations of the standard parameters can be identified at all."""
