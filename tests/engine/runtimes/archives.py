"""OCI image archives made by hand: sound ones to run, and parts to make unsound ones of."""

from __future__ import annotations

import gzip
import hashlib
import io
import json
import platform
import subprocess
import tarfile
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from typing import Any

from tests.engine.runtimes.benches import IMAGE

ARCHITECTURE = {"x86_64": "amd64", "aarch64": "arm64"}.get(platform.machine(), platform.machine())
MANIFEST = "application/vnd.oci.image.manifest.v1+json"
LAYER = "application/vnd.oci.image.layer.v1.tar"
CONFIG = "application/vnd.oci.image.config.v1+json"


def digest(data: bytes) -> str:
    """As OCI writes it."""
    return f"sha256:{hashlib.sha256(data).hexdigest()}"


def entry(name: str, kind: bytes = tarfile.REGTYPE, **fields: Any) -> tarfile.TarInfo:
    """A member of a tar."""
    member = tarfile.TarInfo(name)
    member.type, member.mode = kind, fields.pop("mode", 0o755)
    for field_name, value in fields.items():
        setattr(member, field_name, value)
    return member


def tar_of(members: Iterable[tuple[tarfile.TarInfo, bytes]]) -> bytes:
    """A tar with these members; a content sets the size of its member unless that is stated."""
    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode="w", format=tarfile.PAX_FORMAT) as tar:
        for member, content in members:
            if content:
                member.size = len(content)
            tar.addfile(member, io.BytesIO(content))
    return buffer.getvalue()


@dataclass
class Archive:
    """An image layout that is being made; whatever is changed before `write` is written so."""

    layers: list[bytes]
    config: dict[str, Any] = field(default_factory=dict)
    name: str = IMAGE
    compressed: bool = False
    layer_type: str = ""
    platform: Mapping[str, str] = field(default_factory=lambda: {"os": "linux", "architecture": ARCHITECTURE})
    diff_ids: list[str] | None = None
    extra: list[tuple[tarfile.TarInfo, bytes]] = field(default_factory=list)
    blobs: dict[str, bytes] = field(default_factory=dict)
    index_changes: dict[str, Any] = field(default_factory=dict)
    manifest_changes: dict[str, Any] = field(default_factory=dict)
    layout: bytes = b'{"imageLayoutVersion": "1.0.0"}'

    def write(self, path: Path) -> Path:
        """The tar file."""
        path.write_bytes(self.content())
        return path

    def content(self) -> bytes:
        """Of the tar file."""
        packed = [gzip.compress(layer, 1) if self.compressed else layer for layer in self.layers]
        kind = self.layer_type or (LAYER + "+gzip" if self.compressed else LAYER)
        inner = self.diff_ids if self.diff_ids is not None else [digest(layer) for layer in self.layers]
        config = json.dumps(
            {**self.platform, "config": self.config, "rootfs": {"type": "layers", "diff_ids": inner}}
        ).encode()
        manifest = {
            "schemaVersion": 2,
            "mediaType": MANIFEST,
            "config": self._blob(config, CONFIG),
            "layers": [self._blob(one, kind) for one in packed],
            **self.manifest_changes,
        }
        described = self._blob(json.dumps(manifest).encode(), MANIFEST)
        if self.name:
            described["annotations"] = {"org.opencontainers.image.ref.name": self.name}
        index = {"schemaVersion": 2, "manifests": [described], **self.index_changes}
        members = [
            (entry("oci-layout"), self.layout),
            (entry("index.json"), json.dumps(index).encode()),
            *((entry(f"blobs/sha256/{name}"), data) for name, data in self.blobs.items()),
            *self.extra,
        ]
        return tar_of([member for member in members if member[1] or member in self.extra])

    def _blob(self, data: bytes, kind: str) -> dict[str, Any]:
        self.blobs.setdefault(digest(data).removeprefix("sha256:"), data)
        return {"mediaType": kind, "digest": digest(data), "size": len(data)}


def busybox_layer(busybox: Path) -> bytes:
    """A root with a shell and the usual small tools."""
    tools = (
        *("sh", "echo", "cat", "ls", "sleep", "grep", "touch", "test", "printf", "true", "false"),
        *("env", "id", "mkdir", "setsid", "ps", "kill", "rm", "head"),
    )
    folders = ("bin", "etc", "tmp", "proc", "sys", "dev", "mnt", "data")
    return tar_of(
        [
            *(
                (entry(name, tarfile.DIRTYPE, mode=0o1777 if name == "tmp" else 0o755), b"")
                for name in folders
            ),
            (entry("bin/busybox"), busybox.read_bytes()),
            *((entry(f"bin/{tool}", tarfile.SYMTYPE, linkname="busybox"), b"") for tool in tools),
            (entry("etc/passwd", mode=0o644), b"root:x:0:0::/:/bin/sh\napp:x:1000:1001::/:/bin/sh\n"),
        ]
    )


def program_layer(program: Path) -> bytes:
    """A program of this machine in /bin, and the libraries that it needs."""
    stdout = subprocess.run(["ldd", str(program)], check=True, capture_output=True, text=True).stdout
    needed = {Path(word) for word in stdout.split() if word.startswith("/")}
    files = [(f"bin/{program.name}", program), *((str(path).lstrip("/"), path) for path in sorted(needed))]
    return tar_of([(entry(name), file.read_bytes()) for name, file in files])


def busybox_archive(busybox: Path, path: Path, name: str = IMAGE, *programs: Path) -> Path:
    """An image of it, with other programs of this machine."""
    path.write_bytes(_busybox_image(busybox, name, *programs))
    return path


@cache
def _busybox_image(busybox: Path, name: str, *programs: Path) -> bytes:
    """Packed once: some hundred tests want the same."""
    config = {"Cmd": ["/bin/sh", "-c", "echo from the image"], "Env": ["PATH=/bin", "IMAGE_SAYS=hello"]}
    layers = [busybox_layer(busybox), *(program_layer(path) for path in programs)]
    return Archive(layers, config, name=name, compressed=True).content()
