"""The reference kube-scheduler gives the numbers that were worked out by hand."""

from __future__ import annotations

import pytest

from tests.oracles.kube import WEIGHTS, ReferenceKube, feasible_nodes_to_find
from tests.oracles.kube_cases import (
    CASES,
    ROTATION_CASES,
    SAMPLING_CASES,
    UNCHECKED,
    Case,
    RotationCase,
    SamplingCase,
    node,
    pod,
    runs,
)


class Draws:
    """Stands for random_below: answers as told and fails when asked once too often."""

    def __init__(self, answers: tuple[int, ...]) -> None:
        self.answers = list(answers)

    def __call__(self, bound: int) -> int:
        answer = self.answers.pop(0)
        assert 0 <= answer < bound
        return answer


def set_up(case: Case, draws: Draws) -> ReferenceKube:
    """The reference with the case's pods in place."""
    kube = ReferenceKube(
        case.nodes,
        version=case.version,
        budgets=case.budgets,
        random_below=draws,
        scoring_strategy=case.scoring_strategy,
    )
    for placed, where in case.placed:
        kube.place(placed, where, now=placed.arrival)
    return kube


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
def test_hand_worked_case(case: Case) -> None:
    draws = Draws(case.draws)
    kube = set_up(case, draws)
    results = [kube.filter(case.pod, index) for index in range(len(case.nodes))]
    feasible = [index for index, result in enumerate(results) if result is None]
    if case.expected_filter is not None:
        assert [result and result.plugin for result in results] == case.expected_filter
    if case.expected_resolvable is not None:
        assert [
            None if result is None else result.resolvable for result in results
        ] == case.expected_resolvable
    if case.expected_gpu_left is not None:
        assert [kube.gpu_left(index) for index in range(len(case.nodes))] == case.expected_gpu_left
    if feasible:
        scores = kube.scores(case.pod, feasible)
        assert {plugin: scores.get(plugin) for plugin in case.expected_scores} == dict(case.expected_scores)
        assert not set(case.expected_skipped) & set(scores)
    else:
        assert not case.expected_scores and not case.expected_skipped
    if case.expected_totals is not None:
        assert kube.totals(case.pod, feasible) == case.expected_totals
    if case.expected_order is not None:
        assert kube.node_order() == case.expected_order
    if case.expected_choice is not UNCHECKED:
        assert kube.choose(case.pod) == case.expected_choice
    assert not draws.answers
    assert {index: kube.victims(case.pod, index) for index in case.expected_victims} == dict(
        case.expected_victims
    )
    if case.expected_preempt is not UNCHECKED:
        assert kube.preempt(case.pod, case.offset) == case.expected_preempt


def test_case_names_are_unique() -> None:
    names = [case.name for case in CASES]
    assert len(set(names)) == len(names)


def test_every_case_checks_something() -> None:
    for case in CASES:
        lists = (case.expected_filter, case.expected_totals, case.expected_order, case.expected_gpu_left)
        chosen = case.expected_choice is not UNCHECKED or case.expected_preempt is not UNCHECKED
        mappings = (case.expected_scores, case.expected_victims, case.expected_skipped)
        assert chosen or any(mappings) or any(each is not None for each in lists), case.name


@pytest.mark.parametrize("case", SAMPLING_CASES, ids=lambda case: f"{case.nodes} nodes, {case.percentage} %")
def test_sampling_count(case: SamplingCase) -> None:
    assert feasible_nodes_to_find(case.nodes, case.percentage) == case.expected
    kube = ReferenceKube([node(f"n{i}") for i in range(case.nodes)], percentage=case.percentage)
    assert kube.feasible(pod()) == list(range(case.expected))


@pytest.mark.parametrize("case", ROTATION_CASES, ids=lambda case: case.name)
def test_rotating_start(case: RotationCase) -> None:
    kube = ReferenceKube(case.nodes)
    assert tuple(kube.feasible(case.pod) for _ in case.expected) == case.expected


def test_scores_follow_the_order_of_feasible() -> None:
    kube = ReferenceKube((node("small", cpu=1000), node("large")))
    incoming = pod(cpu=500)
    forward, backward = kube.scores(incoming, [0, 1]), kube.scores(incoming, [1, 0])
    assert {plugin: values[::-1] for plugin, values in forward.items()} == backward
    assert set(forward) <= set(WEIGHTS)


def test_dry_runs_change_nothing() -> None:
    kube = ReferenceKube((node("n0", gpus=1),))
    kube.place(pod("low", priority=1, cpu=8000, gpu=(1, 300)), 0)
    incoming = pod(priority=10, cpu=4000)
    assert kube.preempt(incoming) == kube.preempt(incoming) == (0, ["low"])
    assert kube.gpu_left(0) == [700]


def test_remove_frees_what_the_pod_had() -> None:
    kube = ReferenceKube((node("n0", gpus=1),))
    kube.place(runs("web", "web", cpu=10_000, gpu=(1, 1000), host_ports=(("", "TCP", 80),)), 0)
    incoming = pod(cpu=10_000, gpu=(1, 1000), host_ports=(("", "TCP", 80),))
    assert kube.filter(incoming, 0) is not None
    kube.remove("web")
    assert kube.filter(incoming, 0) is None


def test_a_pod_runs_once() -> None:
    kube = ReferenceKube((node("n0"),))
    kube.place(pod("web"), 0)
    with pytest.raises(ValueError, match="runs already"):
        kube.place(pod("web"), 0)


def test_an_unknown_scoring_strategy_is_refused() -> None:
    kube = ReferenceKube((node("n0"),), scoring_strategy="Fancy")
    with pytest.raises(ValueError, match="Fancy"):
        kube.scores(pod(), [0])
