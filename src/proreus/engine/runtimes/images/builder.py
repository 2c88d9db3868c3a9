"""Images made of programs of this machine, with no other tool: each with the libraries that it needs.

A program and its libraries stand in the image where they stand here, so that they find each other.
"""

from __future__ import annotations

import hashlib
import io
import platform
import subprocess
import sys
import sysconfig
import tarfile
import tempfile
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from proreus.engine.runtimes.images.archive import MANIFEST_TYPES
from proreus.engine.runtimes.images.repack import add_document, encoded
from proreus.model.errors import InputError, WorkError

MACHINE_PYTHON = "proreus.local/python:3"
"""The image that a node makes by itself, when a pod asks for it: this machine's Python."""
_ARCHITECTURES = {"x86_64": "amd64", "aarch64": "arm64"}
_LAYER = "application/vnd.oci.image.layer.v1.tar"
_CONFIG = "application/vnd.oci.image.config.v1+json"
_PATH = "PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"
_USERS = b"root:x:0:0:root:/:/bin/sh\nnobody:x:65534:65534:nobody:/:/bin/sh\n"
_FOLDERS = ("bin", "etc", "tmp", "proc", "sys", "dev")
_LIBRARY_CACHE = Path("/etc/ld.so.cache")
_NOT_NEEDED = {
    *("__pycache__", "site-packages", "dist-packages", "test", "tests", "idlelib", "tkinter", "turtledemo"),
    *("ensurepip", "lib2to3", "pydoc_data"),
}
_COMMAND_SECONDS = 60


@dataclass
class _Layer:
    """The one layer of an image, as it is written."""

    tar: tarfile.TarFile
    names: set[str] = field(default_factory=set)

    def folder(self, name: str, mode: int = 0o755) -> None:
        """With those that it is in."""
        parent, _, _ = name.rpartition("/")
        if parent:
            self.folder(parent)
        if name and name not in self.names:
            self._add(name, tarfile.DIRTYPE, mode)

    def file(self, name: str, content: bytes, mode: int) -> None:
        """Anybody's to read, root's to write; the same name a second time is left out."""
        if name not in self.names:
            self.folder(name.rpartition("/")[0])
            self._add(name, tarfile.REGTYPE, mode, content)

    def link(self, name: str, target: str) -> None:
        """By another name."""
        if name not in self.names:
            self.folder(name.rpartition("/")[0])
            self._add(name, tarfile.SYMTYPE, 0o777, target=target)

    def machine_file(self, path: Path) -> None:
        """At the path that it has here, executable where it is."""
        mode = 0o755 if path.stat().st_mode & 0o111 else 0o644
        self.file(str(path).lstrip("/"), path.read_bytes(), mode)

    def _add(self, name: str, kind: bytes, mode: int, content: bytes = b"", target: str = "") -> None:
        member = tarfile.TarInfo(name)
        member.type, member.mode, member.size, member.linkname = kind, mode, len(content), target
        self.tar.addfile(member, io.BytesIO(content))
        self.names.add(name)


def pack_programs(target: Path, name: str, programs: Sequence[Path]) -> None:
    """An archive with an image of these programs, found in /bin; of busybox with all that it can be called.

    Raises `InputError` for what is not a program, `WorkError` where its libraries are not found.
    """
    for program in programs:
        if not program.is_file():
            raise InputError("no such program", file=program)
    _pack(target, name, programs, (), [f"/bin/{programs[0].name}"])


def pack_python(target: Path) -> None:
    """An archive with an image of the Python that this is run by, without what was installed into it."""
    python = Path(getattr(sys, "_base_executable", "") or sys.executable)
    library = Path(sysconfig.get_path("stdlib")).resolve()
    _pack(target, MACHINE_PYTHON, [python], list(_library_files(library)), ["/bin/python3"])


def _library_files(folder: Path) -> Iterable[Path]:
    for entry in sorted(folder.iterdir()):
        if entry.name in _NOT_NEEDED or entry.name.startswith("config-"):
            continue
        if entry.is_dir():
            yield from _library_files(entry)
        elif entry.is_file():
            yield entry


