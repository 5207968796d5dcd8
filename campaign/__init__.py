"""Long randomised runs; `make test` has a fixed-seed part of each."""
