"""Trainings small enough to repeat, what their run folders hold, and how one is interrupted."""

from __future__ import annotations

import json
import os
import re
import signal
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from safetensors.numpy import load_file

from proreus.learning.settings import current_names
from tests.surface.pinning import EXACT, LOOSE, PINNED, TORCH, Closeness, without_timings

Tensors = dict[str, NDArray[Any]]
CHECKPOINTS = ("best", "last")
OLD_RUNS = PINNED / "old_runs"
"""Run folders of interrupted trainings, made before the code that resumes them was moved."""


@dataclass(frozen=True)
class Training:
    """A training of a few updates."""

    name: str
    words: tuple[str, ...]
    """The command without its folder."""
    resumes: tuple[str, ...] = ()
    """The command that goes on with it, without its folder; () where it cannot be resumed."""
    torch: bool = False
    """Whether torch computes, whose sums depend on the processor."""
    interrupted_after: int = 4
    """Lines of the journal at which the old run was interrupted."""
    former: bool = False
    """Whether it would start elsewhere today, or not at all: the old run goes on, and no unbroken one can be
    made any more."""

    @property
    def closeness(self) -> Closeness:
        """How near its figures must come to the stored ones."""
        return TORCH if self.torch else EXACT


def _evolution(world: str, *flags: str) -> Training:
    few = ("--generations", "5", "--population", "4", "--evaluate-every", "2", "--processes", "1")
    words = ("train", world, "--algo", "es", *few, *flags)
    return Training(f"{world}-es", words, ("train", world, "--processes", "1"))


_PODS = ("--scenarios", "gpu@5", "--horizon", "30", "--train-seeds", "1", "--validation-seeds", "1")
_VMS = ("--scenario", "recovering@2", "--limit", "400", "--validation-starts", "4", "--hidden", "8")
_OFTEN = ("--evaluate-every", "2", "--device", "cpu", "--seed", "3")


def _pods(algorithm: str, torch: bool, *flags: str) -> Training:
    words = ("train", "pods", "--algo", algorithm, *_PODS, *_OFTEN, *flags)
    return Training(f"pods-{algorithm}", words, ("train", "pods", "--processes", "1"), torch=torch)


def _vms(algorithm: str, *flags: str) -> Training:
    words = ("train", "vms", "--algo", algorithm, *_VMS, *_OFTEN, *flags)
    return Training(f"vms-{algorithm}", words, ("train", "vms", "--algo", algorithm), torch=True)


_REPLAY = ("--batch-size", "16", "--hidden", "8")
TRAININGS = (
    _evolution("pods", "--scenarios", "gpu@5,gpu@6", "--train-seeds", "2", "--validation-seeds", "1"),
    _evolution("vms", "--scenario", "waiting@2", "--starts", "4", "--validation-starts", "4"),
    _evolution(
        "rebalance",
        *("--scenarios", "windows/serial,windows/parallel", "--deployments", "1"),
        *("--train-seeds", "2", "--validation-seeds", "1", "--stretch", "12"),
    ),
    _pods("ppo", False, "--lanes", "4", "--rollout-steps", "16", "--steps", "320", "--processes", "1"),
    _pods(
        "ddqn",
        True,
        *(*_REPLAY, "--warm-up", "32", "--report-every", "40", "--steps", "200", "--capacity", "60"),
        # As the old run, whose settings do not say where it starts, nor when it ends early.
        *("--start", "random", "--n-step", "3", "--discount", "0.99", "--patience", "0"),
    ),
    _vms("ppo", "--steps", "160", "--lanes", "4", "--rollout-steps", "8"),
    _vms(
        "qmix",
        *("--steps", "160", "--lanes", "4", "--chunk", "8", "--n-step", "4", "--updates", "2"),
        *(*_REPLAY, "--capacity", "200"),
    ),
    _vms(
        "ddqn", *(*_REPLAY, "--steps", "200", "--report-every", "40", "--warm-up", "20", "--capacity", "60")
    ),
    Training("models-vector", ("models", "train", "--updates", "3", "--episodes", "2", "--seed", "3")),
)
RESUMED = (
    *(training for training in TRAININGS if training.resumes),
    Training("pods-ppo-former", (), ("train", "pods", "--processes", "1"), former=True),
    Training("rebalance-es-former", (), ("train", "rebalance", "--processes", "1"), former=True),
    # Their runs are so short that every policy scores alike: today they would not begin.
    *(
        Training(f"vms-{name}-former", (), ("train", "vms"), torch=True, former=True)
        for name in ("ppo", "qmix", "ddqn")
    ),
)


def contents(run: Path, training: Training) -> dict[str, Any]:
    """What a run folder holds, without times; of tensors names, kinds and shapes."""
    contents: dict[str, Any] = {"files": files_of(run), "journal": journal_of(run)}
    contents["settings"] = json.loads((run / "settings.json").read_text())
    contents["settings"]["config"] = current_names(
        contents["settings"]["config"]
    )  # old runs say the former ones
    for which in CHECKPOINTS:
        card = without_timings(json.loads((run / which / "card.json").read_text()))
        card["config"] = current_names(card["config"])
        if training.torch or LOOSE:
            del card["checksum"]
        contents[f"{which} card"] = card
        contents[f"{which} tensors"] = _shapes(weights_of(run, which))
    if (run / "state.safetensors").exists():
        contents["state tensors"] = _shapes(load_file(run / "state.safetensors"))
    return contents


def files_of(run: Path) -> list[str]:
    """The names of a run's files; those of TensorBoard have a time and a machine in them."""
    names = {str(path.relative_to(run)) for path in run.rglob("*") if path.is_file()}
    return sorted({re.sub(r"(tensorboard/events\.out\.tfevents)\..*", r"\1.*", name) for name in names})


def journal_of(run: Path) -> list[dict[str, Any]]:
    """The lines of a journal without times."""
    lines = (run / "journal.jsonl").read_text().splitlines()
    return [without_timings(json.loads(line)) for line in lines]


def weights_of(run: Path, which: str) -> Tensors:
    """The numbers of a checkpoint."""
    tensors: Tensors = load_file(run / which / "weights.safetensors")
    return tensors


def _shapes(tensors: Tensors) -> dict[str, str]:
    return {name: f"{tensor.dtype} {list(tensor.shape)}" for name, tensor in tensors.items()}


def assert_same_weights(tensors: Tensors, expected: Tensors, closeness: Closeness) -> None:
    """That the tensors are the expected ones: to the bit, but where torch or another machine computes."""
    assert sorted(tensors) == sorted(expected)
    for name, tensor in expected.items():
        if closeness == EXACT and not LOOSE:
            assert tensors[name].tobytes() == tensor.tobytes(), name
        else:
            np.testing.assert_allclose(
                tensors[name], tensor, closeness.relative, closeness.relative, err_msg=name
            )


@contextmanager
def interruption(journal: Path, lines: int) -> Iterator[Callable[[], bool]]:
    """Ctrl-C as soon as the journal has so many lines: when that line is synced to the disk."""
    real, sent = os.fsync, False

    def fsync(fd: Any) -> None:
        nonlocal sent
        real(fd)
        if not sent and journal.exists() and journal.read_text().count("\n") >= lines:
            sent = True
            signal.raise_signal(signal.SIGINT)

    os.fsync = fsync
    try:
        yield lambda: sent
    finally:
        os.fsync = real
