"""Puts training runs together: each becomes an expert of a policy that knows how its cluster treats machines.

An expert stands where the clusters of its training are. A later one for clusters of the same figures takes
the place of the one before.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import numpy as np

from proreus.kernels.arrays import F64
from proreus.learning.run_folder import SETTINGS, read_settings, scenarios_of
from proreus.model.errors import InputError, UsageError
from proreus.policies.checkpoint import CARD, Card, Checkpoint, load_checkpoint, read_card
from proreus.worlds.vms.encoding.figures import CROWDED, Stage, cluster_figures
from proreus.worlds.vms.policies.catalogue import VM_POLICIES
from proreus.worlds.vms.policies.experts import (
    ADAPTIVE_VERSIONS,
    SCORER_VERSIONS,
    VmExperts,
    VmScorer,
    experts_checkpoint,
    read_experts,
    scorer_of,
)
from proreus.worlds.vms.scenarios import named_options, scenario_from_json
from proreus.worlds.vms.simulation.world import VmsOptions
from proreus.worlds.vms.state.servers import capacity_of

_ExpertsByStand = dict[bytes, tuple[str, F64, VmScorer]]
"""By its figures: what an expert was trained on, where it stands, what it decides by."""


def combine(sources: Sequence[str], data: Path | None = None) -> Checkpoint:
    """A policy that adapts, of training runs, checkpoints of es and others that adapt (`learned`).

    They say what they were trained on, so no `data` is read."""
    del data
    by_stand: _ExpertsByStand = {}
    for source in sources:
        folder = VM_POLICIES.folder_of(source)
        if folder is None:
            raise UsageError(f"{source!r}: there is neither a checkpoint nor a training run")
        kind = read_card(folder / CARD).kind
        encoding = {**SCORER_VERSIONS, **ADAPTIVE_VERSIONS}.get(kind)
        if encoding is None:
            raise UsageError(f"{source}: a policy of kind {kind!r} is no expert; runs of es are")
        checkpoint = load_checkpoint(folder, encoding)
        if kind in ADAPTIVE_VERSIONS:
            experts = read_experts(checkpoint, folder)
            for expert in zip(experts.names, experts.stands, experts.scorers, strict=True):
                _add(by_stand, *expert)
        else:
            stage = _stage(checkpoint.card, folder)
            stands = _stands(Path(source), checkpoint.card, stage)
            name = "+".join(checkpoint.card.trained_on) + ("" if stage == "both" else f", {stage}")
            _add(by_stand, name, stands, scorer_of(checkpoint, folder))
    names, stood, scorers = zip(*by_stand.values(), strict=True)
    return experts_checkpoint(VmExperts(names, np.array(stood), scorers, packs_while_easy=True))


def _add(by_stand: _ExpertsByStand, name: str, stands: F64, scorer: VmScorer) -> None:
    by_stand[stands.tobytes()] = (name, stands, scorer)


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
        [
            cluster_figures(vms_options.treatment, capacity_of(vms_options.shapes), stage)
            for vms_options in options
        ],
        axis=0,
    )


def _named(source: Path, scenario: str) -> VmsOptions:
    vms_options = named_options(scenario)
    if vms_options is None:
        raise UsageError(f"{source}: what it was trained on is not known: {scenario!r}")
    return vms_options
