"""Meshes of a URDF: which file one is (in the robot's own folders only, wherever it may point), and its vertices."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path, PurePosixPath
from urllib.parse import unquote, urlsplit

import numpy as np

from dynid.errors import MeshRefusedError, PhysicalError
from dynid.messages import Option
from dynid.robot.transform import Array
from dynid.storage.files import check_regular_file

LEVELS = 5
"""Folders in which check and self-collision look: the URDF's own and those above it."""

LARGEST_MESH = 256 * 1024 * 1024


@dataclass(frozen=True, slots=True)
class MeshFolders:
    """Where meshes may be: below `home`, named from one of `folders` (the URDF's first), or in a package.

    `home` is the last of `folders`, or the ROS package that holds it. `packages` are folders that are a package or hold
    packages: those that the user names, then ROS_PACKAGE_PATH; `prefixes` hold them in `share`, as AMENT_PREFIX_PATH
    and COLCON_PREFIX_PATH do, also in a prefix per package.
    """

    folders: tuple[Path, ...]
    home: Path
    packages: tuple[Path, ...]
    prefixes: tuple[Path, ...] = ()

    @staticmethod
    def for_urdf(
        urdf: Path,
        environment: Mapping[str, str] | None = None,
        levels: int = 1,
        *,
        package_path: Sequence[str | os.PathLike[str]] = (),
    ) -> MeshFolders:
        """Folders in which the meshes of a URDF may be: its own, and as many above it as there are further levels."""
        environment = os.environ if environment is None else environment
        parents = tuple(urdf.resolve().parents)
        above = (parents[0], *(x for x in parents[1:levels] if len(x.parts) > 2))  # not /, /home or /tmp: all is there
        last = above[-1]
        home = next((x for x in (last, *last.parents) if (x / "package.xml").is_file()), last)

        def listed(*names: str) -> tuple[Path, ...]:
            """Existing folders of some variables."""
            words = [word for name in names for word in environment.get(name, "").split(os.pathsep)]
            return tuple(Path(word) for word in dict.fromkeys(words) if word and Path(word).is_dir())

        named = tuple(Path(folder) for folder in package_path)
        prefixes = listed("AMENT_PREFIX_PATH", "COLCON_PREFIX_PATH")
        return MeshFolders(above, home, (*named, *listed("ROS_PACKAGE_PATH")), (*prefixes, *named))

    def package_folders(self, package: str) -> list[Path]:
        """Folders that a package of this name may be, of those that the user or ROS names."""
        near = [x for base in self.packages for x in (base, base / package) if x.name == package]
        return near + [x / package for base in self.prefixes for x in (base / "share", base / package / "share")]

    def find_mesh(self, name: str) -> Path:
        """Return the file that a mesh's filename means; MeshRefusedError says why there is none."""
        try:
            return self._resolve_filename(name)
        except (OSError, ValueError) as error:  # too long for a path, a zero byte, half an address
            raise MeshRefusedError("file_not_found", "mesh {mesh}: there is no such file", mesh=name[:80]) from error

    def _resolve_filename(self, name: str) -> Path:
        """File of a mesh by its path, file:// or package:// address; MeshRefusedError where it may not be opened."""
        scheme = urlsplit(name).scheme if "://" in name else ""
        if scheme == "package":
            return self._find_in_package(name.removeprefix("package://"))
        if scheme not in ("", "file"):
            raise MeshRefusedError(
                "mesh_scheme_not_allowed", "mesh {mesh}: {scheme}:// is not opened",
                "use package:// or a path next to the URDF", mesh=name, scheme=scheme,
            )  # fmt: skip
        path = unquote(urlsplit(name).path) if scheme else name
        places = (self.home, *(x.resolve() for x in (*self.packages, *self.prefixes)))
        found_at = ((folder / path).resolve() for folder in self.folders)
        inside = [x for x in found_at if any(x.is_relative_to(place) for place in places)]
        if not inside:
            raise MeshRefusedError(
                "mesh_outside_folder", "mesh {mesh}: outside of {folder}, so it is not opened",
                "put it below that folder, or name a folder that holds it with {option}", mesh=name, folder=self.home,
                option=Option("package_path"),
            )  # fmt: skip
        for found in inside:
            if found.is_file():
                return found
        raise MeshRefusedError("file_not_found", "mesh {mesh}: there is no such file", mesh=name)

    def _find_in_package(self, rest: str) -> Path:
        """Find a file of a package:// address below home, then where the user and ROS say (colcon's links too).

        Where several folders are searched, a package may have another name in the end: its folder was renamed.
        """
        package, _, inner = unquote(rest).partition("/")
        name = f"package://{rest}"
        if not package or ".." in (package, *PurePosixPath(inner).parts) or PurePosixPath(inner).is_absolute():
            raise MeshRefusedError(
                "mesh_outside_folder", "mesh {mesh}: the path leaves its package, so it is not opened", mesh=name
            )
        own = [self.home] if self.home.name == package else []
        named = self.package_folders(package)
        renamed = self.folders if len(self.folders) > 1 else ()
        for place in (*own, *(x / package for x in (*self.folders, self.home)), *named, *renamed):
            found = place / inner if place in named else (place / inner).resolve()
            if found.is_file() and (place in named or found.is_relative_to(self.home)):
                return found
        raise MeshRefusedError(
            "file_not_found", "mesh {mesh}: not found next to the URDF",
            "name the folder that holds '{package}' with {option}, or in ROS_PACKAGE_PATH", mesh=name, package=package,
            option=Option("package_path"),
        )  # fmt: skip


def check_mesh_file(file: Path) -> None:
    """Raise PhysicalError where a mesh is a pipe or a device, or too large."""
    if problem := check_regular_file(file):
        raise PhysicalError(problem.about(str(file)))
    if file.stat().st_size > LARGEST_MESH:
        raise PhysicalError("file_too_large", "{file}: larger than 256 MiB", file=file)


def read_mesh_vertices(file: Path) -> Array | None:
    """Vertices (N, 3) of an STL or OBJ file, None where it is neither."""
    check_mesh_file(file)
    raw = file.read_bytes()
    if file.suffix.lower() == ".stl":
        count = int.from_bytes(raw[80:84], "little") if len(raw) >= 84 else -1
        if count > 0 and len(raw) == 84 + 50 * count:
            facets = np.frombuffer(raw, dtype=np.uint8, offset=84).reshape(count, 50)[:, 12:48]
            return _check_vertices(file, np.ascontiguousarray(facets).view("<f4").reshape(-1, 3).astype(np.float64))
        word = "vertex"
    elif file.suffix.lower() == ".obj":
        word = "v"
    else:
        return None
    lines = (line.split() for line in raw.decode("utf-8", "replace").splitlines())
    try:
        return _check_vertices(
            file, np.array([[float(x) for x in line[1:4]] for line in lines if line and line[0] == word])
        )
    except ValueError as error:
        raise PhysicalError("values_not_numeric", "{file}: a vertex is not three numbers", file=file) from error


def _check_vertices(file: Path, vertices: Array) -> Array:
    """Return vertices (N, 3) unchanged; PhysicalError if a mesh has none."""
    if vertices.ndim != 2 or vertices.shape[1] != 3 or not np.isfinite(vertices).all():
        raise PhysicalError(
            "mesh_without_vertices", "{file}: this mesh has no vertices of three finite numbers", file=file,
        )  # fmt: skip
    return vertices
