"""Why a pod was moved, or none: what every legal move was worth to the scorer that chose."""

from __future__ import annotations

import numpy as np

from proreus.kernels.arrays import F32, F64, I64
from proreus.policies.protocol import Explanation, Verdict
from proreus.worlds.rebalance.decision import Migrate, Migration
from proreus.worlds.rebalance.windows.encoding.moves import FEATURES, encode_moves
from proreus.worlds.rebalance.windows.encoding.offers import OFFERED, STOP_ROW
from proreus.worlds.rebalance.windows.state import WindowObservation

_SCORED = "To stop is worth 0; equal moves go to the first pod, then the first node."
_BIDS = f"Bids over that for stopping, of the {OFFERED} pods with the best moves; others were not offered."


def explained(name: str, weights: F64, observation: WindowObservation, decision: Migration) -> Explanation:
    """The decision, with the parts of every legal move's score; weights: all 0 where none scores them."""
    table, learned = encode_moves(observation.hosting), bool(weights.any())
    verdicts = []
    for move in np.flatnonzero(observation.action_mask()[:-1]).tolist():
        parts = zip(FEATURES, (weights * table[move]).tolist(), strict=True)
        scores = {feature: part for feature, part in parts if part} if learned else {}
        verdicts.append(Verdict(_named(observation, move), "", scores, sum(scores.values())))
    note = _SCORED if learned else "This rule does not score moves."
    return _explanation(name, observation, decision, verdicts, note)


def explained_bids(
    name: str, offers: tuple[I64, F32], observation: WindowObservation, decision: Migration
) -> Explanation:
    """The decision, with what the network bids for the moves that it was offered; offers: (moves, bids)."""
    moves, bids = offers
    stop = float(bids[STOP_ROW])
    worth = {int(move): float(bid) - stop for move, bid in zip(moves, bids, strict=True) if move >= 0}
    verdicts = []
    for move in np.flatnonzero(observation.action_mask()[:-1]).tolist():
        scores = {"bid": worth[move]} if move in worth else {}
        verdicts.append(
            Verdict(_named(observation, move), "", scores, worth.get(move, 0.0), looked_at=move in worth)
        )
    return _explanation(name, observation, decision, verdicts, _BIDS)


def _named(observation: WindowObservation, move: int) -> str:
    pod, node = divmod(move, len(observation.node_names))
    return f"{observation.pod_names[pod]} → {observation.node_names[node]}"


def _explanation(
    name: str, observation: WindowObservation, decision: Migration, verdicts: list[Verdict], note: str
) -> Explanation:
    outcome, chosen = "no further move", ""
    if isinstance(decision, Migrate):
        pod, node = observation.pod_names[decision.unit], observation.node_names[decision.target]
        outcome, chosen = f"{pod} goes to {node}", f"{pod} → {node}"
    return Explanation(
        policy=name,
        subject=f"before window {observation.window}:",
        decision=decision,
        verdicts=tuple(verdicts),
        note=note,
        told=outcome,
        chosen=chosen,
        place="move",
    )
