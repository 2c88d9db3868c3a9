"""Fetching public files: what is kept is what was published, in full or not at all.

A file is written beside its place and renamed when its checksum is right. A broken connection leaves what
came so far, and the next attempt goes on from there.
"""

from __future__ import annotations

import hashlib
import http.client
import os
import urllib.error
import urllib.request
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import BinaryIO

from proreus.data.remotes import Remote
from proreus.model.errors import InputError, WorkError
from proreus.model.files import make_folder
from proreus.version import __version__

Progress = Callable[[int, int], None]
"""Hears how many bytes of a file are here, and of how many."""
_TIMEOUT_SECONDS = 30.0
_CHUNK = 1 << 16
_PARTIAL, _NOT_SATISFIABLE = 206, 416


def fetch(remote: Remote, folder: Path, progress: Progress | None = None) -> bool:
    """Bring a file into the data folder; False: it was there already.

    A file of that name that is another one is the user's and stays: an InputError. What the network does not
    give is a WorkError that says where to get it by hand, and where to put it.
    """
    target = folder / remote.file
    if target.exists():
        checksum = _sha256(target)
        if checksum != remote.sha256:
            raise InputError(
                f"another file is here (sha256 {checksum[:12]}…, published is {remote.sha256[:12]}…): "
                "move it away to fetch the published one",
                file=target,
            )
        return False
    make_folder(target.parent)
    partial = target.with_name(f".{target.name}.part")
    try:
        _download(remote, partial, progress)
        checksum = _sha256(partial)
        if checksum != remote.sha256:
            partial.unlink()
            raise WorkError(
                f"{remote.address}: not what was published: its sha256 is {checksum} and not {remote.sha256}"
                "; nothing is kept"
            )
        partial.replace(target)
    except (urllib.error.URLError, http.client.HTTPException, ConnectionError, TimeoutError) as error:
        raise WorkError(
            f"cannot be fetched: {_reason(error)}; by hand: {remote.address} belongs at {target}"
        ) from error
    except OSError as error:
        raise WorkError(f"{target}: cannot be written: {error.strerror}") from error
    return True


def from_mirror(remote: Remote, mirror: str) -> Remote:
    """The same file from elsewhere: a mirror has the files under the names that a data folder has."""
    return replace(remote, address=f"{mirror.rstrip('/')}/{remote.file}") if mirror else remote


def _download(remote: Remote, partial: Path, progress: Progress | None) -> None:
    """Append what is missing; a server that does not know ranges sends everything again."""
    here = partial.stat().st_size if partial.exists() else 0
    if here == remote.size:
        return
    if here > remote.size:
        partial.unlink()
        here = 0
    request = urllib.request.Request(remote.address, headers={"User-Agent": f"proreus/{__version__}"})
    if here:
        request.add_header("Range", f"bytes={here}-")
    try:
        with urllib.request.urlopen(request, timeout=_TIMEOUT_SECONDS) as answer:
            goes_on = answer.status == _PARTIAL and _begins_at(answer, here)
            with partial.open("ab" if goes_on else "wb") as file:
                _copy(answer, file, remote, progress)
    except urllib.error.HTTPError as error:
        if error.code != _NOT_SATISFIABLE or not here:
            raise
        partial.unlink()  # what is here is not the beginning of what is there
        _download(remote, partial, progress)


def _begins_at(answer: http.client.HTTPResponse, here: int) -> bool:
    return str(answer.headers.get("Content-Range", "")).startswith(f"bytes {here}-")


def _copy(
    answer: http.client.HTTPResponse, file: BinaryIO, remote: Remote, progress: Progress | None
) -> None:
    while chunk := answer.read(_CHUNK):
        file.write(chunk)
        if file.tell() > remote.size:
            break  # more than was published: the checksum will say so
        if progress is not None:
            progress(file.tell(), remote.size)
    file.flush()
    os.fsync(file.fileno())
    if file.tell() < remote.size:
        raise http.client.IncompleteRead(b"", remote.size - file.tell())


def _reason(error: Exception) -> str:
    match error:
        case urllib.error.HTTPError():
            return f"the server answers {error.code} {error.reason}"
        case http.client.IncompleteRead():
            return "the connection broke before the end (the next attempt goes on from there)"
        case urllib.error.URLError():
            return f"no connection ({error.reason})"
        case _:
            return f"the connection broke ({error})"


def _sha256(path: Path) -> str:
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()
