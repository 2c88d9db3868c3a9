"""Tables of the documentation, made of kept results.

A page says `<!-- table: NAME -->`, a table, `<!-- end -->`; what stands between is written anew by

    python -m tests.docs.tables      # `make tables`
"""

from __future__ import annotations

import re
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from tests.docs.kept import ROOT, Figure, figure, rows

_PLACE = re.compile(r"(<!-- table: ([\w-]+) -->\n).*?(<!-- end -->)", re.DOTALL)


def cell(value: Figure, digits: int) -> str:
    """A mean with half its interval, where there is one."""
    text = f"{value.mean:,.{digits}f}"
    return text if value.high is None else f"{text} ± {value.high - value.mean:,.{digits}f}"


@dataclass(frozen=True)
class Table:
    """One measure of a comparison: a row for each policy, a column for each scenario."""

    kept: str
    measure: str
    scenarios: Sequence[str]
    policies: Sequence[str]
    digits: int = 2

    def markdown(self) -> str:
        """As it stands in a page."""
        lines = ["| policy | " + " | ".join(name.split("/")[-1] for name in self.scenarios) + " |"]
        lines.append("|---|" + "---|" * len(self.scenarios))
        for policy in self.policies:
            figures = [figure(self.kept, scenario, policy, self.measure) for scenario in self.scenarios]
            lines.append(
                f"| `{policy}` | " + " | ".join(cell(value, self.digits) for value in figures) + " |"
            )
        return "\n".join(lines) + "\n"


@dataclass(frozen=True)
class MeasuresTable:
    """One scenario of a comparison: a row for each policy, a column for each measure."""

    kept: str
    scenario: str
    measures: Sequence[str]
    digits: int = 1

    @property
    def scenarios(self) -> Sequence[str]:
        """The one that it shows."""
        return [self.scenario]

    def markdown(self) -> str:
        """As it stands in a page: of all policies that were kept."""
        policies = dict.fromkeys(row["policy"] for row in rows(self.kept) if row["scenario"] == self.scenario)
        lines = ["| policy | " + " | ".join(self.measures) + " |", "|---|" + "---|" * len(self.measures)]
        for policy in policies:
            figures = [figure(self.kept, self.scenario, policy, measure) for measure in self.measures]
            cells = " | ".join(cell(value, self.digits) for value in figures)
            lines.append(f"| {policy} | {cells} |")
        return "\n".join(lines) + "\n"


@dataclass(frozen=True)
class Ahead:
    """How far policies are ahead of rules, paired by trace: a row for each policy, a column for each rule."""

    kept: str
    scenarios: Sequence[str]
    policies: Sequence[str]
    rules: Sequence[str]
    digits: int = 4

    def markdown(self) -> str:
        """As it stands in a page."""
        cells = [(scenario, rule) for scenario in self.scenarios for rule in self.rules]
        lines = ["| policy | " + " | ".join(f"{scenario}: over `{rule}`" for scenario, rule in cells) + " |"]
        lines.append("|---|" + "---|" * len(cells))
        for policy in self.policies:
            figures = [figure(self.kept, scenario, policy, f"ahead_of_{rule}") for scenario, rule in cells]
            lines.append(f"| `{policy}` | " + " | ".join(self._cell(value) for value in figures) + " |")
        return "\n".join(lines) + "\n"

    def _cell(self, value: Figure) -> str:
        half = 0.0 if value.high is None else value.high - value.mean
        return f"{value.mean:+,.{self.digits}f} ± {half:,.{self.digits}f}"


_OPENB = [
    f"openb/{name}" for name in ("default", "cpu050", "cpu100", "gpushare40", "gpuspec10", "multigpu20")
]
_WINDOWS = [f"windows/{name}" for name in ("serial", "parallel", "huawei-serial", "huawei-parallel")]
_MOVERS = ["ppo", "qmix", "ddqn", "dqn", "ppo from learned", "learned", "balance", "hotspot@0.6"]
_ARRIVALS = ["traces/calm", "traces/busy", "traces/rush"]
_LOADS = ["calm", "busy", "rush"]
_DAYS = ["servegen", "azure"]
_SCALERS = ["plan", "predictive", "chiron", "oracle"]
_LEARNED_ON = [
    *("steady", "surge", "colocated", "conversations", "spot", "hetero", "two-models", "azure", "mooncake"),
]
_WHOLE_DAYS = ["servegen", "day"]
_ELSEWHERE = [
    *("azure/AzureLLMInferenceTrace_code", "mooncake/synthetic_trace", "servegen/m-small", "servegen/m-mid"),
]
_RULES_BESIDE = ["learned", "predictive", "tokenscale", "chiron"]
_UNSEEN = ["drawn-sawtooth", "drawn-square", "drawn-spikes"]
_LEARNED_BESIDE = ["learned", "predictive", "tokenscale", "chiron", "plan", "oracle"]
_PLANNED = ["steady", "surge", "colocated", "conversations", "azure"]
_PLANNERS = [f"planner --futures {futures}" for futures in (1, 8, 32, 128)]
_PLANNERS_BESIDE = [*_PLANNERS, "learned", "predictive", "tokenscale", "chiron"]
_SHADOWED = ["steady", "surge", "conversations", "azure", "drawn-ramps", "drawn-spikes", "colocated"]
_OF_A_DAY = [
    *("served as promised, %", "GPU-hours", "weighed GPU-hours", "TTFT p90, s", "replicas, mean", "least"),
    *("most", "turns an hour", "speed, x"),
]
_SERVICES = ["steady", "surge"]
_TRAINED = [f"ppo-{seed} from predictive" for seed in (1, 2, 3)]
_LOOPS = [f"ppo-{seed}" for seed in (1, 2, 3)]

