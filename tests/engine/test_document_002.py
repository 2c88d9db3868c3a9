"""Document 002 in its own words, against a running cluster: its commands, its class names, its files."""

from __future__ import annotations

import contextlib
import importlib.util
import io
import json
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("starlette", reason="a cluster needs the extra `engine`")
pytest.importorskip("httpx", reason="asking a cluster needs the extra `engine`")

import proreus.engine
from proreus.cli.main import main
from proreus.engine import ContainerManager, ImageHandler, K8sClient, NodeController, PodController
from proreus.engine.client.k8s_client import ApiError
from proreus.engine.objects.kinds import CONFIG_MAP, EVENT, SERVICE, SERVICE_ACCOUNT
from tests.cli.cluster.clusters import Cluster, started

DISK = "proreus.io/disk-mbps"
CONFIG = """# config/config.yaml
nodes: 1
node-cpu: 4
node_resources: [proreus.io/disk-mbps=80, proreus.io/network-mbps=1000]
scheduler: kube_plus
judge-pods: 3
runtime-log: json
"""
NAMES = """
Container ContainerManager ContainerRuntime ImageHandler RandomScheduler KubeScheduler KubeSchedulerPlus
DDQNScheduler WorkloadController ApiServer Pod PodController Node NodeController K8sClient EtcdClient
EtcdManager EtcdConfig ExceptionHandler ResourceAgent SchedulingAgent TaskAgent
"""


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    folder = tmp_path_factory.mktemp("document")
    config = folder / "config" / "config.yaml"
    config.parent.mkdir()
    config.write_text(CONFIG)
    with started(folder / "state", "--config", str(config)) as running:
        yield running


@pytest.fixture(scope="module")
def client(cluster: Cluster) -> Iterator[K8sClient]:
    with K8sClient.from_kubeconfig(cluster.ready["kubeconfig"]) as connected:
        yield connected


def until(holds: Callable[[], Any], seconds: float = 60.0) -> Any:
    end = time.monotonic() + seconds
    while not (found := holds()):
        assert time.monotonic() < end, "it did not come to hold in time"
        time.sleep(0.1)
    return found


def pod(name: str, disk: int, **spec: Any) -> dict[str, Any]:
    container = {"name": "main", "image": "nginx", "resources": {"limits": {DISK: str(disk)}}}
    return {"metadata": {"name": name}, "spec": {"containers": [container], **spec}}


def told(client: K8sClient, name: str, reason: str) -> str:
    events = [
        event
        for event in client.list(EVENT, "default")
        if event["involvedObject"]["name"] == name and event["reason"] == reason
    ]
    return str(events[-1]["message"]) if events else ""


def test_a_node_of_80_that_holds_40_refuses_50_and_says_why(client: K8sClient) -> None:
    pods = PodController(client)
    node = until(lambda: NodeController(client).list())[0]  # it registers itself after the API answers
    assert node.allocatable[DISK] == 80 and node.allocatable["proreus.io/network-mbps"] == 1000
    pods.create(pod("takes-40", 40))
    until(lambda: pods.get("takes-40").phase == "Running")
    pods.create(pod("wants-50", 50))
    message = until(lambda: told(client, "wants-50", "FailedScheduling"))
    assert f"Insufficient {DISK}" in message and message.startswith("0/1 nodes are available")
    assert pods.get("wants-50").node == ""
    pods.create(pod("forced-50", 50, nodeName=node.name))
    refused = until(lambda: told(client, "forced-50", f"OutOf{DISK}"))
    assert refused.endswith("requested: 50, used: 40, capacity: 80")
    assert pods.get("forced-50").phase == "Failed"
    pods.delete("takes-40")
    until(lambda: pods.get("wants-50").phase == "Running")
    for name in ("wants-50", "forced-50"):
        pods.delete(name)


def test_an_extended_resource_that_a_patch_gave_a_node_is_scheduled_and_run(client: K8sClient) -> None:
    node = NodeController(client).list()[0].name
    given = {"scheduling.k8s.io/foo": "5"}
    patch = {"status": {"capacity": given, "allocatable": given}}
    client._http.patch(
        f"/api/v1/nodes/{node}/status",
        json=patch,
        headers={"content-type": "application/strategic-merge-patch+json"},
    ).raise_for_status()
    pods = PodController(client)
    asking = pod("foo", 1)
    asking["spec"]["containers"][0]["resources"]["limits"] = {"scheduling.k8s.io/foo": "5"}
    pods.create(asking)
    until(lambda: pods.get("foo").phase == "Running")
    time.sleep(11)  # a heartbeat has passed
    assert NodeController(client).get(node).allocatable["scheduling.k8s.io/foo"] == 5
    pods.delete("foo")


