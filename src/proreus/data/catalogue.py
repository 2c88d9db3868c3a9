"""Data folders: which files a dataset needs, from where, under which licence, and whether they are here.

Every world lists its own datasets in `datasets/catalogue.py`; the functions here take such a list. Data is
never part of the project: the folder is the user's, given with --data or in PROREUS_DATA, else the one that
`proreus data fetch` fills.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from fnmatch import fnmatch
from pathlib import Path
from typing import TypeVar

from proreus.data.remotes import Remote
from proreus.model.errors import InputError, unknown_name

VARIABLE = "PROREUS_DATA"
_HOW = f"point --data or {VARIABLE} at the folder that holds the datasets"


@dataclass(frozen=True)
class Dataset:
    """One dataset, or a family of them whose file names contain the last part of the dataset's name."""

    what: str
    licence: str
    files: tuple[str, ...]
    """Relative to the data folder; `*` stands for the member of the family."""
    alternatives: tuple[str, ...] = ()
    """Further places for the file with the `*`."""
    home: str = ""
    """Where it is published and described."""
    remotes: tuple[Remote, ...] = ()
    """The public files that `proreus data fetch` knows, of every member; none: it is fetched by hand."""


AnyDataset = TypeVar("AnyDataset", bound=Dataset)


def data_dir(explicit: Path | None) -> Path | None:
    """The data folder: `explicit` (from --data), else PROREUS_DATA, else what was fetched, else None."""
    variable = os.environ.get(VARIABLE)
    named = explicit or (Path(variable) if variable else None)
    if named is not None and not _is_folder(named):
        raise InputError(f"no such folder; {_HOW}", file=named)
    usual = user_data_dir()
    return named or (usual if usual is not None and _is_folder(usual) else None)


def user_data_dir() -> Path | None:
    """Where datasets are fetched to if nothing else is said; None: the user has no home."""
    named = os.environ.get("XDG_DATA_HOME")
    try:
        return (Path(named) if named else Path.home() / ".local" / "share") / "proreus"
    except RuntimeError:
        return None


def fetch_dir(explicit: Path | None) -> Path:
    """Where to fetch datasets to; it need not exist yet."""
    variable = os.environ.get(VARIABLE)
    path = explicit or (Path(variable) if variable else user_data_dir())
    if path is None:
        raise InputError("there is no home to keep data in: name a folder with --data")
    return path


def remotes_of(datasets: Mapping[str, Dataset], name: str) -> tuple[Remote, ...]:
    """The public files of a dataset, of one member of a family, or of a whole family ("openb")."""
    whole = name if name in datasets else f"{name}/*"
    if whole in datasets:
        patterns = (*datasets[whole].files, *datasets[whole].alternatives)
        return tuple(
            remote for remote in datasets[whole].remotes if any(fnmatch(remote.file, at) for at in patterns)
        )
    pattern, member = _find(datasets, name, None)
    dataset = datasets[pattern]
    known = {remote.file: remote for remote in dataset.remotes}
    needed = []
    for file in dataset.files:
        places = (file, *dataset.alternatives) if "*" in file else (file,)
        published = [known[at] for place in places if (at := place.replace("*", member)) in known]
        if not published and dataset.remotes:
            raise unknown_name("dataset", name, _published(pattern, dataset))
        needed += published[:1]
    return tuple(needed)


def _published(pattern: str, dataset: Dataset) -> Iterator[str]:
    """The members of a family that are public."""
    for place in (*dataset.files, *dataset.alternatives):
        before, star, after = place.partition("*")
        for remote in dataset.remotes if star else ():
            if remote.file.startswith(before) and remote.file.endswith(after):
                yield pattern.replace("*", remote.file.removeprefix(before).removesuffix(after))


def _is_folder(path: Path) -> bool:
    try:
        return path.is_dir()
    except OSError:  # a name that no file system takes
        return False


def known(datasets: Mapping[str, AnyDataset], folder: Path | None) -> dict[str, AnyDataset]:
    """Datasets by name; families become their members where the folder holds some."""
    names: dict[str, AnyDataset] = {}
    for name, dataset in datasets.items():
        members = _members(dataset, folder) if folder is not None else ()
        names.update({name.replace("*", member): dataset for member in members} or {name: dataset})
    return names


def holds(datasets: Mapping[str, Dataset], name: str, folder: Path | None) -> bool:
    """Whether the folder has every file of the dataset of that name."""
    if folder is None or "*" in name:
        return False
    pattern, member = _find(datasets, name, folder)
    try:
        for file in datasets[pattern].files:
            _locate(datasets[pattern], file, folder, member)
    except InputError:
        return False
    return True


def dataset_of(datasets: Mapping[str, AnyDataset], name: str, folder: Path | None) -> AnyDataset:
    """The dataset, or the family, of that name."""
    return datasets[_find(datasets, name, folder)[0]]


def folder_for(name: str, folder: Path | None) -> Path:
    """The data folder; an InputError where none was given, as the dataset of that name needs one."""
    if folder is None:
        raise InputError(f"the dataset {name!r} needs data files; {_HOW}, or proreus data fetch {name}")
    return folder


def files_of(datasets: Mapping[str, Dataset], name: str, folder: Path | None) -> tuple[Path, ...]:
    """The files of the dataset of that name; an InputError where one is missing."""
    pattern, member = _find(datasets, name, folder)
    here = folder_for(name, folder)
    return tuple(_locate(datasets[pattern], file, here, member) for file in datasets[pattern].files)


def _find(datasets: Mapping[str, Dataset], name: str, folder: Path | None) -> tuple[str, str]:
    """The key among the datasets and the member of the family that a name stands for."""
    if name in datasets and "*" not in name:
        return name, ""
    family, slash, member = name.partition("/")
    pattern = f"{family}/*"
    # A member becomes part of a file name, so it must not lead out of the folder.
    if not slash or pattern not in datasets or not member or not _is_plain(member):
        raise unknown_name("dataset", name, known(datasets, folder))
    return pattern, member


def _is_plain(member: str) -> bool:
    return all(character.isalnum() or character in "-_" for character in member)


def _members(dataset: Dataset, folder: Path) -> tuple[str, ...]:
    members = set()
    for pattern in (*dataset.files, *dataset.alternatives):
        if "*" in pattern:
            prefix, suffix = Path(pattern).name.split("*")
            members |= {p.name.removeprefix(prefix).removesuffix(suffix) for p in folder.glob(pattern)}
    return tuple(sorted(members))


def _locate(dataset: Dataset, file: str, folder: Path, member: str) -> Path:
    places = (file, *dataset.alternatives) if "*" in file else (file,)
    paths = [folder / place.replace("*", member) for place in places]
    for path in paths:
        if path.is_file():
            return path
    here = _members(dataset, folder)
    members = f" (there are: {', '.join(here)})" if member and here else ""
    raise InputError(f"no such file{members}; {_HOW}", file=paths[0])
