"""The pods world makes the same history as a plain-Python event loop."""

from __future__ import annotations

import random
from collections.abc import Callable
from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from proreus.model.decision import Decision, Delay, Place, Preempt, Reject
from proreus.model.pod import Pod
from proreus.model.workload import Workload
from proreus.worlds.pods.play import simulate
from proreus.worlds.pods.policies.catalogue import PolicyOptions, make_policy
from proreus.worlds.pods.simulation.outcome import PodsOutcome
from proreus.worlds.pods.simulation.world import PodsOptions, PodsWorld
from proreus.worlds.pods.state.compile import compile_workload
from proreus.worlds.pods.state.observation import PodObservation
from tests.oracles.kube_filters import first_failure
from tests.oracles.kube_preemption import dry_run
from tests.oracles.packing import PackingOracle
from tests.oracles.pods_world import ReferenceWorld, Rules
from tests.worlds.pods.strategies import workloads

USUAL = settings(max_examples=50)


def by_rule(rule: str, workload: Workload) -> Callable[[ReferenceWorld, Pod], Decision]:
    """A packing rule that never preempts."""
    oracle = PackingOracle(workload)

    def choose(world: ReferenceWorld, pod: Pod) -> Decision:
        chosen = oracle.choose(rule, world.state, pod)
        return Delay() if chosen is None else Place(*chosen)

    return choose


def options_of(rules: Rules) -> PodsOptions:
    """The same rules for the real world."""
    return PodsOptions(
        drop_failures=rules.drop_failures,
        requeue_evicted=rules.requeue_evicted,
        skip_backoff_when_idle=rules.skip_backoff_when_idle,
        attempt_limit=rules.attempt_limit,
    )


every_rules = st.builds(Rules, st.booleans(), st.booleans(), st.booleans(), st.sampled_from((0, 1, 3, 100)))


@pytest.mark.parametrize("rule", ["first_fit", "best_fit"])
@USUAL
@given(workload=workloads(), rules=every_rules)
def test_packing_rules_make_the_same_log(rule: str, workload: Workload, rules: Rules) -> None:
    reference = ReferenceWorld(workload, rules)
    reference.run(by_rule(rule, workload))
    policy = make_policy(rule, PolicyOptions(preempt=False))
    outcome = simulate(compile_workload(workload), policy, options_of(rules))
    assert repr(outcome.log) == repr(reference.log())
    assert outcome.measures["decisions"] == len(reference.decisions)
    assert costs_as(reference, outcome)


def costs_as(reference: ReferenceWorld, outcome: PodsOutcome) -> bool:
    """Whether a run in which pods ended came to as many dollars; where none did, nobody has a bill."""
    if not any(life.status == "done" for life in reference.lives.values()):
        return "cost" not in outcome.measures
    return bool(outcome.measures["cost"] == pytest.approx(reference.dollars, rel=1e-9, abs=1e-9))


def random_legal(seed: int) -> Callable[[ReferenceWorld, Pod], Decision]:
    """Any legal decision: placing, evicting, waiting (at most now and then), refusing."""
    lot = random.Random(seed)

    def choose(world: ReferenceWorld, pod: Pod) -> Decision:
        options: list[Decision] = []
        for n in range(len(world.workload.nodes)):
            verdict = first_failure(world.state, pod, n)
            if verdict is None:
                options += [Place(n)] * 6
            elif pod.spec.may_preempt and verdict.resolvable:
                if dry_run(world.state, world.workload.budgets, pod, n) is not None:
                    options += [Preempt(n)] * 6
        return lot.choice([*options, Delay(), Delay(), *([Reject()] if lot.random() < 0.1 else [])])

    return choose


def with_some_bound(workload: Workload, seed: int) -> Workload:
    """Some of the pods that need no GPU are on a node from their arrival, whether they fit there or not."""
    lot = random.Random(seed)
    pods = [
        replace(pod, node=lot.choice(workload.nodes).name)
        if lot.random() < 0.2 and not pod.spec.gpu.count
        else pod
        for pod in workload.pods
    ]
    return replace(workload, pods=tuple(pods))


@USUAL
@given(workload=workloads(), rules=every_rules, seed=st.integers(0, 1000))
def test_random_legal_decisions_make_the_same_log(workload: Workload, rules: Rules, seed: int) -> None:
    """Whatever is decided, both worlds ask about the same pods at the same times and end alike."""
    workload = with_some_bound(workload, seed)
    script: list[Decision] = []
    choose = random_legal(seed)

    def remember(world: ReferenceWorld, pod: Pod) -> Decision:
        script.append(choose(world, pod))
        return script[-1]

    reference = ReferenceWorld(workload, rules)
    reference.run(remember)
    world = PodsWorld(workload, options_of(rules))
    asked: list[tuple[str, float]] = []
    for decision in script:
        observation: PodObservation | None = world.next_decision()
        assert observation is not None
        asked.append((observation.subject.name, observation.now))
        world.apply(decision)
    assert world.next_decision() is None
    assert asked == reference.decisions
    assert repr(world.outcome().log) == repr(reference.log())
    assert costs_as(reference, world.outcome())
