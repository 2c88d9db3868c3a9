"""`proreus kube scheduler` in a cluster whose API server is the real one."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from proreus.engine.trace.reader import read_trace
from proreus.kubeagents.scheduler.shadow_log import read_log
from proreus.kubeagents.scheduler.shadow_report import add_up
from tests.kube import mixed_work
from tests.kube.binding_audit import BindingAudit
from tests.kube.control_plane import ControlPlane, Object, User, control_plane, node, pod, wait_for
from tests.kube.scheduler_process import SchedulerProcess

_QUICK = ("--lease-seconds", "3", "--renew-seconds", "2", "--retry-seconds", "0.3")
_APART = ("--lease-seconds", "6", "--renew-seconds", "3", "--retry-seconds", "0.5")
"""Time enough between two leaders for what the first has sent, on a machine that is busy with others."""
_PODS = "/api/v1/namespaces/default/pods"


@contextmanager
def scheduler(plane: ControlPlane, folder: Path, *words: str) -> Iterator[SchedulerProcess]:
    """A replica that has listed everything; gone afterwards."""
    process = SchedulerProcess(plane.kubeconfig(), folder, *_QUICK, *words).start()
    try:
        process.wait_ready()
        yield process
    finally:
        process.kill()


def _wait_settled(plane: ControlPlane, seconds: float) -> list[Object]:
    """Until every pod is bound or was told why not."""
    end = time.monotonic() + seconds
    while True:
        pods = plane.pods("default")
        rest = mixed_work.untold(pods)
        if not rest:
            return pods
        assert time.monotonic() < end, f"{len(rest)} pods wait without a word: {rest[:5]}"
        time.sleep(0.5)


def _condition(one: Object) -> str:
    conditions = one["status"].get("conditions") or ()
    return next((str(item.get("message")) for item in conditions if item["type"] == "PodScheduled"), "")


@pytest.mark.parametrize("policy", ["kube", "learned"])
def test_every_pod_is_bound_legally_or_knows_why_not(tmp_path: Path, policy: str) -> None:
    audit = BindingAudit(tmp_path / "audit")
    with control_plane(tmp_path / "plane", flags=audit.flags) as plane:
        plane.add_nodes(mixed_work.nodes(100))
        work = mixed_work.pods(300)
        with scheduler(plane, tmp_path / "s", "--policy", policy) as running:
            plane.create_many(_PODS, work)
            pods = _wait_settled(plane, 120)
            assert running.metric("binding_conflicts_total") == 0
            assert "ok" in running.get("/readyz")
            running.wait_metric("events_total", len(work), 60)
            assert running.stop() == 0
        nodes = plane.get("/api/v1/nodes")["items"]
        assert mixed_work.wrongs(nodes, pods) == []
        assert max(mixed_work.skews(nodes, pods).values()) <= 1
        impossible = {made["metadata"]["name"] for made in work if mixed_work.is_impossible(made)}
        assert {one["metadata"]["name"] for one in pods if not one["spec"].get("nodeName")} == impossible
        told = {_condition(one) for one in pods if not one["spec"].get("nodeName")}
        assert any("Insufficient cpu" in message for message in told)
        assert any("node affinity/selector" in message for message in told)
        assert audit.totals() == {201: len(work) - len(impossible)}
        events = plane.get("/api/v1/namespaces/default/events?limit=5000")["items"]
        assert sum(event["reason"] == "Scheduled" for event in events) == len(work) - len(impossible)
        failed = {
            event["involvedObject"]["name"] for event in events if event["reason"] == "FailedScheduling"
        }
        assert impossible <= failed


def _priority_class(plane: ControlPlane, name: str, value: int) -> None:
    body = {"metadata": {"name": name}, "value": value}
    plane.create("/apis/scheduling.k8s.io/v1/priorityclasses", body)


def _budget(plane: ControlPlane, name: str, app: str, allowed: int) -> None:
    path = "/apis/policy/v1beta1/namespaces/default/poddisruptionbudgets"
    spec = {"minAvailable": 1, "selector": {"matchLabels": {"app": app}}}
    made = plane.create(path, {"metadata": {"name": name}, "spec": spec})
    status = {
        "disruptionsAllowed": allowed,
        "currentHealthy": 1,
        "desiredHealthy": 1,
        "expectedPods": 1,
        "observedGeneration": made["metadata"]["generation"],
    }
    plane.ask("PUT", f"{path}/{name}/status", {**made, "status": status})


def _bury(plane: ControlPlane) -> None:
    """What a kubelet does: pods that are told to leave are gone."""
    for one in plane.pods("default"):
        if "deletionTimestamp" in one["metadata"]:
            plane.delete(f"{_PODS}/{one['metadata']['name']}")


def test_the_important_come_first_and_budgets_are_respected(tmp_path: Path) -> None:
    with control_plane(tmp_path / "plane") as plane:
        plane.add_nodes([node(f"n{n}", {"cpu": "2"}) for n in range(4)])
        _priority_class(plane, "low", 10)
        _priority_class(plane, "high", 1000)
        _budget(plane, "guarded", "guarded", 0)
        low = {"schedulerName": "proreus", "priorityClassName": "low"}
        for n in range(4):
            app = "guarded" if n < 2 else "plain"
            plane.create(_PODS, pod(f"low-{n}", {"cpu": "1500m"}, labels={"app": app}, **low))
        with scheduler(plane, tmp_path / "s") as running:
            wait_for(lambda: all(one["spec"].get("nodeName") for one in plane.pods()), 30, running.log())
            high = {"schedulerName": "proreus", "priorityClassName": "high"}
            plane.create_many(_PODS, [pod(f"high-{n}", {"cpu": "1"}, **high) for n in range(2)])

            def placed() -> bool:
                _bury(plane)
                there = [one for one in plane.pods() if one["metadata"]["name"].startswith("high")]
                return all(one["spec"].get("nodeName") for one in there)

            wait_for(placed, 60, running.log())
            left = {one["metadata"]["name"] for one in plane.pods()}
            assert left == {"high-0", "high-1", "low-0", "low-1"}, "those with a budget stay"
            events = plane.get("/api/v1/namespaces/default/events")["items"]
            assert {
                event["involvedObject"]["name"] for event in events if event["reason"] == "Preempted"
            } == {
                "low-2",
                "low-3",
            }


_CLASSES = "/apis/storage.k8s.io/v1/storageclasses"
_CLAIMS = "/api/v1/namespaces/default/persistentvolumeclaims"
_VOLUMES = "/api/v1/persistentvolumes"


def _claim(name: str, storage: str, size: str = "1Gi") -> Object:
    resources = {"requests": {"storage": size}}
    spec = {"accessModes": ["ReadWriteOnce"], "resources": resources, "storageClassName": storage}
    return {"metadata": {"name": name, "namespace": "default"}, "spec": spec}


def _volume(name: str, storage: str, on: str, **more: Any) -> Object:
    term = {"matchExpressions": [{"key": "kubernetes.io/hostname", "operator": "In", "values": [on]}]}
    spec = {
        "capacity": {"storage": more.pop("size", "1Gi")},
        "accessModes": ["ReadWriteOnce"],
        "storageClassName": storage,
        "nodeAffinity": {"required": {"nodeSelectorTerms": [term]}},
        **(more or {"hostPath": {"path": "/tmp"}}),
    }
    return {"metadata": {"name": name}, "spec": spec}


def _with_claim(name: str, claim: str) -> Object:
    volumes = [{"name": "v", "persistentVolumeClaim": {"claimName": claim}}]
    return pod(name, schedulerName="proreus", volumes=volumes)


def _bind_claim(plane: ControlPlane, claim: str, volume: str) -> None:
    """What the controller of volumes does."""
    done = {"pv.kubernetes.io/bind-completed": "yes"}
    plane.patch(f"{_CLAIMS}/{claim}", {"metadata": {"annotations": done}, "spec": {"volumeName": volume}})


def test_pods_go_where_their_volumes_are_or_can_be(tmp_path: Path) -> None:
    with control_plane(tmp_path / "plane") as plane:
        plane.add_nodes([node(f"n{n}") for n in range(4)])
        waits = {"volumeBindingMode": "WaitForFirstConsumer"}
        plane.create(_CLASSES, {"metadata": {"name": "at-once"}, "provisioner": "x.example"})
        plane.create(_CLASSES, {"metadata": {"name": "cloud"}, "provisioner": "x.example", **waits})
        local = {"metadata": {"name": "local"}, "provisioner": "kubernetes.io/no-provisioner", **waits}
        plane.create(_CLASSES, local)
        csi = {"csi": {"driver": "x.example", "volumeHandle": "h"}}
        plane.create(_VOLUMES, _volume("bound", "cloud", "n3", **csi))
        plane.create(_VOLUMES, _volume("free-large", "local", "n1", size="5Gi"))
        plane.create(_VOLUMES, _volume("free", "local", "n2"))
        for name in ("free", "free-large"):  # as its controller says
            plane.patch(f"{_VOLUMES}/{name}/status", {"status": {"phase": "Available"}})
        for name, storage in (("bound", "cloud"), ("made", "cloud"), ("found", "local"), ("late", "at-once")):
            plane.create(_CLAIMS, _claim(name, storage))
        plane.create(_CLAIMS, _claim("huge", "local", "1Ti"))
        _bind_claim(plane, "bound", "bound")

        def where(name: str) -> str:
            return str(plane.get(f"{_PODS}/{name}")["spec"].get("nodeName") or "")

        with scheduler(plane, tmp_path / "s") as running:
            for claim in ("bound", "made", "found", "late", "huge", "missing"):
                plane.create(_PODS, _with_claim(f"with-{claim}", claim))
            wait_for(lambda: where("with-bound") == "n3", 30, running.log())

            def annotated() -> str:
                noted = plane.get(f"{_CLAIMS}/made")["metadata"].get("annotations") or {}
                return str(noted.get("volume.kubernetes.io/selected-node") or "")

            wait_for(lambda: bool(annotated()), 30, running.log())
            assert not where("with-made"), "it waits for its volume"
            plane.create(_VOLUMES, _volume("made", "cloud", annotated(), **csi))
            _bind_claim(plane, "made", "made")
            wait_for(lambda: where("with-made") == annotated(), 30, running.log())

            def claimed() -> str:
                refs = {
                    one["metadata"]["name"]: one["spec"].get("claimRef")
                    for one in plane.get(_VOLUMES)["items"]
                }
                return next((name for name, ref in refs.items() if ref and ref["name"] == "found"), "")

            wait_for(lambda: bool(claimed()), 30, running.log())
            volume = claimed()
            _bind_claim(plane, "found", volume)
            wait_for(lambda: bool(where("with-found")), 30, running.log())
            assert where("with-found") == {"free": "n2", "free-large": "n1"}[volume]

            def told(name: str) -> str:
                return _condition(plane.get(f"{_PODS}/{name}"))

            wait_for(lambda: bool(told("with-huge") and told("with-missing") and told("with-late")), 30, "")
            assert 'persistentvolumeclaim "missing" not found' in told("with-missing")
            assert "pod has unbound immediate PersistentVolumeClaims" in told("with-late")
            assert "didn't find available persistent volumes to bind" in told("with-huge")
            plane.create(_VOLUMES, _volume("late", "at-once", "n0"))
            _bind_claim(plane, "late", "late")
            wait_for(lambda: where("with-late") == "n0", 60, running.log())


def test_nodes_take_no_more_volumes_than_their_driver_says(tmp_path: Path) -> None:
    with control_plane(tmp_path / "plane") as plane:
        plane.add_nodes([node("n0"), node("n1")])
        plane.create(_CLASSES, {"metadata": {"name": "c"}, "provisioner": "x.example"})
        for name, count in (("n0", 2), ("n1", 1)):
            drivers = [{"name": "x.example", "nodeID": name, "allocatable": {"count": count}}]
            body = {"metadata": {"name": name}, "spec": {"drivers": drivers}}
            plane.create("/apis/storage.k8s.io/v1/csinodes", body)
        for n in range(4):
            source = {"csi": {"driver": "x.example", "volumeHandle": f"h{n}"}}
            volume = _volume(f"v{n}", "c", "", **source)
            del volume["spec"]["nodeAffinity"]
            plane.create(_VOLUMES, volume)
            plane.create(_CLAIMS, _claim(f"c{n}", "c"))
            _bind_claim(plane, f"c{n}", f"v{n}")
            plane.create(_PODS, _with_claim(f"p{n}", f"c{n}"))
        with scheduler(plane, tmp_path / "s") as running:
            wait_for(lambda: not mixed_work.untold(plane.pods("default")), 30, running.log())
            pods = plane.pods("default")
            on = sorted(one["spec"].get("nodeName") or "" for one in pods)
            assert on == ["", "n0", "n0", "n1"]
            (left,) = [_condition(one) for one in pods if not one["spec"].get("nodeName")]
            assert "2 node(s) exceed max volume count" in left


def test_the_switch_stops_it_within_seconds_and_a_canary_has_its_namespace(tmp_path: Path) -> None:
    with control_plane(tmp_path / "plane") as plane:
        plane.add_nodes([node(f"n{n}") for n in range(3)])
        plane.create("/api/v1/namespaces", {"metadata": {"name": "brave"}})
        file = tmp_path / "stop"
        words = ("--canary", "best_fit", "--canary-namespaces", "brave", "--kill-switch", str(file))
        with scheduler(plane, tmp_path / "s", *words) as running:
            plane.create(
                "/api/v1/namespaces/brave/pods", pod("b", namespace="brave", schedulerName="proreus")
            )
            plane.create(_PODS, pod("a", schedulerName="proreus"))
            wait_for(lambda: all(one["spec"].get("nodeName") for one in plane.pods()), 60, running.log())
            policies = {
                one["metadata"]["name"]: one["metadata"]["annotations"]["proreus.io/decision"]
                for one in plane.pods()
            }
            assert '"policy":"best_fit"' in policies["b"] and '"policy":"kube"' in policies["a"]
            assert '"shadow":{"policy":"best_fit"' in policies["a"]
            switch = {"metadata": {"name": "proreus-scheduler"}, "data": {"stop": "true"}}
            maps = "/api/v1/namespaces/kube-system/configmaps"
            turns: list[tuple[Callable[[], object], Callable[[], object]]] = [
                (lambda: plane.create(maps, switch), lambda: plane.delete(f"{maps}/proreus-scheduler")),
                (file.touch, file.unlink),
            ]
            for turn_on, turn_off in turns:
                turn_on()
                running.wait_metric("stopped", 1, 3)
                assert "stopped by" in running.get("/readyz")
                plane.create(_PODS, pod(f"waits-{time.monotonic_ns()}", schedulerName="proreus"))
                time.sleep(2)
                assert sum(not one["spec"].get("nodeName") for one in plane.pods()) == 1
                turn_off()
                wait_for(lambda: all(one["spec"].get("nodeName") for one in plane.pods()), 15, running.log())


def test_a_shadow_watches_the_real_scheduler_and_writes_nothing(tmp_path: Path) -> None:
    """Its role may only read; the real scheduler, whose rules are of 1.20, binds."""
    with control_plane(tmp_path / "plane", users=(User("shadow", ("readers",)),)) as plane:
        rules = [{"apiGroups": ["*"], "resources": ["*"], "verbs": ["get", "list", "watch"]}]
        roles = "/apis/rbac.authorization.k8s.io/v1/clusterrole"
        plane.create(f"{roles}s", {"metadata": {"name": "reader"}, "rules": rules})
        group = {"kind": "Group", "name": "readers", "apiGroup": "rbac.authorization.k8s.io"}
        reader = {"kind": "ClusterRole", "name": "reader", "apiGroup": "rbac.authorization.k8s.io"}
        binding = {"metadata": {"name": "readers"}, "subjects": [group], "roleRef": reader}
        plane.create(f"{roles}bindings", binding)
        plane.add_nodes([node(f"n{n}") for n in range(10)])
        words = ("--mode", "shadow", "--policy", "best_fit", "--record", str(tmp_path / "record"))
        watcher = SchedulerProcess(plane.kubeconfig("shadow"), tmp_path / "s", *words).start()
        try:
            watcher.wait_ready()
            plane.start_scheduler()
            for n in range(30):
                plane.create(_PODS, pod(f"p{n}", {"cpu": "500m"}))
            plane.create(_PODS, pod("huge", {"cpu": "64"}))
            watcher.wait_metric("shadowed_total", 31, 60)
            assert watcher.metric("shadowed_total", result="forbidden") == 0
            assert watcher.stop() == 0
        finally:
            watcher.kill()
        report = add_up(read_log(tmp_path / "record"))
        assert report.pods >= 31 and report.both_wait >= 1 and report.would_wait == 0
        assert report.other_node > 10, "the real one spreads, best_fit packs"
        assert report.opened[1] < report.opened[0]
        trace = read_trace(str(tmp_path / "record"))
        assert len(trace.pods) == 31 and len(trace.nodes) >= 10


def _survive_kills(folder: Path, sizes: tuple[int, int], kills: tuple[int, int]) -> None:
    """sizes: nodes and pods; kills: of the leader, and of the API server."""
    audit = BindingAudit(folder / "audit")
    with control_plane(folder / "plane", flags=audit.flags) as plane:
        plane.add_nodes(mixed_work.nodes(sizes[0]))
        work = mixed_work.pods(sizes[1])
        replicas = [SchedulerProcess(plane.kubeconfig(), folder / f"s{n}", *_APART).start() for n in range(2)]
        try:
            _kill_again_and_again(plane, replicas, work, kills)
            pods = _wait_settled(plane, 180)
        finally:
            for replica in replicas:
                replica.kill()
        nodes = plane.get("/api/v1/nodes")["items"]
        assert mixed_work.wrongs(nodes, pods) == []
        assert max(mixed_work.skews(nodes, pods).values()) <= 1
        impossible = {made["metadata"]["name"] for made in work if mixed_work.is_impossible(made)}
        assert {one["metadata"]["name"] for one in pods if not one["spec"].get("nodeName")} == impossible
        by_pod = audit.codes()
        assert all(codes[201] <= 1 for codes in by_pod.values()), "no pod is bound twice"
        # A binding whose answer was lost with its server is looked up, and not asked for again.
        assert [message for message in audit.conflicts() if "context canceled" not in message] == []


def _kill_again_and_again(
    plane: ControlPlane, replicas: list[SchedulerProcess], work: list[Object], kills: tuple[int, int]
) -> None:
    leaders, servers = kills
    share = -(-len(work) // (leaders + servers))
    rounds = ["leader"] * leaders
    for n in range(servers):
        rounds.insert((n + 1) * len(rounds) // servers, "server")
    for n, victim in enumerate(rounds):
        wait_for(lambda: any(replica.leads for replica in replicas), 90, "nobody leads")
        plane.create_many(_PODS, work[n * share : (n + 1) * share])
        if victim == "server":
            plane.kill()
            time.sleep(0.5)
            plane.start()
        else:
            leader = next((replica for replica in replicas if replica.leads), replicas[0])
            leader.kill()
            leader.start()


def test_nothing_is_bound_twice_when_leader_and_server_are_killed(tmp_path: Path) -> None:
    _survive_kills(tmp_path, (30, 200), (2, 1))


@pytest.mark.timeout(3000)
def test_twenty_leaders_and_ten_servers_are_killed_at_a_thousand_nodes(tmp_path: Path) -> None:
    _survive_kills(tmp_path, (1000, 3000), (20, 10))
