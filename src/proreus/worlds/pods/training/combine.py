"""Puts specialists together: each run becomes an expert of a policy that knows the demand.

An expert stands where the demand of its own training workloads is. Runs over the same workloads for other
measures are the same expert for other objectives; where an expert has no weights for an objective, those for
its first one stand in, and the card says which were trained. What no run at hand has trained (a rule, a
checkpoint) becomes an expert where it is told for which workloads: first_fit=small,medium; a run may be told
for others than its own, too. Of a policy that was put together before, those experts
are taken over for whose workloads nobody was named before it.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np

from proreus.kernels.arrays import F64
from proreus.learning.run_folder import SETTINGS, read_settings, scenarios_of
from proreus.model.errors import UsageError
from proreus.policies.checkpoint import Card, Checkpoint, is_checkpoint, load_checkpoint
from proreus.worlds.pods.encoding.figures import demand_figures
from proreus.worlds.pods.encoding.pair import POD_KINDS, VERSION
from proreus.worlds.pods.policies.adaptive import RULES, AdaptiveScorer, adaptive_scorer, weights_of_rule
from proreus.worlds.pods.policies.catalogue import POLICIES, make_policy
from proreus.worlds.pods.policies.checkpoint_tensors import linear_scorer
from proreus.worlds.pods.policies.rules.policy import RulePolicy
from proreus.worlds.pods.scenarios import PodScenario, named_scenario, scenario_from_json
from proreus.worlds.pods.state.devices import LEVELS
from proreus.worlds.pods.training.evaluation import compiled_workload

OBJECTIVES = {
    "gpu_allocation_peak": "gpu_allocation",
    "failures": "pods_placed",
    "wait_mean": "wait",
    "jct_mean": "completion",
    "preemptions": "evictions",
}
"""What a run makes better -> what users call it; another measure keeps its name."""

LENGTH = 10.0
"""Of an expert's weights: that of a rule's, so that a search that starts from them has the same width."""


@dataclass(frozen=True, eq=False)
class _Weighing:
    weights: F64
    """[pod kinds, features]"""
    gaps: F64
    """[LEVELS], or [0] where all gaps are alike to it."""


@dataclass
class _Expert:
    stands: F64
    weighs: dict[str, _Weighing] = field(default_factory=dict)
    """By objective."""
    trained_on: tuple[str, ...] = ()
    scores: Mapping[str, float] = field(default_factory=dict)
    """What its own checkpoint says of itself."""


def combine(sources: Sequence[str], data: Path | None) -> Checkpoint:
    """A policy that adapts, of training runs, of others that adapt, and of any with weights that are told
    for which scenarios: `POLICY=SCENARIO,SCENARIO`. data: the folder of datasets."""
    experts: dict[str, _Expert] = {}
    for source in sources:
        policy, equals, names = source.partition("=")
        if equals:
            for name in names.split(","):
                _place(experts, policy, named_scenario(name, data))
            continue
        folder = POLICIES.folder_of(source)
        if folder is None:
            raise UsageError(f"{source!r}: there is neither a checkpoint nor a training run")
        checkpoint = load_checkpoint(folder, VERSION)
        match checkpoint.card.kind:
            case "adaptive":
                _take_over(experts, adaptive_scorer(checkpoint, folder, {}), checkpoint.card)
            case "linear":
                _add(experts, Path(source), checkpoint, folder)
            case other:
                raise UsageError(
                    f"{source}: a policy of kind {other!r} is no expert; runs of es and imitate are"
                )
    return _together(experts)


def _take_over(experts: dict[str, _Expert], scorer: AdaptiveScorer, card: Card) -> None:
    for k, name in enumerate(scorer.experts):
        if name in experts:
            continue
        theirs = _Expert(scorer.stands[k], trained_on=card.trained_on, scores=card.scores)
        for objective in scorer.trained.get(name, scorer.objectives):
            o = scorer.objectives.index(objective)
            gaps = scorer.gaps[o, k] if scorer.gaps.size else np.zeros(0)
            theirs.weighs[objective] = _Weighing(scorer.weights[o, k], gaps)
        experts[name] = theirs


def _add(experts: dict[str, _Expert], run: Path, checkpoint: Checkpoint, folder: Path) -> None:
    if is_checkpoint(run):
        raise UsageError(
            f"{run}: name the folder of the training run, which says what it was trained on, or say for what "
            f"the checkpoint is meant: {run}=SCENARIO,SCENARIO"
        )
    settings = read_settings(run, "pods")
    scenarios = scenarios_of(settings, run, scenario_from_json)
    works = [compiled_workload(scenario.of_part("train"), 0) for scenario in scenarios]
    stands = np.mean([demand_figures(work) for work in works], axis=0)
    name = "+".join(checkpoint.card.trained_on)
    card = checkpoint.card
    expert = experts.setdefault(name, _Expert(stands, scores=card.scores))
    expert.trained_on = (*expert.trained_on, *card.trained_on)
    scorer = linear_scorer(checkpoint, folder)
    expert.weighs[_objective(run, scenarios[0])] = _evenly(
        scorer.weights_for(works[0]), scorer.gaps_for(works[0])
    )


def _objective(source: Path, scenario: PodScenario) -> str:
    """What weights make better: what their run was told to, else (a rule, an imitation) what decides."""
    config = read_settings(source, "pods")["config"] if (source / SETTINGS).is_file() else {}
    measure = str(config.get("measure", scenario.headings.deciding[0]))
    return OBJECTIVES.get(measure, measure)


def _place(experts: dict[str, _Expert], policy: str, scenario: PodScenario) -> None:
    """The policy as the expert for one scenario."""
    work = compiled_workload(scenario.of_part("train"), 0)
    card = Card(world="pods", kind="linear", algorithm="", encoding=VERSION)
    if policy in RULES:
        weighing = _evenly(weights_of_rule(policy), np.zeros(0))
    else:
        made = make_policy(policy)
        if not isinstance(made, RulePolicy) or made.options.linear is None:
            raise UsageError(
                f"{policy}: it has no weights; checkpoints of es and imitate have, and {', '.join(RULES)}"
            )
        linear = made.options.linear
        weighing = _evenly(linear.weights_for(work), linear.gaps_for(work))
        folder = POLICIES.folder_of(policy)
        card = load_checkpoint(folder, VERSION).card if folder is not None else card
    expert = experts.setdefault(scenario.name, _Expert(demand_figures(work), scores=card.scores))
    expert.trained_on = (*expert.trained_on, *card.trained_on)
    expert.weighs[_objective(Path(policy), scenario)] = weighing


def _evenly(weights: F64, gaps: F64) -> _Weighing:
    """Of one length for each kind of pod: who is chosen stays the same, and no expert outweighs another."""
    factors = LENGTH / np.maximum(np.linalg.norm(weights, axis=1), 1e-12)
    return _Weighing(factors[:, None] * weights, factors[POD_KINDS.index("shares_gpu")] * gaps)


def _together(experts: dict[str, _Expert]) -> Checkpoint:
    if not experts:
        raise UsageError("name at least one training run: proreus combine pods runs/x runs/y --out runs/z")
    objectives = list(dict.fromkeys(name for expert in experts.values() for name in expert.weighs))
    weighs = [
        [expert.weighs.get(objective, next(iter(expert.weighs.values()))) for expert in experts.values()]
        for objective in objectives
    ]
    card = Card(
        world="pods",
        kind="adaptive",
        algorithm="experts",
        encoding=VERSION,
        config={
            "experts": list(experts),
            "objectives": objectives,
            "trained": {name: list(expert.weighs) for name, expert in experts.items()},
        },
        trained_on=tuple(dict.fromkeys(name for expert in experts.values() for name in expert.trained_on)),
        scores={name: score for expert in experts.values() for name, score in expert.scores.items()},
    )
    tensors = {
        "stands": np.array([expert.stands for expert in experts.values()]),
        "weights": np.array([[scorer.weights for scorer in row] for row in weighs]),
    }
    if any(scorer.gaps.size for row in weighs for scorer in row):
        alike = np.zeros(LEVELS)
        tensors["gaps"] = np.array(
            [[scorer.gaps if scorer.gaps.size else alike for scorer in row] for row in weighs]
        )
    return Checkpoint(card, tensors)