def test_containers_are_made_stopped_started_restarted_and_deleted(client: K8sClient) -> None:
    containers = ContainerManager(client)
    made = containers.create("web", "nginx", ["sleep", "100000"], limits={"cpu": "100m"}, restart="Never")
    assert made.id == "default/web/web" and made.state == "waiting"
    until(lambda: containers.get(made.id).state == "running")
    containers.stop(made.id)
    until(lambda: containers.get(made.id).state == "stopped")
    assert PodController(client).get("web").phase == "Running", "the pod stays, though it is never restarted"
    time.sleep(1)
    assert containers.get(made.id).state == "stopped"
    containers.start(made.id)
    until(lambda: (one := containers.get(made.id)).state == "running" and one.restarts == 1)
    containers.restart(made.id)
    until(lambda: (one := containers.get(made.id)).state == "running" and one.restarts == 2)
    assert isinstance(containers.logs(made.id, tail=5), str)
    assert [one.id for one in containers.list(namespace="default")] == [made.id]
    containers.delete(made.id)
    until(lambda: not containers.list(namespace="default"))
    with pytest.raises(ApiError, match="not found") as missing:
        containers.stop(made.id)
    assert missing.value.code == 404


def test_bad_requests_about_containers_name_the_field(client: K8sClient) -> None:
    for body, field in (({"name": "a"}, "image"), ({"name": "A_", "image": "b"}, "name"), ({"x": 1}, "x")):
        with pytest.raises(ApiError, match=field) as refused:
            client.request("POST", "/v1/containers", body)
        assert refused.value.code == 400
    with pytest.raises(ApiError) as refused:
        client.request("GET", "/v1/containers/default/web/web/start")
    assert refused.value.code in (404, 405)
    two = pod("two", 1)
    two["spec"]["containers"].append({"name": "beside", "image": "nginx"})
    PodController(client).create(two)
    with pytest.raises(ApiError, match="shares pod two with beside") as shared:
        ContainerManager(client).delete("default/two/main")
    assert shared.value.code == 409
    PodController(client).delete("two")


def test_images_of_simulated_nodes_are_listed_and_not_pulled(client: K8sClient) -> None:
    images = ImageHandler(client)
    assert isinstance(images.list(), list)
    with pytest.raises(ApiError, match="simulated") as refused:
        images.pull("nginx")
    assert refused.value.code == 409


def test_what_clients_wait_for_in_every_namespace_is_there(client: K8sClient) -> None:
    def ready() -> bool:
        accounts = {one["metadata"]["namespace"] for one in client.list(SERVICE_ACCOUNT)}
        certificates = {
            one["metadata"]["namespace"]: one["data"]["ca.crt"]
            for one in client.list(CONFIG_MAP)
            if one["metadata"]["name"] == "kube-root-ca.crt"
        }
        assert all("BEGIN CERTIFICATE" in text for text in certificates.values())
        return {"default", "kube-system"} <= accounts & certificates.keys()

    until(ready)
    assert client.get(SERVICE, "kubernetes")["spec"]["ports"][0]["port"] == 443


def test_the_settings_of_the_file_hold_and_the_log_is_in_the_state_folder(cluster: Cluster) -> None:
    log = cluster.folder / "logs" / "runtime.log"
    lines = [json.loads(line) for line in log.read_text().splitlines()]
    assert any(line["message"].startswith("ready: ") for line in lines)
    assert log.stat().st_mode & 0o077 == 0
    assert "Traceback" not in log.read_text()


def test_describe_says_how_far_a_candidate_is(cluster: Cluster, client: K8sClient) -> None:
    choice = {"policy": "kube", "candidate": "best_fit"}
    client.request("PUT", "/v1/schedulers/default-scheduler", choice)

    def progress() -> dict[str, Any]:
        told = client.request("GET", "/v1/schedulers/default-scheduler")
        return dict(told.get("promotion") or {})

    until(lambda: progress().get("needed") == 3)
    before = progress()["pods"]
    PodController(client).create(pod("counted", 1))
    until(lambda: progress()["pods"] > before)
    out = io.StringIO()
    with contextlib.redirect_stdout(out):
        code = main(
            ["describe", "configmap", "proreus-promotions", "-n", "kube-system", "--dir", str(cluster.folder)]
        )
    assert code == 0
    assert "best_fit in place of kube: shadow" in out.getvalue() and "of 3 pods have come" in out.getvalue()
    client.request("DELETE", "/v1/schedulers/default-scheduler")
    PodController(client).delete("counted")


