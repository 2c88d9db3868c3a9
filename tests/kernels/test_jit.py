"""How kernels are marked: strict arithmetic, and a cache of each world that one process writes at a time."""

from __future__ import annotations

import importlib
import json
import os
import pkgutil
import shutil
import subprocess
import sys
import threading
import time
from pathlib import Path
from typing import Any

import pytest
from numba.core.dispatcher import Dispatcher

import proreus
from proreus.kernels import cache_dir
from proreus.kernels import jit as compiled_module
from proreus.kernels.jit import SHARED, _OneWriter, digests_of


def test_no_kernel_may_regroup_its_sums() -> None:
    """A resumed run equals an unbroken one to the last bit only if every copy of a kernel rounds alike."""
    kernels: set[Dispatcher] = set()
    for module_info in pkgutil.walk_packages(proreus.__path__, "proreus."):
        if module_info.name != "proreus.__main__":
            module = importlib.import_module(module_info.name)
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


_KERNEL = "from {constants} import FACTOR\n\n\n@compiled\ndef times(x):\n    return FACTOR * x\n"


@pytest.fixture
def package(tmp_path: Path) -> Path:
    """A package with shared kernels and two worlds; their kernels take constants from files: by name, and
    as a module."""
    files = {
        "kernels/rng.py": "@compiled\ndef draw(x):\n    return x\n",
        "cli/main.py": "def run():\n    pass\n",
        "worlds/__init__.py": "",
        "worlds/one/state/kernel.py": _KERNEL.format(constants="proreus.worlds.one.model"),
        "worlds/one/model.py": "FACTOR = 2\n",
        "worlds/one/play.py": "from proreus.worlds.one.state.kernel import times\n",
        "worlds/two/columns.py": "@packable\nclass Columns:\n    pass\n",
        "worlds/two/kernel.py": "from proreus.worlds.two import codes as c\n@compiled\ndef f(): return c.A\n",
        "worlds/two/codes.py": "A = 1\n",
    }
    for name, text in files.items():
        (tmp_path / "proreus" / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / "proreus" / name).write_text(text)
    return tmp_path / "proreus"


@pytest.mark.parametrize(
    ("edited", "recompiled"),
    [
        ("kernels/rng.py", {SHARED, "one", "two"}),
        ("worlds/one/state/kernel.py", {"one"}),
        ("worlds/one/model.py", {"one"}),
        ("worlds/two/columns.py", {"two"}),
        ("worlds/two/codes.py", {"two"}),
        ("worlds/one/play.py", set()),
        ("cli/main.py", set()),
    ],
)
def test_an_edit_starts_afresh_only_what_it_concerns(
    package: Path, edited: str, recompiled: set[str]
) -> None:
    before = digests_of(package)
    with (package / edited).open("a") as file:
        file.write("# another version\n")
    after = digests_of(package)
    assert set(before) == set(after) == {SHARED, "one", "two"}
    assert {group for group in before if before[group] != after[group]} == recompiled


def test_every_world_has_machine_code_of_its_own() -> None:
    assert {SHARED, "pods", "vms", "rebalance"} <= set(digests_of(Path(proreus.__path__[0])))


