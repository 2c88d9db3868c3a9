"""Where a pod's volumes let it go, by kube-scheduler's rules, without a cluster."""

from __future__ import annotations

from typing import Any

import pytest

from proreus.engine.scheduler.core import SchedulingCore, SchedulingOptions
from proreus.engine.scheduler.instructions import (
    BindPodTo,
    DelayPod,
    InstructionFailed,
    ObjectDeleted,
    ObjectUpdated,
    VolumeAction,
)

Object = dict[str, Any]
_WAITS = {"volumeBindingMode": "WaitForFirstConsumer"}
_BOUND = {"pv.kubernetes.io/bind-completed": "yes"}


def _core(nodes: int = 3) -> SchedulingCore:
    core = SchedulingCore(SchedulingOptions(follows_volumes=True))
    for n in range(nodes):
        labels = {"kubernetes.io/hostname": f"n{n}", "topology.kubernetes.io/zone": f"z{n % 2}"}
        size = {"cpu": "8", "memory": "16Gi", "pods": "20"}
        node = {"metadata": {"name": f"n{n}", "labels": labels}, "spec": {}, "status": {"allocatable": size}}
        core.handle(ObjectUpdated("Node", node), 0.0)
    for name, provisioner in (("dynamic", "x"), ("static", "kubernetes.io/no-provisioner")):
        _see(core, "StorageClass", {"metadata": {"name": name}, "provisioner": provisioner, **_WAITS})
    _see(core, "StorageClass", {"metadata": {"name": "now"}, "provisioner": "x"})
    return core


def _see(core: SchedulingCore, kind: str, obj: Object, now: float = 1.0) -> None:
    core.handle(ObjectUpdated(kind, obj), now)


def _claim(name: str, storage: str, volume: str = "", **more: Any) -> Object:
    spec = {
        "accessModes": ["ReadWriteOnce"],
        "resources": {"requests": {"storage": "1Gi"}},
        "storageClassName": storage,
        **more,
    }
    metadata: Object = {"name": name, "namespace": "ns", "uid": f"uid-{name}"}
    if volume:
        spec["volumeName"] = volume
        metadata["annotations"] = _BOUND
    return {"metadata": metadata, "spec": spec}


def _volume(name: str, storage: str, node: str = "", size: str = "1Gi", **more: Any) -> Object:
    spec: Object = {
        "capacity": {"storage": size},
        "accessModes": ["ReadWriteOnce"],
        "storageClassName": storage,
        **more,
    }
    if node:
        term = {"matchExpressions": [{"key": "kubernetes.io/hostname", "operator": "In", "values": [node]}]}
        spec["nodeAffinity"] = {"required": {"nodeSelectorTerms": [term]}}
    return {"metadata": {"name": name}, "spec": spec, "status": {"phase": "Available"}}


def _pod(name: str, *claims: str, **more: Any) -> Object:
    container = {"name": "c", "image": "i", "resources": {"requests": {"cpu": "1", "memory": "1Gi"}}}
    volumes = [{"name": f"v{n}", "persistentVolumeClaim": {"claimName": c}} for n, c in enumerate(claims)]
    spec = {"containers": [container], "volumes": volumes, **more}
    return {"metadata": {"namespace": "ns", "name": name, "uid": f"uid-{name}"}, "spec": spec, "status": {}}


def _decide(core: SchedulingCore, pod: Object, now: float = 2.0) -> BindPodTo | DelayPod:
    _see(core, "Pod", pod, now)
    (instruction,) = [one for one in core.cycle(now, 9) if not hasattr(one, "object")]
    assert isinstance(instruction, BindPodTo | DelayPod)
    return instruction


def test_a_bound_volume_ties_the_pod_to_its_place_beside_its_own_wishes() -> None:
    core = _core()
    _see(core, "PersistentVolume", _volume("v", "now", "n2"))
    _see(core, "PersistentVolumeClaim", _claim("c", "now", "v"))
    bound = _decide(core, _pod("p", "c"))
    assert isinstance(bound, BindPodTo) and bound.node == "n2" and bound.volumes == ()
    told = _decide(core, _pod("q", "c", nodeSelector={"kubernetes.io/hostname": "n1"}))
    assert isinstance(told, DelayPod)
    assert "1 node(s) had volume node affinity conflict" in told.told
    assert "2 node(s) didn't match Pod's node affinity/selector" in told.told


def test_zone_labels_of_a_volume_count() -> None:
    core = _core(2)
    volume = _volume("v", "now")
    volume["metadata"]["labels"] = {"topology.kubernetes.io/zone": "z1__z9"}
    _see(core, "PersistentVolume", volume)
    _see(core, "PersistentVolumeClaim", _claim("c", "now", "v"))
    bound = _decide(core, _pod("p", "c"))
    assert isinstance(bound, BindPodTo) and bound.node == "n1"


def test_the_smallest_free_volume_is_taken_once_and_given_back_where_binding_fails() -> None:
    core = _core()
    for name, node, size in (("large", "n0", "9Gi"), ("small", "n1", "2Gi")):
        _see(core, "PersistentVolume", _volume(name, "static", node, size))
    for n in range(3):
        _see(core, "PersistentVolumeClaim", _claim(f"c{n}", "static"))
    first, second = _decide(core, _pod("p0", "c0")), _decide(core, _pod("p1", "c1"))
    assert isinstance(first, BindPodTo) and isinstance(second, BindPodTo)
    taken = {first.volumes[0].volume: first.node, second.volumes[0].volume: second.node}
    assert taken == {"large": "n0", "small": "n1"}, "each where its volume is, and none twice"
    third = _decide(core, _pod("p2", "c2"))
    assert isinstance(third, DelayPod) and "didn't find available persistent volumes to bind" in third.told
    core.handle(InstructionFailed(first.pod, "no"), 3.0)
    again = [one for one in core.cycle(60.0, 9) if isinstance(one, BindPodTo)]
    assert [one.volumes[0].volume for one in again] == [first.volumes[0].volume]


