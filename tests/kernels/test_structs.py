"""Types of columns by name: Numba's cache asks for them before anybody has imported what defines them."""

from __future__ import annotations

import subprocess
import sys
from typing import NamedTuple

import numba
import numpy as np
import pytest

from proreus.kernels import structs
from proreus.kernels.arrays import F64, I64
from proreus.kernels.jit import compiled

NAME = "Packed__" + "__dot__".join(("proreus", "policies", "networks", "bidder", "Bidder"))


def test_a_type_is_found_by_a_process_that_never_imported_its_columns() -> None:
    code = (
        "import sys; from proreus.kernels import structs as packed\n"
        "assert 'proreus.policies.networks.bidder' not in sys.modules\n"
        f"print(getattr(packed, {NAME!r}).__name__)"
    )
    ended = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert ended.stdout.strip() == NAME


@pytest.mark.parametrize("name", ["nothing", "Packed__", "Packed__proreus__dot__kernels__dot__rng__dot__No"])
def test_what_is_no_type_is_no_attribute(name: str) -> None:
    assert not hasattr(structs, name)


def test_an_environment_starts_where_the_command_line_left_its_machine_code() -> None:
    """Rules share an index of machine code with what an environment needs; the environment imports none."""
    play = "from proreus.cli.main import main; main(['simulate', 'vms', '--policy', 'learned', '--quiet'])"
    make = "import gymnasium, proreus; gymnasium.make('proreus/VirtualMachines-v0').reset(seed=1)"
    for code in (play, f"{make}; print('ready')"):
        ended = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
        assert ended.returncode == 0, ended.stderr
    assert ended.stdout.strip() == "ready"


@numba.njit  # type: ignore[untyped-decorator]
def add_to_row(values: F64, row: int) -> float:
    """Writes through what is cut out of a borrowed array."""
    lent = structs.borrowed(values)[row]
    lent[0] += 1.0
    return float(lent.sum())


def test_a_borrowed_array_is_the_same_memory_and_its_owner_still_owns_it() -> None:
    values = np.zeros((3, 2))
    add_to_row(values, 0)
    before = sys.getrefcount(values)
    for _ in range(100):
        add_to_row(values, 1)
    assert values.tolist() == [[1.0, 0.0], [100.0, 0.0], [0.0, 0.0]]
    assert sys.getrefcount(values) == before


@structs.packable
class Inner(NamedTuple):
    """Columns inside others."""

    counts: I64


@structs.packable
class Outer(NamedTuple):
    """Columns of all kinds."""

    values: F64
    inner: Inner
    factor: float


@compiled
def fill(outer: Outer, row: int) -> float:
    """An inner kernel: whatever it is given, a handle or one that is lent."""
    outer.values[row, 0] += outer.factor
    outer.inner.counts[row] += 1
    return float(outer.values[row].sum())


@compiled
def fill_all(outer: Outer) -> float:
    """An entry that lends what it was given."""
    outer = structs.lent(outer)
    total = 0.0
    for row in range(outer.values.shape[0]):
        total += fill(outer, row)
    return total


def test_lent_columns_are_the_same_memory_and_their_owner_still_owns_them() -> None:
    handle = structs.pack(Outer(np.zeros((3, 2)), Inner(np.zeros(3, dtype=np.int64)), 2.0))
    assert fill_all(handle) == 6.0
    before = sys.getrefcount(handle.values), sys.getrefcount(handle.inner.counts)
    for _ in range(100):
        fill_all(handle)
    assert fill(handle, 1) == 204.0
    assert handle.values.tolist() == [[202.0, 0.0], [204.0, 0.0], [202.0, 0.0]]
    assert handle.inner.counts.tolist() == [101, 102, 101]
    assert (sys.getrefcount(handle.values), sys.getrefcount(handle.inner.counts)) == before
