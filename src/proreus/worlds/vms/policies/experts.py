"""Experts of the world `vms`: scorers, where each stands, and how checkpoints keep them."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import numpy as np

from proreus.kernels.arrays import F64
from proreus.model.errors import InputError
from proreus.policies.checkpoint import Card, Checkpoint
from proreus.policies.experts import finite_tensor, names_in
from proreus.worlds.vms.encoding.figures import FIGURES, WIDTHS
from proreus.worlds.vms.encoding.gaps import GAP_FEATURES, GAP_VERSION
from proreus.worlds.vms.encoding.place import FEATURES, VERSION
from proreus.worlds.vms.policies.columns import GAPS, LEARNED

REACH = 4.0
"""In WIDTHS: a cluster this far from all experts is unknown."""


@dataclass(frozen=True, eq=False)
class VmScorer:
    """What an expert decides by."""

    kind: int
    """LEARNED: it weighs places; GAPS: it weighs gaps."""
    weights: F64


@dataclass(frozen=True, eq=False)
class VmExperts:
    """K scorers and where each stands."""

    names: tuple[str, ...]
    """What each was trained on."""
    stands: F64
    """[K, figures]"""
    scorers: tuple[VmScorer, ...]
    packs_while_easy: bool = False
    """Where machines are turned away first fit decides while there will be room for all. Older
    checkpoints do not say so, and play as they did."""

    def nearest(self, figures: F64) -> int | None:
        """The expert for a cluster; None where it is unlike all of theirs."""
        apart = (((self.stands - figures) / WIDTHS) ** 2).sum(axis=1)
        expert = int(apart.argmin())
        return expert if apart[expert] <= REACH**2 else None


SCORER_VERSIONS = {"linear": VERSION, "gaps": GAP_VERSION}
"""What a scorer sees, by the kind of its checkpoint."""
ADAPTIVE_VERSIONS = {"adaptive": VERSION, "adaptive-gaps": f"{VERSION}+{GAP_VERSION}"}
"""What experts see, by the kind of their checkpoint: places alone, or some of them gaps."""


def experts_checkpoint(experts: VmExperts) -> Checkpoint:
    """A checkpoint of experts; of those that weigh places the rows of gaps are zero, and the other way."""
    weighs_gaps = [scorer.kind == GAPS for scorer in experts.scorers]
    kind = "adaptive-gaps" if any(weighs_gaps) else "adaptive"
    config: dict[str, object] = {
        "experts": list(experts.names),
        "objectives": ["the measure that decides"],
        "packs_while_easy": experts.packs_while_easy,
    }
    tensors = {"stands": experts.stands, "weights": np.zeros((len(experts.names), len(FEATURES)))}
    if any(weighs_gaps):
        config["weighs"] = ["gaps" if gaps else "places" for gaps in weighs_gaps]
        tensors["gaps"] = np.zeros((len(experts.names), len(GAP_FEATURES)))
    for row, (scorer, gaps) in enumerate(zip(experts.scorers, weighs_gaps, strict=True)):
        tensors["gaps" if gaps else "weights"][row] = scorer.weights
    card = Card(
        world="vms",
        kind=kind,
        algorithm="experts",
        encoding=ADAPTIVE_VERSIONS[kind],
        config=config,
        trained_on=experts.names,
    )
    return Checkpoint(card, tensors)


def scorer_of(checkpoint: Checkpoint, folder: Path) -> VmScorer:
    """The scorer of a checkpoint that has one alone."""
    if checkpoint.card.kind == "gaps":
        return VmScorer(GAPS, finite_tensor(checkpoint, "weights", (len(GAP_FEATURES),), folder))
    return VmScorer(LEARNED, finite_tensor(checkpoint, "weights", (len(FEATURES),), folder))


def read_experts(checkpoint: Checkpoint, folder: Path) -> VmExperts:
    """The experts of a checkpoint."""
    config = checkpoint.card.config
    names = names_in(config, "experts", folder)
    shapes = {
        "stands": (len(names), len(FIGURES)),
        "weights": (len(names), len(FEATURES)),
    }
    weighs = ("places",) * len(names)
    if checkpoint.card.kind == "adaptive-gaps":
        shapes["gaps"] = (len(names), len(GAP_FEATURES))
        weighs = names_in(config, "weighs", folder)
        if len(weighs) != len(names) or not set(weighs) <= {"places", "gaps"}:
            raise InputError("says of every expert: places or gaps", file=folder, field="config.weighs")
    tensors = {name: finite_tensor(checkpoint, name, shape, folder) for name, shape in shapes.items()}
    scorers = tuple(
        VmScorer(GAPS, tensors["gaps"][row]) if what == "gaps" else VmScorer(LEARNED, tensors["weights"][row])
        for row, what in enumerate(weighs)
    )
    packs = config.get("packs_while_easy", False)
    if not isinstance(packs, bool):
        raise InputError("is true or false", file=folder, field="config.packs_while_easy")
    return VmExperts(names, tensors["stands"], scorers, packs)
