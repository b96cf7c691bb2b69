"""Take out of installed packages what no process of an image reads: ``python slim.py SITE``, in the build.

What is taken, and why it is not missed, stands in the tables below. Each package stays installed, with its
licence and its metadata, so that the list of what an image is made of (``sbom.py``) says what it said.
"""

from __future__ import annotations

import argparse
import shutil
import struct
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Final

#: Folders of a package that are of use to its developers only, wherever they are in it.
_OF_DEVELOPERS: Final = frozenset({"tests", "testing_data", "benchmarks"})
#: What compilers read: none is there.
_OF_COMPILERS: Final = frozenset({".a", ".c", ".cpp", ".h", ".hpp", ".pxd", ".pyi", ".pyx"})
#: Parts of packages that nothing of ours imports, nor what we import of them.
_UNUSED: Final = (
    "cel_expr_python/ext/ext_encoders*",  # kai.model.cel names those that it has
    "cel_expr_python/ext/ext_proto*",
    "numba/cuda",
    "numpy/distutils",
    "numpy/f2py",
)
#: Of packages of which little is used, the only parts that stay.
_USED: Final = {
    # A class and an API for each kind there is, twice, and kai.kube.package imports none of them.
    "kubernetes": (
        "__init__.py",
        "aio/__init__.py",
        "aio/client/__init__.py",
        "aio/client/api_client.py",
        "aio/client/api_response.py",
        "aio/client/configuration.py",
        "aio/client/exceptions.py",
        "aio/client/models/__init__.py",
        "aio/client/rest.py",
        "aio/config/*.py",
        "aio/utils/*.py",
    ),
}
_OWN: Final = "kai*"
_COMPILED: Final = "__pycache__"

# Of an ELF file of 64 bits, little-endian: where the tables are, and what of a segment lies in the file.
_ELF: Final = b"\x7fELF\x02\x01"
_HEADER: Final = struct.Struct("<16sHHIQQQIHHHHHH")
_SEGMENT: Final = struct.Struct("<IIQQQQQQ")


def main() -> int:
    """Make it slim, and say by how much."""
    parser = argparse.ArgumentParser(prog="slim.py")
    parser.add_argument("site", type=Path, help="the folder of installed packages")
    site: Path = parser.parse_args().site
    before = _mebibytes(site)
    remove(site)
    for library in sorted(site.rglob("*.so*")):
        if library.is_file() and not library.is_symlink():
            strip(library)
    sys.stdout.write(f"{site}: {before:.0f} MiB, slim {_mebibytes(site):.0f} MiB\n")
    return 0


def remove(site: Path) -> None:
    """Remove what the tables name; a package that is not there is no error."""
    for pattern in _UNUSED:
        for path in site.glob(pattern):
            _delete(path)
    for package, patterns in _USED.items():
        used = {path for pattern in patterns for path in (site / package).glob(pattern)}
        for path in sorted((site / package).rglob("*.py")):
            if path not in used:
                for each in (path, *(path.parent / _COMPILED).glob(f"{path.stem}.*.pyc")):
                    each.unlink()
    own = set(site.glob(_OWN))
    for path in sorted(site.rglob("*")):
        if own.isdisjoint((path, *path.parents)) and _is_of_developers(path):
            _delete(path)


def strip(library: Path) -> None:
    """Cut the tables off the end of a shared library that only debuggers and linkers read.

    Loaders go by its segments. Nothing is done to what is none, or where the tables lie before the segments.
    """
    with library.open("r+b") as file:
        start = file.read(_HEADER.size)
        if len(start) < _HEADER.size or not start.startswith(_ELF):
            return
        header = list(_HEADER.unpack(start))
        segments_at, size, count = header[5], header[9], header[10]
        file.seek(segments_at)
        table = file.read(size * count)
        ends = [offset + length for _, _, offset, _, _, length, _, _ in _SEGMENT.iter_unpack(table)]
        end = max([_HEADER.size, segments_at + size * count, *ends])
        header[6] = header[12] = header[13] = 0  # no sections
        file.seek(0)
        file.write(_HEADER.pack(*header))
        file.truncate(min(end, library.stat().st_size))


def _is_of_developers(path: Path) -> bool:
    if path.is_dir():
        return path.name in _OF_DEVELOPERS
    return path.suffix in _OF_COMPILERS


def _delete(path: Path) -> None:
    if path.is_dir():
        shutil.rmtree(path)
    else:
        path.unlink(missing_ok=True)


def _files(folder: Path) -> Iterator[Path]:
    return (path for path in folder.rglob("*") if path.is_file() and not path.is_symlink())


def _mebibytes(folder: Path) -> float:
    return sum(path.stat().st_size for path in _files(folder)) / 2**20


if __name__ == "__main__":
    sys.exit(main())
