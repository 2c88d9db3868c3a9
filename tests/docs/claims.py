"""Sentences of the documentation that state a result, as they must read by the kept results."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from tests.docs.kept import mean
from tests.docs.tables import TABLES


@dataclass(frozen=True)
class Claim:
    """Words that stand in each of these pages."""

    pages: tuple[str, ...]
    words: Callable[[], str]


def _gains() -> list[float]:
    kept, measure = "pods-openb", "gpu_allocation_peak"
    names = TABLES["openb"].scenarios
    return [mean(kept, name, "learned", measure) - mean(kept, name, "fgd", measure) for name in names]


def _waits(words: str) -> str:
    waits = [
        mean("vms-huawei", "huawei/waiting", policy, "total_wait") for policy in ("learned", "balance_fit")
    ]
    return words.format(*waits)


def _violations(words: str, scenario: str, rule: str) -> str:
    kept, measure = "rebalance-windows", "violations"
    return words.format(*(mean(kept, scenario, policy, measure) for policy in ("learned", rule)))


def _saved(scenario: str) -> float:
    costs = {name: mean("workflows", scenario, name, "cost") for name in ("learned", "greedy", "deadline")}
    best = min(costs["greedy"], costs["deadline"])
    return 100 * (best - costs["learned"]) / best


def _savings(words: str) -> str:
    return words.format(*map(_saved, TABLES["workflow-cost"].scenarios))


def _objectives(words: str) -> str:
    cells = [("calm", "learned"), ("calm", "warm_cost"), ("busy", "learned"), ("busy", "warm_cost")]
    return words.format(*(mean("functions", *cell, "objective") for cell in cells))


def _scaling(words: str) -> str:
    """The least and the most of the scenarios on which the scaler is ahead beyond doubt."""
    scenarios = ("surge", "colocated", "conversations", "azure", "mooncake", "servegen")
    ahead = [mean("inference-learned", scenario, "learned", "ahead_of_best") for scenario in scenarios]
    return words.format(min(ahead), max(ahead))


def _serverless(words: str) -> str:
    return words.format(mean("serverless-learning", "document", "best rule", "return over random"))


CLAIMS = (
    Claim(
        ("docs/worlds/functions.md",),
        lambda: _serverless("The best rule, `ensure`, is {:.1f} ahead of `random`"),
    ),
    Claim(("README.md",), lambda: f"+{min(_gains()):.1f} to +{max(_gains()):.1f} points of GPU allocation"),
    Claim(("README.zh-CN.md",), lambda: f"GPU 分配率高 {min(_gains()):.1f} 到 {max(_gains()):.1f} 个百分点"),
    Claim(("docs/worlds/pods.md",), lambda: f"by {min(_gains()):.2f} to {max(_gains()):.2f}"),
    Claim(("README.md",), lambda: _waits("{:,.0f} s of waiting in all, the rule {:,.0f} s")),
    Claim(("README.zh-CN.md",), lambda: _waits("总等待 {:,.0f} 秒，规则为 {:,.0f} 秒")),
    Claim(
        ("README.md",),
        lambda: _violations(
            "{:.1f} % of the requests, the best rule {:.1f} %", "windows/serial", "hotspot@0.6"
        ),
    ),
    Claim(("docs/worlds/rebalance.md",), lambda: _violations("{:.2f} %", "windows/serial", "hotspot@0.6")),
    Claim(
        ("README.zh-CN.md",),
        lambda: _violations("违规请求 {:.1f} %，最好的规则为 {:.1f} %", "windows/serial", "hotspot@0.6"),
    ),
    Claim(
        ("README.md",),
        lambda: _savings("{:.0f}, {:.0f} and {:.0f} % less rent and penalties than the best rule"),
    ),
    Claim(("README.zh-CN.md",), lambda: _savings("{:.0f} %、{:.0f} %、{:.0f} %")),
    Claim(
        ("README.md",),
        lambda: _objectives("{:.1f} % against {:.1f} and {:.1f} against {:.1f} of the best rule"),
    ),
    Claim(
        ("README.zh-CN.md",),
        lambda: _objectives("{0:.1f} % 和 {2:.1f} %，最好的规则为 {1:.1f} % 和 {3:.1f} %"),
    ),
    Claim(
        ("README.zh-CN.md",),
        lambda: _scaling("比最好的规则少 {:.0f} % 到 {:.0f} %"),
    ),
    Claim(
        ("README.md",),
        lambda: _scaling(
            "{:.0f} to {:.0f} % below the best rule on `surge`, `colocated`, `conversations` and recorded "
            "`azure`, `mooncake` and `servegen`"
        ),
    ),
)