def test_every_class_name_of_the_document_can_be_imported() -> None:
    for name in NAMES.split():
        assert isinstance(getattr(proreus.engine, name), type), name
    assert set(NAMES.split()) == set(proreus.engine.__all__)
    with pytest.raises(AttributeError):
        _ = proreus.engine.Nothing


@pytest.mark.parametrize("name", ["RandomScheduler", "KubeScheduler", "KubeSchedulerPlus", "DDQNScheduler"])
def test_a_scheduler_chooses_a_node_that_fits(name: str) -> None:
    from proreus.engine.client.schedulers import NoNodeFits

    def node(name: str, disk: int) -> dict[str, Any]:
        room = {"cpu": "4", "memory": "8Gi", "pods": "10", DISK: str(disk)}
        return {"metadata": {"name": name}, "status": {"allocatable": room}}

    if name == "DDQNScheduler":
        pytest.importorskip("torch", reason="ddqn needs the extra `learn`")
    scheduler = getattr(proreus.engine, name)()
    nodes = [node("small", 20), node("large", 80)]
    assert scheduler.choose(_asking("one", 50), nodes) == "large"
    running = {**_asking("two", 40), "spec": {**_asking("two", 40)["spec"], "nodeName": "large"}}
    with pytest.raises(NoNodeFits, match=f"2 Insufficient {DISK}"):
        scheduler.choose(_asking("one", 50), nodes, [running])


def test_without_torch_ddqn_is_one_line(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    find = importlib.util.find_spec
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: None if name == "torch" else find(name))
    words = ["up", "--nodes", "1", "--dir", str(tmp_path), "--port", "0", "--scheduler", "ddqn", "--quiet"]
    assert main(words) == 2
    said = capsys.readouterr().err.strip()
    assert len(said.splitlines()) == 1 and "learn" in said and "ddqn" in said


def test_kube_plus_weighs_any_extended_resource() -> None:
    def node(name: str, licences: int) -> dict[str, Any]:
        room = {"cpu": "4", "memory": "8Gi", "pods": "10", "example.com/licence": str(licences)}
        return {"metadata": {"name": name}, "status": {"allocatable": room}}

    asking = _asking("one", 0)
    asking["spec"]["containers"][0]["resources"]["requests"] = {"cpu": "1", "example.com/licence": "2"}
    for nodes in ([node("few", 2), node("many", 20)], [node("many", 20), node("few", 2)]):
        assert proreus.engine.KubeSchedulerPlus().choose(asking, nodes) == "many"


def _asking(name: str, disk: int) -> dict[str, Any]:
    made = pod(name, disk)
    made["spec"]["containers"][0]["resources"]["requests"] = {DISK: str(disk)}
    return made


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("nodes: 2\nporrt: 1\n", "config.yaml:2: porrt: there is no such setting; did you mean port?"),
        ("nodes: many\n", "config.yaml:1: nodes: Error parsing --nodes"),
        ("nodes: 2\n\nport: 99999\n", "config.yaml:3: port: --port 99999 is outside 0..65535"),
        ("quiet: maybe\n", "config.yaml:1: quiet: 'maybe' is neither true nor false"),
        ("nodes: 1\nnode-resources: [disk]\n", "config.yaml:2: node-resources: --node-resources: 'disk'"),
        ("host: {a: b}\n", "config.yaml:1: host: a value or a list is needed here"),
        ("runtime: docker\n", "config.yaml:1: runtime: "),
        ("- 1\n", "config.yaml: settings are one mapping"),
        ("port: 1\nport: 2\n", "config.yaml:2: "),
    ],
)
def test_a_setting_that_is_wrong_is_told_with_file_line_and_field(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], text: str, message: str
) -> None:
    path = tmp_path / "config.yaml"
    path.write_text(text)
    assert main(["up", "--config", str(path)]) == 2
    error = capsys.readouterr().err
    assert message in error and len(error.strip().splitlines()) == 1


def test_what_the_command_line_says_counts_instead(tmp_path: Path) -> None:
    from proreus.cli.cluster.config_file import parse_with_config
    from proreus.cli.up import UpArguments

    path = tmp_path / "config.yaml"
    path.write_text("nodes: 3\nport: 1\nquiet: true\nnode_resources: [a.io/b=1]\n")
    words = ["--config", str(path), "--port", "2", "--no-quiet"]
    arguments = parse_with_config(UpArguments, "proreus up", words, "")
    assert (arguments.port, arguments.nodes.nodes, arguments.common.quiet) == (2, 3, False)
    assert arguments.offered.some() == {"a.io/b": "1"}
