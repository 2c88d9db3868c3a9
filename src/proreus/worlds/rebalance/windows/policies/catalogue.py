"""Every policy that moves pods between windows, by name, in one literal."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from proreus.kernels.arrays import F64
from proreus.model.errors import InputError, UsageError
from proreus.policies.catalogue import Catalogue, CheckpointKind, Rule, ShippedCheckpoint
from proreus.policies.checkpoint import WEIGHTS, Checkpoint
from proreus.policies.experts import read_wishes
from proreus.policies.networks.bidder import BIDDERS, bidder_of
from proreus.worlds.rebalance.windows.encoding import offers
from proreus.worlds.rebalance.windows.encoding.moves import BASIC, FEATURES, VERSION
from proreus.worlds.rebalance.windows.policies import columns as c
from proreus.worlds.rebalance.windows.policies.adaptive import price_of, read_experts
from proreus.worlds.rebalance.windows.policies.policy import MovePolicy, WindowPolicy, all_weights

KIND, ADAPTS = "moves", "adaptive"
OFFERING = "offering"
"""The tensor of a network's checkpoint that says which moves it is offered."""


@dataclass(frozen=True)
class MovePolicyOptions:
    """What a user may turn about the policies."""

    objective: str = ""
    """Policies that adapt: how much violations and migrations count; by default violations=30,migrations=1:
    thirty migrations are worth all requests of one node in one window."""

    def __post_init__(self) -> None:
        read_wishes(self.objective)


def _rule(what: str, kind: int) -> Rule:
    return Rule(what, lambda name, options, seed: MovePolicy(name, kind, seed))


def _hotspot(name: str, options: MovePolicyOptions, seed: int) -> WindowPolicy:
    _, at, level = name.partition("@")
    return MovePolicy(name, c.HOTSPOT, seed, level=_level(name, level) if at else 0.0)


def _level(name: str, text: str) -> float:
    try:
        level = float(text)
    except ValueError:
        level = np.nan
    if not 0.0 < level <= 1.0:
        raise UsageError(f"policy {name!r}: after @ comes the share above which a node is hot, such as 0.6")
    return level


def _adaptive(
    name: str, checkpoint: Checkpoint, folder: Path, options: MovePolicyOptions, seed: int
) -> WindowPolicy:
    price = price_of(read_wishes(options.objective))
    return MovePolicy(name, c.ADAPTIVE, seed, experts=read_experts(checkpoint, folder).at(price))


def _weighed(options: MovePolicyOptions, objective: str) -> MovePolicyOptions:
    return replace(options, objective=objective)


def _learned(
    name: str, checkpoint: Checkpoint, folder: Path, options: MovePolicyOptions, seed: int
) -> WindowPolicy:
    return MovePolicy(name, c.LEARNED, seed, weights=move_weights(checkpoint, folder))


def move_weights(checkpoint: Checkpoint, folder: Path) -> F64:
    """[features] of a scorer of moves; an older one gives those that came later no weight."""
    weights = checkpoint.tensors.get("weights")
    known = ((BASIC,), (len(FEATURES),))
    if weights is None or weights.shape not in known or not np.isfinite(weights).all():
        raise InputError(f"needs {len(FEATURES)} finite numbers", file=folder, field="weights")
    return all_weights(weights)


def _bidding(
    name: str, checkpoint: Checkpoint, folder: Path, options: MovePolicyOptions, seed: int
) -> WindowPolicy:
    try:
        return replace(bidding_policy(name, checkpoint.card.kind, checkpoint.tensors), seed=seed)
    except ValueError as error:
        raise InputError(str(error), file=folder / WEIGHTS) from error


def bidding_policy(name: str, kind: str, tensors: Mapping[str, NDArray[Any]]) -> MovePolicy:
    """The policy of a network's tensors and of the scorer that offers it moves; a ValueError names a tensor
    that is missing, wrong or not finite."""
    offering = tensors.get(OFFERING)
    if offering is None or offering.shape != (len(FEATURES),) or not np.isfinite(offering).all():
        raise ValueError(f"{OFFERING}: needs {len(FEATURES)} finite numbers")
    bidder = bidder_of(kind, tensors, offers.SIZES)
    return MovePolicy(name, c.BIDDING, weights=offering.astype(np.float64), bidder=bidder)


_PRETRAINED = Path(__file__).resolve().parents[1] / "pretrained"

MOVE_POLICIES = Catalogue(
    world="rebalance",
    what="windows",
    rules={
        "nothing": _rule("never moves a pod", c.NOTHING),
        "random": _rule("any legal move, or none", c.RANDOM),
        "hotspot": Rule(
            "cools the hottest node while it is above the threshold; hotspot@0.6: above 60 %",
            _hotspot,
            takes="the share above which a node is hot",
        ),
        "balance": _rule("the move that lowers the variance of loads most", c.BALANCE),
    },
    main=("hotspot", "balance", "nothing", "learned"),
    kinds={
        KIND: CheckpointKind(VERSION, _learned),
        ADAPTS: CheckpointKind(VERSION, _adaptive, told=_weighed),
        **{kind: CheckpointKind(offers.VERSION, _bidding) for kind in BIDDERS},
    },
    options=MovePolicyOptions,
    shipped=_PRETRAINED / "adaptive",
    others={"learned-linear": ShippedCheckpoint("what was `learned` before", _PRETRAINED / "moves")},
)


def make_move_policy(name: str, seed: int = 0) -> WindowPolicy:
    """The policy of that name, as `Catalogue.make` finds it."""
    return MOVE_POLICIES.make(name, None, seed)
