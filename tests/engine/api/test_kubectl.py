"""kubectl, unchanged, against the API: a test for each of its verbs. Pods run on simulated nodes."""

from __future__ import annotations

import json
import time
from collections.abc import Iterator
from itertools import count

import pytest

from tests.engine.api.conftest import Kubectl

_numbers = count(1)


@pytest.fixture
def name() -> str:
    """Of this test's own objects."""
    return f"t{next(_numbers)}"


def _pod(name: str, **spec: object) -> str:
    container = {"name": "c", "image": "nginx", "resources": {"requests": {"cpu": "100m", "memory": "64Mi"}}}
    return json.dumps(
        {
            "apiVersion": "v1",
            "kind": "Pod",
            "metadata": {"name": name, "labels": {"app": name}},
            "spec": {"containers": [container], **spec},
        }
    )


def _deployment(name: str, image: str = "nginx:1", replicas: int = 2) -> str:
    return json.dumps(
        {
            "apiVersion": "apps/v1",
            "kind": "Deployment",
            "metadata": {"name": name},
            "spec": {
                "replicas": replicas,
                "selector": {"matchLabels": {"app": name}},
                "template": {
                    "metadata": {"labels": {"app": name}},
                    "spec": {"containers": [{"name": "c", "image": image}]},
                },
            },
        }
    )


@pytest.fixture
def pod(kubectl: Kubectl, name: str) -> Iterator[str]:
    """A pod that runs."""
    kubectl("apply", "-f", "-", text=_pod(name))
    kubectl("wait", "pod", name, "--for=condition=Ready", "--timeout=90s")
    yield name
    kubectl("delete", "pod", name, "--ignore-not-found", "--grace-period=0", "--force", "--wait=false")


@pytest.fixture
def deployment(kubectl: Kubectl, name: str) -> Iterator[str]:
    """A Deployment that is rolled out."""
    kubectl("apply", "-f", "-", text=_deployment(name))
    kubectl("rollout", "status", f"deployment/{name}", "--timeout=90s")
    yield name
    kubectl("delete", "deployment", name, "--ignore-not-found", "--wait=false")


def _until_measured(kubectl: Kubectl, *command: str) -> list[list[str]]:
    """The rows of a table once nodes have measured themselves."""
    end = time.monotonic() + 60
    while True:
        message = kubectl(*command, may_fail=True)
        if (
            "not available yet" not in message
            and "not found" not in message
            and "No resources" not in message
        ):
            return [line.split() for line in message.splitlines()]
        assert time.monotonic() < end, message
        time.sleep(0.2)


def test_top_shows_what_is_measured(kubectl: Kubectl, pod: str) -> None:
    by_container = _until_measured(kubectl, "top", "pod", pod, "--containers")
    assert by_container[0] == ["POD", "NAME", "CPU(cores)", "MEMORY(bytes)"]
    assert [row[:2] for row in by_container[1:]] == [[pod, "c"]]
    rows = _until_measured(kubectl, "top", "pods", "-l", f"app={pod}", "--no-headers")
    assert rows == [[pod, *by_container[1][2:]]]
    assert rows[0][1].endswith("m") and int(rows[0][1][:-1]) > 0 and rows[0][2].endswith("Mi")
    everywhere = _until_measured(kubectl, "top", "pods", "-A", "--sort-by=memory")
    assert everywhere[0][0] == "NAMESPACE" and ["default", pod] in [row[:2] for row in everywhere]
    nodes = _until_measured(kubectl, "top", "nodes")
    assert nodes[0][:2] == ["NAME", "CPU(cores)"] and [row[0] for row in nodes[1:]] == ["node-1", "node-2"]
    assert all(row[2].endswith("%") and row[4].endswith("%") for row in nodes[1:])
    assert "not found" in kubectl("top", "pod", "nobody", fails=True)
    assert "PodMetrics" in kubectl("api-resources", "--api-group=metrics.k8s.io")
    shown = json.loads(kubectl("get", "--raw", f"/apis/metrics.k8s.io/v1beta1/namespaces/default/pods/{pod}"))
    assert (shown["kind"], shown["window"], shown["metadata"]["labels"]) == (
        "PodMetrics",
        "10s",
        {"app": pod},
    )