def test_four_versions_of_each_group_are_kept(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    root = tmp_path / "proreus" / "machine-code"
    make = compiled_module._folder.__wrapped__
    make("vms", "other")
    for number in range(6):
        folder = make("pods", f"version{number}")
        assert folder == root / "pods" / f"version{number}" and folder.is_dir()
        os.utime(folder, (number, number))
    assert sorted(path.name for path in (root / "pods").iterdir()) == [f"version{n}" for n in (2, 3, 4, 5)]
    assert (root / "vms" / "other").is_dir()


_TOY = """
import json

from proreus.kernels.jit import compiled
from proreus.kernels.structs import _PACKERS
from proreus.kernels.rng import next_below, seeded
from proreus.worlds.vms.state.servers import Servers, first_place

from beside import FACTOR


@compiled
def times(rng, x):
    return FACTOR * x + 0 * next_below(rng, 3)


result = times(seeded(0), 2)
kept = {"times": times, "shared": next_below, "vms": first_place, "packer": _PACKERS[Servers]}
told = {name: kernel.stats.cache_path for name, kernel in kept.items()}
print(json.dumps({"result": result, "hits": sum(times.stats.cache_hits.values()), **told}))
"""


@pytest.fixture
def toy(tmp_path: Path) -> Path:
    """Kernels outside the package, which call one of its own and take a constant from a file beside them."""
    (tmp_path / "toy").mkdir()
    (tmp_path / "toy" / "toy.py").write_text(_TOY)
    (tmp_path / "toy" / "beside.py").write_text("FACTOR = 3\n")
    return tmp_path / "toy" / "toy.py"


def _run(toy: Path, **variables: str) -> dict[str, Any]:
    inherited = {name: value for name, value in os.environ.items() if name != "NUMBA_CACHE_DIR"}
    done = subprocess.run(
        [sys.executable, toy], env={**inherited, **variables}, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    document: dict[str, Any] = json.loads(done.stdout)
    return document


def test_kernels_of_somebody_else_are_kept_and_never_stale(toy: Path, tmp_path: Path) -> None:
    cache = str(tmp_path / "cache")
    first, second = _run(toy, XDG_CACHE_HOME=cache), _run(toy, XDG_CACHE_HOME=cache)
    assert (first["result"], first["hits"]) == (6, 0)
    assert (second["result"], second["hits"]) == (6, 1)
    os.utime(toy, (1e9, 1e9))  # the time of a file is not its contents: nothing is written over
    assert _run(toy, XDG_CACHE_HOME=cache)["hits"] == 1
    (toy.parent / "beside.py").write_text("FACTOR = 5\n")
    edited = _run(toy, XDG_CACHE_HOME=cache)
    assert (edited["result"], edited["hits"]) == (10, 0)
    root = tmp_path / "cache" / "proreus" / "machine-code"
    groups = {name: Path(edited[name]).relative_to(root).parts[0] for name in ("shared", "vms", "packer")}
    assert groups == {"shared": SHARED, "vms": "vms", "packer": "vms"}
    assert Path(edited["times"]).relative_to(root).parts[0].startswith("toy-")


_OF_THE_PACKAGE = """
import json

from proreus.kernels.rng import next_below, seeded

next_below(seeded(0), 3)
file = next_below.py_func.__code__.co_filename
print(json.dumps({"file": file, "hits": sum(next_below.stats.cache_hits.values()) > 0}))
"""


def test_copies_of_the_package_share_their_code(tmp_path: Path) -> None:
    """A clone beside another one, or a second environment, does not compile everything again."""
    source, copy = Path(proreus.__file__).parent, tmp_path / "copy"
    shutil.copytree(source, copy / "proreus", ignore=shutil.ignore_patterns("__pycache__", "pretrained"))
    script = tmp_path / "script.py"
    script.write_text(_OF_THE_PACKAGE)
    first, second = (
        _run(script, XDG_CACHE_HOME=str(tmp_path / "cache"), PYTHONPATH=str(place))
        for place in (source.parent, copy)
    )
    assert Path(first["file"]).is_relative_to(source) and Path(second["file"]).is_relative_to(copy)
    assert (first["hits"], second["hits"]) == (False, True)


def test_a_home_that_cannot_be_written_is_no_error(toy: Path, tmp_path: Path) -> None:
    """The code is then kept among the temporary files, where only its owner can write."""
    (tmp_path / "file").write_text("no folder can be made in here")
    (tmp_path / "temporary").mkdir()
    closed = {"XDG_CACHE_HOME": str(tmp_path / "file"), "TMPDIR": str(tmp_path / "temporary")}
    first, second = _run(toy, **closed), _run(toy, **closed)
    assert (first["result"], first["hits"], second["hits"]) == (6, 0, 1)
    private = tmp_path / "temporary" / f"proreus-{os.getuid()}"
    assert Path(first["times"]).is_relative_to(private) and private.stat().st_mode & 0o777 == 0o700


def test_a_private_folder_that_others_can_write_is_not_used(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "file"))
    (tmp_path / "file").write_text("")
    private = tmp_path / f"proreus-{os.getuid()}"
    assert cache_dir.place_for("pods", "x") == private / "machine-code" / "pods" / "x"
    private.chmod(0o777)
    assert cache_dir.place_for("pods", "x") is None
    private.rename(tmp_path / "elsewhere")
    private.symlink_to(tmp_path / "elsewhere")
    assert cache_dir.place_for("pods", "x") is None


def test_where_code_can_be_kept_nowhere_it_is_compiled_anew(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_: object) -> None:
        raise RuntimeError("cannot cache function: no locator available")

    monkeypatch.setattr(compiled_module, "_KernelCache", refuse)

    def twice(x: int) -> int:
        return 2 * x

    assert compiled_module.compiled(twice)(4) == 8


def test_code_that_cannot_be_saved_stops_nobody(tmp_path: Path) -> None:
    class Full:
        cache_path = str(tmp_path / "kernels")

        def save_overload(self, signature: object, data: object) -> None:
            raise OSError(28, "No space left on device")

    _OneWriter(Full()).save_overload(None, None)


def test_where_another_folder_is_named_numba_chooses(toy: Path, tmp_path: Path) -> None:
    named = _run(toy, XDG_CACHE_HOME=str(tmp_path / "cache"), NUMBA_CACHE_DIR=str(tmp_path / "named"))
    assert all(Path(named[name]).parent == tmp_path / "named" for name in ("times", "shared", "vms"))
    assert not (tmp_path / "cache").exists()