def _pack(
    target: Path, name: str, programs: Sequence[Path], files: Sequence[Path], command: list[str]
) -> None:
    with tempfile.TemporaryFile(dir=target.parent) as draft:
        with tarfile.open(fileobj=draft, mode="w", format=tarfile.PAX_FORMAT) as tar:
            _fill(_Layer(tar), programs, files)
        draft.seek(0)
        digest = f"sha256:{hashlib.file_digest(draft, 'sha256').hexdigest()}"
        size = draft.tell()
        draft.seek(0)
        machine = platform.machine()
        config = encoded(
            {
                "os": "linux",
                "architecture": _ARCHITECTURES.get(machine, machine),
                "config": {"Env": [_PATH], "Cmd": command},
                "rootfs": {"type": "layers", "diff_ids": [digest]},
            }
        )
        manifest = encoded(
            {
                "schemaVersion": 2,
                "mediaType": MANIFEST_TYPES[0],
                "config": _described(config, _CONFIG),
                "layers": [{"mediaType": _LAYER, "digest": digest, "size": size}],
            }
        )
        index = _described(manifest, MANIFEST_TYPES[0])
        index["annotations"] = {"org.opencontainers.image.ref.name": name}
        with tarfile.open(target, "w") as archive:
            add_document(archive, "oci-layout", {"imageLayoutVersion": "1.0.0"})
            add_document(archive, "index.json", {"schemaVersion": 2, "manifests": [index]})
            for blob in (config, manifest):
                _add_blob(archive, hashlib.sha256(blob).hexdigest(), len(blob), io.BytesIO(blob))
            _add_blob(archive, digest.removeprefix("sha256:"), size, draft)


def _fill(layer: _Layer, programs: Sequence[Path], files: Sequence[Path]) -> None:
    for folder in _FOLDERS:
        layer.folder(folder, 0o1777 if folder == "tmp" else 0o755)
    layer.file("etc/passwd", _USERS, 0o644)
    if _LIBRARY_CACHE.is_file():
        layer.machine_file(_LIBRARY_CACHE)
    for program in programs:
        real = program.resolve()
        layer.machine_file(real)
        called = {program.name, *_other_names(real)}
        for alias in sorted(called):
            layer.link(f"bin/{alias}", str(real))
    for file in files:
        layer.machine_file(file)
    loaded = [program.resolve() for program in programs] + [file for file in files if ".so" in file.suffixes]
    for library in _libraries(loaded):
        layer.machine_file(library)


def _other_names(program: Path) -> list[str]:
    """What else a program can be called: busybox is many."""
    if program.name.startswith("python3"):
        return ["python3"]
    if program.name != "busybox":
        return []
    return _said([str(program), "--list"]).split()


def _libraries(programs: Sequence[Path]) -> list[Path]:
    """What the machine's linker would load for them; nothing for one that is whole by itself."""
    words = _said(["ldd", *map(str, programs)]).split()
    given = {str(program) for program in programs}
    files = {word for word in words if word.startswith("/") and word.rstrip(":") not in given}
    return [Path(word) for word in sorted(files) if Path(word).is_file()]


def _said(command: Sequence[str]) -> str:
    """What a program of this machine prints; its exit code says no more than that some file is static."""
    try:
        done = subprocess.run(command, capture_output=True, timeout=_COMMAND_SECONDS, check=False)
    except (OSError, subprocess.TimeoutExpired) as error:
        raise WorkError(f"{command[0]}: {error}") from error
    return done.stdout.decode(errors="replace")


def _described(blob: bytes, kind: str) -> dict[str, Any]:
    return {"mediaType": kind, "digest": f"sha256:{hashlib.sha256(blob).hexdigest()}", "size": len(blob)}


def _add_blob(archive: tarfile.TarFile, name: str, size: int, content: Any) -> None:
    member = tarfile.TarInfo(f"blobs/sha256/{name}")
    member.size, member.mode = size, 0o644
    archive.addfile(member, content)
