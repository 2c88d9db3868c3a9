"""Every policy of the world `vms` by name, in one literal."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from proreus.model.errors import InputError, UsageError
from proreus.policies.catalogue import Catalogue, CheckpointKind, Rule
from proreus.policies.checkpoint import WEIGHTS, Checkpoint
from proreus.policies.networks.bidder import BIDDERS, bidder_of
from proreus.policies.planner import Effort
from proreus.worlds.vms.encoding import rows as servers
from proreus.worlds.vms.policies import columns as c
from proreus.worlds.vms.policies.adaptive import AdaptiveVmPolicy
from proreus.worlds.vms.policies.bidder import SIZES
from proreus.worlds.vms.policies.experts import (
    ADAPTIVE_VERSIONS,
    SCORER_VERSIONS,
    read_experts,
    scorer_of,
)
from proreus.worlds.vms.policies.planner.policy import VmPlanner
from proreus.worlds.vms.policies.policy import VmPolicy, VmRulePolicy


@dataclass(frozen=True)
class VmPolicyOptions:
    """What a user may turn about the policies."""

    futures: int = 16
    """planner: how many futures each place is played in."""
    deadline: float = 0.0
    """planner: milliseconds a decision may take, best with what is known by then; 0: as long as the futures
    need, and the same seed gives the same result."""

    @property
    def effort(self) -> Effort:
        """Of a planner."""
        return Effort(self.futures, self.deadline)

    def __post_init__(self) -> None:
        _ = self.effort


def _rule(what: str, kind: int) -> Rule:
    return Rule(what, lambda name, options, seed: VmRulePolicy(name, kind, seed))


def _scoring(
    name: str, checkpoint: Checkpoint, folder: Path, options: VmPolicyOptions, seed: int
) -> VmPolicy:
    scorer = scorer_of(checkpoint, folder)
    return VmRulePolicy(name, scorer.kind, seed, scorer.weights)


def _adaptive(
    name: str, checkpoint: Checkpoint, folder: Path, options: VmPolicyOptions, seed: int
) -> VmPolicy:
    return AdaptiveVmPolicy(name, read_experts(checkpoint, folder), seed)


def _bidding(
    name: str, checkpoint: Checkpoint, folder: Path, options: VmPolicyOptions, seed: int
) -> VmPolicy:
    try:
        bidder = bidder_of(checkpoint.card.kind, checkpoint.tensors, SIZES)
        return VmRulePolicy(name, c.BIDDING, seed, bidder=bidder)
    except ValueError as error:
        raise InputError(str(error), file=folder / WEIGHTS) from error


def _planner(name: str, options: VmPolicyOptions, seed: int) -> VmPolicy:
    wanted = name.partition("@")[2] or _PLANS_WITH
    base = VM_POLICIES.make(wanted, options, seed)
    if not isinstance(base, VmRulePolicy | AdaptiveVmPolicy) or wanted == _BY_LOT:
        raise UsageError(
            f"policy {name!r}: futures are played by a rule without chance or a checkpoint, not by {wanted!r}"
        )
    return VmPlanner(name, base, options.effort, seed)


_PLANS_WITH = "learned"
"""The policy that plays a planner's futures, where none is named."""
_BY_LOT = "random"

VM_POLICIES = Catalogue(
    world="vms",
    rules={
        "first_fit": _rule("the first place that fits", c.FIRST_FIT),
        "best_fit": _rule("the place that is left with least", c.BEST_FIT),
        "worst_fit": _rule("the place that is left with most", c.WORST_FIT),
        "balance_fit": _rule(
            "the server whose NUMA nodes differ most, as published with SPANE", c.BALANCE_FIT
        ),
        _BY_LOT: _rule("any place that fits", c.RANDOM),
        "vmagent_best_fit": _rule(
            'VMAgent\'s "best fit", which is a worst fit; for its published table', c.MISTAKEN_BEST_FIT
        ),
        "planner": Rule(
            "learned, overruled by futures that it plays; planner@first_fit: with that rule",
            _planner,
            takes="a policy",
        ),
    },
    main=("first_fit", "best_fit", "balance_fit", "learned"),
    kinds={
        **{kind: CheckpointKind(encoding, _scoring) for kind, encoding in SCORER_VERSIONS.items()},
        **{kind: CheckpointKind(encoding, _adaptive) for kind, encoding in ADAPTIVE_VERSIONS.items()},
        **{kind: CheckpointKind(servers.VERSION, _bidding) for kind in BIDDERS},
    },
    shipped=Path(__file__).resolve().parents[1] / "pretrained" / "vms",
    options=VmPolicyOptions,
)


def make_vm_policy(name: str, seed: int = 0) -> VmPolicy:
    """The policy of that name, as `Catalogue.make` finds it."""
    return VM_POLICIES.make(name, None, seed)


def rule_policy(name: str, seed: int = 0) -> VmRulePolicy:
    """The same, for whoever runs its rule inside a kernel."""
    policy = make_vm_policy(name, seed)
    if not isinstance(policy, VmRulePolicy):
        raise UsageError(f"policy {name!r} cannot be run inside a kernel")
    return policy
