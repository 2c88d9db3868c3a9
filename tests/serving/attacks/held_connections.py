"""A learner that says who it is and never ends, and a service that runs it: `python -m ... FOLDER`."""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from proreus.model.experience import Experience
from proreus.model.files import write_atomically
from proreus.serving.online.learner import OnlineLearner, OnlineSettings
from proreus.worlds.pods.policies.vector.model import Candidate, Weights
from tests.serving.serving_cases import a_store, experience_log, places, played


def hold(weights: Weights, experiences: Sequence[Experience], settings: Mapping[str, Any]) -> Candidate:
    """Writes the number of its process into the file that the settings name."""
    del weights, experiences
    write_atomically(Path(settings["file"]), str(os.getpid()).encode())
    while True:
        time.sleep(1.0)


def main(folder: Path) -> None:
    """Has the learner begin a round, and waits to be killed."""
    store, log = a_store(folder / "models"), experience_log(folder / "log")
    learner = OnlineLearner(
        places(folder),
        "tests.serving.attacks.held_connections:hold",
        OnlineSettings(poll_seconds=0.05, niceness=0, learner={"file": str(folder / "pid")}),
    )
    learner.start()
    log.append(played(store.load("vector"), 0, 512))
    time.sleep(600)


if __name__ == "__main__":
    main(Path(sys.argv[1]))