def test_one_that_is_to_be_provisioned_goes_where_its_class_allows_it() -> None:
    core = _core()
    topology = [{"matchLabelExpressions": [{"key": "topology.kubernetes.io/zone", "values": ["z1"]}]}]
    limited = {"metadata": {"name": "zonal"}, "provisioner": "x", "allowedTopologies": topology, **_WAITS}
    _see(core, "StorageClass", limited)
    _see(core, "PersistentVolumeClaim", _claim("c", "zonal"))
    bound = _decide(core, _pod("p", "c"))
    assert isinstance(bound, BindPodTo) and bound.node == "n1"
    assert bound.volumes == (VolumeAction("ns", "c", "uid-c"),)
    chosen = _claim("d", "dynamic")
    chosen["metadata"]["annotations"] = {"volume.kubernetes.io/selected-node": "n2"}
    _see(core, "PersistentVolumeClaim", chosen)
    tied = _decide(core, _pod("q", "d"))
    assert isinstance(tied, BindPodTo) and tied.node == "n2", "somebody chose for it before"


@pytest.mark.parametrize(
    ("claim", "told"),
    [
        (None, 'persistentvolumeclaim "c" not found'),
        (_claim("c", "now"), "pod has unbound immediate PersistentVolumeClaims"),
        (_claim("c", "no-such-class"), "pod has unbound immediate PersistentVolumeClaims"),
        (_claim("c", "now", "gone"), 'persistentvolume "gone" not found'),
        (
            {**_claim("c", "now"), "status": {"phase": "Lost"}},
            'persistentvolumeclaim "c" bound to non-existent persistentvolume ""',
        ),
    ],
)
def test_what_cannot_be_is_told_and_tried_again_when_it_can(claim: Object | None, told: str) -> None:
    core = _core()
    if claim is not None:
        _see(core, "PersistentVolumeClaim", claim)
    waits = _decide(core, _pod("p", "c"))
    assert isinstance(waits, DelayPod)
    assert waits.told.startswith(f"0/3 nodes are available: {told}. preemption: 0/3 nodes are available: 3 ")
    _see(core, "PersistentVolume", _volume("v", "now", "n1"), 3.0)
    _see(core, "PersistentVolumeClaim", _claim("c", "now", "v"), 3.0)
    bound = [one for one in core.cycle(60.0, 9) if isinstance(one, BindPodTo)]
    assert [one.node for one in bound] == ["n1"]


def test_a_driver_takes_no_more_than_it_says_and_pods_that_leave_make_room() -> None:
    core = _core(1)
    drivers = [{"name": "x", "nodeID": "n0", "allocatable": {"count": 1}}]
    _see(core, "CSINode", {"metadata": {"name": "n0"}, "spec": {"drivers": drivers}})
    for n in range(2):
        volume = _volume(f"v{n}", "now", csi={"driver": "x", "volumeHandle": f"h{n}"})
        _see(core, "PersistentVolume", volume)
        _see(core, "PersistentVolumeClaim", _claim(f"c{n}", "now", f"v{n}"))
    first = _decide(core, _pod("p0", "c0"))
    assert isinstance(first, BindPodTo)
    waits = _decide(core, _pod("p1", "c1"))
    assert isinstance(waits, DelayPod) and "1 node(s) exceed max volume count" in waits.told
    core.handle(ObjectDeleted("Pod", _pod("p0", "c0")), 3.0)
    assert [one.node for one in core.cycle(60.0, 9) if isinstance(one, BindPodTo)] == ["n0"]


def test_read_write_once_pod_is_one_pods() -> None:
    core = _core()
    _see(core, "PersistentVolume", _volume("v", "now", accessModes=["ReadWriteOncePod"]))
    _see(core, "PersistentVolumeClaim", _claim("c", "now", "v", accessModes=["ReadWriteOncePod"]))
    first = _decide(core, _pod("p0", "c"))
    assert isinstance(first, BindPodTo)
    waits = _decide(core, _pod("p1", "c"))
    assert isinstance(waits, DelayPod) and "ReadWriteOncePod access mode" in waits.told
    core.handle(ObjectDeleted("Pod", _pod("p0", "c")), 3.0)
    assert [one.pod.name for one in core.cycle(60.0, 9) if isinstance(one, BindPodTo)] == ["p1"]


def test_an_engine_of_its_own_looks_at_no_volumes() -> None:
    core = SchedulingCore()
    size = {"cpu": "8", "memory": "16Gi", "pods": "20"}
    core.handle(
        ObjectUpdated("Node", {"metadata": {"name": "n"}, "spec": {}, "status": {"allocatable": size}}), 0.0
    )
    assert isinstance(_decide(core, _pod("p", "nobody-knows")), BindPodTo)


def test_a_pod_that_is_only_read_again_is_still_on_its_way() -> None:
    """A namespace that changed while a binding was under way had the failed binding forgotten."""
    core = _core()
    term = {"topologyKey": "kubernetes.io/hostname", "namespaceSelector": {"matchLabels": {"a": "b"}}}
    apart = {"podAntiAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [term]}}
    bound = _decide(core, _pod("p", affinity=apart))
    assert isinstance(bound, BindPodTo)
    _see(core, "Namespace", {"metadata": {"name": "other", "labels": {"a": "b"}}})
    core.handle(InstructionFailed(bound.pod, "refused"), 3.0)
    assert [one.pod.name for one in core.cycle(60.0, 9) if isinstance(one, BindPodTo)] == ["p"]
