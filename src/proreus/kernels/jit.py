"""The one way to mark a Numba kernel, and where its machine code is kept.

Numba's own cache notices a change in the file of a kernel but not in the kernels it calls, nor in the columns
and constants that other files define. So the code is kept in a folder named after a digest of all of them:
any edit, any upgrade, starts a fresh folder and no stale code can run. Each world has folders of its own, for
its own kernels and the shared ones that it calls, so an edit in one world does not recompile the others.
"""

from __future__ import annotations

import contextlib
import hashlib
import os
import re
import shutil
import sys
from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping
from functools import lru_cache, partial
from pathlib import Path
from typing import Any, TypeVar, cast

import numba
from numba.core.caching import CacheImpl, FunctionCache, InTreeCacheLocator

from proreus.kernels import compile_notice
from proreus.kernels.cache_dir import can_be_written, place_for
from proreus.kernels.callees import CalleeCacheImpl, Entry, EntryCacheImpl

if sys.platform != "win32":
    import fcntl

SHARED = "shared"
_PACKAGE = Path(__file__).resolve().parent.parent
_MARKS = (b"@" + b"compiled", b"@" + b"packable")
_CONSTANT = re.compile(rb"\b[A-Z][A-Z0-9_]+\b")
_NAME = re.compile(rb"\w+")
_KEEP = 4
_FORMAT = 3
"""Of what is kept in a folder; counts up where older folders must not be read any more."""

Kernel = TypeVar("Kernel", bound=Callable[..., Any])


def group_of(file: Path, package: Path) -> str:
    """Whose kernels a file of the package defines: a world's, or those that all worlds share."""
    parts = file.relative_to(package).parts
    return parts[1] if parts[0] == "worlds" and len(parts) > 2 else SHARED


def digests_of(package: Path) -> dict[str, str]:
    """For every group of kernels a digest of what its machine code is made of.

    That is every file that marks kernels or columns, and every file from which such a file imports constants,
    by name or as a module, as Numba puts their values into the code. The code of a world has shared kernels
    in it, but shared kernels know no world: one that takes kernels or columns of a world as arguments needs
    that world as its `home`.
    """
    imports = re.compile(rb"^from (%s\.[\w.]+) import (\([^)]*\)|.*)" % package.name.encode(), re.MULTILINE)
    sources: defaultdict[str, dict[str, bytes]] = defaultdict(dict)
    for file in sorted(package.rglob("*.py")):
        text = file.read_bytes()
        if not any(mark in text for mark in _MARKS):
            continue
        group = sources[group_of(file, package)]
        group[file.relative_to(package.parent).as_posix()] = text
        for module, names in imports.findall(text):
            folder = module.decode().replace(".", "/")
            defining = [f"{folder}.py"] if _CONSTANT.search(names) else []
            defining += [f"{folder}/{name.decode()}.py" for name in _NAME.findall(names)]  # whole modules
            for each in defining:
                if (package.parent / each).is_file():
                    group[each] = (package.parent / each).read_bytes()
    return {name: _digest({**sources[SHARED], **own}) for name, own in sources.items()}


def _digest(sources: Mapping[str, bytes]) -> str:
    digest = hashlib.sha256(f"{numba.__version__} {_FORMAT}".encode())
    for name in sorted(sources):
        digest.update(name.encode() + sources[name])
    return digest.hexdigest()[:16]


@lru_cache(maxsize=1)
def _own_digests() -> dict[str, str]:
    return digests_of(_PACKAGE)


@lru_cache(maxsize=1_024)
def folder_of(file: Path) -> Path | None:
    """Where the machine code of the kernels in a file is kept; None: where Numba chooses."""
    if "NUMBA_CACHE_DIR" in os.environ:
        return None
    file = file.resolve()
    if file.is_relative_to(_PACKAGE):
        group = group_of(file, _PACKAGE)
        return _folder(group, _own_digests()[group])
    return _folder(*_outside(_whole(file))) if file.is_file() else None


def _whole(file: Path) -> Path:
    """The outermost package that the file is in, or its folder where it is in none."""
    folder = file.parent
    while (folder / "__init__.py").is_file() and (folder.parent / "__init__.py").is_file():
        folder = folder.parent
    return folder


