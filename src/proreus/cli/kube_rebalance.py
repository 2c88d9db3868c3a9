"""`proreus kube rebalance`: evictions that make a cluster cheaper or less fragmented."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Annotated, Literal

import tyro

from proreus.cli.arguments import CommonArguments, parse, prepare
from proreus.cli.kube_arguments import ClusterArguments, client_maker
from proreus.cli.output import new_console, waiting, write_json
from proreus.cli.signals import told_to_end
from proreus.model.errors import UsageError, WorkError

_DESCRIPTION = """Plans evictions by a search over the cluster as it is; with --apply, carries them out.

--goal empty: nodes become empty and are cordoned, so that an autoscaler takes them away. --goal pieces: less
free CPU lies around in pieces that are too small. --policy says what places pods in this cluster.

Example: proreus kube rebalance --dry-run --goal empty --max-moves 20"""


@dataclass(frozen=True)
class RebalanceArguments:
    """Flags of `proreus kube rebalance`."""

    dry_run: bool = False
    """Only say what would be done, and what is expected of it."""
    apply: bool = False
    """Evict, at the rate of --per-minute, and say what came of it."""
    goal: Literal["empty", "pieces"] = "empty"
    """What is to be gained."""
    policy: str = "kube"
    """Who places pods in this cluster: kube for kube-scheduler."""
    max_moves: int = 20
    """Evictions, at most."""
    per_minute: float = 6.0
    """Evictions a minute, at most."""
    tries: int = 16
    """Orders that the search tries."""
    piece: float = 4.0
    """pieces: cores of a whole piece."""
    exclude: Annotated[tuple[str, ...], tyro.conf.arg(metavar="NAMESPACE")] = ("kube-system",)
    """Namespaces of which no pod is touched."""
    local_data: bool = False
    """Also evict pods that keep data in an emptyDir or on their node's disk, and lose them."""
    settle_seconds: float = 120.0
    """How long a pod that is made again may wait for a node, before everything is stopped."""
    budget_seconds: float = 120.0
    """How long a disruption budget that says no is asked again."""
    stop_file: Annotated[Path | None, tyro.conf.arg(metavar="FILE")] = None
    """A kill switch: nothing is written while this file is there."""
    stop_config_map: Annotated[str, tyro.conf.arg(metavar="NAMESPACE/NAME")] = "kube-system/proreus-rebalance"
    """A kill switch: nothing is written while its key `stop` says true."""
    cluster: ClusterArguments = field(default_factory=ClusterArguments)
    common: CommonArguments = field(default_factory=CommonArguments)

    def __post_init__(self) -> None:
        if self.dry_run == self.apply:
            raise UsageError("say --dry-run or --apply")
        if not 1 <= self.max_moves <= 10_000:
            raise UsageError(f"--max-moves {self.max_moves} is outside 1..10000")
        if not 0 < self.per_minute <= 6000:
            raise UsageError(f"--per-minute {self.per_minute} is not above 0 and at most 6000")
        if not 1 <= self.tries <= 100_000:
            raise UsageError(f"--tries {self.tries} is outside 1..100000")
        if not 0.001 <= self.piece <= 10_000:
            raise UsageError(f"--piece {self.piece} is outside 0.001..10000")
        for name in ("settle_seconds", "budget_seconds"):
            if not 0 < getattr(self, name) <= 86_400:
                raise UsageError(f"--{name} {getattr(self, name)} is not above 0 and at most a day")
        if self.stop_config_map.count("/") != 1:
            raise UsageError(f"--stop-config-map {self.stop_config_map}: say NAMESPACE/NAME")


def run(words: Sequence[str]) -> int:
    """Plan, and carry out where that is asked."""
    arguments = parse(RebalanceArguments, "proreus kube rebalance", words, _DESCRIPTION)
    prepare(arguments.common)
    make_client = client_maker(arguments.cluster, "rebalance")
    from proreus.kubeagents.rebalance.execution import ExecutionOptions, Executor
    from proreus.kubeagents.rebalance.live import RebalanceCluster
    from proreus.kubeagents.rebalance.movable import MovableOptions
    from proreus.kubeagents.rebalance.plan import PlanOptions, make_plan, told
    from proreus.worlds.pods.policies.catalogue import PolicyOptions, kube_version_of, make_policy

    make_policy(arguments.policy, PolicyOptions(), arguments.common.seed)  # a wrong name costs no listing
    options = PlanOptions(
        goal=arguments.goal,
        most=arguments.max_moves,
        tries=arguments.tries,
        piece=round(1000 * arguments.piece),
        movable=MovableOptions(frozenset(arguments.exclude), arguments.local_data),
        seed=arguments.common.seed,
    )
    console = new_console(arguments.common)
    namespace, _, name = arguments.stop_config_map.partition("/")
    with told_to_end() as ending:
        live = RebalanceCluster(make_client, (namespace, name), arguments.stop_file)
        ending.loaded()
        try:
            with waiting(console, "listing the cluster") as tell:
                live.start()
                rules = PolicyOptions(preempt=False, kube_version=kube_version_of(live.minor))
                policy = make_policy(arguments.policy, rules, arguments.common.seed)
                plan = make_plan(live.view, policy, options, tell)
            for line in told(plan):
                console.print(line, soft_wrap=True, highlight=False)
            result: dict[str, object] = {"plan": asdict(plan), "gain": plan.gain}
            if arguments.apply and plan.moves:
                how = ExecutionOptions(
                    arguments.per_minute, arguments.budget_seconds, arguments.settle_seconds
                )
                executor = Executor(live.view, live, how, lambda: live.stopped, ending.wait)
                with waiting(console, "evicting") as tell:
                    made = executor.run(plan, options.piece, tell)
                result |= {
                    "evicted": [asdict(move) for move in made.evicted],
                    "skipped": dict(made.skipped),
                    "cordoned": made.cordoned,
                    "stopped": made.stopped,
                    "measured": None if made.measured is None else asdict(made.measured),
                    "measured_gain": made.gain,
                }
                unit = "dollars an hour" if arguments.goal == "empty" else "points of the free CPU"
                console.print(
                    f"evicted {len(made.evicted)} of {len(plan.moves)}; expected {plan.gain:,.2f}, measured "
                    f"{made.gain:,.2f} {unit}",
                    soft_wrap=True,
                    highlight=False,
                )
                for why, count in sorted(made.skipped.items()):
                    console.print(f"{count} left where they were: {why}", soft_wrap=True, highlight=False)
                write_json(arguments.common, result)
                if made.stopped:
                    raise WorkError(f"stopped: {made.stopped}")
                return 0
            write_json(arguments.common, result)
        finally:
            live.stop()
    return 0
