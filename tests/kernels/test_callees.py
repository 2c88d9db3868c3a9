"""What kernels call is written down once, and only of what Python calls machine code is made."""

from __future__ import annotations

import importlib
import json
import os
import pickle
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

_KERNELS = """
import numpy as np

from proreus.kernels.jit import compiled


@compiled
def scaled(value, times):
    if times > 100:
        raise ValueError("too much")
    return value * times


@compiled
def scaled_thrice(value):
    return scaled(scaled(scaled(value, 2), 3), int(value))


@compiled
def scaled_by_small(value, times):
    return scaled(value, times[0])


@compiled
def factorial(number):
    if number < 2:
        return 1
    return number * factorial(number - 1)


@compiled
def applied(kernel, value):
    return kernel(value, 4)


@compiled
def shifted(value, by=1):
    return value + by


@compiled
def shifted_twice(value):
    return shifted(shifted(value), by=5)


@compiled
def shared_sum(values):
    return values.sum() + scaled(1.0, 2)
"""


@pytest.fixture
def kernels(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Any:
    """Counted where nothing was ever compiled: a cache would load what a call needs, uncounted."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    monkeypatch.delenv("NUMBA_CACHE_DIR", raising=False)
    (tmp_path / "scaling.py").write_text(_KERNELS)
    monkeypatch.syspath_prepend(tmp_path)
    module = importlib.import_module("scaling")
    monkeypatch.setitem(sys.modules, "scaling", module)  # gone with the folder
    return module


def test_constants_and_sizes_of_callers_write_a_kernel_down_but_once(kernels: Any, tmp_path: Path) -> None:
    assert kernels.scaled_thrice(5.0) == 150.0
    assert kernels.scaled_by_small(5.0, np.array([3], np.int32)) == 15.0
    assert kernels.scaled_by_small(5.0, np.array([3], np.int8)) == 15.0
    assert len(kernels.scaled.callee.signatures) == 1
    assert Path(kernels.scaled_thrice.stats.cache_path).is_relative_to(tmp_path / "cache")


def test_machine_code_is_made_only_of_what_python_calls(kernels: Any) -> None:
    kernels.scaled_thrice(5.0)
    assert (len(kernels.scaled_thrice.signatures), kernels.scaled.signatures) == (1, [])
    assert kernels.scaled(5.0, 3) == 15.0
    assert (len(kernels.scaled.signatures), len(kernels.scaled.callee.signatures)) == (1, 1)


def test_kernels_call_themselves_take_kernels_and_leave_arguments_out(kernels: Any) -> None:
    assert kernels.factorial(5) == 120
    assert kernels.applied(kernels.scaled, 2.5) == 10.0
    assert (kernels.shifted_twice(1), kernels.shifted(1), kernels.shifted(value=1, by=3)) == (7, 2, 4)


def test_errors_come_out_of_what_is_called(kernels: Any) -> None:
    with pytest.raises(ValueError, match="too much"):
        kernels.scaled_thrice(101.0)
    with pytest.raises(ValueError, match="too much"):
        kernels.scaled(1.0, 101)


def test_a_kernel_travels(kernels: Any) -> None:
    assert pickle.loads(pickle.dumps(kernels.scaled))(5.0, 3) == 15.0


_FIRST = "import json, scaling\nprint(json.dumps([scaling.scaled_thrice(5.0)]))"
_SECOND = """
import json, numpy, scaling
try:
    scaling.scaled_thrice(101.0)
except ValueError as error:
    said = str(error)
hits = [sum(k.stats.cache_hits.values()) for k in (scaling.scaled_thrice, scaling.scaled.callee)]
total = scaling.shared_sum(numpy.ones(3))
hits_after = sum(scaling.scaled.callee.stats.cache_hits.values())
print(json.dumps([said, hits, total, hits_after]))
"""


def test_another_process_loads_entries_and_compiles_others_from_what_was_written_down(tmp_path: Path) -> None:
    (tmp_path / "scaling.py").write_text(_KERNELS)
    inherited = {name: value for name, value in os.environ.items() if name != "NUMBA_CACHE_DIR"}
    environment = {**inherited, "XDG_CACHE_HOME": str(tmp_path / "cache"), "PYTHONPATH": str(tmp_path)}

    def printed(script: str) -> Any:
        done = subprocess.run(
            [sys.executable, "-c", script], env=environment, cwd=tmp_path, capture_output=True, text=True
        )
        assert done.returncode == 0, done.stderr
        return json.loads(done.stdout)

    assert printed(_FIRST) == [150.0]
    assert printed(_SECOND) == ["too much", [1, 0], 5.0, 1]
