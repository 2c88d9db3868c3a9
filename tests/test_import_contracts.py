"""The import contracts have no holes: a forbidden import in any world, in either half of one, breaks them."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

_ROOT = Path(__file__).parents[1]
_LINTER = Path(sys.executable).with_name("lint-imports")
_HOLES = [
    ("engine/trace/log.py", "proreus.worlds.rebalance.snapshots.simulation", "The engine knows"),
    ("engine/trace/log.py", "proreus.worlds.inference.document", "The engine knows"),
    ("serving/allowed_hosts.py", "proreus.worlds.rebalance.windows.play", "The service knows"),
    ("worlds/inference/env.py", "proreus.worlds.inference.policies", "Environments are for any learner"),
    ("worlds/inference/training/__init__.py", "gymnasium", "Training needs neither"),
    ("worlds/rebalance/windows/training/__init__.py", "rich", "Training needs neither"),
    (
        "worlds/inference/policies/__init__.py",
        "proreus.worlds.inference.simulation",
        "Policies decide without",
    ),
]


@pytest.fixture(scope="module")
def source(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A copy of the package and its contracts."""
    copy = tmp_path_factory.mktemp("contracts")
    shutil.copytree(_ROOT / "src", copy / "src", ignore=shutil.ignore_patterns("__pycache__", "pretrained"))
    shutil.copy(_ROOT / "pyproject.toml", copy)
    return copy


def _broken(source: Path) -> list[str]:
    """Names of the contracts that do not hold."""
    done = subprocess.run(
        [str(_LINTER), "--no-cache"],
        cwd=source,
        env={**os.environ, "PYTHONPATH": str(source / "src")},
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    assert "Contracts:" in done.stdout, done.stdout + done.stderr
    return [line.partition(" BROKEN")[0] for line in done.stdout.splitlines() if " BROKEN" in line]


@pytest.mark.parametrize(("module", "imported", "contract"), _HOLES)
def test_a_forbidden_import_is_noticed(source: Path, module: str, imported: str, contract: str) -> None:
    file = source / "src" / "proreus" / module
    text = file.read_text()
    file.write_text(f"{text}\nimport {imported}\n")
    try:
        assert any(name.startswith(contract) for name in _broken(source))
    finally:
        file.write_text(text)
