"""How policies play workloads: rules run fused with the world in one kernel, others decide call by call.

Both ways make the same decisions: the fused loop calls the very kernels that
`PodsWorld.next_decision`, `RulePolicy.decide` and `PodsWorld.apply` call.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Callable
from dataclasses import replace

from proreus.contract.heatmap import heat_map
from proreus.contract.play import RATE, for_two_runs, looks_at, replay_of_looks, step
from proreus.contract.world import Hear, Picture, Played, Recording
from proreus.kernels.jit import compiled
from proreus.model.errors import IllegalDecision
from proreus.model.node import Node
from proreus.model.pod import Pod, PodSpec
from proreus.model.resources import GIB, Resources
from proreus.model.workload import Workload
from proreus.policies.protocol import remark_of
from proreus.worlds.pods.policies.catalogue import make_policy
from proreus.worlds.pods.policies.explanation import PodPolicy
from proreus.worlds.pods.policies.rules.choose import choose
from proreus.worlds.pods.policies.rules.columns import PodRule
from proreus.worlds.pods.policies.rules.policy import RulePolicy
from proreus.worlds.pods.scenarios import PodScenario
from proreus.worlds.pods.simulation.columns import DECISIONS, Run
from proreus.worlds.pods.simulation.kernel import APPLIED, FINISHED, advance, apply
from proreus.worlds.pods.simulation.outcome import PodsOutcome
from proreus.worlds.pods.simulation.world import PodsOptions, PodsWorld
from proreus.worlds.pods.state.columns import Cluster, Scratch, State
from proreus.worlds.pods.state.compile import Compiled, compile_workload
from proreus.worlds.pods.state.observation import PodObservation

# Decisions per call of the fused kernel: small enough to report progress, large enough to cost nothing.
_STRETCH = 2_000
_log = logging.getLogger(__name__)


@compiled
def run_rule(cluster: Cluster, state: State, run: Run, scratch: Scratch, rule: PodRule, most: int) -> bool:
    """Run up to `most` decisions of a rule; true when the run is over."""
    for _ in range(most):
        pod = advance(cluster, state, run)
        if pod == FINISHED:
            return True
        if apply(cluster, state, run, scratch, pod, choose(cluster, state, scratch, rule, pod)) != APPLIED:
            raise ValueError("a rule made an illegal decision")
    return False


def warm_up() -> None:
    """Compile the kernels of rules and world, or load them from the cache."""
    node = Node("node", Resources(cpu=1000, memory=GIB, pods=10))
    pod = Pod("pod", PodSpec(Resources(cpu=100)), duration=1.0)
    simulate(compile_workload(Workload("warm-up", (node,), (pod,))), make_policy("kube"))


def simulate(
    compiled_workload: Compiled,
    policy: PodPolicy,
    options: PodsOptions | None = None,
    *,
    watch: Callable[[int], None] | None = None,
    inspect: Callable[[PodObservation], None] | None = None,
) -> PodsOutcome:
    """Run `policy` to the end. `watch` hears the count of decisions, `inspect` sees each observation."""
    world = PodsWorld(compiled_workload, options)
    rule = None
    if isinstance(policy, RulePolicy) and inspect is None:
        rule = policy.rule_for(compiled_workload, world.state)
    if rule is not None:
        # Loads the kernel's machine code, so that the rate is that of decisions alone.
        run_rule(world.cluster, world.state, world.run, world.scratch, rule, 0)
    begin = time.perf_counter()
    if rule is not None:
        _run_fused(world, rule, watch)
    else:
        _run_stepwise(world, policy, watch, inspect)
    seconds = time.perf_counter() - begin
    _log.info("%s over %s: %.3f s", policy.name, compiled_workload.workload.name, seconds)
    outcome = world.outcome()
    rate = outcome.measures["decisions"] / seconds if seconds > 0 else 0.0
    return replace(outcome, measures={**outcome.measures, RATE: rate})


def _run_fused(world: PodsWorld, rule: PodRule, watch: Callable[[int], None] | None) -> None:
    over = False
    while not over:
        try:
            over = run_rule(world.cluster, world.state, world.run, world.scratch, rule, _STRETCH)
        except ValueError as error:
            raise IllegalDecision(str(error)) from error
        if watch is not None:
            watch(int(world.run.counters[DECISIONS]))


def _run_stepwise(
    world: PodsWorld,
    policy: PodPolicy,
    watch: Callable[[int], None] | None,
    inspect: Callable[[PodObservation], None] | None,
) -> None:
    count = 0
    while (observation := world.next_decision()) is not None:
        if inspect is not None:
            inspect(observation)
        step(world, policy)
        count += 1
        if watch is not None and count % _STRETCH == 0:
            watch(count)


def play(
    scenario: PodScenario,
    work: Compiled,
    policy: PodPolicy,
    seed: int,
    *,
    hear: Hear | None = None,
    picture: bool = False,
) -> Played:
    """A run of the policy over the compiled workload, as `contract.world.Play` says."""
    pods, (first, again) = len(work.workload.pods), for_two_runs(policy, seed, RulePolicy)
    watch = None if hear is None else lambda count: hear(count, max(pods, count))
    outcome = simulate(work, first, scenario.options, watch=watch)
    drawn = _picture(scenario, work, outcome, again()) if picture else None
    return Played(outcome, drawn, remark_of(first))


def _picture(scenario: PodScenario, work: Compiled, outcome: PodsOutcome, policy: PodPolicy) -> Picture:
    """The curves and the heat map that the kernels kept, and a second run for the replay."""
    curves = outcome.curves
    series = {f"{resource}-allocation": values for resource, values in curves.allocation.items()}
    series |= {
        "fragmentation": curves.fragmentation,
        "waiting": curves.waiting,
        "running": curves.running,
    }
    # Where nobody leaves, the load that has arrived says more than the time.
    by_load = scenario.options.drop_failures and curves.arrived.size > 0 and curves.arrived[-1] > 0
    world = PodsWorld(work, scenario.options)
    looks = looks_at(world, policy, _advance(world, policy))
    return Picture(
        Recording(curves.time, series, curves.arrived if by_load else None),
        heat_map(outcome.heat, outcome.heat_times),
        world.facts(),
        replay_of_looks(world, looks),
    )


def _advance(world: PodsWorld, policy: PodPolicy) -> Callable[[int], object] | None:
    """Decisions of a rule inside the kernel; None for a policy that must be asked."""
    if not isinstance(policy, RulePolicy):
        return None
    rule = policy.rule_for(world.compiled, world.state)
    return lambda most: run_rule(world.cluster, world.state, world.run, world.scratch, rule, most)
