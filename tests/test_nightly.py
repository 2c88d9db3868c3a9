"""The list of tests that wait for the night names tests that exist."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

from tests import nightly


def test_every_name_of_the_list_is_a_test() -> None:
    files = sorted({name.partition("::")[0] for name in nightly.NIGHTLY})
    collected = subprocess.run(
        [sys.executable, "-m", "pytest", "--collect-only", "-q", *(f"tests/{file}" for file in files)],
        cwd=Path(__file__).parents[1],
        capture_output=True,
        text=True,
        check=True,
    )
    assert nightly.unknown(line for line in collected.stdout.splitlines() if "::" in line) == []


def test_a_name_that_no_test_has_is_noticed() -> None:
    assert nightly.unknown([f"tests/{name}" for name in nightly.NIGHTLY[1:]]) == [nightly.NIGHTLY[0]]
