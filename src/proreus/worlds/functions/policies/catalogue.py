"""Every policy of the world `functions` by name, in one literal.

A name may say how long idle instances stay: `bpbf@histogram`, `bpbf@300`; without that it is 60 s, and
`warm_cost` decides it itself.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

from proreus.model.errors import InputError, UsageError
from proreus.policies.catalogue import Catalogue, CheckpointKind
from proreus.policies.catalogue import Rule as Entry
from proreus.policies.checkpoint import WEIGHTS, Checkpoint
from proreus.policies.networks.bidder import bidder_of
from proreus.policies.networks.tensor_layout import size_of, tensors_of
from proreus.worlds.functions.encoding.rows import SIZES, VERSION
from proreus.worlds.functions.policies import columns as c
from proreus.worlds.functions.policies.policy import FunctionsRulePolicy
from proreus.worlds.functions.policies.weights import parts_of
from proreus.worlds.functions.state.compile import USUAL_KEEP

HISTOGRAM = "histogram"
_LONGEST = 86_400.0
KINDS: dict[str, tuple[int, str]] = {
    "warm_cost": (
        c.BIDDING,
        "what the objective says of each node and time: price that becomes due, stretch",
    ),
    "bpbf": (c.BEST_FIT, "bin packing, best fit: the node that is reserved most with it"),
    "bpff": (c.FIRST_FIT, "bin packing, first fit: the first node with room"),
    "ensure": (c.ENSURE, "the busiest active node below 80 % CPU, else the cheapest other one"),
    "kube": (c.KUBE, "as the scheduler of Kubernetes scores: least allocated, balanced"),
    "cheapest": (c.CHEAPEST, "the least price that becomes due, then the cheapest node"),
    "least_utilised": (c.LEAST_UTILISED, "the node whose CPU is used least"),
    "least_connections": (c.LEAST_CONNECTIONS, "the node with the fewest instances"),
    "round_robin": (c.ROUND_ROBIN, "nodes in turn"),
    "random": (c.RANDOM, "any node with room"),
}


def rule_policy(name: str, seed: int = 0) -> FunctionsRulePolicy:
    """The rule of that name."""
    plain, _, keeping = name.partition("@")
    kind = KINDS[plain][0]
    keeper, seconds = _keeper(name, keeping, kind)
    if kind != c.BIDDING:
        return FunctionsRulePolicy(name, kind, keeper, seconds, seed)
    parts = parts_of(1)
    return FunctionsRulePolicy(
        name, kind, keeper, seconds, seed, actor(tensors_of(parts, np.zeros(size_of(parts))))
    )


def actor(tensors: dict[str, np.ndarray[Any, Any]]) -> Any:
    """The network of an actor's tensors; a ValueError where they are none."""
    return bidder_of("actor", tensors, SIZES)


def network_policy(
    name: str, tensors: dict[str, np.ndarray[Any, Any]], seed: int = 0, *, places_only: bool = False
) -> FunctionsRulePolicy:
    """The policy of an actor's tensors; `places_only`: it neither waits nor says how long instances stay."""
    keeper = c.KEEPS_FIXED if places_only else c.KEEPS_BY_BIDS
    return FunctionsRulePolicy(
        name, c.BIDDING, keeper, USUAL_KEEP, seed, actor(tensors), waits=not places_only
    )


def _keeper(name: str, keeping: str, kind: int) -> tuple[int, float]:
    """Who says how long idle instances stay, and the seconds where that is fixed."""
    if not keeping:
        return (c.KEEPS_BY_BIDS if kind == c.BIDDING else c.KEEPS_FIXED), USUAL_KEEP
    if keeping == HISTOGRAM:
        return c.KEEPS_BY_HISTOGRAM, USUAL_KEEP
    try:
        seconds = float(keeping)
    except ValueError:
        seconds = -1.0
    if not 0.0 <= seconds <= _LONGEST:
        raise UsageError(f"policy {name!r}: behind @ stands {HISTOGRAM!r} or seconds up to {_LONGEST:g}")
    return c.KEEPS_FIXED, seconds


def _maker() -> Callable[[str, Any, int], FunctionsRulePolicy]:
    return lambda name, options, seed: rule_policy(name, seed)


def _network(name: str, checkpoint: Checkpoint, folder: Path, options: Any, seed: int) -> FunctionsRulePolicy:
    try:
        return network_policy(name, checkpoint.tensors, seed)
    except ValueError as error:
        raise InputError(str(error), file=folder / WEIGHTS) from error


SHIPPED = Path(__file__).parents[1] / "pretrained" / "functions"
"""The checkpoint that ships."""

POLICIES = Catalogue(
    world="functions",
    rules={name: Entry(what, _maker(), "histogram, or seconds") for name, (_, what) in KINDS.items()},
    main=("warm_cost", "ensure", "least_utilised", "learned"),
    kinds={"actor": CheckpointKind(VERSION, _network)},
    shipped=SHIPPED,
)
