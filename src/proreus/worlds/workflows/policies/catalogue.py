"""Every policy of the world `workflows` by name, in one literal."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

from proreus.model.errors import InputError
from proreus.policies.catalogue import Catalogue, CheckpointKind
from proreus.policies.catalogue import Rule as Entry
from proreus.policies.checkpoint import WEIGHTS, Checkpoint
from proreus.policies.networks.bidder import bidder_of
from proreus.worlds.workflows.encoding.rows import SIZES, VERSION
from proreus.worlds.workflows.policies import columns as c
from proreus.worlds.workflows.policies.policy import WorkflowsRulePolicy

KINDS: dict[str, tuple[int, str]] = {
    "heft": (c.HEFT, "the highest upward rank first, to the machine where it ends first"),
    "peft": (c.PEFT, "looks ahead: the end of a task plus the shortest way behind it from there"),
    "cpop": (c.CPOP, "the critical path on one machine, other tasks where they end first"),
    "min_min": (c.MIN_MIN, "of all ready tasks the one that can end first"),
    "max_min": (c.MAX_MIN, "of all ready tasks the one whose earliest end is last"),
    "fifo": (c.FIFO, "tasks as they become ready, where they end first"),
    "deadline": (c.DEADLINE, "the most urgent task; the cheapest machine within its share of the deadline"),
    "greedy": (c.GREEDY, "the most urgent task; the least rent plus penalty foreseen"),
    "cheapest_fit": (c.CHEAPEST, "the most urgent task; the least rent that it adds"),
    "best_fit": (c.BEST_FIT, "the most urgent task; the paid time that it fills best, else the least rent"),
    "least_loaded": (c.LEAST_LOADED, "the most urgent task; the machine that is free first"),
    "round_robin": (c.ROUND_ROBIN, "tasks as they become ready, machines in turn"),
    "random": (c.RANDOM, "any ready task on any machine"),
}


def rule_policy(name: str, seed: int = 0) -> WorkflowsRulePolicy:
    """The rule of that name."""
    return WorkflowsRulePolicy(name, KINDS[name][0], seed)


def _maker(kind: int) -> Callable[[str, Any, int], WorkflowsRulePolicy]:
    return lambda name, options, seed: WorkflowsRulePolicy(name, kind, seed)


def _network(name: str, checkpoint: Checkpoint, folder: Path, options: Any, seed: int) -> WorkflowsRulePolicy:
    try:
        bidder = bidder_of("actor", checkpoint.tensors, SIZES)
    except ValueError as error:
        raise InputError(str(error), file=folder / WEIGHTS) from error
    return WorkflowsRulePolicy(name, c.BIDDING, seed, bidder)


SHIPPED = Path(__file__).parents[1] / "pretrained" / "workflows"
"""The checkpoint that ships."""

POLICIES = Catalogue(
    world="workflows",
    rules={name: Entry(what, _maker(kind)) for name, (kind, what) in KINDS.items()},
    main=("greedy", "deadline", "heft", "learned"),
    kinds={"actor": CheckpointKind(VERSION, _network)},
    shipped=SHIPPED,
)
