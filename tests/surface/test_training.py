"""Every learner of the command line: what its run folder holds, and that runs of older code still go on.

The folders under pinned/old_runs were interrupted by Ctrl-C, most of them before starts were judged and
before runs had some of the settings of today. Resumed, they must end as the same training did without an
interruption, whose journal is under pinned/training and whose weights lie beside each old run.
"""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

pytest.importorskip("torch", reason="training needs the extra `learn`")
pytest.importorskip("cmaes", reason="training needs the extra `learn`")

from safetensors.numpy import load_file

from tests.cli.runner import Ended, Proreus, assert_refused, run_process
from tests.surface.pinning import REWRITES, REWRITES_RUNS, assert_pinned, lost, read
from tests.surface.run_folders import (
    CHECKPOINTS,
    OLD_RUNS,
    RESUMED,
    TRAININGS,
    Training,
    assert_same_weights,
    contents,
    interruption,
    journal_of,
    weights_of,
)

pytestmark = pytest.mark.usefixtures("workers_here")


_CPU = Path("/proc/cpuinfo")


def _ended(training: Training, proreus: Proreus, folder: Path, *words: str) -> Ended:
    """The command, carried out.

    OpenBLAS has other kernels for other makers of CPUs, and a search ends elsewhere by their last digits.
    What is pinned was found with those for AVX-512; a process of its own can be told to take them.
    """
    if "-es" not in training.name:
        return proreus(*words)
    if not _CPU.exists() or " avx512f " not in _CPU.read_text():
        pytest.skip("a search ends elsewhere by the last digits that OpenBLAS has without AVX-512")
    return run_process(*words, cwd=folder, OPENBLAS_CORETYPE="SkylakeX")


@pytest.mark.parametrize("training", TRAININGS, ids=lambda each: each.name)
def test_a_training_leaves_what_it_left(training: Training, proreus: Proreus, tmp_path: Path) -> None:
    ended = _ended(training, proreus, tmp_path, *training.words, "--out", "run")
    assert (ended.code, ended.err) == (0, "")
    run = tmp_path / "run"
    assert_pinned(f"training/{training.name}", contents(run, training), training.closeness)
    for which in CHECKPOINTS:
        unbroken = OLD_RUNS / training.name / f"{which}.safetensors"
        if REWRITES_RUNS or (REWRITES and not unbroken.exists()):
            unbroken.parent.mkdir(parents=True, exist_ok=True)
            shutil.copy(run / which / "weights.safetensors", unbroken)
        assert_same_weights(weights_of(run, which), load_file(unbroken), training.closeness)


@pytest.mark.parametrize("training", RESUMED, ids=lambda each: each.name)
def test_an_old_run_goes_on_to_the_same_end(training: Training, proreus: Proreus, tmp_path: Path) -> None:
    old = OLD_RUNS / training.name / "interrupted"
    if REWRITES_RUNS or (REWRITES and not old.exists()):
        _interrupt(training, old, proreus, tmp_path)
    shutil.copytree(old, tmp_path / "run")
    ended = _ended(training, proreus, tmp_path, *training.resumes, "--resume", "run")
    assert (ended.code, ended.err) == (0, "")
    resumed = contents(tmp_path / "run", training)
    if training.former:
        assert_pinned(f"training/{training.name}", resumed, training.closeness)
        _keep_best(training, tmp_path / "run")
    unbroken = read(f"training/{training.name}")
    assert 0 < len(journal_of(old)) < len(unbroken["journal"])
    for part in ("settings", "best card", "last card"):  # what the old run wrote has no later settings
        known, asked = resumed[part]["config"], unbroken[part]["config"]
        unbroken[part]["config"] = {name: value for name, value in asked.items() if name in known}
    differences = lost(unbroken, resumed, training.closeness)
    assert not differences, "\n".join(differences[:20])
    for which in CHECKPOINTS:
        expected = load_file(OLD_RUNS / training.name / f"{which}.safetensors")
        assert_same_weights(weights_of(tmp_path / "run", which), expected, training.closeness)


def _keep_best(training: Training, run: Path) -> None:
    """Store the weights of the best where they are not stored yet and that is asked for."""
    stored = OLD_RUNS / training.name / "best.safetensors"
    if REWRITES and not stored.exists():
        shutil.copy(run / "best" / "weights.safetensors", stored)


def _interrupt(training: Training, old: Path, proreus: Proreus, tmp_path: Path) -> None:
    """Make the old run; TensorBoard's files name the machine and are not kept."""
    broken = tmp_path / "broken"
    with interruption(broken / "journal.jsonl", training.interrupted_after) as was_sent:
        ended = proreus(*training.words, "--out", "broken")
    assert was_sent()
    assert_refused(ended, 130, "interrupted and saved: go on with --resume broken")
    shutil.rmtree(old, ignore_errors=True)
    shutil.copytree(broken, old, ignore=shutil.ignore_patterns("tensorboard"))