def test_get_prints_every_form(kubectl: Kubectl, pod: str) -> None:
    assert kubectl("get", "pod", pod).splitlines()[0].split() == [
        "NAME",
        "READY",
        "STATUS",
        "RESTARTS",
        "AGE",
    ]
    assert "node-" in kubectl("get", "pod", pod, "-o", "wide")
    assert json.loads(kubectl("get", "pod", pod, "-o", "json"))["status"]["phase"] == "Running"
    assert f"name: {pod}" in kubectl("get", "pod", pod, "-o", "yaml")
    assert kubectl("get", "pod", pod, "-o", "name").strip() == f"pod/{pod}"
    assert kubectl("get", "pod", pod, "-o", "jsonpath={.status.phase}") == "Running"
    assert (
        kubectl("get", "pod", pod, "--no-headers", "-o", "custom-columns=P:.status.phase").strip()
        == "Running"
    )
    assert pod in kubectl("get", "pods", "-A", "-l", f"app={pod}", "--show-labels")
    assert "No resources found" in kubectl("get", "pods", "-l", "app=none")
    assert pod in kubectl("get", "pods", "--field-selector", "status.phase=Running", "--chunk-size=1")
    assert "NotFound" in kubectl("get", "pod", "missing", fails=True)
    assert "Ready" in kubectl("get", "nodes")


def test_get_all_lists_the_category(kubectl: Kubectl, deployment: str) -> None:
    message = kubectl("get", "all")
    assert f"deployment.apps/{deployment}" in message
    assert f"replicaset.apps/{deployment}-" in message
    assert f"pod/{deployment}-" in message


def test_describe_tells_of_pods_nodes_and_deployments(kubectl: Kubectl, deployment: str) -> None:
    message = kubectl("describe", "pods", "-l", f"app={deployment}")
    assert "Status:" in message and "Running" in message
    assert "Allocated resources" in kubectl("describe", "node", "node-1")
    assert "2 desired | 2 updated | 2 total | 2 available" in kubectl("describe", "deployment", deployment)


def test_apply_creates_changes_and_leaves_alone(kubectl: Kubectl, name: str) -> None:
    assert "created" in kubectl("apply", "-f", "-", text=_deployment(name, replicas=1))
    assert "unchanged" in kubectl("apply", "-f", "-", text=_deployment(name, replicas=1))
    assert "configured" in kubectl("apply", "-f", "-", text=_deployment(name, "nginx:2", replicas=1))
    images = "jsonpath={.spec.template.spec.containers[*].image}"
    assert kubectl("get", "deployment", name, "-o", images) == "nginx:2"
    kubectl("delete", "deployment", name)


def test_apply_on_the_server_knows_whose_a_field_is(kubectl: Kubectl, name: str) -> None:
    apply = ("apply", "--server-side", "-f", "-")
    assert "serverside-applied" in kubectl(*apply, text=_deployment(name, replicas=1))
    message = kubectl(*apply, "--field-manager=other", text=_deployment(name, replicas=3), fails=True)
    assert "conflict" in message and ".spec.replicas" in message
    kubectl(*apply, "--field-manager=other", "--force-conflicts", text=_deployment(name, replicas=3))
    assert kubectl("get", "deployment", name, "-o", "jsonpath={.spec.replicas}") == "3"
    kubectl("delete", "deployment", name)


def test_a_field_that_is_unknown_is_refused(kubectl: Kubectl, name: str) -> None:
    message = kubectl("apply", "-f", "-", text=_pod(name, containrs=[]), fails=True)
    assert "containrs" in message
    message = kubectl("apply", "-f", "-", text=_pod(name, restartPolicy="Sometimes"), fails=True)
    assert "restartPolicy" in message


