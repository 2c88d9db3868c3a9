"""`kube` decides as the real kube-scheduler did: node, search, scores, verdicts, victims, pod by pod."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.oracles.kube_recorded import Replay, read_recording
from tests.real_data import real_data

FOLDER = "kube_recorded"
RECORDINGS = ("1.34", "1.35", "1.36", "edge-1.34", "edge-1.35", "edge-1.36")
MOST_TOLD = 20


@pytest.mark.parametrize("recordings", RECORDINGS)
def test_every_decision_is_the_recorded_one(recordings: str, tmp_path: Path) -> None:
    """Only ties that fall by lot may fall otherwise: those of 1.34, and of pods that name several nodes."""
    folder = real_data(FOLDER) / FOLDER / recordings
    version = recordings.removeprefix("edge-")
    inputs = sorted([*folder.glob("*.json"), *folder.glob("*.json.gz")])
    assert inputs, f"{folder} holds no recording"
    differences = [
        f"{path.name}: {difference}"
        for path in inputs
        for difference in Replay(*read_recording(path, tmp_path), version).run()
    ]
    assert not differences, "\n".join([f"{len(differences)} differences:", *differences[:MOST_TOLD]])
