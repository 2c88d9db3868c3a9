"""What the numbers say, in plain sentences that claim no more than the intervals allow; `report` asks."""

from __future__ import annotations

from dataclasses import dataclass

from proreus.compare.comparison import Comparison
from proreus.compare.number_format import decimals_for, listing, number, signed, with_unit
from proreus.compare.ranking import Ranking, standing
from proreus.compare.statistics import Difference, paired_difference
from proreus.contract.scenario import Scenario


@dataclass(frozen=True)
class Findings:
    """What a scenario showed."""

    scenario: Scenario
    headline: str
    """The leader and its lead, in one sentence."""
    remarks: tuple[str, ...]
    standing: Ranking | None
    differences: dict[str, Difference]
    """Policy -> its difference to the leader in the measure that decides."""


def findings(comparison: Comparison, scenario: Scenario) -> Findings:
    """The sentences for one scenario."""
    order = standing(comparison, scenario)
    if order is None:
        return Findings(scenario, "No run gave a measure to rank the policies by.", (), None, {})
    differences = _differences(comparison, order)
    remarks = [
        *_told_apart(order, differences),
        *_about_seeds(comparison, order),
        *_about_unplaced(comparison, order),
    ]
    return Findings(scenario, _headline(order, differences), tuple(remarks), order, differences)


def overall(per_scenario: list[Findings]) -> str:
    """One sentence over all scenarios, or nothing where there is one only."""
    if len(per_scenario) < 2:
        return ""
    leaders = [leader for findings in per_scenario if (leader := _sole_leader(findings)) is not None]
    counts = {policy: leaders.count(policy) for policy in dict.fromkeys(leaders)}
    if not counts:
        return "No scenario has a policy that is ahead of all others."
    first, *others = sorted(counts.items(), key=lambda pair: -pair[1])
    if first[1] == len(per_scenario):
        return (
            f"{first[0]} has the best mean in all {len(per_scenario)} scenarios, {_how_surely(per_scenario)}."
        )
    parts = [f"{first[0]} has the best mean in {first[1]} of {len(per_scenario)} scenarios"]
    parts += [f"{policy} in {count}" for policy, count in others]
    if len(leaders) < len(per_scenario):
        parts.append("and elsewhere nobody is ahead alone")
    sure = sum(_is_sure(findings) for findings in per_scenario)
    leads = f"{sure or 'none'} of these leads {'is' if sure < 2 else 'are'} significant"
    return f"No policy leads everywhere: {', '.join(parts)}; {leads}."


def _how_surely(per_scenario: list[Findings]) -> str:
    """In how many scenarios the leader is ahead of the second for sure."""
    sure = sum(_is_sure(findings) for findings in per_scenario)
    if sure == len(per_scenario):
        return "each time significantly ahead of the second"
    if sure == 0:
        return "but nowhere significantly ahead of the second"
    return f"significantly ahead of the second in {sure} of them"


def _is_sure(findings: Findings) -> bool:
    ranked = () if findings.standing is None else findings.standing.ranked
    difference = findings.differences.get(ranked[1].policy) if len(ranked) > 1 else None
    return difference is not None and difference.significant


def _sole_leader(findings: Findings) -> str | None:
    """The policy whose mean nobody else reaches."""
    ranked = () if findings.standing is None else findings.standing.ranked
    if not ranked or (len(ranked) > 1 and ranked[1].estimate.mean == ranked[0].estimate.mean):
        return None
    return ranked[0].policy


def _differences(comparison: Comparison, order: Ranking) -> dict[str, Difference]:
    results = comparison.results_for(order.scenario)
    leader = order.policies[0]
    differences = {
        row.policy: paired_difference(results, order.measure, row.policy, leader) for row in order.ranked
    }
    return {
        policy: difference
        for policy, difference in differences.items()
        if difference is not None and policy != leader
    }


