"""The one way to mark a Numba kernel, and where its machine code is kept.

Numba's own cache notices a change in the file of a kernel but not in the
kernels it calls, which live in other files here. So the code is kept in a
folder named after a digest of every source file that defines a kernel: any
edit, any upgrade, starts a fresh folder and no stale code can run.
"""

from __future__ import annotations

import hashlib
import os
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any, TypeVar, cast

import numba

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
    """Compile `function` with Numba on first call; its machine code is cached on disk."""
    return cast(Kernel, numba.njit(cache=True, nogil=True, error_model="numpy")(function))


def compiled_inline(function: Kernel) -> Kernel:
    """A piece of a kernel under a name of its own: its code becomes part of whoever calls it.

    For small kernels at the heart of a loop, where a call and its counting of references cost more than the
    work.
    """
    return cast(Kernel, numba.njit(nogil=True, error_model="numpy", inline="always")(function))


def compiled_arithmetic(function: Kernel) -> Kernel:
    """The same for the arithmetic of networks: sums may be regrouped and fused, so that they run in vectors.

    NaN and infinity still behave as they should. The result is the same on every run of one machine.
    """
    fast = {"contract", "reassoc", "nsz", "arcp"}
    return cast(Kernel, numba.njit(cache=True, nogil=True, error_model="numpy", fastmath=fast)(function))
