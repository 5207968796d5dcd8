"""The commands, one file per subject: parse, call, show."""