def test_dry_run_changes_nothing(kubectl: Kubectl, name: str) -> None:
    kubectl("apply", "--dry-run=server", "-f", "-", text=_pod(name))
    assert "NotFound" in kubectl("get", "pod", name, fails=True)


def test_create_makes_objects_of_every_sort(kubectl: Kubectl, name: str) -> None:
    kubectl("create", "namespace", name)
    kubectl("create", "-n", name, "configmap", "c", "--from-literal=a=b")
    kubectl("create", "-n", name, "secret", "generic", "s", "--from-literal=a=b")
    kubectl("create", "-n", name, "deployment", "d", "--image=nginx")
    kubectl("create", "-n", name, "job", "j", "--image=busybox", "--", "true")
    assert kubectl("get", "-n", name, "secret", "s", "-o", "jsonpath={.data.a}") == "Yg=="
    kubectl("wait", "-n", name, "job/j", "--for=condition=complete", "--timeout=90s")
    kubectl("delete", "namespace", name, "--timeout=90s")
    assert "NotFound" in kubectl("get", "namespace", name, fails=True)


def test_scale_changes_the_number(kubectl: Kubectl, deployment: str) -> None:
    assert "scaled" in kubectl("scale", "deployment", deployment, "--replicas=3")
    kubectl("rollout", "status", f"deployment/{deployment}", "--timeout=90s")
    pods = kubectl(
        "get", "pods", "-l", f"app={deployment}", "-o", "name", "--field-selector=status.phase=Running"
    )
    assert len(pods.split()) == 3


def test_rollout_goes_on_back_and_pauses(kubectl: Kubectl, deployment: str) -> None:
    what = f"deployment/{deployment}"
    image = ("get", what, "-o", "jsonpath={.spec.template.spec.containers[0].image}")
    kubectl("set", "image", what, "c=nginx:2")
    assert "successfully rolled out" in kubectl("rollout", "status", what, "--timeout=90s")
    assert "2" in kubectl("rollout", "history", what)
    kubectl("rollout", "undo", what)
    kubectl("rollout", "status", what, "--timeout=90s")
    assert kubectl(*image) == "nginx:1"
    kubectl("rollout", "pause", what)
    assert kubectl("get", what, "-o", "jsonpath={.spec.paused}") == "true"
    kubectl("rollout", "resume", what)
    kubectl("rollout", "restart", what)
    kubectl("rollout", "status", what, "--timeout=90s")


def test_cordon_and_drain_empty_a_node(kubectl: Kubectl, deployment: str) -> None:
    try:
        assert "cordoned" in kubectl("cordon", "node-2")
        assert "SchedulingDisabled" in kubectl("get", "node", "node-2")
        message = kubectl("drain", "node-2", "--ignore-daemonsets", "--force", "--timeout=90s")
        assert "drained" in message or "evicted" in message
        kubectl("rollout", "status", f"deployment/{deployment}", "--timeout=90s")
        assert "No resources" in kubectl("get", "pods", "-A", "--field-selector=spec.nodeName=node-2")
    finally:
        assert "uncordoned" in kubectl("uncordon", "node-2")


def test_delete_waits_until_it_is_gone(kubectl: Kubectl, pod: str) -> None:
    assert "deleted" in kubectl("delete", "pod", pod, "--timeout=90s")
    assert "NotFound" in kubectl("get", "pod", pod, fails=True)


def test_delete_takes_what_is_owned_along(kubectl: Kubectl, deployment: str) -> None:
    kubectl("delete", "deployment", deployment, "--cascade=foreground", "--timeout=90s")
    assert "No resources" in kubectl("get", "replicasets,pods", "-l", f"app={deployment}")


