"""The one way to mark a Numba kernel, and where its machine code is kept.

Numba's own cache notices a change in the file of a kernel but not in the
kernels it calls, which live in other files here. So the code is kept in a
folder named after a digest of every source file that defines a kernel: any
edit, any upgrade, starts a fresh folder and no stale code can run.
"""

from __future__ import annotations

import contextlib
import hashlib
import os
import shutil
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, TypeVar, cast

import numba

if sys.platform != "win32":
    import fcntl

_PACKAGE = Path(__file__).resolve().parent.parent
_MARK = "@" + "compiled"
_KEEP = 4

Kernel = TypeVar("Kernel", bound=Callable[..., Any])


def _digest() -> str:
    digest = hashlib.sha256(numba.__version__.encode())
    for source in sorted(_PACKAGE.rglob("*.py")):
        text = source.read_bytes()
        if _MARK.encode() in text:
            digest.update(source.name.encode() + text)
    return digest.hexdigest()[:16]


def _choose_cache_folder() -> None:
    """Point Numba at a folder of our own, and drop the folders of older versions of the code."""
    if "NUMBA_CACHE_DIR" in os.environ:
        return
    root = Path(os.environ.get("XDG_CACHE_HOME", Path.home() / ".cache")) / "proreus" / "kernels"
    folder = root / _digest()
    try:
        folder.mkdir(parents=True, exist_ok=True)
        os.utime(folder)
        older = sorted(root.iterdir(), key=lambda path: path.stat().st_mtime, reverse=True)[_KEEP:]
    except OSError:
        return  # a read-only home: Numba falls back to its own choice of place
    for path in older:
        shutil.rmtree(path, ignore_errors=True)
    numba.config.CACHE_DIR = str(folder)


_choose_cache_folder()


def compiled(function: Kernel) -> Kernel:
    """Compile `function` with Numba on first call; its machine code is cached on disk.

    Strict arithmetic, no `fastmath`: the compiler keeps several copies of a kernel, in itself and inside its
    callers, and which of them runs depends on what a process compiled and what it loaded. If sums may be
    regrouped the copies differ in the last digit, and a resumed training run differs from an unbroken one.
    """
    dispatcher: Any = numba.njit(cache=True, nogil=True, error_model="numpy")(function)
    if hasattr(dispatcher, "_cache"):  # under NUMBA_DISABLE_JIT it is the function itself
        dispatcher._cache = _OneWriter(dispatcher._cache)
    return cast(Kernel, dispatcher)


class _OneWriter:
    """Numba's cache of a kernel, written by one process at a time.

    Numba picks the name of a file from an index that it read a moment ago, so two processes that compile the
    same kernel for different types may each take the same name, and one would then load the other's code.
    """

    def __init__(self, cache: Any) -> None:
        self._cache = cache

    def __getattr__(self, name: str) -> Any:
        return getattr(self._cache, name)

    def save_overload(self, signature: Any, data: Any) -> None:
        """As Numba's, under a lock on the folder."""
        folder = Path(self._cache.cache_path)
        with contextlib.suppress(OSError):  # no such folder and none to be made: Numba tells, or does without
            folder.mkdir(parents=True, exist_ok=True)
        with _locked(folder / "lock"):
            self._cache.save_overload(signature, data)


@contextlib.contextmanager
def _locked(path: Path) -> Iterator[None]:
    if sys.platform == "win32":  # no such locks: let one process compile at a time there
        yield
        return
    try:
        handle = os.open(path, os.O_RDWR | os.O_CREAT, 0o644)
    except OSError:  # a folder that cannot be written: nothing will be saved there, so nothing is at risk
        yield
        return
    try:
        fcntl.flock(handle, fcntl.LOCK_EX)
        yield
    finally:
        os.close(handle)  # and with it goes the lock


def compiled_inline(function: Kernel) -> Kernel:
    """A piece of a kernel under a name of its own: its code becomes part of whoever calls it.

    For small kernels at the heart of a loop, where a call and its counting of references cost more than the
    work.
    """
    return cast(Kernel, numba.njit(nogil=True, error_model="numpy", inline="always")(function))
