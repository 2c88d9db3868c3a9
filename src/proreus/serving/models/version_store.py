"""Model versions on disk: complete or not there, checksummed, with a pointer to the live one.

    STORE/NAME/7/card.json, weights.safetensors    a checkpoint, never changed after it is there
    STORE/NAME/7/record.json                       where it came from, and whether it was rejected
    STORE/NAME/current                             the live version, and those that were live before it

A version is written into a temporary folder, made durable and renamed into place; the pointer is replaced by
a rename. A process that dies at any moment leaves either the old or the new state, and at worst a temporary
folder, which `sweep` and `gc` remove. Writers of one name take turns by a lock on its folder; readers need
none. A version whose files are damaged costs that version alone: it is listed as damaged.
"""

from __future__ import annotations

import contextlib
import fcntl
import json
import os
import re
import secrets
import shutil
import time
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

from proreus.model.errors import InputError, ProreusError, UsageError, WorkError, unknown_name
from proreus.model.files import make_folder, open_private, read_object, sweep_temporary, write_atomically
from proreus.policies.checkpoint import CARD, WEIGHTS, Checkpoint, load_checkpoint, read_card, save_checkpoint
from proreus.serving.model_version import CURRENT, VersionAnswer
from proreus.worlds.pods.policies.vector.model import VECTOR_ENCODING, VectorModel, model_of

RECORD, _LOCK = "record.json", ".lock"
_TEMPORARY = ".new-"
_NUMBER = re.compile(r"[0-9]{1,18}")
_LARGEST = 10**18
_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,99}")


@dataclass(frozen=True)
class _Pointer:
    live: int
    before: tuple[int, ...] = field(default=())
    """Versions that were live earlier, newest last; `rollback` goes back to the last of them."""


