"""Two policies over a stretch of a cluster's own trace, as the simulator plays it: what would have been."""

from __future__ import annotations

import math

from proreus.model.cluster_trace import ClusterTrace
from proreus.model.duel import Contest, Duel
from proreus.worlds.pods.datasets.engine_trace import drawn_anew, replayed
from proreus.worlds.pods.play import simulate
from proreus.worlds.pods.policies.catalogue import PolicyOptions, make_policy
from proreus.worlds.pods.policies.explanation import PodPolicy
from proreus.worlds.pods.state.compile import Compiled, compile_workload

_Score = tuple[float, float, float]
"""Of a run: mean wait, evictions a pod, share without a node."""


def contest(trace: ClusterTrace, asked: Contest) -> Duel:
    """Play both; an InputError where nothing was recorded then."""
    trace_replay = replayed("contest", trace, asked.since, asked.until)
    horizon, came = (
        trace_replay.end - trace_replay.begin,
        sum(not pod.node for pod in trace_replay.workload.pods),
    )
    policies = [make_policy(name, PolicyOptions(), 0) for name in (asked.policy, asked.candidate)]
    scores: list[list[_Score]] = []
    for draw in range(asked.draws):
        work = compile_workload(trace_replay.workload if draw == 0 else drawn_anew(trace_replay, draw))
        scores.append([_score(work, policy.fresh(draw), horizon) for policy in policies])
    waits, evictions, unplaced = (
        tuple((mine[place], other[place]) for mine, other in scores) for place in range(3)
    )
    return Duel(came, waits, evictions, unplaced)


def _score(work: Compiled, policy: PodPolicy, horizon: float) -> _Score:
    """Only what happens within the stretch counts: what comes after it nobody has recorded."""
    outcome = simulate(work, policy)
    waited = evicted = unplaced = 0.0
    came = 0
    for pod, row in zip(work.workload.pods, outcome.log, strict=True):
        _, _, _, arrival, start, _, evictions = row
        evicted += evictions
        if pod.node:
            continue
        came += 1
        placed = not math.isnan(start) and start < horizon
        waited += (start if placed else horizon) - arrival
        unplaced += not placed
    number = max(came, 1)
    return waited / number, evicted / number, unplaced / number
