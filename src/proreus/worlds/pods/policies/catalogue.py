"""Every policy that places pods, by name, in one literal, and the options that a user may turn."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Literal

from proreus.model.errors import UsageError
from proreus.policies.catalogue import Catalogue, CheckpointKind, Rule, ShippedCheckpoint
from proreus.policies.checkpoint import Checkpoint
from proreus.policies.experts import read_wishes
from proreus.policies.planner import Effort
from proreus.policies.policy_folders import PolicyFolders
from proreus.worlds.pods.encoding.pair import VERSION
from proreus.worlds.pods.policies.adaptive import adaptive_scorer
from proreus.worlds.pods.policies.checkpoint_tensors import (
    PRETRAINED,
    linear_scorer,
    q_policy,
    scorer_parameters,
)
from proreus.worlds.pods.policies.explanation import PodPolicy
from proreus.worlds.pods.policies.planner.policy import PlannerPolicy
from proreus.worlds.pods.policies.rules import columns as c
from proreus.worlds.pods.policies.rules.policy import PairWeights, RuleOptions, RulePolicy
from proreus.worlds.pods.policies.scorer_policy import ScorerPolicy
from proreus.worlds.pods.policies.vector.model import SHIPPED
from proreus.worlds.pods.policies.vector.served_model import ServedVector

Tie = Literal["default", "ordered", "random", "rotating"]
KubeVersion = Literal["1.20", "1.34", "1.35", "1.36"]
Strategy = Literal["LeastAllocated", "MostAllocated", "RequestedToCapacityRatio"]
LoadScore = Literal["none", "target", "risk"]

_TIES = {"ordered": c.ORDERED, "random": c.RANDOM, "rotating": c.ROTATING}
_STRATEGIES = {
    "LeastAllocated": c.LEAST_ALLOCATED,
    "MostAllocated": c.MOST_ALLOCATED,
    "RequestedToCapacityRatio": c.REQUESTED_TO_CAPACITY,
}
_KUBE_WEIGHTS = {20: (1, 1, 1, 2, 1, 1, 1)}
"""Of taints, node affinity, fit, spread, pod affinity, balance and images, where they were not today's."""
_KUBE_MINORS: dict[int, KubeVersion] = {20: "1.20", 34: "1.34", 35: "1.35", 36: "1.36"}
_PLANS_WITH = "learned"
"""The policy that plays a planner's futures, where none is named."""


@dataclass(frozen=True)
class PolicyOptions:
    """What a user may turn about the policies; each policy reads what concerns it."""

    tie: Tie = "default"
    """How equally good nodes are told apart: the policy's own way, in node order, at random, rotating."""
    preempt: bool = True
    """Evict lower-priority pods, by kube's rules, when no node can take a pod."""
    kube_version: KubeVersion = "1.36"
    """The kube-scheduler that `kube` and `kube_plus` imitate: formulas and tie-break changed over time."""
    kube_strategy: Strategy = "LeastAllocated"
    """How kube scores the fit: spread (LeastAllocated) or pack."""
    kube_percentage: int = 0
    """kube's percentageOfNodesToScore; 0 adapts to the cluster's size."""
    load_score: LoadScore = "risk"
    """kube_plus: which Trimaran formula looks at measured load."""
    load_target: float = 40.0
    """kube_plus, target: the CPU utilisation in % to pack nodes up to."""
    load_margin: float = 1.0
    """kube_plus, risk: how much a varying load counts."""
    load_sensitivity: float = 1.0
    """kube_plus, risk: below 1 damps, above 1 stresses small variations."""
    objective: str = ""
    """Policies that adapt: what counts, as gpu_allocation=3,pods_placed=1; by default what they were trained
    for first. Of one alone, and where policies are only named: learned@gpu_allocation=3+pods_placed."""
    futures: int = 16
    """planner: how many futures a plan rests on."""
    deadline: float = 0.0
    """planner: milliseconds a decision may take, best with what is known by then; 0: as long as the futures
    need, and the same seed gives the same result."""

    def __post_init__(self) -> None:
        read_wishes(self.objective)
        if not 0 <= self.kube_percentage <= 100:
            raise UsageError(f"--kube-percentage {self.kube_percentage} is outside 0..100")
        if not 0 < self.load_target < 100:
            raise UsageError(f"--load-target {self.load_target} is not between 0 and 100")
        if not 0 < self.load_sensitivity < math.inf:
            raise UsageError(f"--load-sensitivity {self.load_sensitivity} is not a number above 0")
        if not 0 <= self.load_margin < math.inf:
            raise UsageError(f"--load-margin {self.load_margin} is not a number from 0 on")
        Effort(self.futures, self.deadline)


def kube_version_of(minor: int) -> KubeVersion:
    """Whose rules are those of Kubernetes 1.MINOR: rules changed with the versions that are known, so one in
    between has those of the next. 0: the server does not say."""
    return next((version for known, version in _KUBE_MINORS.items() if 0 < minor <= known), "1.36")


Maker = Callable[[str, PolicyOptions, int], PodPolicy]


def _packing(kind: int, tie: int = c.ORDERED, *, fixed_tie: bool = False) -> Maker:
    """Makes a packing rule; `fixed_tie` where the tie-break is what the rule consists of."""

    def make(name: str, options: PolicyOptions, seed: int) -> PodPolicy:
        chosen = tie if fixed_tie or options.tie == "default" else _TIES[options.tie]
        return RulePolicy(RuleOptions(name, kind, chosen, preempts=options.preempt, seed=seed))

    return make


