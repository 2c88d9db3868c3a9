"""An archive made anew of what was checked in another one: nothing unchecked is passed on."""

from __future__ import annotations

import io
import json
import tarfile
import tempfile
from pathlib import Path

from proreus.engine.runtimes.images.archive import MANIFEST_TYPES, Manifest, read_archive
from proreus.engine.runtimes.images.layers import Allowance
from proreus.engine.runtimes.images.reference import full_name
from proreus.engine.runtimes.images.store import unpack
from proreus.model.errors import UsageError

_MOST_FILES = 200_000


def repack(path: Path, name: str, target: Path, most_bytes: int) -> list[str]:
    """Check the archive, unpacking it for trial, and write it anew for containerd; the names of its images.

    Raises `BadArchive`, or `UsageError` where a name is missing.
    """
    with tempfile.TemporaryDirectory(dir=target.parent) as draft:
        blobs = Path(draft, "blobs")
        blobs.mkdir()
        manifests = read_archive(path, blobs, most_bytes)
        if name and len(manifests) > 1:
            raise UsageError(f"{path}: it has {len(manifests)} images, which cannot all be {name!r}")
        names = []
        for number, manifest in enumerate(manifests):
            called = name or manifest.name
            if not called:
                raise UsageError(f"{path}: the image in it has no name: state one")
            names.append(full_name(called))
            root = Path(draft, f"root-{number}")
            root.mkdir()
            unpack(manifest, root, Allowance(most_bytes, _MOST_FILES), path)
        described = [
            _descriptor(manifest, called, blobs) for manifest, called in zip(manifests, names, strict=True)
        ]
        with tarfile.open(target, "w") as tar:
            add_document(tar, "oci-layout", {"imageLayoutVersion": "1.0.0"})
            add_document(tar, "index.json", {"schemaVersion": 2, "manifests": described})
            for blob in sorted(blobs.iterdir()):
                tar.add(blob, f"blobs/sha256/{blob.name}", recursive=False)
    return names


def _descriptor(manifest: Manifest, name: str, blobs: Path) -> dict[str, object]:
    blob = blobs / manifest.digest.removeprefix("sha256:")
    return {
        "mediaType": json.loads(blob.read_bytes()).get("mediaType") or MANIFEST_TYPES[0],
        "digest": manifest.digest,
        "size": blob.stat().st_size,
        "annotations": {"io.containerd.image.name": name},
    }


def encoded(document: dict[str, object]) -> bytes:
    """As it stands in an archive."""
    return json.dumps(document).encode()


def add_document(tar: tarfile.TarFile, name: str, document: dict[str, object]) -> None:
    """One of an archive's own documents."""
    data = encoded(document)
    member = tarfile.TarInfo(name)
    member.size, member.mode = len(data), 0o644
    tar.addfile(member, io.BytesIO(data))
