"""Files of workflows, told apart by their endings, and the parts that data is split into."""

from __future__ import annotations

from functools import lru_cache
from pathlib import Path

from proreus.contract.scenario import Part
from proreus.model.errors import InputError
from proreus.worlds.workflows.datasets.dax import read_dax
from proreus.worlds.workflows.datasets.wfformat import read_wfformat
from proreus.worlds.workflows.model import Workflow

_READERS = {".json": read_wfformat, ".xml": read_dax, ".dax": read_dax}
_PARTS: tuple[Part, ...] = (
    "train", "test", "train", "valid", "train", "test", "train", "valid", "train", "test"
)  # fmt: skip
"""Of the files in order, again and again: neighbours are of one family, so that each part has all of them."""

LEAST_FOR_PARTS = len(_PARTS)
"""Files: with fewer, parts are the same."""


@lru_cache(maxsize=512)
def read_workflow(path: Path) -> Workflow:
    """The workflow of a file of either format."""
    if path.suffix.lower() not in _READERS:
        raise InputError(f"a workflow is a file {', '.join(_READERS)}", file=path)
    return _READERS[path.suffix.lower()](path)


def files_in(folder: Path) -> tuple[Path, ...]:
    """All workflows below a folder in order of their names; a file is itself."""
    if folder.is_file():
        return (folder,)
    if not folder.is_dir():
        raise InputError("no such file or folder", file=folder)
    paths = sorted(path for path in folder.rglob("*") if path.suffix.lower() in _READERS and path.is_file())
    if not paths:
        raise InputError(f"there is no workflow ({', '.join(_READERS)}) in here", file=folder)
    return tuple(paths)


def of_part(files: tuple[Path, ...], part: Part) -> tuple[Path, ...]:
    """Those of a part; parts share no file. Where there are fewer than ten, every part has all of them."""
    if len(files) < LEAST_FOR_PARTS:
        return files
    return tuple(file for at, file in enumerate(files) if _PARTS[at % len(_PARTS)] == part)
