"""What is legal, what looking at it may change (nothing), and what the world does with illegal decisions."""

from __future__ import annotations

import random
from collections.abc import Callable
from dataclasses import replace

import pytest
from hypothesis import Phase, given, reject, settings
from hypothesis import strategies as st

from proreus.model.decision import Decision, Delay, Place, Preempt, Reject, from_action
from proreus.model.errors import IllegalDecision
from proreus.model.workload import DisruptionBudget, Workload
from proreus.worlds.pods.simulation.world import PodsWorld
from proreus.worlds.pods.state.compile import Compiled, compile_workload
from proreus.worlds.pods.state.filters import FILTERS
from proreus.worlds.pods.state.observation import PodObservation
from tests.oracles.kube_builders import app, node, pod, runs
from tests.oracles.kube_filters import first_failure
from tests.oracles.kube_preemption import dry_run
from tests.worlds.pods.strategies import workloads
from tests.worlds.pods.watched import Choose, Watched, assert_unchanged, frozen

USUAL = settings(max_examples=60)


def any_legal_action(seed: int) -> Choose:
    """Draws among the actions that the mask allows; placing and preempting more often than the rest."""
    lot = random.Random(seed)

    def choose(observation: PodObservation) -> Decision:
        legal = [action for action, allowed in enumerate(observation.action_mask().tolist()) if allowed]
        nodes = len(observation.compiled.workload.nodes)
        busy = [action for action in legal if action < 2 * nodes]
        return from_action(lot.choice(busy if busy and lot.random() < 0.9 else legal), nodes)

    return choose


def compare_with_reference(watched: Watched, observation: PodObservation) -> None:
    """Filter by filter, node by node, victim by victim."""
    state, workload = watched.believed(), watched.compiled.workload
    names = [each.name for each in workload.pods]
    refusals, mask = observation.refusals().tolist(), observation.action_mask().tolist()
    count = len(workload.nodes)
    for n in range(count):
        verdict = first_failure(state, observation.subject, n)
        expected = None if verdict is None else (verdict.plugin, verdict.resolvable)
        plugin, _, curable = FILTERS.get(refusals[n], ("", "", False))
        assert expected == ((plugin, curable) if refusals[n] else None)
        assert mask[n] == (verdict is None)
        candidate = dry_run(state, workload.budgets, observation.subject, n)
        victims = observation.victims(n)
        if candidate is None:
            assert victims is None or victims[0] == []
        else:
            assert victims is not None
            assert [names[victim] for victim in victims[0]] == [each.pod.name for each in candidate.victims]
            assert victims[1] == candidate.violations
        preempts = verdict is not None and verdict.resolvable and candidate is not None
        assert mask[count + n] == (preempts and observation.subject.spec.may_preempt)
    assert mask[2 * count :] == [True, True]


@USUAL
@given(workload=workloads(), seed=st.integers(0, 1000))
def test_legality_equals_the_reference_filters(workload: Workload, seed: int) -> None:
    """Over histories of random legal actions, whose books must balance as well."""
    watched = Watched(compile_workload(workload))
    watched.run(any_legal_action(seed), lambda observation: compare_with_reference(watched, observation))
    for step in watched.steps:
        assert bool(step.victims) == isinstance(step.decision, Preempt)


@USUAL
@given(workload=workloads(), seed=st.integers(0, 1000))
def test_dry_runs_change_no_count(workload: Workload, seed: int) -> None:
    """Asking what is legal and whom to evict leaves every count, and who runs where, as it was."""
    watched = Watched(compile_workload(workload))

    def look(observation: PodObservation) -> None:
        before = frozen(watched.world)
        ask_everything(observation)
        after = frozen(watched.world)
        # The order of a node's list and the last digits of summed loads have tests of their own.
        for name in ("state.first", "state.following", "state.preceding", "state.load"):
            before.pop(name)
        assert_unchanged(before, after)

    watched.run(any_legal_action(seed), look)


def ask_everything(observation: PodObservation) -> None:
    """Every question that an observation answers."""
    observation.refusals()
    observation.action_mask()
    for n in range(len(observation.compiled.workload.nodes)):
        observation.victims(n)


