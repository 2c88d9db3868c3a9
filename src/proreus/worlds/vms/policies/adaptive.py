"""A policy that knows how its cluster treats machines: experts, of which the nearest decides.

Each expert is a scorer, of places (`scorer`) or of gaps (`gaps`), that was trained on one kind of cluster and
stands at its figures (`encoding.figures`). Where machines wait other choices are good than where they are
turned away, so weights that are the same everywhere lose somewhere to a rule. A cluster that is farther than
`experts.REACH` from every expert is unlike anything that was trained on: there the rule decides that is best
without training, and the policy says so.

Where machines are turned away three take turns. Where the servers were crowded lately, those who find no
room are best the large ones, in whose place many small ones fit. Where they hardly ever were full and there
is room for everybody, the aim is that of runs which end with the first machine that finds none: to keep large
gaps. In between an expert of its own decides, for servers that are full at busy hours. And from
an empty cluster on first fit decides for as long as it fills so slowly that there will be room for all.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property
from typing import assert_never

import numpy as np

from proreus.kernels.arrays import I32
from proreus.policies.protocol import Explanation
from proreus.worlds.vms.encoding.figures import Stage, cluster_figures
from proreus.worlds.vms.encoding.place import FEATURES
from proreus.worlds.vms.model import Full, Treatment
from proreus.worlds.vms.policies import columns as stages
from proreus.worlds.vms.policies.columns import FIRST_FIT, WORST_FIT
from proreus.worlds.vms.policies.experts import VmExperts
from proreus.worlds.vms.policies.policy import Below, VmRulePolicy
from proreus.worlds.vms.state.observation import VmObservation

LOADED_FROM = 0.3
"""How often a cluster that turns machines away was full, if it was crowded lately."""
ROOMY_UP_TO = 0.6
"""Share of cores or of memory in use, in a cluster that hardly ever was full. The later the packing ends, the
fewer are turned away on thirty and forty servers, and the more on twenty."""
EASY_AFTER_A_THOUSAND = 0.35
"""Share of cores or of memory in use after a thousand machines, at most, where there will be room for all."""

_BY_LOAD: tuple[Stage, Stage] = ("crowded", "calm")


def untrained(full: Full) -> tuple[int, str]:
    """(kind, words) of the rule that is best where nothing was trained."""
    match full:
        case "reject":
            return WORST_FIT, "worst fit"
        case "wait" | "end":
            return FIRST_FIT, "first fit"
        case other:
            assert_never(other)


def by_load(crowded: VmRulePolicy, calm: VmRulePolicy) -> VmRulePolicy:
    """The first where the cluster was crowded lately, the other where it was not."""
    return replace(crowded, calm=Below(calm.kind, calm.weights, LOADED_FROM))


def first_fit_while_easy() -> Below:
    """What decides where there will be room for all."""
    return Below(FIRST_FIT, np.zeros(len(FEATURES)), EASY_AFTER_A_THOUSAND)


@dataclass(frozen=True, eq=False)
class AdaptiveVmPolicy:
    name: str
    experts: VmExperts
    seed: int = 0

    def under(self, treatment: Treatment, capacity: I32) -> VmRulePolicy:
        """The rule that decides in such a cluster."""
        if treatment.full != "reject":
            return self._nearest(treatment, capacity)
        crowded, calm = (self._nearest(treatment, capacity, stage) for stage in _BY_LOAD)
        roomy = self._nearest(replace(treatment, full="end"), capacity)
        by_turns = replace(by_load(crowded, calm), roomy=Below(roomy.kind, roomy.weights, ROOMY_UP_TO))
        return replace(by_turns, easy=first_fit_while_easy()) if self.experts.packs_while_easy else by_turns

    def _nearest(self, treatment: Treatment, capacity: I32, stage: Stage = "both") -> VmRulePolicy:
        expert = self.experts.nearest(cluster_figures(treatment, capacity, stage))
        if expert is None:
            return VmRulePolicy(self.name, untrained(treatment.full)[0], self.seed)
        scorer = self.experts.scorers[expert]
        return VmRulePolicy(self.name, scorer.kind, self.seed, scorer.weights)

    def fresh(self, seed: int) -> AdaptiveVmPolicy:
        """The same, for other runs."""
        return replace(self, seed=seed)

    def decide(self, observation: VmObservation) -> int:
        """The choice of the expert that is nearest."""
        return self.settled(observation).decide(observation)

    def explain(self, observation: VmObservation) -> Explanation:
        """The same with what every place was worth, and who decided."""
        rule, treatment = self.settled(observation), observation.treatment
        explanation = rule.explain(observation)
        if treatment.full != "reject":
            note = self._nearest_note(treatment, observation)
        else:
            match int(rule.rule.now[0]):
                case stages.EASY:
                    note = "The servers fill slowly, there is room for all: first fit decides."
                case stages.ROOMY:
                    note = f"There is room. {self._nearest_note(replace(treatment, full='end'), observation)}"
                case stages.CALM:
                    note = f"There was room lately. {self._nearest_note(treatment, observation, 'calm')}"
                case _:
                    crowded = self._nearest_note(treatment, observation, "crowded")
                    note = f"The servers were crowded lately. {crowded}"
        return replace(explanation, note=f"{note} {explanation.note}")

    @cached_property
    def _known(self) -> dict[tuple[Treatment, bytes], VmRulePolicy]:
        return {}

    def settled(self, observation: VmObservation) -> VmRulePolicy:
        """The rule that decides in the cluster of a request, with what it remembers of it."""
        treatment, capacity = observation.treatment, observation.servers.capacity
        cluster = (treatment, capacity.tobytes())
        if cluster not in self._known:
            self._known[cluster] = self.under(treatment, capacity)
        return self._known[cluster]

    def _nearest_note(self, treatment: Treatment, observation: VmObservation, stage: Stage = "both") -> str:
        expert = self.experts.nearest(cluster_figures(treatment, observation.servers.capacity, stage))
        if expert is None:
            rule = untrained(treatment.full)[1]
            return f"The cluster is unlike anything that was trained on: {rule} decides."
        return f"Weights for a cluster like {self.experts.names[expert]}."
