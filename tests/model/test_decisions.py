"""Flat numbers of decisions, and the values that refuse to be made."""

from __future__ import annotations

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from proreus.model.decision import Delay, Place, Preempt, Reject, action_count, from_action, to_action
from proreus.model.errors import (
    IllegalDecision,
    InputError,
    ProreusError,
    UsageError,
    WorkError,
    unknown_name,
)
from proreus.model.node import Node
from proreus.model.pod import UNSTATED_CPU, UNSTATED_MEMORY, GpuRequest, Pod, PodSpec, SpreadConstraint
from proreus.model.resources import MIB, Resources
from proreus.model.selectors import Selector
from proreus.model.workload import DisruptionBudget, Workload

SPEC = PodSpec(Resources())


@given(st.integers(1, 6000), st.data())
def test_numbers_and_decisions_are_one_to_one(nodes: int, data: st.DataObject) -> None:
    action = data.draw(st.integers(0, action_count(nodes) - 1))
    assert to_action(from_action(action, nodes), nodes) == action


def test_the_numbering() -> None:
    assert [from_action(action, 2) for action in range(action_count(2))] == [
        Place(0),
        Place(1),
        Preempt(0),
        Preempt(1),
        Delay(),
        Reject(),
    ]


def test_devices_are_not_part_of_the_number() -> None:
    assert to_action(Place(1, devices=0b11), 3) == to_action(Place(1), 3) == 1


@pytest.mark.parametrize("action", [-1, 6, 100])
def test_a_number_outside_is_illegal(action: int) -> None:
    with pytest.raises(IllegalDecision, match=r"outside 0\.\.5"):
        from_action(action, 2)


def test_one_tree_of_errors() -> None:
    assert issubclass(InputError, ProreusError) and issubclass(UsageError, ProreusError)
    assert issubclass(IllegalDecision, WorkError) and issubclass(WorkError, ProreusError)
    assert not issubclass(InputError, WorkError)


@pytest.mark.parametrize(
    ("error", "message"),
    [
        (InputError("is odd"), "is odd"),
        (InputError("is odd", file="a.csv"), "a.csv: is odd"),
        (InputError("is odd", file="a.csv", line=3), "a.csv:3: is odd"),
        (InputError("is odd", file="a.csv", line=3, field="cpu"), "a.csv:3: cpu: is odd"),
        (InputError("is odd", field="cpu"), "cpu: is odd"),
    ],
)
def test_input_errors_name_file_line_and_field(error: InputError, message: str) -> None:
    assert str(error) == message


def test_an_unknown_name_comes_with_the_nearest_known_one() -> None:
    error = unknown_name("policy", "best_fti", ["worst_fit", "best_fit"])
    assert isinstance(error, UsageError)
    assert str(error) == "unknown policy 'best_fti'; did you mean 'best_fit'? (known: best_fit, worst_fit)"
    assert "did you mean" not in str(unknown_name("policy", "zzz", ["best_fit"]))


def test_a_large_family_does_not_hide_what_comes_later_in_the_alphabet() -> None:
    known = [*(f"mix/cpu{i}" for i in range(40)), "of/one", "of/two", "small"]
    message = str(unknown_name("scenario", "mix/cpu99", known))
    assert "(known: mix/*, of/one, of/two, small)" in message and "did you mean 'mix/cpu" in message
    few = str(unknown_name("scenario", "zzz", known[:5]))
    assert "mix/cpu4" in few


@pytest.mark.parametrize(("count", "milli"), [(-1, 100), (1, 1001), (1, -1), (1, 0), (0, 500)])
def test_impossible_gpu_requests(count: int, milli: int) -> None:
    with pytest.raises(ValueError, match="GPU request"):
        GpuRequest(count, milli)


@pytest.mark.parametrize(
    ("arrival", "duration"), [(-1.0, 1.0), (math.nan, 1.0), (math.inf, 1.0), (0.0, -1.0), (0.0, math.nan)]
)
def test_impossible_times(arrival: float, duration: float) -> None:
    with pytest.raises(ValueError, match="is not a"):
        Pod("p", SPEC, arrival, duration)


@pytest.mark.parametrize(("skew", "domains"), [(0, 1), (1, 0)])
def test_impossible_spread(skew: int, domains: int) -> None:
    with pytest.raises(ValueError, match="at least 1"):
        SpreadConstraint(Selector(), "zone", skew, domains)


@pytest.mark.parametrize(("least", "most"), [(None, None), (1, 1)])
def test_a_budget_has_one_bound(least: int | None, most: int | None) -> None:
    with pytest.raises(ValueError, match="either"):
        DisruptionBudget("b", Selector(), "default", least, most)


def test_workloads_that_make_no_sense() -> None:
    node = Node("n0", Resources())
    with pytest.raises(ValueError, match="at least one node"):
        Workload("w", (), ())
    with pytest.raises(ValueError, match="same name"):
        Workload("w", (node, node), ())
    with pytest.raises(ValueError, match="order of arrival"):
        Workload("w", (node,), (Pod("a", SPEC, 2.0), Pod("b", SPEC, 1.0)))


def test_what_kube_counts_for_a_pod_that_says_nothing() -> None:
    assert SPEC.scored_requests() == (UNSTATED_CPU, UNSTATED_MEMORY) == (100, 200 * MIB)
    assert PodSpec(Resources(cpu=5)).scored_requests() == (5, 200 * MIB)
    assert PodSpec(Resources(cpu=5), scoring=(7, 8)).scored_requests() == (7, 8)
