"""Why a pod was moved, or none: what every legal move was worth to the scorer that chose."""

from __future__ import annotations

import numpy as np

from proreus.kernels.arrays import F64
from proreus.policies.protocol import Explanation, Verdict
from proreus.worlds.rebalance.decision import Migrate, Migration
from proreus.worlds.rebalance.windows.encoding.moves import FEATURES, encode_moves
from proreus.worlds.rebalance.windows.state import WindowObservation

_SCORED = "To stop is worth 0; equal moves go to the first pod, then the first node."


def explained(name: str, weights: F64, observation: WindowObservation, decision: Migration) -> Explanation:
    """The decision, with the parts of every legal move's score; weights: all 0 where none scores them."""
    nodes, pods = observation.node_names, observation.pod_names
    table, learned = encode_moves(observation.hosting), bool(weights.any())
    verdicts = []
    for move in np.flatnonzero(observation.action_mask()[:-1]).tolist():
        pod, node = divmod(move, len(nodes))
        parts = zip(FEATURES, (weights * table[move]).tolist(), strict=True)
        scores = {feature: part for feature, part in parts if part} if learned else {}
        verdicts.append(Verdict(f"{pods[pod]} → {nodes[node]}", "", scores, sum(scores.values())))
    outcome, chosen = "no further move", ""
    if isinstance(decision, Migrate):
        outcome = f"{pods[decision.unit]} goes to {nodes[decision.target]}"
        chosen = f"{pods[decision.unit]} → {nodes[decision.target]}"
    return Explanation(
        policy=name,
        subject=f"before window {observation.window}:",
        decision=decision,
        verdicts=tuple(verdicts),
        note=_SCORED if learned else "This rule does not score moves.",
        told=outcome,
        chosen=chosen,
        place="move",
    )