# Not shrunk: a failure names the arrays that changed, and the hand-made cases below are small already.
@settings(USUAL, phases=(Phase.explicit, Phase.generate))
@given(workload=workloads(), seed=st.integers(0, 1000))
def test_dry_runs_change_nothing_bit_for_bit(workload: Workload, seed: int) -> None:
    world = PodsWorld(compile_workload(workload))
    choose = any_legal_action(seed)
    while (observation := world.next_decision()) is not None:
        decision = choose(observation)
        before = frozen(world)
        ask_everything(observation)
        assert_unchanged(before, frozen(world))
        world.apply(decision)


@pytest.mark.parametrize("asked", [2800, 3500], ids=["victims found", "no help"])
def test_naming_victims_changes_nothing_bit_for_bit(asked: int) -> None:
    """Neither the order of a node's list nor the last digits of its summed load."""
    low = [pod(f"low{i}", cpu=cpu, priority=i % 2, arrival=i / 4) for i, cpu in enumerate((1300, 1300, 300))]
    low = [replace(each, spec=replace(each.spec, usage=0.7)) for each in low]
    high = pod("high", cpu=asked, priority=9, arrival=1.0)
    world = PodsWorld(Workload("three low", (node("n0", cpu=3000), node("n1", cpu=1)), (*low, high)))
    for _ in low:
        assert world.next_decision() is not None
        world.apply(Place(0))
    observation = world.next_decision()
    assert observation is not None
    before = frozen(world)
    observation.victims(0)
    observation.action_mask()
    assert_unchanged(before, frozen(world))


@USUAL
@given(workload=workloads(most_pods=15), seed=st.integers(0, 1000), moment=st.floats(0, 1))
def test_the_mask_is_what_apply_accepts(workload: Workload, seed: int, moment: float) -> None:
    """At one moment of a random history every flat action is tried, each on a world of its own."""
    compiled = compile_workload(workload)
    history: list[Decision] = []
    world = PodsWorld(compiled)
    choose = any_legal_action(seed)
    while (observation := world.next_decision()) is not None:
        history.append(choose(observation))
        world.apply(history[-1])
    history = history[: int(moment * len(history))]
    for action in range(2 * len(workload.nodes) + 2):
        world = replayed(compiled, history)
        observation = world.next_decision()
        if observation is None:
            reject()
        allowed = bool(observation.action_mask()[action])
        decision = from_action(action, len(workload.nodes))
        if allowed:
            world.apply(decision)
            placed = int(world.state.pod_node[observation.pod])
            assert placed == (decision.node if isinstance(decision, Place | Preempt) else -1)
        else:
            with pytest.raises(IllegalDecision):
                world.apply(decision)
            again = world.next_decision()
            assert again is not None and again.pod == observation.pod


def replayed(compiled: Compiled, history: list[Decision]) -> PodsWorld:
    """A world after these decisions."""
    world = PodsWorld(compiled)
    for decision in history:
        assert world.next_decision() is not None
        world.apply(decision)
    return world


@pytest.mark.parametrize(
    ("asked", "victims", "violations"),
    [
        # The protected pod is let back first, then the most important of the others; 'c' has to go.
        (1000, ["c"], 0),
        (2000, ["b", "c"], 0),
        # All must go: the one whose eviction breaks the budget is named first.
        (3000, ["a", "b", "c"], 1),
    ],
)
def test_protected_pods_are_the_first_to_stay(asked: int, victims: list[str], violations: int) -> None:
    workload = Workload(
        "protected",
        (node("n0", cpu=3000),),
        (
            runs("a", "db", cpu=1000, priority=1),
            pod("b", cpu=1000, priority=2),
            pod("c", cpu=1000, priority=1),
            pod("high", cpu=asked, priority=9, arrival=1.0),
        ),
        (DisruptionBudget("db", app("db"), max_unavailable=0),),
    )
    world = PodsWorld(workload)
    for _ in range(3):
        assert world.next_decision() is not None
        world.apply(Place(0))
    observation = world.next_decision()
    assert observation is not None
    eviction = observation.victims(0)
    assert eviction is not None
    assert ([workload.pods[victim].name for victim in eviction[0]], eviction[1]) == (victims, violations)


