"""The images that a node holds, unpacked; imported from archives, removed, and collected under a budget."""

from __future__ import annotations

import json
import shutil
import tempfile
import threading
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from proreus.engine.runtimes.images.archive import Manifest, read_archive
from proreus.engine.runtimes.images.checked_stream import BadArchive
from proreus.engine.runtimes.images.layers import Allowance, apply_layer, scoped, tree_size
from proreus.engine.runtimes.images.reference import full_name
from proreus.engine.runtimes.protocol import Image
from proreus.model.errors import UsageError

_INDEX = "images.json"
_DRAFT = ".draft-"
_KERNELS = ("dev", "proc", "sys")
"""Folders that a runtime fills for every container."""
_LONGEST_TABLE = 1024 * 1024
"""Bytes of /etc/passwd that are looked at."""


@dataclass(frozen=True, slots=True)
class Unpacked:
    """An image, ready to be run."""

    digest: str
    names: tuple[str, ...]
    root: Path
    size: int
    used: float
    """When something was last started from it, by the wall clock."""
    config: Mapping[str, Any]
    """The `config` of the image's configuration, in OCI's words."""

    @property
    def entrypoint(self) -> tuple[str, ...]:
        """What is run, unless the pod says otherwise."""
        return tuple(str(word) for word in self.config.get("Entrypoint") or ())

    @property
    def command(self) -> tuple[str, ...]:
        """Its arguments."""
        return tuple(str(word) for word in self.config.get("Cmd") or ())

    @property
    def folder(self) -> str:
        """Where it is run."""
        return str(self.config.get("WorkingDir") or "")

    @property
    def environment(self) -> dict[str, str]:
        """What the image adds to the environment."""
        pairs = (str(variable).partition("=") for variable in self.config.get("Env") or ())
        return {name: value for name, equals, value in pairs if equals}

    def user(self) -> tuple[int | None, int | None]:
        """By number; names are looked up in the image's own /etc/passwd and /etc/group, wherever links in it
        lead. Raises `BadArchive`: who is not in it is not root instead."""
        user, _, group = str(self.config.get("User") or "").partition(":")
        uid, usual = _number(self.root, "passwd", user)
        gid, _ = _number(self.root, "group", group)
        return uid, gid if gid is not None else usual


def unpack(manifest: Manifest, root: Path, allowance: Allowance, path: Path) -> None:
    """All layers into the folder `root`; raises `BadArchive`, which names the archive at `path`."""
    for layer in manifest.layers:
        try:
            with layer.blob.open("rb") as blob:
                digest = apply_layer(root, blob, allowance, compressed=layer.compressed)
            if digest != layer.unpacked_digest:
                raise BadArchive(f"a layer unpacks to {digest}, not {layer.unpacked_digest}")
        except BadArchive as error:
            raise BadArchive(str(error), file=path) from error
    for name in _KERNELS:
        place = root / name
        if place.is_symlink() or (place.exists() and not place.is_dir()):
            # runc makes devices and links by that path: it would make them where a link leads to.
            raise BadArchive(f"its /{name} is no folder", file=path)


