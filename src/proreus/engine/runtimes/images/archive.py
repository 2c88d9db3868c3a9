"""An OCI image layout in a tar file: no blob is believed before its digest is checked."""

from __future__ import annotations

import hashlib
import json
import platform
import re
import tarfile
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, BinaryIO

from proreus.engine.runtimes.images.checked_stream import BadArchive, CheckedStream
from proreus.engine.runtimes.images.layers import checked_parts

_DIGEST = re.compile(r"sha256:[0-9a-f]{64}")
_MOST_MEMBERS, _MOST_MANIFESTS, _MOST_LAYERS, _DEEPEST_INDEX = 10_000, 100, 127, 3
_MOST_JSON = 4 * 1024 * 1024
_DEEPEST_JSON = 32
_STEP = 1 << 16
INDEX_TYPES = (
    "application/vnd.oci.image.index.v1+json",
    "application/vnd.docker.distribution.manifest.list.v2+json",
)
MANIFEST_TYPES = (
    "application/vnd.oci.image.manifest.v1+json",
    "application/vnd.docker.distribution.manifest.v2+json",
)
_LAYER_TYPES = {
    "application/vnd.oci.image.layer.v1.tar": False,
    "application/vnd.oci.image.layer.v1.tar+gzip": True,
    "application/vnd.docker.image.rootfs.diff.tar": False,
    "application/vnd.docker.image.rootfs.diff.tar.gzip": True,
}
_NAMES = ("io.containerd.image.name", "org.opencontainers.image.ref.name")


@dataclass(frozen=True, slots=True)
class ImageLayer:
    """A blob that unpacks over what is below it."""

    blob: Path
    compressed: bool
    unpacked_digest: str


@dataclass(frozen=True, slots=True)
class Manifest:
    """One image of an archive; its blobs are there and have their digests."""

    digest: str
    name: str
    """As the archive has it; "" where it has none."""
    config: Mapping[str, Any]
    layers: tuple[ImageLayer, ...]


def read_archive(path: Path, blobs: Path, most_bytes: int) -> list[Manifest]:
    """The archive's images for this machine, its blobs copied into the folder `blobs`.

    Raises `BadArchive`, which names the file; whatever stands in `blobs` then is to be thrown away.
    """
    try:
        with path.open("rb") as file:
            documents = _copy_blobs(file, blobs, most_bytes)
        images = list(_images(documents, blobs))
    except BadArchive as error:
        raise BadArchive(str(error), file=path) from error
    except (tarfile.TarError, ValueError, OverflowError, RecursionError) as error:
        raise BadArchive(f"not an OCI image archive: {error}", file=path) from error
    except OSError as error:
        raise BadArchive(error.strerror or str(error), file=path) from error
    if not images:
        raise BadArchive(f"it has no image for linux/{_architecture()}", file=path)
    return images


def _copy_blobs(file: BinaryIO, blobs: Path, most_bytes: int) -> dict[str, bytes]:
    """Blobs into their folder; the two documents that are none."""
    compressed = file.read(2) == b"\x1f\x8b"
    file.seek(0)
    stream = CheckedStream(file, most_bytes + _MOST_MEMBERS * 4096, compressed=compressed)
    documents: dict[str, bytes] = {}
    with tarfile.open(fileobj=stream, mode="r:") as tar:
        for number, member in enumerate(tar):
            if number >= _MOST_MEMBERS:
                raise BadArchive("it has too many members")
            tar.members = []  # type: ignore[attr-defined]  # the list would grow with the archive
            parts = checked_parts(member.name)
            if member.isdir():
                continue
            if not member.isreg() or member.issparse():
                raise BadArchive(f"{member.name!r} is not a plain file")
            match parts:
                case ("oci-layout" | "index.json" as name,):
                    if name in documents:
                        raise BadArchive(f"it has two files {name}")
                    documents[name] = _content(tar, member, _MOST_JSON)
                case ("blobs", "sha256", name):
                    _copy_blob(tar, member, blobs / _named(f"sha256:{name}"))
                case _:
                    continue  # what other tools add (manifest.json, repositories) is of no use here
    return documents


def _content(tar: tarfile.TarFile, member: tarfile.TarInfo, most: int) -> bytes:
    if member.size > most:
        raise BadArchive(f"{member.name!r} is too large")
    return b"".join(_pieces(tar, member))


def _pieces(tar: tarfile.TarFile, member: tarfile.TarInfo) -> Iterator[bytes]:
    source = tar.extractfile(member)
    assert source is not None  # it is a regular file
    left = member.size
    while left:
        data = source.read(min(_STEP, left))
        if not data:
            raise BadArchive(f"{member.name!r} ends too early")
        left -= len(data)
        yield data


