"""From Kubernetes objects to a folder that every verb reads, and to dollars."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from proreus.compare.trials import TrialResult
from proreus.kube.manifests import read_manifests
from proreus.kubeagents.judge.pod_lives import SeenCluster, life_of
from proreus.kubeagents.judge.recorded_cluster import RecordedCluster
from proreus.kubeagents.judge.savings import headline, page, savings
from proreus.kubeagents.judge.scenario_folder import About, Span, imported, read_about, write_folder
from proreus.model.errors import InputError
from tests.kubeagents.lived_pods import Object, at, lived_pod, small_cluster

_HOUR = 3600.0
_T0 = 1_767_225_600.0  # 2026-01-01T00:00:00Z


def _seen(*pods: Object) -> SeenCluster:
    seen = SeenCluster()
    seen.look(small_cluster(*pods))
    return seen


def test_a_life_is_read_from_conditions_and_containers() -> None:
    life = life_of(lived_pod("job", 2, 5))
    assert (life.created, life.bound, life.ended) == (_T0 + 2 * _HOUR, _T0 + 2 * _HOUR, _T0 + 5 * _HOUR)
    assert life_of(lived_pod("web", 2)).ended is None
    assert life_of(lived_pod("waits", 2, where="")).bound is None


def test_a_pod_that_is_missing_later_ended_in_between() -> None:
    seen = _seen(lived_pod("first", 1), lived_pod("second", 2))
    assert seen.last == _T0 + 24 * _HOUR
    later = small_cluster(lived_pod("second", 2))
    later[0]["status"]["conditions"][0]["lastHeartbeatTime"] = at(48)
    seen.look(later)
    assert seen.pods["uid-first"].ended == _T0 + 48 * _HOUR
    assert seen.pods["uid-second"].ended is None


def test_the_folder_says_who_came_when_and_stayed_how_long(tmp_path: Path) -> None:
    daemon = lived_pod("logs-a", 1, ownerReferences=[])
    daemon["metadata"]["ownerReferences"] = [{"kind": "DaemonSet", "name": "logs", "controller": True}]
    mysterious = lived_pod("mysterious", 3)
    mysterious["spec"]["containers"][0]["resources"]["requests"]["cpu"] = "lots"
    found = imported(
        _seen(
            lived_pod("old", 1, 20), lived_pod("job", 12, 15, "b"), lived_pod("web", 13), daemon, mysterious
        ),
        Span(since=_T0 + 10 * _HOUR),
    )
    write_folder(found, tmp_path / "week")
    workload = read_manifests([tmp_path / "week" / "nodes.json", tmp_path / "week" / "pods.json"])
    lives = {one.name: (one.arrival / _HOUR, one.duration / _HOUR, one.node) for one in workload.pods}
    # Those that ran before are where they were; whoever had not ended runs to the end, at 24 h.
    assert lives == {"old": (0, 10, "a"), "job": (2, 3, ""), "web": (3, 11, "")}
    sizes = {one.name: one.allocatable.cpu for one in workload.nodes}
    assert sizes == {"a": 3000, "b": 4000}  # the DaemonSet's pod is a part of its node
    about = read_about(tmp_path / "week")
    assert (about.there, about.stay, about.daemons) == (1, 1, 1)
    assert about.left_out == {"that cannot be understood": 1}
    assert about.recorded_cost > 0


def test_what_has_a_say_comes_along_and_what_nobody_understands_does_no_harm(tmp_path: Path) -> None:
    web = lived_pod("web", 2, labels={"app": "web"})
    web["metadata"]["ownerReferences"] = [{"kind": "ReplicaSet", "name": "web", "controller": True}]
    web["spec"]["priorityClassName"], web["spec"]["priority"] = "unlisted", 7
    strange = {"containers": [{"name": "x"}], "resourceClaims": [{"name": "dra"}]}
    template = {"metadata": {"labels": {"app": "web"}}, "spec": strange}
    selector = {"matchLabels": {"app": "web"}}
    others: list[Object] = [
        {
            "apiVersion": "apps/v1",
            "kind": "ReplicaSet",
            "metadata": {"name": "web", "namespace": "default"},
            "spec": {"replicas": 3, "selector": selector, "template": template},
        },
        {
            "kind": "PodDisruptionBudget",
            "metadata": {"name": "web", "namespace": "default"},
            "apiVersion": "policy/v1",
            "spec": {"minAvailable": "50%", "selector": selector},
        },
        {
            "kind": "PodDisruptionBudget",
            "metadata": {"name": "says-nothing", "namespace": "default"},
            "apiVersion": "policy/v1",
            "spec": {"selector": selector},
        },
        {
            "kind": "Service",
            "apiVersion": "v1",
            "metadata": {"name": "outside", "namespace": "default"},
            "spec": {"type": "ExternalName", "externalName": "example.org"},
        },
        {"kind": "Namespace", "apiVersion": "v1", "metadata": {"name": "default", "labels": {"a": "b"}}},
        {
            "kind": "PersistentVolumeClaim",
            "apiVersion": "v1",
            "metadata": {"name": "c", "namespace": "default"},
        },
        {
            "kind": "PriorityClass",
            "apiVersion": "scheduling.k8s.io/v1",
            "metadata": {"name": "p"},
            "value": 5,
        },
        {
            "kind": "Secret",
            "apiVersion": "v1",
            "metadata": {"name": "s", "namespace": "default"},
            "data": {"k": "djE="},
        },
    ]
    seen = SeenCluster()
    seen.look([*small_cluster(web), *others])
    write_folder(imported(seen, Span()), tmp_path)
    workload = read_manifests([tmp_path / "nodes.json", tmp_path / "pods.json"])
    (one,) = workload.pods  # the ReplicaSet lacks none here: what it had is what was seen
    assert one.spec.priority == 7 and one.spec.spread, "the scheduler's own spread, by the ReplicaSet"
    assert [budget.min_available for budget in workload.budgets] == [1]
    assert "djE=" not in (tmp_path / "pods.json").read_text()


def test_fresh_places_all_anew(tmp_path: Path) -> None:
    found = imported(_seen(lived_pod("old", 1, 20)), Span(since=_T0 + 10 * _HOUR, fresh=True))
    write_folder(found, tmp_path)
    (one,) = read_manifests([tmp_path / "nodes.json", tmp_path / "pods.json"]).pods
    assert (one.node, one.arrival, one.duration) == ("", 0, 10 * _HOUR)


def test_a_name_that_comes_again_is_another_pod(tmp_path: Path) -> None:
    again = lived_pod("db-0", 6, 8)
    again["metadata"]["uid"] = "uid-other"
    write_folder(imported(_seen(lived_pod("db-0", 1, 5), again), Span()), tmp_path)
    names = [one.name for one in read_manifests([tmp_path / "nodes.json", tmp_path / "pods.json"]).pods]
    assert names == ["db-0", "db-0.2"]


def test_nothing_to_import_is_told() -> None:
    with pytest.raises(InputError, match="no Node"):
        imported(SeenCluster(), Span())
    with pytest.raises(InputError, match="no pod was seen"):
        imported(_seen(lived_pod("old", 1, 2)), Span(since=_T0 + 10 * _HOUR))


def test_draws_come_at_the_same_moments_and_end_in_time(tmp_path: Path) -> None:
    pods = [lived_pod(f"job-{index}", index, index + 2, "b") for index in range(1, 20)]
    write_folder(imported(_seen(*pods), Span()), tmp_path)
    source = RecordedCluster(tmp_path)
    recorded, drawn = source.load(0), source.load(3)
    assert [one.arrival for one in recorded.pods] == [one.arrival for one in drawn.pods]
    end = source.load(0).pods[-1].arrival + 5 * _HOUR
    assert all(one.arrival + one.duration <= end for one in drawn.pods)


def test_savings_are_paired_and_the_better_one_is_named() -> None:
    costs = {"kube": (100.0, 90.0, 80.0), "learned": (90.0, 82.0, 71.0), "best_fit": (80.0, 70.0, 60.0)}
    results = [
        TrialResult("week", policy, seed, {"cost": cost, "wait_mean": 1.0, "failures": 0.0}, None)
        for policy, by_seed in costs.items()
        for seed, cost in enumerate(by_seed)
    ]
    found = savings(results)
    assert [(one.policy, one.saved) for one in found] == [
        ("best_fit", 20.0),
        ("learned", 10.0),
        ("kube", 0.0),
    ]
    drawn = found[1].drawn
    assert drawn is not None and drawn.mean == 8.5 and drawn.n == 2
    about = About("week", 0.0, 14 * 86_400.0, 2, 3, 0, 0, 0, {}, 99.0)
    told = headline(found, about, "learned")
    assert "learned would have saved $10.00 of $100.00 (10.0 %)" in told
    assert "$5.00 a week" in told and "best_fit would have saved most: $20.00" in told
    assert "**$99.00**" in page(found, about, "learned")
    short = replace(about, end=6 * 3600.0)
    told = headline(found, short, "learned")
    assert "learned would have saved $10.00" in told and "a week" not in told, "hours say nothing about weeks"
    assert "Over 6.0 hours" in page(found, short, "learned")
    assert "$70.00 a week" in headline(found, replace(about, end=86_400.0), "learned")