class ImageStore:
    """See the module. Calls block, and may come from any thread."""

    def __init__(self, folder: Path, most_bytes: int, budget: int, most_files: int = 200_000) -> None:
        self._folder, self._most, self._budget = folder, most_bytes, budget
        self._most_files = most_files
        self._lock = threading.RLock()
        folder.mkdir(parents=True, exist_ok=True, mode=0o700)
        for draft in folder.glob(_DRAFT + "*"):  # an import that was killed
            shutil.rmtree(draft)
        self._held = {held.digest: held for held in self._load()}
        for entry in folder.iterdir():
            if entry.is_dir() and f"sha256:{entry.name}" not in self._held:
                shutil.rmtree(entry)

    def import_archive(self, path: Path, name: str = "") -> list[Image]:
        """The archive's images are held from now on; raises `BadArchive` and leaves everything as it was."""
        draft = Path(tempfile.mkdtemp(prefix=_DRAFT, dir=self._folder))
        try:
            blobs = draft / "blobs"
            blobs.mkdir()
            manifests = read_archive(path, blobs, self._most)
            if name and len(manifests) > 1:
                raise UsageError(f"{path}: it has {len(manifests)} images, which cannot all be {name!r}")
            images = []
            for manifest in manifests:
                called = name or manifest.name
                if not called or ("/" not in called and ":" not in called and not name):
                    raise UsageError(f"{path}: the image in it has no name: state one")
                images.append(self._keep(manifest, full_name(called), draft, path))
            return images
        finally:
            shutil.rmtree(draft, ignore_errors=True)

    def _keep(self, manifest: Manifest, name: str, draft: Path, path: Path) -> Image:
        root = draft / "root"
        place = self._folder / manifest.digest.removeprefix("sha256:")
        with self._lock:
            known = self._held.get(manifest.digest)
        if known is None:
            root.mkdir(mode=0o755)
            unpack(manifest, root, Allowance(self._most, self._most_files), path)
            config = manifest.config.get("config") or {}
            known = Unpacked(manifest.digest, (), place / "root", tree_size(root), time.time(), config)
            place.mkdir(exist_ok=True)
            root.replace(place / "root")
        with self._lock:
            for other in list(self._held.values()):  # a name is of one image: the last that had it
                if name in other.names and other.digest != manifest.digest:
                    self._set(replace(other, names=tuple(tag for tag in other.names if tag != name)))
            self._set(replace(known, names=tuple(dict.fromkeys((*known.names, name)))))
            self._save()
            kept = self._held[manifest.digest]
        return Image((*kept.names, kept.digest), kept.size)

    def held(self) -> list[Image]:
        """All of them, by name."""
        with self._lock:
            held = sorted(self._held.values(), key=lambda image: (image.names, image.digest))
        return [Image((*image.names, image.digest), image.size) for image in held]

    def find(self, name: str) -> Unpacked | None:
        """By name or digest."""
        with self._lock:
            wanted = full_name(name) if name else ""
            digest = name.rpartition("@")[2]
            return next(
                (held for held in self._held.values() if wanted in held.names or held.digest == digest), None
            )

    def use(self, name: str) -> Unpacked | None:
        """By name or digest, for something that is started now."""
        with self._lock:
            image = self.find(name)
            if image is not None:
                image = self._set(replace(image, used=time.time()))
                self._save()
            return image

    def remove(self, name: str, in_use: Callable[[], set[str]] = set) -> bool:
        """Forget a name, and with its last one the image; whether it was there. One that runs is refused.

        Called by its digest, it goes with all its names.
        """
        with self._lock:
            image = self.find(name)
            if image is None:
                return False
            left = tuple(tag for tag in image.names if tag != full_name(name))
            if left and len(left) < len(image.names):
                self._set(replace(image, names=left))
                self._save()
                return True
            if image.digest in in_use():
                raise UsageError(f"image {name!r} is in use by a container")
            self._drop(image)
            return True

    def collect(self, in_use: Callable[[], set[str]]) -> list[Image]:
        """Until all fit the budget, the one that was not used for longest goes; who is in use stays."""
        gone = []
        with self._lock:
            busy = in_use()
            total = sum(held.size for held in self._held.values())
            for image in sorted(self._held.values(), key=lambda held: (held.used, held.digest)):
                if total <= self._budget:
                    break
                if image.digest not in busy:
                    total -= image.size
                    self._drop(image)
                    gone.append(Image((*image.names, image.digest), image.size))
        return gone

    def _set(self, image: Unpacked) -> Unpacked:
        self._held[image.digest] = image
        return image

    def _drop(self, image: Unpacked) -> None:
        del self._held[image.digest]
        self._save()
        shutil.rmtree(self._folder / image.digest.removeprefix("sha256:"), ignore_errors=True)

    def _load(self) -> list[Unpacked]:
        try:
            written = json.loads((self._folder / _INDEX).read_bytes())
        except FileNotFoundError:
            return []
        loaded = [
            Unpacked(
                entry["digest"],
                tuple(entry["names"]),
                self._folder / entry["digest"].removeprefix("sha256:") / "root",
                entry["size"],
                entry["used"],
                entry["config"],
            )
            for entry in written
        ]
        return [image for image in loaded if image.root.is_dir()]

    def _save(self) -> None:
        written = [
            {
                "digest": held.digest,
                "names": held.names,
                "size": held.size,
                "used": held.used,
                "config": dict(held.config),
            }
            for held in self._held.values()
        ]
        draft = self._folder / (_INDEX + ".draft")
        draft.write_text(json.dumps(written))
        draft.replace(self._folder / _INDEX)


def _number(root: Path, table: str, name: str) -> tuple[int | None, int | None]:
    """The third and fourth field of a line in /etc/passwd, or another file like it."""
    if not name:
        return None, None
    if name.isdigit():
        return int(name), None
    file = scoped(root, ("etc", table))
    if file.is_file():
        with file.open("rb") as source:
            lines = source.read(_LONGEST_TABLE).decode(errors="replace").splitlines()
        for line in lines:
            fields = line.split(":")
            if fields[0] == name and len(fields) > 2 and fields[2].isdigit():
                group = fields[3] if len(fields) > 3 else ""
                return int(fields[2]), int(group) if group.isdigit() else None
    raise BadArchive(f"unable to find {name[:100]!r}: no matching entries in the image's /etc/{table}")
