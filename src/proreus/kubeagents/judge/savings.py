"""What another policy would have saved, from a comparison to a page that a person reads. No I/O.

The rules of kube-scheduler are played over the same time as every other policy, and the difference is what is
claimed; what really happened stands beside it, so that a reader sees how far the replay is from life. Nodes
cost while they hold pods: it is saved only where something takes empty nodes away.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from proreus.compare.trials import TrialResult
from proreus.kubeagents.judge.scenario_folder import About
from proreus.model.estimate import Estimate, estimate

BASELINE = "kube"
_DAY = 86_400.0
_WEEK = 7 * _DAY


@dataclass(frozen=True)
class Saved:
    """One policy beside the baseline."""

    policy: str
    cost: float
    """Dollars of the recorded time, as recorded (seed 0)."""
    saved: float
    """Dollars less than the baseline, as recorded."""
    drawn: Estimate | None
    """Of what is saved over the other draws, with its 95 % interval; None where there are none."""
    wait: float
    """Seconds that a pod waits, on average."""
    failures: float


def savings(results: Sequence[TrialResult], baseline: str = BASELINE) -> tuple[Saved, ...]:
    """What each policy saves, the largest saving first; paired by draw."""
    by_policy: dict[str, dict[int, Mapping[str, float]]] = {}
    for result in results:
        by_policy.setdefault(result.policy, {})[result.seed] = result.measures
    base = by_policy[baseline]
    found = []
    for policy, by_seed in by_policy.items():
        drawn = [base[seed]["cost"] - by_seed[seed]["cost"] for seed in sorted(by_seed) if seed != 0]
        recorded = by_seed[0]
        found.append(
            Saved(
                policy,
                recorded["cost"],
                base[0]["cost"] - recorded["cost"],
                estimate(drawn) if drawn and policy != baseline else None,
                recorded.get("wait_mean", 0.0),
                recorded.get("failures", 0.0),
            )
        )
    return tuple(sorted(found, key=lambda one: (-one.saved, one.policy)))


def headline(found: Sequence[Saved], about: About, asked: str) -> str:
    """The answer in one sentence."""
    base = next(one for one in found if one.policy == BASELINE)
    one = next((each for each in found if each.policy == asked), found[0])
    share = 100.0 * one.saved / base.cost if base.cost else 0.0
    seconds = about.end - about.begin
    # A few hours say nothing about a week: nights, weekends and what runs daily are not in them.
    weekly = f", ${one.saved * _WEEK / seconds:,.2f} a week" if seconds >= _DAY else ""
    sure, drawn = "", one.drawn
    if drawn is not None and drawn.low is not None and drawn.high is not None:
        if drawn.low <= 0.0 <= drawn.high:
            sure = "; over other draws of this kind that cannot be told from nothing"
        else:
            sure = f"; over {drawn.n} other draws of this kind ${drawn.low:,.2f} to ${drawn.high:,.2f}"
    more = ""
    if found[0].saved > max(one.saved, 0.0):
        more = f"; {found[0].policy} would have saved most: ${found[0].saved:,.2f}"
    verb = "saved" if one.saved >= 0 else "cost more:"
    return (
        f"{one.policy} would have {verb} ${abs(one.saved):,.2f} of ${base.cost:,.2f} ({share:.1f} %) beside "
        f"kube-scheduler's rules{weekly}{sure}{more}"
    )


def page(found: Sequence[Saved], about: About, asked: str) -> str:
    """The whole answer as Markdown."""
    seconds = about.end - about.begin
    span = f"{seconds / _DAY:.1f} days" if seconds >= _DAY else f"{seconds / 3600.0:.1f} hours"
    rows = [
        f"| {one.policy} | {one.cost:,.2f} | {one.saved:,.2f} | {_range(one)} | {one.wait:,.1f} | "
        f"{one.failures:,.0f} |"
        for one in found
    ]
    lines = [
        f"# What another scheduler would have saved: {about.name}",
        "",
        headline(found, about, asked) + ".",
        "",
        f"{about.told}.",
        "",
        f"Over {span} the nodes that held pods were worth **${about.recorded_cost:,.2f}** as the "
        "pods really were placed. The table plays the same pods again, by each policy:",
        "",
        "| policy | cost, $ | saved, $ | 95 % interval over draws, $ | mean wait, s | pods not placed |",
        "|---|---|---|---|---|---|",
        *rows,
        "",
        "How to read it:",
        "",
        "- The cost is that of nodes while they hold pods, by list prices of cores, memory and GPUs. An "
        "empty node costs nothing here: the money is saved where an autoscaler, or you, take it away.",
        "- *saved* is against `kube`, the rules of kube-scheduler over the same pods, and not against what "
        "was recorded: nodes came and went, and people moved pods, which a replay does not know.",
        "- The interval is over other draws: the same moments of arrival, with what arrives drawn from what "
        "arrived. What was recorded happened once only.",
        "- Pods that ran before the time that is looked at stay where they were; `kube import --fresh` "
        "places them anew.",
        "",
    ]
    return "\n".join(lines)


def as_json(found: Sequence[Saved], about: About, asked: str) -> dict[str, Any]:
    """For programs."""
    return {
        "headline": headline(found, about, asked),
        "cluster": about.name,
        "begin": about.begin,
        "end": about.end,
        "recorded_cost": about.recorded_cost,
        "baseline": BASELINE,
        "policies": [
            {
                "policy": one.policy,
                "cost": one.cost,
                "saved": one.saved,
                "low": None if one.drawn is None else one.drawn.low,
                "high": None if one.drawn is None else one.drawn.high,
                "draws": 0 if one.drawn is None else one.drawn.n,
                "wait_mean": one.wait,
                "failures": one.failures,
            }
            for one in found
        ],
    }


def _range(one: Saved) -> str:
    saved = one.drawn
    if saved is None or saved.low is None or saved.high is None:
        return ""
    return f"{saved.low:,.2f} to {saved.high:,.2f} (n={saved.n})"