def _copy_blob(tar: tarfile.TarFile, member: tarfile.TarInfo, target: Path) -> None:
    if target.exists():
        raise BadArchive(f"it has the blob {target.name} twice")
    digest = hashlib.sha256()
    with target.open("xb") as file:
        for data in _pieces(tar, member):
            digest.update(data)
            file.write(data)
    if digest.hexdigest() != target.name:
        raise BadArchive(f"the blob {target.name} has the digest {digest.hexdigest()}")


def _images(documents: Mapping[str, bytes], blobs: Path) -> Iterator[Manifest]:
    if "oci-layout" not in documents or "index.json" not in documents:
        raise BadArchive("it is not an OCI image layout: oci-layout or index.json is missing")
    if not str(_json(documents["oci-layout"], "oci-layout").get("imageLayoutVersion")).startswith("1."):
        raise BadArchive("its image layout is not of version 1")
    yield from _of_index(_json(documents["index.json"], "index.json"), blobs, _DEEPEST_INDEX, "")


def _of_index(index: Mapping[str, Any], blobs: Path, deepest: int, name: str) -> Iterator[Manifest]:
    listed = index.get("manifests")
    if index.get("schemaVersion") != 2 or not isinstance(listed, list) or len(listed) > _MOST_MANIFESTS:
        raise BadArchive("an index in it is not of version 2, or lists too much")
    if deepest == 0:
        raise BadArchive("its indexes lead to ever more indexes")
    for descriptor in listed:
        if not isinstance(descriptor, dict):
            raise BadArchive("an index lists what is no descriptor")
        wanted = descriptor.get("platform") or {}
        if wanted and (wanted.get("os"), wanted.get("architecture")) != ("linux", _architecture()):
            continue
        stated = descriptor.get("annotations") or {}
        own = next((str(stated[key]) for key in _NAMES if stated.get(key)), name)
        document = _blob_json(descriptor, blobs)
        kind = descriptor.get("mediaType")
        if kind in INDEX_TYPES:
            yield from _of_index(document, blobs, deepest - 1, own)
        elif kind in MANIFEST_TYPES:
            manifest = _manifest(document, str(descriptor["digest"]), own, blobs)
            if manifest is not None:
                yield manifest
        else:
            raise BadArchive(f"an index lists what is no image: {str(kind)[:100]!r}")


def _manifest(document: Mapping[str, Any], digest: str, name: str, blobs: Path) -> Manifest | None:
    layers = document.get("layers")
    if document.get("schemaVersion") != 2 or not isinstance(layers, list) or len(layers) > _MOST_LAYERS:
        raise BadArchive("a manifest is not of version 2, or has too many layers")
    config = _blob_json(document.get("config") or {}, blobs)
    if (config.get("os", "linux"), config.get("architecture", _architecture())) != ("linux", _architecture()):
        return None
    unpacked = (config.get("rootfs") or {}).get("diff_ids")
    if not isinstance(unpacked, list) or len(unpacked) != len(layers):
        raise BadArchive("an image states other layers in its configuration than in its manifest")
    image_layers = []
    for layer, inner in zip(layers, unpacked, strict=True):
        kind = str(layer.get("mediaType"))
        if kind not in _LAYER_TYPES:
            raise BadArchive(f"a layer is of a kind that is not read here: {kind[:100]!r}")
        image_layers.append(ImageLayer(_blob(layer, blobs), _LAYER_TYPES[kind], str(inner)))
    return Manifest(digest, name, config, tuple(image_layers))


def _blob(descriptor: Mapping[str, Any], blobs: Path) -> Path:
    """The blob of a descriptor; `_copy_blob` has checked that it has the digest of its name."""
    blob = blobs / _named(str(descriptor.get("digest")))
    if not blob.is_file():
        raise BadArchive(f"the blob {blob.name} is missing")
    if descriptor.get("size") != blob.stat().st_size:
        raise BadArchive(f"the blob {blob.name} is not of the size that is stated")
    return blob


def _blob_json(descriptor: Mapping[str, Any], blobs: Path) -> dict[str, Any]:
    blob = _blob(descriptor, blobs)
    if blob.stat().st_size > _MOST_JSON:
        raise BadArchive(f"the blob {blob.name} is too large to be a document")
    return _json(blob.read_bytes(), blob.name)


def _json(data: bytes, name: str) -> dict[str, Any]:
    if data.count(b"{") + data.count(b"[") > 100_000:
        raise BadArchive(f"{name} is no sound document")
    try:
        document = json.loads(data)
    except (ValueError, RecursionError) as error:
        raise BadArchive(f"{name} is not JSON") from error
    if not isinstance(document, dict):
        raise BadArchive(f"{name} is not an object")
    return document


def _named(digest: str) -> str:
    if not _DIGEST.fullmatch(digest):
        raise BadArchive(f"{digest[:100]!r} is not a digest of sha256")
    return digest.removeprefix("sha256:")


def _architecture() -> str:
    return {"x86_64": "amd64", "aarch64": "arm64"}.get(platform.machine(), platform.machine())
