"""The official Python client, unchanged: what it reads, writes and watches."""

from __future__ import annotations

import threading
from typing import Any

import pytest
from kubernetes import client, watch
from kubernetes.client.exceptions import ApiException

from tests.engine.api.live import Live

_TEN_OF_INFO = (
    *("architecture", "boot_id", "container_runtime_version", "kernel_version", "kube_proxy_version"),
    *("kubelet_version", "machine_id", "operating_system", "os_image", "system_uuid"),
)


@pytest.fixture
def api(cluster: Live) -> Any:
    settings = client.Configuration()
    assert cluster.options.authority is not None
    settings.host, settings.ssl_ca_cert = cluster.over_tls, str(cluster.options.authority.certificate)
    settings.no_proxy = "*"
    with client.ApiClient(settings) as connected:
        yield connected


def _pod(name: str, **spec: Any) -> Any:
    container = client.V1Container(name="c", image="nginx")
    return client.V1Pod(
        metadata=client.V1ObjectMeta(name=name, labels={"of": "python"}),
        spec=client.V1PodSpec(containers=[container], **spec),
    )


def test_pods_are_created_read_patched_and_deleted(api: Any) -> None:
    core = client.CoreV1Api(api)
    core.create_namespaced_pod("default", _pod("python-1", scheduler_name="nobody"))
    assert core.read_namespaced_pod("python-1", "default").status.phase == "Pending"
    with pytest.raises(ApiException) as twice:
        core.create_namespaced_pod("default", _pod("python-1"))
    assert (twice.value.status, twice.value.reason) == (409, "Conflict")
    core.patch_namespaced_pod("python-1", "default", {"metadata": {"labels": {"x": "y"}}})
    listed = core.list_namespaced_pod("default", label_selector="x=y", limit=1)
    assert [item.metadata.name for item in listed.items] == ["python-1"]
    core.delete_namespaced_pod("python-1", "default")
    with pytest.raises(ApiException) as gone:
        core.read_namespaced_pod("python-1", "default")
    assert gone.value.status == 404


def test_amounts_that_were_numbers_are_read_as_text(api: Any, cluster: Live) -> None:
    core = client.CoreV1Api(api)
    asked = {
        "limits": {"nvidia.com/gpu": 1, "cpu": 2},
        "requests": {"nvidia.com/gpu": 1, "cpu": 0.5},
    }
    container = {"name": "c", "image": "i", "resources": asked}
    spec = {"schedulerName": "nobody", "overhead": {"cpu": 1}, "containers": [container]}
    with cluster.client() as other:  # the official client itself sends text alone
        made = {"metadata": {"name": "python-3"}, "spec": spec}
        assert other.post("/api/v1/namespaces/default/pods", json=made).status_code == 201
    (read,) = core.list_namespaced_pod("default", field_selector="metadata.name=python-3").items
    resources = read.spec.containers[0].resources
    assert resources.limits == {"nvidia.com/gpu": "1", "cpu": "2"}
    assert resources.requests == {"nvidia.com/gpu": "1", "cpu": "0.5"}
    assert read.spec.overhead == {"cpu": "1"}
    core.patch_node_status("node-2", {"status": {"capacity": {"example.com/x": 4}}})
    assert core.read_node("node-2").status.capacity["example.com/x"] == "4"
    core.delete_namespaced_pod("python-3", "default", grace_period_seconds=0)


def test_a_pod_is_bound_once(api: Any) -> None:
    core = client.CoreV1Api(api)
    core.create_namespaced_pod("default", _pod("python-2", scheduler_name="nobody"))
    binding = client.V1Binding(
        metadata=client.V1ObjectMeta(name="python-2"),
        target=client.V1ObjectReference(kind="Node", name="node-1"),
    )
    core.create_namespaced_pod_binding("python-2", "default", binding, _preload_content=False)
    assert core.read_namespaced_pod("python-2", "default").spec.node_name == "node-1"
    with pytest.raises(ApiException) as again:
        core.create_namespaced_pod_binding("python-2", "default", binding, _preload_content=False)
    assert again.value.status == 409
    core.delete_namespaced_pod("python-2", "default", grace_period_seconds=0)


def test_a_watch_begins_where_the_list_ended(api: Any) -> None:
    core = client.CoreV1Api(api)
    listed = core.list_namespaced_config_map("default")
    bodies = [client.V1ConfigMap(metadata=client.V1ObjectMeta(name=f"watched-{n}")) for n in range(3)]

    def write() -> None:
        for body in bodies:
            core.create_namespaced_config_map("default", body)
        core.delete_collection_namespaced_config_map("default", field_selector="metadata.name=watched-1")

    writing = threading.Timer(0.2, write)
    writing.start()
    seen = []
    since = {"resource_version": listed.metadata.resource_version, "timeout_seconds": 10}
    watching = watch.Watch()
    for event in watching.stream(core.list_namespaced_config_map, "default", **since):
        seen.append((event["type"], event["object"].metadata.name))
        if len(seen) == 4:
            watching.stop()
    writing.join()
    assert seen == [
        *(("ADDED", f"watched-{n}") for n in range(3)),
        ("DELETED", "watched-1"),
    ]


def test_deployments_scale_and_status_is_written(api: Any) -> None:
    apps = client.AppsV1Api(api)
    template = client.V1PodTemplateSpec(
        metadata=client.V1ObjectMeta(labels={"app": "python"}), spec=_pod("unused").spec
    )
    selector = client.V1LabelSelector(match_labels={"app": "python"})
    spec = client.V1DeploymentSpec(replicas=0, selector=selector, template=template)
    body = client.V1Deployment(metadata=client.V1ObjectMeta(name="python"), spec=spec)
    apps.create_namespaced_deployment("default", body)
    scale = apps.read_namespaced_deployment_scale("python", "default")
    assert (scale.spec.replicas, scale.status.selector) == (0, "app=python")
    scale.spec.replicas, scale.metadata.resource_version = (
        2,
        None,
    )  # a controller may write its status meanwhile
    assert apps.replace_namespaced_deployment_scale("python", "default", scale).spec.replicas == 2
    apps.delete_namespaced_deployment("python", "default", propagation_policy="Foreground")


def test_nodes_of_agents_are_read(api: Any) -> None:
    nodes = {node.metadata.name: node for node in client.CoreV1Api(api).list_node().items}
    info = nodes["node-1"].status.node_info
    assert (info.operating_system, info.architecture) == ("linux", "amd64")
    assert None not in [getattr(info, name) for name in _TEN_OF_INFO]


def test_nodes_report_their_status(api: Any) -> None:
    core = client.CoreV1Api(api)
    body = client.V1Node(metadata=client.V1ObjectMeta(name="reported"))
    core.create_node(body)
    core.patch_node_status("reported", {"status": {"capacity": {"cpu": "4"}}})
    assert core.read_node_status("reported").status.capacity == {"cpu": "4"}
    core.delete_node("reported")
