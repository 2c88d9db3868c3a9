"""What a shadow's log comes to: how often it would have decided otherwise, why, and what that changes."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

_EXAMPLES = 10


@dataclass
class ShadowReport:
    """All of a log, added up."""

    policy: str = ""
    pods: int = 0
    first: float = 0.0
    last: float = 0.0
    same: int = 0
    """The same node, or one that the policy likes as much."""
    ties: int = 0
    """Of these: another node of the same score."""
    other_node: int = 0
    would_wait: int = 0
    """It has a node, and the policy would have let it wait."""
    would_place: int = 0
    """It waits, and the policy had a node for it."""
    both_wait: int = 0
    forbidden: int = 0
    """It went where the kube rules, as they are known here, forbid it."""
    forbidden_why: Counter[str] = field(default_factory=Counter)
    fallbacks: Counter[str] = field(default_factory=Counter)
    opened: tuple[int, int] = (0, 0)
    """Empty nodes that were taken into use, really and instead, where the two differed."""
    evicted: int = 0
    """Pods that the policy would have evicted."""
    fullness: tuple[float, float] = (0.0, 0.0)
    """Mean share of CPU asked for on the chosen node, really and instead, where the two differed."""
    node_seconds: tuple[float, float] = (0.0, 0.0)
    """Of nodes with pods on them, really and had the policy decided all along."""
    left_out: int = 0
    """Pods that found no node there."""
    slowest: float = 0.0
    """Seconds of a decision."""
    by_namespace: Counter[str] = field(default_factory=Counter)
    """Where it would have differed."""
    examples: list[dict[str, Any]] = field(default_factory=list)

    def to_json(self) -> dict[str, Any]:
        """For tools."""
        hours = max(self.last - self.first, 0.0) / 3600
        return {
            "policy": self.policy,
            "pods": self.pods,
            "hours": round(hours, 3),
            "same": self.same,
            "ties": self.ties,
            "other_node": self.other_node,
            "would_wait": self.would_wait,
            "would_place": self.would_place,
            "both_wait": self.both_wait,
            "forbidden": self.forbidden,
            "forbidden_why": dict(self.forbidden_why.most_common(_EXAMPLES)),
            "fallbacks": dict(self.fallbacks),
            "opened": {"really": self.opened[0], "instead": self.opened[1]},
            "evicted": self.evicted,
            "fullness": {"really": round(self.fullness[0], 4), "instead": round(self.fullness[1], 4)},
            "node_hours": {
                "really": round(self.node_seconds[0] / 3600, 3),
                "instead": round(self.node_seconds[1] / 3600, 3),
            },
            "left_out": self.left_out,
            "slowest_ms": round(1e3 * self.slowest, 3),
            "by_namespace": dict(self.by_namespace.most_common(_EXAMPLES)),
            "examples": self.examples,
        }


def add_up(lines: Iterable[Mapping[str, Any]]) -> ShadowReport:
    """The report of a log, oldest line first."""
    report = ShadowReport()
    full_really = full_instead = 0.0
    differed = 0
    in_use: tuple[int, int] | None = None
    for line in lines:
        at = float(line["at"])
        if in_use is None:
            report.first = at
        else:
            passed = max(0.0, at - report.last)
            report.node_seconds = (
                report.node_seconds[0] + passed * in_use[0],
                report.node_seconds[1] + passed * in_use[1],
            )
        report.last, in_use = at, (int(line["in_use"][0]), int(line["in_use"][1]))
        report.policy, report.left_out = str(line["policy"]), int(line["left_out"])
        _add(report, line)
        if line["node"] and line["would"] and not line["same"]:
            differed += 1
            full_really += line["done"]["cpu"]
            full_instead += line["instead"]["cpu"]
    if differed:
        report.fullness = (full_really / differed, full_instead / differed)
    return report


def _add(report: ShadowReport, line: Mapping[str, Any]) -> None:
    node, would = line["node"], line["would"]
    report.pods += 1
    report.slowest = max(report.slowest, float(line["seconds"]))
    if line["fallback"]:
        report.fallbacks[line["fallback"]] += 1
    if line["forbidden"]:
        report.forbidden += 1
        report.forbidden_why[str(line["forbidden"]).partition(": ")[2]] += 1
    if not node and not would:
        report.both_wait += 1
        return
    if line["same"]:
        report.same += 1
        report.ties += node != would
        return
    report.by_namespace[str(line["pod"]).partition("/")[0]] += 1
    if not node:
        report.would_place += 1
    elif not would:
        report.would_wait += 1
    else:
        report.other_node += 1
    done, instead = line["done"], line["instead"]
    report.opened = (
        report.opened[0] + bool(done["opens_node"]),
        report.opened[1] + bool(instead["opens_node"]),
    )
    report.evicted += int(instead["evicts"])
    report.examples.append({key: line[key] for key in ("pod", "node", "would", "scores", "why", "fallback")})
    del report.examples[:-_EXAMPLES]


def told(report: ShadowReport, price: float = 0.0) -> str:
    """For people; price: of a node for an hour, 0: nobody knows."""
    if not report.pods:
        return "No pod has been bound, or told to wait, since the shadow listens.\n"
    really, instead = (seconds / 3600 for seconds in report.node_seconds)
    hours = max(report.last - report.first, 0.0) / 3600
    lines = [
        f"{report.pods:,} decisions of others in {hours:.2f} hours, compared with {report.policy}:",
        f"  {report.same:,} the same ({report.ties:,} of them another node that it likes as much)",
        f"  {report.other_node:,} on another node",
        f"  {report.would_wait:,} it would have let wait, {report.would_place:,} it had a node for "
        f"and they wait, {report.both_wait:,} both let wait",
    ]
    if report.forbidden:
        lines.append(f"  {report.forbidden:,} went where the kube rules, as known here, forbid it:")
        lines += [f"    {count:,} x {why}" for why, count in report.forbidden_why.most_common(3)]
    if report.fallbacks:
        counted = ", ".join(f"{why} {count:,}" for why, count in report.fallbacks.most_common())
        lines.append(f"  the kube rules had to decide for it: {counted}")
    lines.append("Where they differ, at once:")
    lines.append(f"  empty nodes taken into use: {report.opened[1]:,}, not {report.opened[0]:,}")
    lines.append(f"  the chosen node's CPU asked for: {report.fullness[1]:.0%}, not {report.fullness[0]:.0%}")
    lines.append(f"  pods evicted: {report.evicted:,}")
    lines.append("Had it decided all along:")
    change = f" ({instead / really - 1:+.1%})" if really > 0 else ""
    lines.append(f"  node hours in use: {instead:,.2f}, not {really:,.2f}{change}")
    if price:
        saved = (really - instead) * price
        lines.append(f"  at ${price:g} a node and hour: ${saved:,.2f} {'less' if saved >= 0 else 'more'}")
    if report.left_out:
        lines.append(f"  {report.left_out:,} pods found no node there and are not counted in it")
    lines.append(f"Slowest decision: {1e3 * report.slowest:.1f} ms")
    if report.by_namespace:
        lines.append(
            "Most differences: " + ", ".join(f"{n} {c:,}" for n, c in report.by_namespace.most_common(5))
        )
    if report.examples:
        lines.append("The last of them:")
        for one in report.examples:
            lines.append(
                f"  {one['pod']}: {one['would'] or 'wait'}, not {one['node'] or 'wait'}: {one['why']}"
            )
    return "\n".join(lines) + "\n"
