"""Sections of the report, one class per file, each with a template of its own name."""
