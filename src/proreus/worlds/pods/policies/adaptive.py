"""Weights that know the demand: experts for demands of several kinds, mixed by how near the present one is.

Each expert is a linear scorer (see `rules.policy.LinearScorer`) that was trained on one kind of workload and
stands at its figures (`encoding.figures`), for each of the objectives that a user may weigh (where it was not
trained for one, its weights for its own first objective stand in, and the policy says so):

    distance_k = |(figures - stands_k) / WIDTHS|
    share_k    ~ exp(-distance_k^2 / 2)
    weights    = sum_k share_k sum_o wish_o weights_ok

A demand that is farther than `SPANS` from every expert is unlike anything that was trained on: there the rule
decides that is best without training, and the policy says so.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np

from proreus.kernels.arrays import F64
from proreus.model.errors import InputError
from proreus.policies.checkpoint import Checkpoint
from proreus.policies.experts import check_wishes, finite_tensor, names_in
from proreus.worlds.pods.encoding.figures import FIGURES, SPANS, WIDTHS, demand_figures
from proreus.worlds.pods.encoding.pair import CPU_LEFT, FGD_SCORE, ORDER, PAIR_FEATURES, POD_KINDS
from proreus.worlds.pods.state.compile import Compiled
from proreus.worlds.pods.state.devices import LEVELS

_NO_GPUS = FIGURES.index("no_gpus")
_SHAPE = (len(POD_KINDS), len(PAIR_FEATURES))
_TOLD = 0.05
"""Experts with a smaller share are not worth a word."""


_RULES = {"fgd": (FGD_SCORE, 10.0), "best_fit": (CPU_LEFT, -10.0), "first_fit": (ORDER, 10.0)}
"""Rules that are one feature of the pair, with its weight; equals go to the first in order."""
RULES = tuple(_RULES)


def weights_of_rule(name: str) -> F64:
    """float64[kinds, features] that decide as the rule of that name, one of `RULES`."""
    feature, weight = _RULES[name]
    weights = np.zeros(_SHAPE)
    weights[:, ORDER] = 0.01
    weights[:, feature] = weight
    return weights


def rule_weights(*, gpus: bool) -> F64:
    """float64[kinds, features] that decide as the strongest rule: FGD with GPUs, else best fit."""
    return weights_of_rule("fgd" if gpus else "best_fit")


@dataclass(frozen=True, eq=False)
class AdaptiveScorer:
    """See the module. K experts, O objectives."""

    stands: F64
    """[K, figures]"""
    weights: F64
    """[O, K, pod kinds, features], of about the same size each."""
    experts: tuple[str, ...]
    """What each was trained on."""
    objectives: tuple[str, ...]
    wishes: tuple[float, ...]
    """How much each objective counts; they add up to 1."""
    gaps: F64 = field(default_factory=lambda: np.zeros((0, 0, 0)))
    """[O, K, LEVELS]: see `rules.policy.LinearScorer`; empty where no expert knows of gaps."""
    trained: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    """Expert -> the objectives that it was trained for, its own first one first; one that is not in it was
    for all."""
    asked: tuple[str, ...] = ()
    """The objectives that a user named."""

    def shares(self, figures: F64) -> F64:
        """[K]: how much each expert counts; all 0 where the demand is unlike anything known."""
        if (((self.stands - figures) / SPANS) ** 2).sum(axis=1).min() > 1.0:
            return np.zeros(len(self.stands))
        apart = (((self.stands - figures) / WIDTHS) ** 2).sum(axis=1)
        near = np.exp(-0.5 * (apart - apart.min()))
        shares: F64 = near / near.sum()
        return shares

    def weights_for(self, compiled: Compiled) -> F64:
        """[pod kinds, features] for the demand that the cluster has."""
        figures = demand_figures(compiled)
        shares = self.shares(figures)
        if not shares.any():
            return rule_weights(gpus=figures[_NO_GPUS] == 0.0)
        return self._mixed(shares, self.weights)

    def gaps_for(self, compiled: Compiled) -> F64:
        """[LEVELS]; [0] where the rule decides, or where no expert knows of gaps."""
        shares = self.shares(demand_figures(compiled))
        return self._mixed(shares, self.gaps) if self.gaps.size and shares.any() else np.zeros(0)

    def _mixed(self, shares: F64, theirs: F64) -> F64:
        """What the experts say, as much as each of them counts; theirs: [O, K, ...]."""
        wished = np.tensordot(np.array(self.wishes), theirs, axes=1)
        return np.asarray(np.tensordot(shares, wished, axes=1))

    def note(self, compiled: Compiled) -> str:
        """Which experts speak, in words."""
        figures = demand_figures(compiled)
        shares = self.shares(figures)
        if not shares.any():
            rule = "FGD" if figures[_NO_GPUS] == 0.0 else "best fit"
            return f"The demand is unlike anything that was trained on: {rule} decides."
        ranked = sorted(zip(shares.tolist(), self.experts, strict=True), key=lambda pair: -pair[0])
        speak = [(share, name) for share, name in ranked if share >= _TOLD]
        likeness = ", ".join(f"{share:.0%} {name}" for share, name in speak)
        return f"Weights for a demand like {likeness}.{self._stand_ins([name for _, name in speak])}"

    def _stand_ins(self, speak: Sequence[str]) -> str:
        """Which of the objectives asked for the experts that speak were not trained for, in words."""
        missing: dict[tuple[str, str], list[str]] = {}
        for expert in speak:
            known = self.trained.get(expert, self.objectives)
            for objective in self.asked:
                if objective not in known:
                    missing.setdefault((objective, known[0]), []).append(expert)
        return "".join(
            f" For {objective} there is no training on {', '.join(names)}: those for {stands_in} stand in."
            for (objective, stands_in), names in missing.items()
        )


def adaptive_scorer(checkpoint: Checkpoint, folder: Path, wishes: Mapping[str, float]) -> AdaptiveScorer:
    """The scorer of a checkpoint; without wishes its first objective is all that counts."""
    config = checkpoint.card.config
    experts, objectives = (names_in(config, key, folder) for key in ("experts", "objectives"))
    shapes: dict[str, tuple[int, ...]] = {
        "stands": (len(experts), len(FIGURES)),
        "weights": (len(objectives), len(experts), *_SHAPE),
    }
    if "gaps" in checkpoint.tensors:
        shapes["gaps"] = (len(objectives), len(experts), LEVELS)
    tensors = {name: finite_tensor(checkpoint, name, shape, folder) for name, shape in shapes.items()}
    return AdaptiveScorer(
        **tensors,
        experts=experts,
        objectives=objectives,
        wishes=_wished(objectives, wishes),
        trained=_trained(config, experts, objectives, folder),
        asked=tuple(name for name, weight in wishes.items() if weight > 0.0),
    )


def _trained(
    config: Mapping[str, object], experts: tuple[str, ...], objectives: tuple[str, ...], folder: Path
) -> dict[str, tuple[str, ...]]:
    """What a card says of which expert was trained for what; cards of before say nothing."""
    trained = config.get("trained", {})
    if not isinstance(trained, Mapping) or not set(trained) <= set(experts):
        raise InputError("needs the objectives of each expert", file=folder, field="config.trained")
    by_expert = {expert: names_in(trained, expert, folder, "config.trained") for expert in trained}
    for expert, names in by_expert.items():
        if not set(names) <= set(objectives):
            raise InputError(
                f"needs objectives of {', '.join(objectives)}", file=folder, field=f"config.trained.{expert}"
            )
    return by_expert


def _wished(objectives: tuple[str, ...], wishes: Mapping[str, float]) -> tuple[float, ...]:
    if not wishes:
        return (1.0, *(0.0 for _ in objectives[1:]))
    check_wishes(wishes, objectives)
    total = sum(wishes.values())
    return tuple(wishes.get(name, 0.0) / total for name in objectives)
