"""Training must run where there is neither a command line nor Gymnasium: on a borrowed machine with a GPU."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

_SOURCE = Path(__file__).resolve().parents[2] / "src"
_WITHOUT = """
import sys

class Absent:
    def find_spec(self, name, path=None, target=None):
        if name.partition(".")[0] in ("tyro", "gymnasium", "msgspec", "uvicorn", "grpc", "httpx"):
            raise ModuleNotFoundError(f"No module named {name!r}", name=name)

sys.meta_path.insert(0, Absent())
import proreus
from proreus.learning.learner import learner_at
from proreus.worlds import WORLDS, world

for name in WORLDS:
    for algorithm, learner in world(name).learners.items():
        learner_at(learner)
        print(name, algorithm)
"""


def test_every_learner_is_imported_without_a_command_line_and_without_gymnasium() -> None:
    ended = subprocess.run(
        (sys.executable, "-c", _WITHOUT),
        capture_output=True,
        text=True,
        env={**os.environ, "PYTHONPATH": str(_SOURCE)},
        timeout=120,
        check=False,
    )
    assert ended.returncode == 0, ended.stderr
    assert "pods ppo" in ended.stdout.splitlines()
