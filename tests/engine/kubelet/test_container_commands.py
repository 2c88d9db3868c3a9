"""Single containers stopped, started and restarted by order: the agent obeys the annotations of the pod."""

from __future__ import annotations

from typing import Any

from proreus.engine.kubelet.agent import ResourceAgent
from proreus.engine.kubelet.instructions import Order, StartContainer, StopContainer, WriteStatus
from proreus.engine.objects.container_commands import (
    RESTARTED,
    STOPPED,
    restarted,
    stopped,
    with_restart,
    with_start,
    with_stop,
)
from tests.engine.kubelet.test_agent import agent, at, ended, pod, running, told


def begun(policy: str = "Never") -> tuple[ResourceAgent, dict[str, Any]]:
    """An agent whose one pod runs."""
    made, one = agent(), pod(restartPolicy=policy)
    made.pod(one, at(0))
    made.reported(told(running()), at(1))
    return made, one


def phase(orders: list[Order]) -> str:
    return str([order.status["phase"] for order in orders if isinstance(order, WriteStatus)][-1])


def test_a_stopped_container_stays_away_and_its_pod_stays() -> None:
    for policy in ("Never", "OnFailure", "Always"):
        made, one = begun(policy)
        orders = made.pod(away := with_stop(one, "main"), at(2))
        assert [order for order in orders if isinstance(order, StopContainer)] == [
            StopContainer("u1", "main", 30.0)
        ]
        again = made.pod(away, at(3))
        assert not [order for order in again if isinstance(order, StopContainer)], "ordered once"
        orders = made.reported(told(ended(143)), at(4))
        assert phase(orders) == "Running"
        assert not [order for order in orders if isinstance(order, StartContainer)]
        back = {**away, "status": {"containerStatuses": [{"name": "main", "restartCount": 0}]}}
        orders = made.pod(with_start(back, "main"), at(500))
        assert StartContainer("u1", "main", 1) in orders
        orders = made.reported(told(running(attempt=1)), at(501))
        assert phase(orders) == "Running"
        assert not [order for order in orders if isinstance(order, StopContainer)], "it runs on"


def test_a_restarted_container_begins_anew_at_once_whatever_its_policy_says() -> None:
    made, one = begun("Never")
    orders = made.pod(anew := with_restart(one, "main"), at(2))
    assert StopContainer("u1", "main", 30.0) in orders
    orders = made.reported(told(ended(143)), at(3))
    assert StartContainer("u1", "main", 1) in orders and phase(orders) == "Running"
    made.reported(told(running(attempt=1)), at(4))
    orders = made.reported(told(ended(0, attempt=1)), at(5))
    assert phase(orders) == "Succeeded", "the next end is its own"
    assert restarted(anew) == {"main": 0}


def test_a_new_agent_finds_the_orders_in_the_pod() -> None:
    made, one = agent(), with_stop(pod(), "main")
    orders = made.begin([one], [told(running())], at(0))
    assert StopContainer("u1", "main", 30.0) in orders


def test_the_annotations_are_read_and_written() -> None:
    one = with_stop(with_stop(pod(), "b"), "a")
    assert one["metadata"]["annotations"][STOPPED] == "a,b" and stopped(one) == {"a", "b"}
    assert with_start(one, "c") is one, "what was not stopped is let be"
    one = with_start(with_start(one, "a"), "b")
    assert STOPPED not in one["metadata"]["annotations"]
    assert one["metadata"]["annotations"][RESTARTED] == "a=0,b=0"
    odd = {"metadata": {"annotations": {RESTARTED: "a=x,,b,c=3", STOPPED: ",,"}}}
    assert restarted(odd) == {"c": 3} and stopped(odd) == frozenset()
