"""Why an instance goes where it goes, or stays as long as it stays."""

from __future__ import annotations

from proreus.policies.protocol import Explanation, Verdict
from proreus.worlds.functions.model import KEEPS, Decision, Keep, StartInstance
from proreus.worlds.functions.policies.columns import BIDDING, KEEPS_BY_BIDS, FunctionsRule
from proreus.worlds.functions.policies.rules import bid, desire
from proreus.worlds.functions.state.observation import FunctionsObservation

_FULL = "room: the instance does not fit beside what is reserved there"


def explained(
    name: str, rule: FunctionsRule, observation: FunctionsObservation, decision: Decision
) -> Explanation:
    """The decision, and what every node or time came to."""
    if observation.asks == "place":
        return _placed(name, rule, observation, decision)
    return _kept(name, rule, observation, decision)


def _placed(
    name: str, rule: FunctionsRule, observation: FunctionsObservation, decision: Decision
) -> Explanation:
    work, runs, fits = observation.work, observation.runs, observation.fits()
    reserved, used = observation.reserved(), observation.used()
    bids = rule.kind[0] == BIDDING
    if bids:
        bid(work, runs, 0, rule)
    verdicts = []
    for node in range(observation.nodes):
        scores = {
            "CPU reserved": float(reserved[node, 0]),
            "memory reserved": float(reserved[node, 1]),
            "CPU used": float(used[node, 0]),
            "$ an hour": float(work.price[node]) / 1e6,
        }
        total = float(rule.bids[node]) if bids else float(desire(work, runs, 0, int(rule.kind[0]), node)[0])
        refused = "" if fits[node] else _FULL
        verdicts.append(
            Verdict(f"node {node}", refused, scores if fits[node] else {}, total if fits[node] else 0.0)
        )
    chosen = f"node {decision.node}" if isinstance(decision, StartInstance) else ""
    message = f"an instance starts on {chosen}" if chosen else "waits"
    note = "Totals are what the policy compares, the highest first; dice and turns have none."
    return Explanation(name, observation.function.name, decision, tuple(verdicts), note, message, chosen)


def _kept(
    name: str, rule: FunctionsRule, observation: FunctionsObservation, decision: Decision
) -> Explanation:
    assert isinstance(decision, Keep), "an instance idles"
    verdicts: tuple[Verdict, ...] = ()
    if rule.keeper[0] == KEEPS_BY_BIDS:
        bid(observation.work, observation.runs, 0, rule)
        first = observation.nodes + 1
        verdicts = tuple(
            Verdict(f"{seconds:g} s", "", {}, float(rule.bids[first + place]))
            for place, seconds in enumerate(KEEPS)
        )
    subject = f"{observation.function.name}@{observation.node}"
    chosen = f"{decision.seconds:g} s"
    note = "How long the instance stays, unless a request comes before."
    return Explanation(name, subject, decision, verdicts, note, f"stays for {chosen}", chosen, "time")
