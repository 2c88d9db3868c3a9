"""Puts training runs together: each becomes an expert of a policy that knows how its cluster treats machines.

An expert stands where the clusters of its training are. A later one for clusters of the same figures takes
the place of the one before.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import numpy as np

from proreus.kernels.arrays import F64
from proreus.learning.runs import SETTINGS, read_settings, scenarios_of
from proreus.model.errors import InputError, UsageError
from proreus.policies.checkpoint import Card, Checkpoint, load_checkpoint
from proreus.worlds.vms.encoding.figures import CROWDED, Stage, cluster_figures
from proreus.worlds.vms.encoding.place import VERSION
from proreus.worlds.vms.policies.adaptive import read_experts
from proreus.worlds.vms.policies.catalogue import VM_POLICIES, scorer_weights
from proreus.worlds.vms.scenarios import named_options, scenario_from_json
from proreus.worlds.vms.simulation.world import VmsOptions
from proreus.worlds.vms.state.servers import capacity_of

_Found = dict[bytes, tuple[str, F64, F64]]
"""By its figures: what an expert was trained on, where it stands, its weights."""


def combine(sources: Sequence[str], data: Path | None = None) -> Checkpoint:
    """A policy that adapts, of training runs, checkpoints of es and others that adapt (`learned`).

    They say what they were trained on, so no `data` is read."""
    del data
    found: _Found = {}
    for source in sources:
        folder = VM_POLICIES.folder_of(source)
        if folder is None:
            raise UsageError(f"{source!r}: there is neither a checkpoint nor a training run")
        checkpoint = load_checkpoint(folder, VERSION)
        match checkpoint.card.kind:
            case "adaptive":
                experts = read_experts(checkpoint, folder)
                for one in zip(experts.names, experts.stands, experts.weights, strict=True):
                    _add(found, *one)
            case "linear":
                weights = scorer_weights(checkpoint, folder)
                stage = _stage(checkpoint.card, folder)
                stands = _stands(Path(source), checkpoint.card, stage)
                name = "+".join(checkpoint.card.trained_on) + ("" if stage == "both" else f", {stage}")
                _add(found, name, stands, weights)
            case other:
                raise UsageError(f"{source}: a policy of kind {other!r} is no expert; runs of es are")
    names = [name for name, _, _ in found.values()]
    card = Card(
        world="vms",
        kind="adaptive",
        algorithm="experts",
        encoding=VERSION,
        config={"experts": names, "objectives": ["the measure that decides"]},
        trained_on=tuple(names),
    )
    tensors = {
        "stands": np.array([stands for _, stands, _ in found.values()]),
        "weights": np.array([weights for _, _, weights in found.values()]),
    }
    return Checkpoint(card, tensors)


def _add(found: _Found, name: str, stands: F64, weights: F64) -> None:
    found[stands.tobytes()] = (name, stands, weights)


def _stage(card: Card, folder: Path) -> Stage:
    """When the expert decides, as its training has it."""
    stage = card.config.get("stage", "both")
    for known in CROWDED:
        if stage == known:
            return known
    raise InputError(f"{stage!r} is none of {', '.join(CROWDED)}", file=folder, field="config.stage")


def _stands(source: Path, card: Card, stage: Stage) -> F64:
    """Where an expert stands: a run says what it was trained on, a checkpoint alone names it."""
    if (source / SETTINGS).exists():
        scenarios = scenarios_of(read_settings(source, "vms"), source, scenario_from_json)
        options = [scenario.options for scenario in scenarios]
    else:
        options = [_named(source, name) for name in card.trained_on]
    return np.mean(
        [cluster_figures(one.treatment, capacity_of(one.shapes), stage) for one in options], axis=0
    )


def _named(source: Path, scenario: str) -> VmsOptions:
    found = named_options(scenario)
    if found is None:
        raise UsageError(f"{source}: what it was trained on is not known: {scenario!r}")
    return found
