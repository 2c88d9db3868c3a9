"""A learner that says who it is and never ends: for tests of what becomes of it."""

from __future__ import annotations

import os
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from proreus.model.experience import Experience
from proreus.model.files import write_atomically
from proreus.worlds.pods.policies.vector.model import Candidate, Weights


def hold(weights: Weights, experiences: Sequence[Experience], settings: Mapping[str, Any]) -> Candidate:
    """Writes the number of its process into the file that the settings name."""
    del weights, experiences
    write_atomically(Path(settings["file"]), str(os.getpid()).encode())
    while True:
        time.sleep(1.0)
