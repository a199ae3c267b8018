"""Unpacks files of a source archive, and counts the lines of others.

Usage: unpack.py ARCHIVE FOLDER SHA256 PATH... -- PATH...

The files and folders before `--` are unpacked into the new folder, under their paths in the archive. The lines of code of
those behind it are counted, without empty lines and comments; the last line of the output is `lines N`.
"""

from __future__ import annotations

import hashlib
import sys
import tarfile
from pathlib import Path

COMMENTS = {".rs": "//", ".py": "#"}


def is_in(path: str, places: list[str]) -> bool:
    """Returns whether a path is one of these, or below one."""
    return any(path == place or path.startswith(place + "/") for place in places)


def code_lines(path: str, text: str) -> int:
    """The number of lines of code; 0 for files that are not code."""
    comment = COMMENTS.get(Path(path).suffix)
    if comment is None:
        return 0
    lines = (line.strip() for line in text.splitlines())
    return sum(1 for line in lines if line and not line.startswith(comment))


def main() -> None:
    """Checks the digest, then reads the members in their order."""
    archive, folder, sha256, *places = sys.argv[1:]
    divider = places.index("--")
    unpacked, counted = places[:divider], places[divider + 1 :]
    actual = hashlib.sha256(Path(archive).read_bytes()).hexdigest()
    if actual != sha256:
        sys.exit(f"{archive}: its sha256 is {actual}, expected {sha256}; remove the file to fetch it again")
    lines, files = 0, 0
    with tarfile.open(archive) as tar:
        tar.extraction_filter = getattr(tarfile, "data_filter", None)
        for member in tar:
            path = member.name.partition("/")[2]
            if not member.isfile():
                continue
            if is_in(path, unpacked):
                files += 1
                member.name = path
                tar.extract(member, folder)
            if is_in(path, counted):
                lines += code_lines(path, tar.extractfile(member).read().decode())
    if not files:
        sys.exit(f"{archive}: has none of {', '.join(unpacked)}")
    if not lines:
        sys.exit(f"{archive}: has no code in {', '.join(counted)}")
    print(f"lines {lines}")


main()
