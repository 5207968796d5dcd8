"""The version, below everything that writes it into files."""

VERSION = "0.1.0"