def test_wait_for_a_condition_and_for_the_end(kubectl: Kubectl, pod: str) -> None:
    assert "condition met" in kubectl("wait", "pod", pod, "--for=condition=Ready", "--timeout=90s")
    waiting = kubectl.start("wait", "pod", pod, "--for=delete", "--timeout=90s")
    time.sleep(1.0)  # older kubectl do not wait for what has gone already
    kubectl("delete", "pod", pod, "--wait=false")
    message, _ = waiting.communicate(timeout=90)
    assert (waiting.returncode, "condition met" in message) == (0, True), message


def test_watch_prints_changes_as_they_come(kubectl: Kubectl, name: str) -> None:
    watching = kubectl.start("get", "configmaps", "-w", "--output-watch-events", "-l", f"mine={name}")
    try:
        assert watching.stdout is not None
        kubectl("create", "configmap", name, "--from-literal=a=b")
        kubectl("label", "configmap", name, f"mine={name}")
        header, added = watching.stdout.readline(), watching.stdout.readline()
        assert header.split()[:2] == ["EVENT", "NAME"]
        assert added.split()[:2] == ["ADDED", name]
        kubectl("delete", "configmap", name)
        assert watching.stdout.readline().split()[:2] == ["DELETED", name]
    finally:
        watching.kill()
        watching.communicate()


def test_label_and_annotate(kubectl: Kubectl, pod: str) -> None:
    assert "labeled" in kubectl("label", "pod", pod, "colour=red")
    assert "annotated" in kubectl("annotate", "pod", pod, "note=1")
    kubectl("label", "pod", pod, "colour=blue", fails=True)
    kubectl("label", "pod", pod, "colour=blue", "--overwrite")
    kubectl("label", "pod", pod, "colour-")
    metadata = json.loads(kubectl("get", "pod", pod, "-o", "json"))["metadata"]
    assert metadata["labels"] == {"app": pod}
    assert metadata["annotations"]["note"] == "1"


@pytest.mark.parametrize(
    ("how", "patch"),
    [
        ("strategic", {"spec": {"template": {"spec": {"containers": [{"name": "c", "image": "new"}]}}}}),
        ("merge", {"spec": {"template": {"spec": {"containers": [{"name": "c", "image": "new"}]}}}}),
        ("json", [{"op": "replace", "path": "/spec/template/spec/containers/0/image", "value": "new"}]),
    ],
)
def test_patch_of_three_types(kubectl: Kubectl, name: str, how: str, patch: object) -> None:
    kubectl("apply", "-f", "-", text=_deployment(name, replicas=0))
    assert "patched" in kubectl("patch", "deployment", name, "--type", how, "-p", json.dumps(patch))
    image = kubectl("get", "deployment", name, "-o", "jsonpath={.spec.template.spec.containers[0].image}")
    assert image == "new"
    kubectl("delete", "deployment", name)


def test_explain_tells_of_fields(kubectl: Kubectl) -> None:
    message = kubectl("explain", "deployment.spec.template.spec.containers")
    assert "image" in message and "The containers, side by side." in message
    assert kubectl("explain", "pod.spec").count("What is to run, and where it may.") == 1
    assert kubectl("explain", "pod").count("What is to run, and where it may.") == 1
    assert "preferredDuringScheduling" in kubectl("explain", "pod.spec.affinity", "--recursive")
    assert "does not exist" in kubectl("explain", "pod.spec.nothing", fails=True)


def test_api_resources_and_versions(kubectl: Kubectl) -> None:
    messages = kubectl("api-resources", "--verbs=list", "-o", "name").split()
    assert {"pods", "nodes", "deployments.apps", "jobs.batch", "leases.coordination.k8s.io"} <= set(messages)
    assert "policy/v1" in kubectl("api-versions").split()


def test_auth_can_i(kubectl: Kubectl) -> None:
    assert kubectl("auth", "can-i", "create", "deployments").strip() == "yes"
    assert "*.*" in kubectl("auth", "can-i", "--list")


