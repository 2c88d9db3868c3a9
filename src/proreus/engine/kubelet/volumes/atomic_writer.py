"""Files that a volume is given, put there at once: whoever reads sees the old ones or the new, no mixture.

As a kubelet does it: a folder of its own for every version, the link `..data` to the newest, and for every
file or folder at the top a link by way of that.
"""

from __future__ import annotations

import os
import shutil
import tempfile
import time
from collections.abc import Mapping
from pathlib import Path, PurePosixPath
from typing import NamedTuple

DATA = "..data"
_OWN = ".."
"""How the names of all begin that is not the volume's content."""


class Given(NamedTuple):
    """The content of a file, and its mode."""

    content: bytes
    mode: int


def publish(place: Path, files: Mapping[str, Given]) -> bool:
    """Have the volume hold these files, by path, and no others; whether that changed anything."""
    place.mkdir(parents=True, exist_ok=True)
    data = place / DATA
    tops = {PurePosixPath(name).parts[0] for name in files}
    if data.is_symlink() and _standing(data) == files and _tops(place) == tops:
        return False
    version = Path(tempfile.mkdtemp(prefix=time.strftime("..%Y_%m_%d_%H_%M_%S."), dir=place))
    version.chmod(0o755)
    for name, given in files.items():
        target = version / name
        target.parent.mkdir(parents=True, exist_ok=True)
        target.write_bytes(given.content)
        target.chmod(given.mode)
    _link(data, version.name)
    for top in tops:
        _link(place / top, f"{DATA}/{top}")
    for entry in list(place.iterdir()):
        stale = entry.name not in tops and entry.name not in (DATA, version.name)
        if stale and entry.is_dir() and not entry.is_symlink():
            shutil.rmtree(entry)
        elif stale:
            entry.unlink()
    return True


def _standing(data: Path) -> dict[str, Given]:
    """What the newest version holds."""
    files = {}
    for folder, _, names in os.walk(data):
        for name in names:
            file = Path(folder, name)
            files[str(file.relative_to(data))] = Given(file.read_bytes(), file.stat().st_mode & 0o7777)
    return files


def _tops(place: Path) -> set[str]:
    return {entry.name for entry in place.iterdir() if not entry.name.startswith(_OWN)}


def _link(link: Path, target: str) -> None:
    """A link, in place of whatever stood there, with no moment in between."""
    draft = link.with_name(f"{_OWN}{link.name}.draft")
    draft.unlink(missing_ok=True)
    draft.symlink_to(target)
    draft.replace(link)