def full_house() -> PodsWorld:
    """Two nodes, both full: 'low' (2 GPUs) and 'peer' run; 'incoming' of middle priority must be decided.

    Node 0 holds the low pod, node 1 one that is as important as the incoming pod.
    """
    workload = Workload(
        "full house",
        (node("n0", cpu=1000, gpus=2, gpu_model="T4"), node("n1", cpu=1000, gpus=3, gpu_model="T4")),
        (
            pod("low", cpu=1000, gpu=(2, 1000), priority=1),
            pod("peer", cpu=1000, priority=5),
            pod("incoming", cpu=500, gpu=(1, 500), priority=5, arrival=1.0),
        ),
    )
    world = PodsWorld(workload)
    for name, where in (("peer", 1), ("low", 0)):
        observation = world.next_decision()
        assert observation is not None and observation.subject.name == name
        world.apply(Place(where))
    observation = world.next_decision()
    assert observation is not None and observation.subject.name == "incoming"
    return world


def empty_house() -> PodsWorld:
    """One node with three devices, one of them shared; a pod of two half devices must be decided."""
    workload = Workload(
        "empty house",
        (node("n0", gpus=3, gpu_model="T4"),),
        (pod("first", gpu=(1, 800)), pod("incoming", gpu=(2, 500)), pod("later", arrival=5.0)),
    )
    world = PodsWorld(workload)
    assert world.next_decision() is not None
    world.apply(Place(0, 0b010))
    observation = world.next_decision()
    assert observation is not None and observation.subject.name == "incoming"
    return world


ILLEGAL: dict[str, tuple[Callable[[], PodsWorld], Decision]] = {
    "place on a full node": (full_house, Place(0)),
    "preempt one's equal": (full_house, Preempt(1)),
    "preempt where the pod fits": (empty_house, Preempt(0)),
    "too few devices": (empty_house, Place(0, 0b001)),
    "too many devices": (empty_house, Place(0, 0b111)),
    "a device with too little left": (empty_house, Place(0, 0b011)),
    "a device that is not there": (empty_house, Place(0, 0b1001)),
    "negative devices": (empty_house, Place(0, -1)),
    "a node before the first": (full_house, Place(-1)),
    "a preempted node before the first": (full_house, Preempt(-1)),
    "a node after the last": (empty_house, Place(1)),
    "a node after the last, on which preempting would be legal": (full_house, Place(2)),
    "a preempted node after the last": (empty_house, Preempt(1)),
}


@pytest.mark.parametrize("case", sorted(ILLEGAL))
def test_an_illegal_decision_is_refused_and_changes_nothing(case: str) -> None:
    make, decision = ILLEGAL[case]
    world = make()
    before = frozen(world)
    with pytest.raises(IllegalDecision):
        world.apply(decision)
    assert_unchanged(before, frozen(world))


def test_devices_for_a_pod_without_gpu_are_illegal() -> None:
    world = empty_house()
    world.apply(Place(0, 0b101))
    assert world.next_decision() is not None
    with pytest.raises(IllegalDecision, match="later"):
        world.apply(Place(0, 0b100))


def test_an_undecided_pod_can_be_decided_after_a_refusal() -> None:
    world = full_house()
    with pytest.raises(IllegalDecision, match="incoming"):
        world.apply(Place(0))
    world.apply(Preempt(0))
    log = {row[0]: row for row in world.outcome().log}
    assert log["incoming"][2] == "n0"
    assert log["low"][1] == "queued" and log["low"][6] == 1


def test_deciding_when_nobody_waits_is_illegal() -> None:
    world = PodsWorld(Workload("one", (node("n0"),), (pod("only"),)))
    with pytest.raises(IllegalDecision):
        world.apply(Delay())
    assert world.next_decision() is not None
    world.apply(Reject())
    assert world.next_decision() is None
    with pytest.raises(IllegalDecision):
        world.apply(Reject())


def test_no_pods_no_decisions() -> None:
    world = PodsWorld(Workload("nothing to do", (node("n0", gpus=1, gpu_model="T4"),), ()))
    assert world.next_decision() is None
    assert world.outcome().log == []