def _outside(folder: Path) -> tuple[str, str]:
    """Group and digest of somebody else's kernels: they may call any of ours, and all of their own."""
    files = folder.rglob("*.py") if (folder / "__init__.py").is_file() else folder.glob("*.py")
    sources = {file.relative_to(folder).as_posix(): file.read_bytes() for file in files}
    sources.update({f"proreus.{group}": digest.encode() for group, digest in _own_digests().items()})
    place = hashlib.sha256(str(folder).encode()).hexdigest()[:8]
    return f"{folder.name}-{place}", _digest(sources)


@lru_cache(maxsize=64)
def _folder(group: str, digest: str) -> Path | None:
    """A folder of that name, made now; those of older versions of the group's code are dropped."""
    folder = place_for(group, digest)
    if folder is None or not can_be_written(folder):
        return folder
    try:
        os.utime(folder)
        older = sorted(folder.parent.iterdir(), key=lambda path: path.stat().st_mtime, reverse=True)[_KEEP:]
    except OSError:  # another process is tidying up as well
        return folder
    for path in older:
        shutil.rmtree(path, ignore_errors=True)
    return folder


def compiled(function: Kernel, home: Path | None = None) -> Kernel:
    """Compile `function` with Numba on first call; its machine code is cached on disk.

    `home` is the file whose kernels it belongs to, where that is not its own file.

    Strict arithmetic, no `fastmath`: the compiler keeps several copies of a kernel, one inside each entry
    from Python, and which of them runs depends on who calls. If sums may be regrouped the copies differ in
    the last digit, and a resumed training run differs from an unbroken one.
    """
    if numba.config.DISABLE_JIT:
        return function
    kernel = Entry(function)
    folder = folder_of(home or Path(function.__code__.co_filename))
    with contextlib.suppress(RuntimeError):  # Numba finds no place for its code: it is compiled anew
        kernel._cache = _OneWriter(_KernelCache(function, EntryCacheImpl, folder))
        kernel.callee._cache = _OneWriter(_KernelCache(function, CalleeCacheImpl, folder))
    return cast(Kernel, kernel)


class _KernelCache(FunctionCache):  # type: ignore[misc]
    """Numba's cache of a kernel, in a folder that is chosen for this kernel alone."""

    def __init__(self, function: Callable[..., Any], kind: type, folder: Path | None) -> None:
        self._impl_class = partial(_in_folder, kind, folder)
        super().__init__(function)


def _in_folder(kind: Any, folder: Path | None, function: Callable[..., Any]) -> Any:
    if folder is None:
        return kind(function)
    locators = [_locator_in(folder), *CacheImpl._locator_classes]
    return type(kind.__name__, (kind,), {"_locator_classes": locators})(function)


def _place_in_package(file: Path) -> str:
    """Where a file of the package stands in it, wherever the package lies: copies of it share their code."""
    folder = file.resolve().parent
    return folder.relative_to(_PACKAGE).as_posix() if folder.is_relative_to(_PACKAGE) else ""


def _locator_in(folder: Path) -> type:
    class InFolder(InTreeCacheLocator):  # type: ignore[misc]
        def __init__(self, function: Callable[..., Any], file: str) -> None:
            super().__init__(function, file)
            place = _place_in_package(Path(file)) or self.get_suitable_cache_subpath(file)
            self._cache_path = str(folder / place)

        def ensure_cache_path(self) -> None:
            if can_be_written(folder):
                super().ensure_cache_path()

        def get_source_stamp(self) -> str:
            # Numba takes the time of the file, and where that differs begins its index anew and writes over
            # the files of the old one; a process that is killed in between leaves names that stand for other
            # kernels' code. The folder is of these sources alone, whatever their files' times.
            return folder.name

    return InFolder


class _OneWriter:
    """Numba's cache of a kernel, written by one process at a time.

    Numba picks the name of a file from an index that it read a moment ago, so two processes that compile the
    same kernel for different types may each take the same name, and one would then load the other's code.
    """

    def __init__(self, cache: Any) -> None:
        self._cache = cache

    def __getattr__(self, name: str) -> Any:
        return getattr(self._cache, name)

    def load_overload(self, signature: Any, target_context: Any) -> Any:
        """As Numba's; what is not there is compiled next."""
        kept = self._cache.load_overload(signature, target_context)
        if kept is None:
            compile_notice.tell()
        return kept

    def save_overload(self, signature: Any, data: Any) -> None:
        """As Numba's, under a lock on the folder; one that can only be read stays as it is."""
        folder = Path(self._cache.cache_path)
        # Kept or not, the code has been compiled and runs: a folder that is closed or full stops nobody.
        with contextlib.suppress(OSError):
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