TABLES: Mapping[str, Table | MeasuresTable | Ahead] = {
    "openb": Table("pods-openb", "gpu_allocation_peak", _OPENB, ["learned", "fgd"]),
    "machines": Table("vms-huawei", "total_wait", ["huawei/waiting"], ["learned", "balance_fit"], digits=0),
    "violations": Table("rebalance-windows", "violations", _WINDOWS, ["learned", "balance", "hotspot@0.6"]),
    "gradient-violations": Table("rebalance-learners", "violations", _WINDOWS, _MOVERS),
    "gradient-migrations": Table("rebalance-learners", "migrations", _WINDOWS, _MOVERS),
    "workflow-cost": Table("workflows", "cost", _ARRIVALS, ["learned", "greedy", "deadline", "heft"]),
    "functions": Table(
        "functions", "objective", _LOADS, ["learned", "warm_cost", "ensure@10", "least_utilised"]
    ),
    "serverless": MeasuresTable(
        "serverless-learning",
        "document",
        ["return", "objective", "illegal", "return over random", "return over best constant"],
    ),
    "gpu-hours": Table("inference", "gpu_hours", _DAYS, _SCALERS),
    "promises": Table("inference", "slo_attainment", _DAYS, _SCALERS),
    "loop": Table(
        "inference-loop",
        "reward",
        _SERVICES,
        ["chiron", "predictive", "threshold", "static", "random", *_LOOPS],
        digits=4,
    ),
    "loop-ahead": Ahead("inference-loop", _SERVICES, _LOOPS, ["predictive", "threshold", "static", "random"]),
    "learned-weighed": Table("inference-learned", "weighed_gpu_hours", _LEARNED_ON, _LEARNED_BESIDE),
    "learned-ahead": Table(
        "inference-learned", "ahead_of_best", [*_LEARNED_ON, *_WHOLE_DAYS], ["learned"], digits=1
    ),
    "learned-promises": Table("inference-learned", "slo_attainment", _LEARNED_ON, _LEARNED_BESIDE),
    "learned-turns": Table("inference-learned", "oscillation", _LEARNED_ON, _LEARNED_BESIDE, digits=1),
    "learned-days-weighed": Table(
        "inference-learned", "weighed_gpu_hours", _WHOLE_DAYS, _LEARNED_BESIDE, digits=1
    ),
    "learned-days-promises": Table("inference-learned", "slo_attainment", _WHOLE_DAYS, _LEARNED_BESIDE),
    "learned-days-turns": Table("inference-learned", "oscillation", _WHOLE_DAYS, _LEARNED_BESIDE, digits=1),
    "elsewhere-weighed": Table("inference-learned", "weighed_gpu_hours", _ELSEWHERE, _RULES_BESIDE, digits=1),
    "elsewhere-promises": Table("inference-learned", "slo_attainment", _ELSEWHERE, _RULES_BESIDE),
    "elsewhere-ahead": Table("inference-learned", "ahead_of_best", _ELSEWHERE, ["learned"], digits=1),
    "bound": Table("inference-learned", "weighed_gpu_hours", _LEARNED_ON, ["bound"]),
    "way-to-bound": Table("inference-learned", "way_to_bound", _LEARNED_ON, ["learned"], digits=0),
    "unseen-weighed": Table("inference-learned", "weighed_gpu_hours", _UNSEEN, _LEARNED_BESIDE),
    "unseen-ahead": Table("inference-learned", "ahead_of_best", _UNSEEN, ["learned"], digits=1),
    "planner-weighed": Table("inference-planner", "weighed_gpu_hours", _PLANNED, _PLANNERS_BESIDE),
    "planner-ahead": Table("inference-planner", "ahead_of_learned", _PLANNED, _PLANNERS, digits=1),
    "planner-promises": Table("inference-planner", "slo_attainment", _PLANNED, _PLANNERS_BESIDE),
    "planner-turns": Table("inference-planner", "oscillation", _PLANNED, _PLANNERS_BESIDE, digits=1),
    "planner-thinking": Table("inference-planner", "decision_ms", _PLANNED, _PLANNERS_BESIDE, digits=2),
    "keda-day-9": MeasuresTable("inference-keda-day", "servegen-9", _OF_A_DAY, digits=2),
    "keda-day-10": MeasuresTable("inference-keda-day", "servegen-10", _OF_A_DAY, digits=2),
    "shadow-saved": Table("inference-shadow", "saved", _SHADOWED, ["predicted", "really"], digits=1),
    "shadow-promises": Table(
        "inference-shadow",
        "slo_attainment",
        _SHADOWED,
        ["predicted", "really", "the real one, modelled", "the real one"],
    ),
    "inference-ppo": Table(
        "inference-ppo",
        "weighed_gpu_hours",
        _SERVICES,
        ["chiron", "predictive", "tokenscale", "plan", "threshold", "static", *_TRAINED],
    ),
    "inference-ppo-ahead": Ahead(
        "inference-ppo", _SERVICES, _TRAINED, ["chiron", "predictive", "threshold", "static"], digits=2
    ),
}


def written(text: str) -> str:
    """A page with its tables made anew."""
    return _PLACE.sub(lambda place: place[1] + TABLES[place[2]].markdown() + place[3], text)


def pages_with_tables() -> list[str]:
    """Their paths, from the root of the project."""
    pages = [*ROOT.glob("*.md"), *ROOT.glob("docs/**/*.md")]
    return sorted(page.relative_to(ROOT).as_posix() for page in pages if _PLACE.search(page.read_text()))


if __name__ == "__main__":
    for name in pages_with_tables():
        page = ROOT / name
        before = page.read_text()
        after = written(before)
        if after != before:
            page.write_text(after)
            sys.stdout.write(f"{name} written anew\n")