def _kube(plus: bool) -> Maker:
    def make(name: str, options: PolicyOptions, seed: int) -> PodPolicy:
        minor = int(options.kube_version.split(".")[1])
        # Up to 1.34 equal totals are drawn by lot; from 1.35 on the root of a heap wins.
        own_tie = c.RANDOM if minor <= 34 else c.HEAP
        extra = (2, 1, 0, 0) if plus else (0, 0, 0, 0)
        if plus and options.load_score == "target":
            extra = (2, 1, 1, 0)
        elif plus and options.load_score == "risk":
            extra = (2, 1, 0, 1)
        return RulePolicy(
            RuleOptions(
                name,
                c.KUBE,
                own_tie if options.tie == "default" else _TIES[options.tie],
                preempts=options.preempt,
                seed=seed,
                minor=minor,
                strategy=_STRATEGIES[options.kube_strategy],
                percentage=options.kube_percentage,
                weights=(*_KUBE_WEIGHTS.get(minor, (3, 2, 1, 2, 2, 1, 1)), *extra),
                load=(options.load_target, options.load_margin, options.load_sensitivity),
            )
        )

    return make


def _planner(name: str, options: PolicyOptions, seed: int) -> PodPolicy:
    wanted = name.partition("@")[2] or _PLANS_WITH
    base = make_policy(wanted, options, seed)
    if not isinstance(base, RulePolicy) or base.options.kind == c.KUBE:
        raise UsageError(
            f"policy {name!r}: futures are played by a packing rule or a checkpoint of es or imitate, not by "
            f"{wanted!r}"
        )
    return PlannerPolicy(name, base, Effort(options.futures, options.deadline), seed)


def _linear(name: str, checkpoint: Checkpoint, folder: Path, options: PolicyOptions, seed: int) -> PodPolicy:
    return _weighing(name, linear_scorer(checkpoint, folder), options, seed)


def _adaptive(
    name: str, checkpoint: Checkpoint, folder: Path, options: PolicyOptions, seed: int
) -> PodPolicy:
    wishes = read_wishes(options.objective)
    return _weighing(name, adaptive_scorer(checkpoint, folder, wishes), options, seed)


def _weighing(name: str, weights: PairWeights, options: PolicyOptions, seed: int) -> PodPolicy:
    tie = c.ORDERED if options.tie == "default" else _TIES[options.tie]
    return RulePolicy(RuleOptions(name, c.LINEAR, tie, preempts=options.preempt, seed=seed, linear=weights))


def _scorer(name: str, checkpoint: Checkpoint, folder: Path, options: PolicyOptions, seed: int) -> PodPolicy:
    return ScorerPolicy(name, scorer_parameters(checkpoint, folder), preempts=options.preempt)


def _valued(name: str, checkpoint: Checkpoint, folder: Path, options: PolicyOptions, seed: int) -> PodPolicy:
    return q_policy(name, checkpoint, folder, preempts=options.preempt)


def _vector(name: str, options: PolicyOptions, seed: int) -> PodPolicy:
    return ServedVector(name, name.partition("@")[2])


def _admitted_base(name: str, folders: PolicyFolders) -> str:
    return POLICIES.admitted(name, folders)


def _admitted_model(model: str, folders: PolicyFolders) -> str:
    return model if model in SHIPPED or model in folders.given else str(folders.checkpoint(model))


POLICIES = Catalogue(
    world="pods",
    rules={
        "random": Rule("a legal node at random", _packing(c.FLAT, c.RANDOM, fixed_tie=True)),
        "round_robin": Rule("the next legal node in rotation", _packing(c.FLAT, c.ROTATING, fixed_tie=True)),
        "first_fit": Rule("the first legal node", _packing(c.FLAT, c.ORDERED, fixed_tie=True)),
        "best_fit": Rule("the legal node with least left over", _packing(c.BEST_FIT)),
        "worst_fit": Rule("the legal node with most left over", _packing(c.WORST_FIT)),
        "dot_prod": Rule("least alignment of demand and what is left, as published", _packing(c.DOT_PRODUCT)),
        "gpu_packing": Rule("shared GPUs first, then used nodes, then empty ones", _packing(c.GPU_PACKING)),
        "gpu_clustering": Rule("pods of one GPU kind together", _packing(c.GPU_CLUSTERING)),
        "fgd": Rule("fragmentation gradient descent", _packing(c.FGD)),
        "binpack": Rule("Volcano's binpack: the fullest node", _packing(c.BINPACK)),
        "vector": Rule(
            "a model over the k8s simulator's vector, through that simulator's plugin",
            _vector,
            takes="a model",
            admitted=_admitted_model,
        ),
        "kube": Rule("kube-scheduler's filters, scores, sampling, ties, preemption", _kube(plus=False)),
        "kube_plus": Rule("kube, aware of GPUs, network, disk and measured load", _kube(plus=True)),
        "planner": Rule(
            "learned, corrected by futures that it plays; planner@fgd: with that rule",
            _planner,
            takes="a policy",
            admitted=_admitted_base,
        ),
    },
    main=("kube", "best_fit", "fgd"),
    kinds={
        "linear": CheckpointKind(VERSION, _linear),
        "adaptive": CheckpointKind(
            VERSION, _adaptive, told=lambda options, objective: replace(options, objective=objective)
        ),
        "scorer": CheckpointKind(VERSION, _scorer),
        "q": CheckpointKind(VERSION, _valued),
    },
    shipped=PRETRAINED / "pods",
    others={
        "learned-linear": ShippedCheckpoint("what was `learned` before", PRETRAINED / "pods-linear"),
        "ddqn": ShippedCheckpoint("a network that values nodes, by double DQN", PRETRAINED / "ddqn"),
    },
    options=PolicyOptions,
)


def make_policy(name: str, options: PolicyOptions | None = None, seed: int = 0) -> PodPolicy:
    """The policy of that name, as `Catalogue.make` finds it."""
    return POLICIES.make(name, options, seed)