def test_logs_of_a_pod(kubectl: Kubectl, pod: str) -> None:
    kubectl("logs", pod)
    assert "not valid" in kubectl("logs", pod, "-c", "other", fails=True)


_FAILING_JOB = """\
apiVersion: batch/v1
kind: Job
metadata: {name: NAME}
spec:
  completions: 3
  parallelism: 3
  completionMode: Indexed
  backoffLimitPerIndex: 1
  podFailurePolicy:
    rules: [{action: FailIndex, onExitCodes: {operator: In, values: [42]}}]
  template:
    metadata: {annotations: {proreus.io/exit-code: "42"}}
    spec: {restartPolicy: Never, containers: [{name: c, image: i}]}
"""


def test_a_job_that_fails_index_by_index(kubectl: Kubectl, name: str) -> None:
    kubectl("apply", "-f", "-", text=_FAILING_JOB.replace("NAME", name))
    kubectl("wait", "--for=condition=Failed", f"job/{name}", "--timeout=60s", timeout=90)
    reason = '{.status.conditions[?(@.type=="Failed")].reason}'
    assert kubectl("get", "job", name, "-o", f"jsonpath={reason}") == "FailedIndexes"
    assert kubectl("get", "job", name, "-o", "jsonpath={.status.failedIndexes} {.status.failed}") == "0-2 3"
    wrong = _FAILING_JOB.replace("NAME", f"{name}-2").replace("Never", "OnFailure")
    assert 'only "Never" is supported' in kubectl("apply", "-f", "-", text=wrong, fails=True)
    kubectl("delete", "job", name)


def test_replace_and_edit_conflicts(kubectl: Kubectl, name: str) -> None:
    kubectl("create", "configmap", name, "--from-literal=a=b")
    old = json.loads(kubectl("get", "configmap", name, "-o", "json"))
    kubectl("replace", "-f", "-", text=json.dumps({**old, "data": {"a": "c"}}))
    assert "Conflict" in kubectl("replace", "-f", "-", text=json.dumps(old), fails=True)
    kubectl("delete", "configmap", name)


def test_a_kind_that_is_not_there_is_told_as_such(kubectl: Kubectl) -> None:
    missing = (("v1", "PersistentVolumeClaim"), ("apps/v1", "StatefulSet"), ("example.com/v1", "Foo"))
    for known, kind in missing:
        text = json.dumps({"apiVersion": known, "kind": kind, "metadata": {"name": "x"}})
        message = kubectl("apply", "-f", "-", text=text, fails=True)
        assert f'no matches for kind "{kind}" in version "{known}"' in message and "CRD:" not in message
    assert "No resources found" in kubectl("get", "crd")
    definition = {"apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition"}
    text = json.dumps({**definition, "metadata": {"name": "x"}})
    message = kubectl("create", "--validate=false", "-f", "-", text=text, fails=True)
    assert "MethodNotAllowed" in message and "panic" not in message


def test_what_is_not_there_is_refused_and_nothing_panics(kubectl: Kubectl, pod: str) -> None:
    for words in (
        ("debug", pod, "--image=busybox"),
        ("create", "token", "default"),
        ("create", "role", "r", "--verb=get", "--resource=pods"),
        ("autoscale", "deployment", "nobody", "--max=3"),
        ("certificate", "approve", "x"),
        ("get", "--raw", "/apis/nothing.example/v1"),
    ):
        message = kubectl(*words, fails=True)
        assert "panic" not in message and "goroutine" not in message, message
        assert "could not find" in message or "not found" in message or "doesn't have" in message, message


def test_what_has_no_effect_is_warned_of(kubectl: Kubectl, name: str) -> None:
    message = kubectl("create", "service", "clusterip", name, "--tcp=80:80")
    assert message.count("Warning: a Service is kept and has no effect here") == 1
    kubectl("delete", "service", name)
