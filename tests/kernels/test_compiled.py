"""How kernels are marked: strict arithmetic, and a cache that one process writes at a time."""

from __future__ import annotations

import importlib
import pkgutil
import threading
import time
from pathlib import Path

from numba.core.dispatcher import Dispatcher

import proreus
from proreus.kernels.compiled import _OneWriter


def test_no_kernel_may_regroup_its_sums() -> None:
    """A resumed run equals an unbroken one to the last bit only if every copy of a kernel rounds alike."""
    kernels: set[Dispatcher] = set()
    for found in pkgutil.walk_packages(proreus.__path__, "proreus."):
        if found.name != "proreus.__main__":
            module = importlib.import_module(found.name)
            kernels |= {thing for thing in vars(module).values() if isinstance(thing, Dispatcher)}
    assert len(kernels) > 100
    assert [k.py_func.__name__ for k in kernels if k.targetoptions.get("fastmath")] == []


class _SlowCache:
    """Notices two writers at once, as Numba's index would not."""

    def __init__(self, folder: Path) -> None:
        self.cache_path, self.writers, self.saved, self.most = str(folder), 0, 0, 0

    def save_overload(self, signature: object, data: object) -> None:
        """As slow as compiling is."""
        self.writers += 1
        self.most = max(self.most, self.writers)
        time.sleep(0.01)
        self.writers -= 1
        self.saved += 1


def test_two_writers_of_one_kernel_wait_for_each_other(tmp_path: Path) -> None:
    cache = _SlowCache(tmp_path / "kernels")
    writers = [
        threading.Thread(target=_OneWriter(cache).save_overload, args=(sign, None)) for sign in range(8)
    ]
    for writer in writers:
        writer.start()
    for writer in writers:
        writer.join()
    assert (cache.saved, cache.most) == (8, 1)
    assert _OneWriter(cache).cache_path == cache.cache_path
