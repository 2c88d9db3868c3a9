"""Checkpoints of older code still play and decide as they did; so do models of the service."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import pytest

from tests.cli.runner import Proreus
from tests.surface.pinning import REWRITES, REWRITES_RUNS, TORCH, assert_pinned, without_timings
from tests.surface.run_folders import OLD_RUNS, RESUMED, Training

WORK = {
    "pods": ("--scenario", "gpu@8", "--seed", "5"),
    "vms": ("--scenario", "recovering@4", "--starts", "2", "--limit", "500"),
    "rebalance": ("--scenario", "windows/serial", "--seed", "2"),
}
VECTOR = OLD_RUNS / "models-vector" / "finished"


@pytest.mark.parametrize("training", RESUMED, ids=lambda each: each.name)
def test_an_old_checkpoint_plays_as_it_did(training: Training, proreus: Proreus, tmp_path: Path) -> None:
    run, world = OLD_RUNS / training.name / "interrupted", training.resumes[1]
    results = {}
    for which in (run, run / "last"):
        ended = proreus("simulate", world, *WORK[world], "--policy", str(which), "--json", "r.json")
        assert (ended.code, ended.err) == (0, "")
        result = without_timings(json.loads((tmp_path / "r.json").read_text()))
        del result["policy"]  # a path
        results["best" if which == run else which.name] = result
    assert proreus("curve", str(run), "--out", "curve.png", "--json", "curve.json").code == 0
    results["curve"] = json.loads((tmp_path / "curve.json").read_text())
    assert (tmp_path / "curve.png").read_bytes().startswith(b"\x89PNG")
    assert_pinned(f"checkpoints/{training.name}", results, TORCH)


def test_an_old_model_of_the_service_is_judged_as_it_was(proreus: Proreus, tmp_path: Path) -> None:
    if REWRITES_RUNS or (REWRITES and not VECTOR.exists()):
        pytest.importorskip("torch", reason="training needs the extra `learn`")
        words = ("models", "train", "--updates", "2", "--episodes", "2", "--seed", "9", "--out", "run")
        assert proreus(*words).code == 0
        shutil.rmtree(VECTOR, ignore_errors=True)
        shutil.copytree(tmp_path / "run", VECTOR, ignore=shutil.ignore_patterns("tensorboard"))
    ended = proreus("models", "judge", "--model", str(VECTOR / "best"), "--seeds", "2", "--json", "r.json")
    assert (ended.code, ended.err) == (0, "")
    timings = without_timings(json.loads((tmp_path / "r.json").read_text()))
    timings.pop("model", None)  # a path
    assert_pinned("checkpoints/models-vector", timings, TORCH)
