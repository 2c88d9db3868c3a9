"""Types of columns by name: Numba's cache asks for them before anybody has imported what defines them."""

from __future__ import annotations

import subprocess
import sys

import numba
import numpy as np
import pytest

from proreus.kernels import structs
from proreus.kernels.arrays import F64

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