def _headline(order: Ranking, differences: dict[str, Difference]) -> str:
    leader = order.ranked[0]
    decimals = decimals_for([row.estimate.mean for row in order.ranked], order.unit)
    value = with_unit(number(leader.estimate.mean, decimals), order.unit)
    does = order.world.words.does.get(order.measure, f"has {{}} of {order.title.lower()}")
    sentence = f"{leader.policy} {does.format(value)}"
    if len(order.ranked) < 2:
        return f"{sentence}; there is no other policy to compare it with."
    second = order.ranked[1].policy
    difference = differences.get(second)
    if difference is None:
        return f"{sentence}; no seed allows a comparison with {second}."
    return f"{sentence}, {_lead(order, difference, second)}."


def _lead(order: Ranking, difference: Difference, second: str) -> str:
    """The lead over the second, from the seeds that both ran, and how sure it is."""
    # The difference is second minus leader; the lead is told the other way round.
    lead = -difference.estimate.mean
    if lead == 0:
        return f"exactly as {second} does"
    decimals = decimals_for([lead], order.unit)
    unit = "points" if order.unit.startswith("%") else order.unit
    compared = "more" if lead > 0 else "less"
    share = ""
    of_second = order.ranked[1].estimate.mean
    if unit != "points" and of_second:
        share = f" ({number(abs(100 * lead / of_second), 2)} %)"
    text = f"{with_unit(number(abs(lead), decimals), unit)}{share} {compared} than {second}"
    low, high = difference.estimate.low, difference.estimate.high
    if low is None or high is None:
        return f"{text}; one seed gives no interval, so this may be chance"
    if difference.always_same:
        return f"{text}, the same in all {difference.estimate.n} seeds"
    interval = f"{signed(-high, decimals)} to {signed(-low, decimals)} {unit}".rstrip()
    if difference.significant:
        return f"{text}; the difference is significant at 95 % ({interval})"
    return f"{text}; the difference is not significant at 95 % ({interval}): treat the two as equal"


def _told_apart(order: Ranking, differences: dict[str, Difference]) -> list[str]:
    """Whom the leader beats for sure, where there is more than the headline says."""
    if len(differences) < 2:
        return []
    if not any(value for difference in differences.values() for value in difference.values):
        return ["All policies come out alike here: this measure does not tell them apart."]
    if any(difference.estimate.low is None for difference in differences.values()):
        return []
    beaten = [policy for policy, difference in differences.items() if difference.significant]
    equal = [policy for policy, difference in differences.items() if not difference.significant]
    leader = order.policies[0]
    if not equal:
        return [f"{leader} is ahead of every other policy, each time significantly."]
    if not beaten:
        return [f"None of the others differs significantly from {leader}."]
    return [f"{leader} is significantly ahead of {listing(beaten)}, but not of {listing(equal)}."]


def _about_seeds(comparison: Comparison, order: Ranking) -> list[str]:
    seeds = len(comparison.request.seeds)
    if seeds > 1 and all(row.estimate.half == 0 for row in order.ranked):
        return ["Every seed gave the same figures: neither this workload nor these policies draw anything."]
    if 1 < seeds < 5:
        return [f"{seeds} seeds give wide intervals; five or more tell small differences apart."]
    return []


def _about_unplaced(comparison: Comparison, order: Ranking) -> list[str]:
    """Times count only what ran: whoever leaves work out may look fast."""
    world = comparison.world
    if order.measure not in world.words.unplaced:
        return []
    rows = comparison.rows_for(order.scenario, world.words.unplaced[order.measure])
    unplaced = {row.policy: row.estimate.mean for row in rows}
    leader = order.policies[0]
    if unplaced.get(leader, 0.0) <= min(unplaced.values(), default=0.0):
        return []
    count = number(unplaced[leader], decimals_for([unplaced[leader]], world.words.noun))
    return [
        f"{leader} also leaves {count} {world.words.noun} without a place, more than others do, and the "
        f"{order.title.lower()} does not count them."
    ]
