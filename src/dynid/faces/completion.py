"""What the shell offers after TAB; light, because it runs at every key."""

from __future__ import annotations

from importlib import resources


def complete_robot(incomplete: str) -> list[str]:
    """Names of bundled robots; where none fits, the shell offers files."""
    folder = resources.files("dynid") / "robot" / "library"
    names = (file.name.removesuffix(".toml") for file in folder.iterdir() if file.name.endswith(".toml"))
    return sorted(name for name in names if name.startswith(incomplete))