class ModelStore:
    """A folder of named models, each with numbered versions."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    @classmethod
    def open(cls, folder: Path) -> ModelStore:
        """The store in `folder`, which is made where it is missing."""
        make_folder(folder, private=True)
        return cls(folder)

    def names(self) -> list[str]:
        """Names of the models that have at least one version."""
        try:
            names = [
                path.name for path in self.folder.iterdir() if path.is_dir() and _NAME.fullmatch(path.name)
            ]
        except OSError as error:
            raise InputError(f"cannot be read: {error.strerror}", file=self.folder) from error
        return sorted(name for name in names if self._numbers(name))

    def add(
        self,
        name: str,
        checkpoint: Checkpoint,
        note: str,
        parent: int | None = None,
        *,
        rejected: bool = False,
    ) -> int:
        """Keep a checkpoint as the next version of `name`; the first one of a name is live at once."""
        if not _NAME.fullmatch(name):
            raise UsageError(
                f"{name!r} cannot be the name of a model: letters, digits, '.', '_' and '-' only"
            )
        place = self.folder / name
        make_folder(place, private=True)
        with self._locked(name):
            version = max(self._numbers(name), default=0) + 1
            temporary = place / f"{_TEMPORARY}{secrets.token_hex(8)}"
            record = {
                "note": note,
                "rejected": rejected,
                "parent": parent,
                "created": time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime()),
            }
            try:
                save_checkpoint(temporary, checkpoint, private=True)
                written = (json.dumps(record, indent=2) + "\n").encode()
                write_atomically(temporary / RECORD, written, private=True)
                _make_durable(temporary)
                temporary.rename(place / str(version))
            except (OSError, ProreusError):
                shutil.rmtree(temporary, ignore_errors=True)  # a full disk gets no fuller
                raise
            _make_durable(place)
            if not (place / CURRENT).exists() and not rejected:
                self._point(name, _Pointer(version))
        return version

    def load(self, name: str, version: int | None = None) -> VectorModel:
        """The model of a version, by default of the live one."""
        folder = self._folder_of(name, self.current(name) if version is None else version)
        checkpoint = load_checkpoint(folder, VECTOR_ENCODING)
        return model_of(checkpoint.card.kind, checkpoint.tensors, folder)

    def checkpoint(self, name: str, version: int) -> Checkpoint:
        """Card and weights of a version."""
        return load_checkpoint(self._folder_of(name, version), VECTOR_ENCODING)

    def current(self, name: str) -> int:
        """The live version."""
        return self._pointer(name).live

    def promote(self, name: str, version: int) -> None:
        """Make a version live; one whose files are damaged is refused. A damaged pointer is replaced."""
        with self._locked(name):
            self.load(name, version)
            try:
                now = self._pointer(name)
            except InputError:
                self._point(name, _Pointer(version))
                return
            if version != now.live:
                earlier = tuple(v for v in (*now.before, now.live) if v != version)
                self._point(name, _Pointer(version, earlier))

    def rollback(self, name: str) -> int:
        """Make the version live again that was live before this one; returns it."""
        with self._locked(name):
            now = self._pointer(name)
            there = set(self._numbers(name))
            earlier = [v for v in now.before if v in there]
            if not earlier:
                raise UsageError(f"{name}: no version was live before {now.live}")
            self.load(name, earlier[-1])
            self._point(name, _Pointer(earlier[-1], tuple(earlier[:-1])))
            return earlier[-1]

    def versions(self, name: str, live: int | None = None) -> list[VersionAnswer]:
        """All versions, oldest first; live: the one that is, where it is known, else as the store says."""
        live = self.current(name) if live is None else live
        records = []
        for version in self._numbers(name):
            try:
                records.append(self.record(name, version, live))
            except InputError as error:
                records.append(_damaged(version, str(error)))
            except UsageError:
                continue  # gone meanwhile
        return records

    def has(self, name: str, version: int) -> bool:
        """Whether there is such a version, in whatever state."""
        return version in self._numbers(name)

    def record(self, name: str, version: int, live: int | None = None) -> VersionAnswer:
        """What is known of a version without loading its weights."""
        folder = self._folder_of(name, version)
        card, record = read_card(folder / CARD), read_object(folder / RECORD)
        rejected, parent = bool(record.get("rejected", False)), record.get("parent")
        if parent is not None and (not isinstance(parent, int) or not 0 <= parent < _LARGEST):
            raise InputError("not the number of a version", file=folder / RECORD, field="parent")
        is_live = version == (self.current(name) if live is None else live)
        try:
            size = (folder / WEIGHTS).stat().st_size
        except OSError:
            size = 0
        return VersionAnswer(
            version=version,
            state="live" if is_live else "rejected" if rejected else "kept",
            note=str(record.get("note", "")),
            created=str(record.get("created", "")),
            scores=card.scores,
            parent=parent,
            sha256=card.checksum,
            bytes=size,
            kind=card.kind,
            steps=card.steps,
        )

    def gc(self, name: str, keep: int) -> list[int]:
        """Remove all but the newest `keep` versions, the live one and the one to roll back to."""
        if keep < 1:
            raise UsageError(f"--keep {keep}: keep at least 1 version")
        with self._locked(name):
            now = self._pointer(name)
            numbers = self._numbers(name)
            spared = {now.live, *now.before[-1:], *numbers[-keep:]}
            removed = [version for version in numbers if version not in spared]
            place = self.folder / name
            for version in removed:
                (place / str(version)).rename(place / f"{_TEMPORARY}{secrets.token_hex(8)}")
            _make_durable(place)
            _sweep(place)
            return removed

    def sweep(self, name: str) -> None:
        """Remove what processes that were killed while they wrote have left."""
        with self._locked(name):
            _sweep(self.folder / name)

    @contextlib.contextmanager
    def alone(self) -> Iterator[None]:
        """One process at a time, over all names: for whoever looks before it adds."""
        with open_private(self.folder / _LOCK, "ab") as file:
            fcntl.flock(file, fcntl.LOCK_EX)
            yield

    def _numbers(self, name: str) -> list[int]:
        try:
            entries = list((self.folder / name).iterdir())
        except OSError:
            return []
        return sorted(int(path.name) for path in entries if _NUMBER.fullmatch(path.name))

    def _folder_of(self, name: str, version: int) -> Path:
        self._must_exist(name)
        numbers = self._numbers(name)
        if version not in numbers:
            known = ", ".join(map(str, numbers[-10:]))
            raise UsageError(f"{name} has no version {version} (known: {known})")
        return self.folder / name / str(version)

    def _must_exist(self, name: str) -> None:
        if not _NAME.fullmatch(name) or not self._numbers(name):
            raise unknown_name("model", name, self.names())

    def _pointer(self, name: str) -> _Pointer:
        self._must_exist(name)
        path = self.folder / name / CURRENT
        entries = read_object(path)
        try:
            return _Pointer(int(entries["live"]), tuple(int(v) for v in entries["before"]))
        except (KeyError, TypeError, ValueError, OverflowError) as error:
            raise InputError("does not say which version is live", file=path) from error

    def _point(self, name: str, pointer: _Pointer) -> None:
        content = json.dumps({"live": pointer.live, "before": list(pointer.before[-50:])}) + "\n"
        write_atomically(self.folder / name / CURRENT, content.encode(), private=True)
        _make_durable(self.folder / name)

    @contextlib.contextmanager
    def _locked(self, name: str) -> Iterator[None]:
        """One writer at a time, over all processes; a writer that dies lets go."""
        if not (self.folder / name).is_dir():
            raise unknown_name("model", name, self.names())
        with open_private(self.folder / name / _LOCK, "ab") as file:
            fcntl.flock(file, fcntl.LOCK_EX)
            yield


def _damaged(version: int, why: str) -> VersionAnswer:
    return VersionAnswer(version, "damaged", why, "", {}, None, "", 0, "", 0)


def _sweep(place: Path) -> None:
    for path in place.glob(f"{_TEMPORARY}*"):
        shutil.rmtree(path, ignore_errors=True)
    sweep_temporary(place)


def _make_durable(folder: Path) -> None:
    """Flush the names in a folder to the disk: what was renamed stays renamed after a loss of power."""
    try:
        handle = os.open(folder, os.O_RDONLY)
        try:
            os.fsync(handle)
        finally:
            os.close(handle)
    except OSError as error:
        raise WorkError(f"{folder}: cannot be made durable: {error.strerror}") from error
