"""Plans that gain as the cluster would play them, and evictions that stop when they have to."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from proreus.kubeagents.cluster_view import ClusterView
from proreus.kubeagents.rebalance.execution import ExecutionOptions, Executor
from proreus.kubeagents.rebalance.movable import MovableOptions, why_not
from proreus.kubeagents.rebalance.plan import Plan, PlanOptions, make_plan, standing, told
from proreus.kubeclient.errors import ApiError, NotFound, TooManyRequests
from proreus.worlds.pods.policies.catalogue import PolicyOptions, make_policy
from tests.kubeagents.extender_scene import running, small_view
from tests.kubeagents.extender_scene import told as tell

Object = dict[str, Any]
_FOUR = {f"n{index}": {"cpu": "8"} for index in range(4)}
_BEST_FIT = make_policy("best_fit", PolicyOptions(preempt=False), 0)
_KUBE = make_policy("kube", PolicyOptions(preempt=False), 0)


def _owned(name: str, where: str, cpu: str = "1", kind: str = "ReplicaSet", **more: Any) -> Object:
    made = running(name, where, {"cpu": cpu, "memory": "1Gi"}, **more)
    made["metadata"]["ownerReferences"] = [{"kind": kind, "name": "web", "controller": True}]
    return made


def _spread(*more: Object) -> ClusterView:
    """A pod or two on each of four nodes, which one node could hold."""
    pods = [_owned(f"p{index}", f"n{index % 4}") for index in range(6)]
    return small_view(_FOUR, *pods, *more)


def _where(view: ClusterView) -> dict[str, str]:
    return {key: known.node for key, known in view.known.items()}


def test_nodes_become_empty_where_the_policy_packs() -> None:
    view = _spread()
    before = _where(view)
    plan = make_plan(view, _BEST_FIT, PlanOptions())
    assert plan.expected.nodes == 1 and plan.before.nodes == 4
    assert len(plan.cordon) == 3 and plan.gain > 0
    assert {move.source for move in plan.moves} == set(plan.cordon)
    assert not {move.target for move in plan.moves} & set(plan.cordon)
    assert len({move.pod for move in plan.moves}) == len(plan.moves)
    assert _where(view) == before and standing(view, 4000) == plan.before
    assert any("cordon" in line for line in told(plan))


def test_the_kube_rules_are_followed_to_where_they_lead() -> None:
    """Nothing is planned that kube-scheduler would undo: an empty node takes the pods."""
    view = small_view(
        {**_FOUR, "idle": {"cpu": "64", "memory": "256Gi"}}, _owned("a", "n0"), _owned("b", "n1")
    )
    assert make_plan(view, _KUBE, PlanOptions()).moves == ()
    assert "nothing to gain" in next(told(make_plan(view, _KUBE, PlanOptions())))


def test_a_plan_has_no_more_evictions_than_it_may() -> None:
    plan = make_plan(_spread(), _BEST_FIT, PlanOptions(most=1))
    assert len(plan.moves) == 1 and len(plan.cordon) == 1


@pytest.mark.parametrize(
    ("change", "why"),
    [
        (lambda pod: pod["metadata"].pop("ownerReferences"), "nobody would make it again"),
        (lambda pod: pod["metadata"]["ownerReferences"][0].update(kind="Job"), "it is a Job's"),
        (lambda pod: pod["metadata"].update(namespace="kube-system"), "its namespace is excluded"),
        (
            lambda pod: pod["metadata"].update(deletionTimestamp="2026-01-01T00:00:00Z"),
            "it is on its way out",
        ),
        (lambda pod: pod["metadata"].update(annotations={"proreus.io/rebalance": "keep"}), "annotation"),
        (
            lambda pod: pod["metadata"].update(
                annotations={"cluster-autoscaler.kubernetes.io/safe-to-evict": "false"}
            ),
            "annotation",
        ),
        (lambda pod: pod["spec"].update(volumes=[{"name": "x", "emptyDir": {}}]), "keeps data"),
        (lambda pod: None, ""),
    ],
)
def test_who_may_not_be_evicted(change: Callable[[Object], object], why: str) -> None:
    pod = _owned("a", "n0")
    change(pod)
    assert (why in why_not(pod, MovableOptions())) and bool(why) == bool(why_not(pod, MovableOptions()))


def test_pods_of_daemons_neither_move_nor_hinder() -> None:
    view = _spread(_owned("logs", "n3", kind="DaemonSet"))
    plan = make_plan(view, _BEST_FIT, PlanOptions())
    assert plan.expected.nodes == 1 and all("logs" not in move.pod for move in plan.moves)


def test_a_budget_that_allows_none_keeps_its_pods() -> None:
    budget = {
        "kind": "PodDisruptionBudget",
        "metadata": {"name": "web", "namespace": "default"},
        "spec": {"maxUnavailable": 0, "selector": {"matchLabels": {"app": "web"}}},
        "status": {"disruptionsAllowed": 0},
    }
    view = small_view(_FOUR, _owned("a", "n0", labels={"app": "web"}), _owned("b", "n1"), budget)
    plan = make_plan(view, _BEST_FIT, PlanOptions())
    assert [move.pod for move in plan.moves] == ["default/b"]
    assert plan.left_alone == {"a disruption budget allows none": 1}


def test_pieces_of_cpu_are_put_together() -> None:
    """2 and 6 cores are free on two nodes: with pieces of 4, 2 cores of each are fragments."""
    view = small_view(_FOUR, _owned("a", "n0", "6"), _owned("b", "n1", "2"))
    plan = make_plan(view, _BEST_FIT, PlanOptions(goal="pieces", tries=4))
    assert plan.cordon == () and plan.gain > 0
    assert len(plan.moves) == 1 and plan.expected.fragments == 0


class _Api:
    """A cluster that carries evictions out: the pod goes, its owner makes another on the expected node."""

    def __init__(
        self, view: ClusterView, plan: Plan, errors: dict[str, list[ApiError]] | None = None
    ) -> None:
        self.view, self.targets = view, {move.pod: move.target for move in plan.moves}
        self.errors = errors or {}
        self.evicted: list[str] = []
        self.closed: dict[str, bool] = {}
        self.places_again = True

    def evict(self, namespace: str, name: str, uid: str) -> None:
        """As the API server does."""
        key = f"{namespace}/{name}"
        if self.errors.get(key):
            raise self.errors[key].pop(0)
        known = self.view.known[key]
        assert known.ref.uid == uid
        self.evicted.append(key)
        self.view.told("Pod", known.object, gone=True)
        again = _owned(f"{name}-again", self.targets[key])
        if not self.places_again:
            del again["spec"]["nodeName"]
        tell(self.view, again)

    def cordon(self, node: str, since: str | None) -> None:
        """As the API server does."""
        self.closed[node] = since is not None
        with self.view.lock:
            self.view.cordon(node, closed=since is not None)


class _Clock:
    """Waiting takes no time."""

    def __init__(self) -> None:
        self.now, self.waited = 0.0, list[float]()
        self.told_to_end = False

    def __call__(self) -> float:
        return self.now

    def wait(self, seconds: float) -> bool:
        self.now += seconds
        self.waited.append(seconds)
        return self.told_to_end


def _executed(
    view: ClusterView, plan: Plan, api: _Api, stopped: Callable[[], str] = str
) -> tuple[Any, _Clock]:
    clock = _Clock()
    executor = Executor(view, api, ExecutionOptions(per_minute=30.0), stopped, clock.wait, clock)
    return executor.run(plan, 4000), clock


def test_what_was_expected_is_measured() -> None:
    view = _spread()
    plan = make_plan(view, _BEST_FIT, PlanOptions())
    api = _Api(view, plan)
    made, clock = _executed(view, plan, api)
    assert made.stopped == "" and len(made.evicted) == len(plan.moves)
    assert made.gain == pytest.approx(plan.gain)
    assert clock.waited == [2.0] * (len(plan.moves) - 1)  # thirty a minute
    assert api.closed == dict.fromkeys(plan.cordon, True)


def test_the_kill_switch_stops_before_the_next_write_and_opens_nodes_again() -> None:
    view = _spread()
    plan = make_plan(view, _BEST_FIT, PlanOptions())
    api = _Api(view, plan)
    made, _ = _executed(view, plan, api, lambda: "stopped by a file" if len(api.evicted) == 1 else "")
    assert made.stopped == "stopped by a file" and len(api.evicted) == 1
    still = {known.node for known in view.known.values()}
    assert all(not api.closed[node] for node in plan.cordon if node in still)


def test_a_budget_is_asked_again_and_a_pod_that_went_is_no_error() -> None:
    view = _spread()
    plan = make_plan(view, _BEST_FIT, PlanOptions())
    first, second, third = plan.moves[0].pod, plan.moves[1].pod, plan.moves[2].pod
    no = TooManyRequests("Cannot evict pod as it would violate the pod's disruption budget.", 429)
    api = _Api(view, plan, {first: [no, no], second: [NotFound("gone", 404)], third: [no] * 1000})
    made, _ = _executed(view, plan, api)
    assert first in api.evicted
    assert made.skipped == {"it was not there any more": 1, "a disruption budget said no": 1}


def test_pods_that_find_no_node_stop_everything() -> None:
    view = _spread()
    plan = make_plan(view, _BEST_FIT, PlanOptions())
    api = _Api(view, plan)
    api.places_again = False
    made, _ = _executed(view, plan, api)
    assert len(made.evicted) == 1 and "pods wait for a node" in made.stopped
    assert any(not closed for closed in api.closed.values())


def test_a_pod_that_is_another_of_the_same_name_is_left_alone() -> None:
    view = _spread()
    plan = make_plan(view, _BEST_FIT, PlanOptions())
    name = plan.moves[0].pod.partition("/")[2]
    view.told("Pod", view.known[plan.moves[0].pod].object, gone=True)
    other = _owned(name, plan.moves[0].source)
    other["metadata"]["uid"] = "another"
    tell(view, other)
    made, _ = _executed(view, plan, _Api(view, plan))
    assert made.skipped["it was not there any more"] == 1
