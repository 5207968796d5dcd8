"""Which file a mesh of a URDF is: inside the robot's own folders only, wherever the file may point."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path, PurePosixPath
from urllib.parse import unquote, urlsplit

KINDS = (".stl", ".obj", ".ply", ".glb", ".dae")
"""Mesh files that are read."""

LARGEST = 100 * 1024 * 1024
"""Bytes of a mesh file; more is a mistake."""


class MeshRefusedError(Exception):
    """A mesh is not drawn; the text says why."""


@dataclass(frozen=True, slots=True)
class MeshFolders:
    """Where meshes may be: below `home` (the URDF's folder, or the ROS package that holds it) or in a package.

    `packages` are the folders of ROS_PACKAGE_PATH, each a package or a folder of packages.
    """

    folder: Path
    home: Path
    packages: tuple[Path, ...]

    @staticmethod
    def of(urdf: Path, environment: Mapping[str, str] | None = None) -> MeshFolders:
        """The folders for a URDF."""
        environment = os.environ if environment is None else environment
        folder = urdf.resolve().parent
        home = next((above for above in (folder, *folder.parents) if (above / "package.xml").is_file()), folder)
        words = environment.get("ROS_PACKAGE_PATH", "").split(os.pathsep)
        return MeshFolders(folder, home, tuple(Path(word) for word in words if word and Path(word).is_dir()))

    def find(self, name: str) -> Path:
        """Return the file that a mesh's filename means, or say why there is none."""
        scheme = urlsplit(name).scheme if "://" in name else ""
        if scheme == "package":
            path = self._in_package(name.removeprefix("package://"))
        elif scheme in ("", "file"):
            path = self._at_home(Path(unquote(urlsplit(name).path) if scheme else name), name)
        else:
            raise MeshRefusedError(f"mesh {name}: {scheme}:// is not opened; use package:// or a path beside the URDF")
        if path.suffix.lower() not in KINDS:
            raise MeshRefusedError(f"mesh {name}: meshes are {', '.join(KINDS)}")
        if path.stat().st_size > LARGEST:
            raise MeshRefusedError(f"mesh {name}: larger than {LARGEST // 2**20} MiB")
        return path

    def _at_home(self, path: Path, name: str) -> Path:
        found = (self.folder / path).resolve()
        if not found.is_relative_to(self.home):
            raise MeshRefusedError(
                f"mesh {name}: outside of {self.home}, so it is not opened; put it below that folder, or use package://"
            )
        return _existing(found, name)

    def _in_package(self, rest: str) -> Path:
        package, _, inner = unquote(rest).partition("/")
        name = f"package://{rest}"
        if not package or ".." in (package, *PurePosixPath(inner).parts) or PurePosixPath(inner).is_absolute():
            raise MeshRefusedError(f"mesh {name}: the path leaves its package, so it is not opened")
        own = [self.home] if self.home.name == package else []
        for place in (*own, self.folder / package, self.home / package):
            found = (place / inner).resolve()
            if found.is_file() and found.is_relative_to(self.home):
                return found
        for place in self._places(package):
            if (place / inner).is_file():
                return place / inner
        raise MeshRefusedError(
            f"mesh {name}: not found beside the URDF; let ROS_PACKAGE_PATH name the folder that holds '{package}'"
        )

    def _places(self, package: str) -> Sequence[Path]:
        """Folders of a package on ROS_PACKAGE_PATH; links made by colcon are followed, as the user set that path."""
        return [
            place for base in self.packages for place in ([base] if base.name == package else []) + [base / package]
        ]


def _existing(path: Path, name: str) -> Path:
    if not path.is_file():
        raise MeshRefusedError(f"mesh {name}: there is no such file")
    return path
