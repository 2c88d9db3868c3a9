"""Defaults and refusals of each kind, in Kubernetes' words; what is stored passes the official schemas."""

from __future__ import annotations

import copy
from collections.abc import Callable
from typing import Any

import kubernetes_validate
import pytest

from proreus.engine.objects import kinds
from proreus.engine.objects.errors import BadRequest, Forbidden, Invalid
from proreus.engine.objects.kinds import DEPLOYMENT, JOB, NAMESPACE, NODE, POD, PRIORITY_CLASS, SECRET, Kind
from proreus.engine.objects.registry import PatchType, Registry
from tests.engine.objects.official_fields import VERSION
from tests.engine.objects.worlds import deployment, pod, with_registry

JOB_OBJECT = {
    "metadata": {"name": "count"},
    "spec": {"template": {"spec": {"restartPolicy": "Never", "containers": pod()["spec"]["containers"]}}},
}
ONE_OF_EACH: list[tuple[Kind, dict[str, Any]]] = [
    (POD, pod(affinity={"podAntiAffinity": {}}, volumes=[{"name": "scratch"}])),
    (
        POD,
        pod(
            securityContext={"seccompProfile": {"type": "RuntimeDefault"}},
            volumes=[{"name": "fast", "emptyDir": {"medium": "Memory", "sizeLimit": "1Mi"}}],
            initContainers=[
                {
                    "name": "side",
                    "image": "side:1",
                    "restartPolicy": "Always",
                    "lifecycle": {
                        "postStart": {"httpGet": {"port": 80}},
                        "preStop": {"sleep": {"seconds": 0}},
                    },
                }
            ],
        ),
    ),
    (
        NODE,
        {
            "metadata": {"name": "node-1"},
            "status": {"capacity": {"cpu": "4", "memory": "8Gi", "pods": "110"}},
        },
    ),
    (NAMESPACE, {"metadata": {"name": "team"}}),
    (kinds.CONFIG_MAP, {"metadata": {"name": "settings"}, "data": {"a": "b"}}),
    (kinds.SERVICE_ACCOUNT, {"metadata": {"name": "default"}, "secrets": [{"name": "s"}]}),
    (SECRET, {"metadata": {"name": "key"}, "stringData": {"a": "b"}}),
    (
        kinds.SERVICE,
        {"metadata": {"name": "web"}, "spec": {"ports": [{"port": 80}], "selector": {"app": "web"}}},
    ),
    (DEPLOYMENT, deployment()),
    (kinds.REPLICA_SET, {**deployment(), "kind": "ReplicaSet"}),
    (JOB, JOB_OBJECT),
    (
        kinds.LEASE,
        {"metadata": {"name": "leader"}, "spec": {"holderIdentity": "a", "leaseDurationSeconds": 15}},
    ),
    (kinds.BUDGET, {"metadata": {"name": "web"}, "spec": {"minAvailable": 1, "selector": {}}}),
    (PRIORITY_CLASS, {"metadata": {"name": "high"}, "value": 1000}),
    (
        kinds.EVENT,
        {
            "metadata": {"name": "web.1"},
            "involvedObject": {"kind": "Pod", "namespace": "default"},
            "type": "Normal",
        },
    ),
]


def _created(kind: Kind, obj: dict[str, Any]) -> dict[str, Any]:
    return with_registry(lambda registry: registry.create(kind, obj))


@pytest.mark.parametrize(("kind", "obj"), ONE_OF_EACH, ids=[kind.kind for kind, _ in ONE_OF_EACH])
def test_what_is_stored_passes_the_official_schema(kind: Kind, obj: dict[str, Any]) -> None:
    before = copy.deepcopy(obj)
    stored = _created(kind, obj)
    kubernetes_validate.validate(stored, VERSION.removeprefix("v"), strict=True)
    assert obj == before, "what was handed in is as it was"


def test_a_pod_gets_its_defaults() -> None:
    made = _created(
        POD, pod(containers=[{"name": "main", "image": "nginx", "ports": [{"containerPort": 80}]}])
    )
    spec, container = made["spec"], made["spec"]["containers"][0]
    assert container["imagePullPolicy"] == "Always" and container["ports"][0]["protocol"] == "TCP"
    assert container["terminationMessagePath"] == "/dev/termination-log"
    assert (spec["restartPolicy"], spec["dnsPolicy"]) == ("Always", "ClusterFirst")
    assert (spec["schedulerName"], spec["terminationGracePeriodSeconds"]) == ("default-scheduler", 30)
    assert (spec["priority"], spec["preemptionPolicy"]) == (0, "PreemptLowerPriority")
    tolerated = {toleration["key"]: toleration["tolerationSeconds"] for toleration in spec["tolerations"]}
    assert tolerated == {"node.kubernetes.io/not-ready": 300, "node.kubernetes.io/unreachable": 300}
    assert made["status"] == {"phase": "Pending", "qosClass": "BestEffort"}


@pytest.mark.parametrize("name", ["best_fit", "kube-plus", "Volcano"])
def test_a_scheduler_has_any_name_that_can_be_chosen_for(name: str) -> None:
    main = {"name": "main", "image": "a"}
    assert _created(POD, pod(containers=[main], schedulerName=name))["spec"]["schedulerName"] == name
    with pytest.raises(Invalid, match=r"spec\.schedulerName"):
        _created(POD, pod(containers=[main], schedulerName=f"../{name}"))


@pytest.mark.parametrize(
    ("requests", "limits", "expected"),
    [
        ({}, {}, "BestEffort"),
        ({"cpu": "1"}, {}, "Burstable"),
        ({"cpu": "1", "memory": "1Gi"}, {"cpu": "1000m", "memory": "1024Mi"}, "Guaranteed"),
        ({}, {"cpu": "1", "memory": "1Gi"}, "Guaranteed"),
        ({"cpu": "1"}, {"cpu": "2", "memory": "1Gi"}, "Burstable"),
    ],
)
def test_quality_of_service(requests: Any, limits: Any, expected: str) -> None:
    container = {"name": "main", "image": "a", "resources": {"requests": requests, "limits": limits}}
    assert _created(POD, pod(containers=[container]))["status"]["qosClass"] == expected


@pytest.mark.parametrize(
    ("image", "policy"),
    [
        ("nginx", "Always"),
        ("nginx:latest", "Always"),
        ("nginx:1.25", "IfNotPresent"),
        ("localhost:5000/nginx", "Always"),
        ("nginx@sha256:abc", "IfNotPresent"),
    ],
)
def test_when_an_image_is_pulled(image: str, policy: str) -> None:
    made = _created(POD, pod(containers=[{"name": "main", "image": image}]))
    assert made["spec"]["containers"][0]["imagePullPolicy"] == policy


def test_a_deployment_gets_its_defaults() -> None:
    spec = _created(DEPLOYMENT, deployment())["spec"]
    steps = {"maxUnavailable": "25%", "maxSurge": "25%"}
    assert spec["strategy"] == {"type": "RollingUpdate", "rollingUpdate": steps}
    assert (spec["revisionHistoryLimit"], spec["progressDeadlineSeconds"]) == (10, 600)
    assert spec["template"]["spec"]["restartPolicy"] == "Always"
    assert "tolerations" not in spec["template"]["spec"], "those are given to pods, not to templates"


def test_a_job_knows_its_pods_by_its_uid() -> None:
    made = _created(JOB, JOB_OBJECT)
    uid = made["metadata"]["uid"]
    assert made["spec"]["selector"] == {"matchLabels": {"batch.kubernetes.io/controller-uid": uid}}
    assert made["spec"]["template"]["metadata"]["labels"]["batch.kubernetes.io/job-name"] == "count"
    assert (made["spec"]["completions"], made["spec"]["parallelism"], made["spec"]["backoffLimit"]) == (
        1,
        1,
        6,
    )


def test_a_secret_keeps_plain_text_as_data() -> None:
    made = _created(SECRET, {"metadata": {"name": "a"}, "stringData": {"word": "héllo"}})
    assert made["data"] == {"word": "aMOpbGxv"} and "stringData" not in made and made["type"] == "Opaque"


def _of_pod(**spec: Any) -> dict[str, Any]:
    return pod(**spec)


def _of_container(**fields: Any) -> dict[str, Any]:
    return pod(containers=[{"name": "main", "image": "a", **fields}])


def _of_deployment(change: Callable[[dict[str, Any]], None]) -> dict[str, Any]:
    obj = deployment()
    change(obj["spec"])
    return obj


REFUSED: list[tuple[Kind, dict[str, Any], str, str]] = [
    (POD, pod("Web"), "metadata.name", "a lowercase RFC 1123 subdomain must consist of"),
    (POD, pod("a" * 254), "metadata.name", "must be no more than 253 characters"),
    (NAMESPACE, {"metadata": {"name": "a.b"}}, "metadata.name", "RFC 1123 label"),
    (
        POD,
        {**pod(), "metadata": {"name": "a", "labels": {"-a": "b"}}},
        "metadata.labels",
        "name part must consist",
    ),
    (
        POD,
        {**pod(), "metadata": {"name": "a", "labels": {"a": "b c"}}},
        "metadata.labels",
        "a valid label must be",
    ),
    (
        POD,
        {**pod(), "metadata": {"name": "a", "annotations": {"a": "b" * 300_000}}},
        "metadata.annotations",
        "Too",
    ),
    (POD, pod(containers=[]), "spec.containers", "Required value"),
    (POD, {"metadata": {"name": "a"}}, "spec.containers", "Required value"),
    (POD, _of_container(name="Main"), "spec.containers[0].name", "RFC 1123 label"),
    (POD, _of_container(image=""), "spec.containers[0].image", "Required value"),
    (
        POD,
        pod(containers=pod()["spec"]["containers"] * 2),
        "spec.containers[1].name",
        'Duplicate value: "main"',
    ),
    (POD, _of_pod(restartPolicy="Sometimes"), "spec.restartPolicy", 'Unsupported value: "Sometimes"'),
    (
        POD,
        _of_container(resources={"requests": {"cpu": "2"}, "limits": {"cpu": "1"}}),
        "spec.containers[0].resources.requests",
        "must be less than or equal to cpu limit of 1",
    ),
    (
        POD,
        _of_container(resources={"requests": {"cpu": "much"}}),
        "spec.containers[0].resources.requests.cpu",
        "quantities must match the regular expression",
    ),
    (
        POD,
        _of_container(resources={"requests": {"gpu": "1"}}),
        "spec.containers[0].resources.requests.gpu",
        "must be a standard resource type or fully qualified",
    ),
    (
        POD,
        _of_container(resources={"requests": {"nvidia.com/gpu": "500m"}}),
        "spec.containers[0].resources.requests.nvidia.com/gpu",
        "must be an integer",
    ),
    (
        POD,
        _of_container(ports=[{"containerPort": 0}]),
        "spec.containers[0].ports[0].containerPort",
        "between 1 and",
    ),
    (
        POD,
        _of_container(volumeMounts=[{"name": "x", "mountPath": "/x"}]),
        "spec.containers[0].volumeMounts[0].name",
        "Not found",
    ),
    *(
        (POD, _of_container(**container), f"spec.containers[0].{field}", words)
        for container, field, words in (
            ({"lifecycle": {"preStop": {}}}, "lifecycle.preStop", "must specify a handler type"),
            (
                {"lifecycle": {"postStart": {"exec": {"command": ["a"]}, "sleep": {"seconds": 1}}}},
                "lifecycle.postStart.sleep",
                "may not specify more than 1 handler type",
            ),
            ({"lifecycle": {"preStop": {"exec": {}}}}, "lifecycle.preStop.exec.command", "Required value"),
            (
                {"lifecycle": {"preStop": {"sleep": {"seconds": 31}}}},
                "lifecycle.preStop.sleep",
                "must be non-negative and less than terminationGracePeriodSeconds (30)",
            ),
            (
                {"securityContext": {"seccompProfile": {"type": "Own"}}},
                "securityContext.seccompProfile.type",
                'Unsupported value: "Own"',
            ),
            (
                {"securityContext": {"seccompProfile": {"type": "Localhost"}}},
                "securityContext.seccompProfile.localhostProfile",
                "must be set when seccomp type is Localhost",
            ),
        )
    ),
    (
        POD,
        _of_pod(securityContext={"seccompProfile": {"type": "RuntimeDefault", "localhostProfile": "x"}}),
        "spec.securityContext.seccompProfile.localhostProfile",
        "can only be set when seccomp type is Localhost",
    ),
    (
        POD,
        _of_pod(volumes=[{"name": "data", "emptyDir": {"sizeLimit": "-1Gi"}}]),
        "spec.volumes[0].emptyDir.sizeLimit",
        "SizeLimit field must be a valid resource quantity",
    ),
    (
        POD,
        _of_pod(
            initContainers=[{"name": "i", "image": "i", "lifecycle": {"preStop": {"sleep": {"seconds": 1}}}}]
        ),
        "spec.initContainers[0].lifecycle",
        "may not be set for init containers without restartPolicy=Always",
    ),
    (POD, _of_container(livenessProbe={}), "spec.containers[0].livenessProbe", "must specify a handler type"),
    (
        POD,
        _of_pod(tolerations=[{"operator": "Equal"}]),
        "spec.tolerations[0].operator",
        "must be Exists when `key`",
    ),
    (
        POD,
        _of_pod(
            topologySpreadConstraints=[
                {"maxSkew": 0, "topologyKey": "a", "whenUnsatisfiable": "DoNotSchedule"}
            ]
        ),
        "spec.topologySpreadConstraints[0].maxSkew",
        "must be greater than zero",
    ),
    (DEPLOYMENT, _of_deployment(lambda spec: spec.pop("selector")), "spec.selector", "Required value"),
    (
        DEPLOYMENT,
        _of_deployment(lambda spec: spec.update(selector={"matchLabels": {"app": "other"}})),
        "spec.template.metadata.labels",
        "`selector` does not match template `labels`",
    ),
    (DEPLOYMENT, deployment(replicas=-1), "spec.replicas", "must be greater than or equal to 0"),
    (
        DEPLOYMENT,
        _of_deployment(
            lambda spec: spec.update(strategy={"rollingUpdate": {"maxSurge": 0, "maxUnavailable": 0}})
        ),
        "spec.strategy.rollingUpdate.maxUnavailable",
        "may not be 0 when `maxSurge` is 0",
    ),
    (
        JOB,
        {"metadata": {"name": "a"}, "spec": {"template": {"spec": pod()["spec"]}}},
        "spec.template.spec.restartPolicy",
        'Unsupported value: "Always"',
    ),
    (
        NODE,
        {"metadata": {"name": "a"}, "spec": {"taints": [{"key": "a", "effect": "Never"}]}},
        "spec.taints[0].effect",
        "Unsupported",
    ),
    (PRIORITY_CLASS, {"metadata": {"name": "a"}, "value": 2_000_000_000}, "value", "maximum allowed value"),
    (
        kinds.BUDGET,
        {"metadata": {"name": "a"}, "spec": {"minAvailable": 1, "maxUnavailable": 1}},
        "spec",
        "cannot be both set",
    ),
    (SECRET, {"metadata": {"name": "a"}, "data": {"a": "!"}}, "data[a]", "illegal base64"),
    (kinds.CONFIG_MAP, {"metadata": {"name": "a"}, "data": {"a b": ""}}, "data[a b]", "a valid config key"),
]


@pytest.mark.parametrize(
    ("kind", "obj", "field", "words"), REFUSED, ids=[f"{one[2]}-{n}" for n, one in enumerate(REFUSED)]
)
def test_what_is_wrong_is_named(kind: Kind, obj: dict[str, Any], field: str, words: str) -> None:
    with pytest.raises(Invalid) as refused:
        _created(kind, obj)
    assert any(cause.field == field and words in cause.message for cause in refused.value.causes), (
        refused.value
    )
    assert refused.value.message.startswith(f'{kind.kind}{"." + kind.group if kind.group else ""} "')


def test_priorities_come_from_classes() -> None:
    async def scenario(registry: Registry) -> None:
        await registry.create(
            PRIORITY_CLASS, {"metadata": {"name": "high"}, "value": 7, "preemptionPolicy": "Never"}
        )
        made = await registry.create(POD, pod("a", priorityClassName="high"))
        assert (made["spec"]["priority"], made["spec"]["preemptionPolicy"]) == (7, "Never")
        system = await registry.create(POD, pod("b", priorityClassName="system-node-critical"))
        assert system["spec"]["priority"] == 2_000_001_000
        with pytest.raises(Forbidden, match="no PriorityClass with name none was found"):
            await registry.create(POD, pod("c", priorityClassName="none"))
        with pytest.raises(Forbidden, match="must not be provided"):
            await registry.create(POD, pod("c", priorityClassName="high", priority=3))
        await registry.create(
            PRIORITY_CLASS, {"metadata": {"name": "usual"}, "value": 5, "globalDefault": True}
        )
        assert (await registry.create(POD, pod("d")))["spec"]["priority"] == 5

    with_registry(scenario)


def _changed(registry: Registry, kind: Kind, name: str, **spec: Any) -> Any:
    return registry.edit(kind, "default", name, lambda obj: {**obj, "spec": {**obj["spec"], **spec}})


def test_of_a_pod_only_little_may_change() -> None:
    async def scenario(registry: Registry) -> None:
        made = await registry.create(POD, pod())
        container = made["spec"]["containers"][0]
        await _changed(registry, POD, "web", containers=[{**container, "image": "nginx:2"}])
        more = [*made["spec"]["tolerations"], {"key": "new", "operator": "Exists"}]
        await _changed(registry, POD, "web", tolerations=more)
        await _changed(registry, POD, "web", activeDeadlineSeconds=5)
        for refused in (
            {"nodeName": "here"},
            {"restartPolicy": "Never"},
            {"tolerations": more[:1]},
            {"activeDeadlineSeconds": 6},
            {"containers": [container, {**container, "name": "second"}]},
        ):
            with pytest.raises(Invalid):
                await _changed(registry, POD, "web", **refused)

    with_registry(scenario)


def test_selectors_and_names_stay() -> None:
    async def scenario(registry: Registry) -> None:
        made = await registry.create(DEPLOYMENT, deployment())
        labels = {"app": "web", "more": "1"}
        template = {**made["spec"]["template"], "metadata": {"labels": labels}}
        with pytest.raises(Invalid, match=r"spec\.selector: Invalid value: .*field is immutable"):
            await _changed(registry, DEPLOYMENT, "web", selector={"matchLabels": labels}, template=template)
        with pytest.raises(Invalid, match=r"metadata\.name: Invalid value"):
            await registry.edit(
                DEPLOYMENT,
                "default",
                "web",
                lambda obj: {**obj, "metadata": {**obj["metadata"], "name": "other"}},
            )

    with_registry(scenario)


def test_an_object_of_another_kind_or_too_large_is_refused() -> None:
    with pytest.raises(BadRequest, match="do not match"):
        _created(POD, deployment())
    too_large = {"metadata": {"name": "a"}, "data": {"a": "x" * 1_100_000}}
    with pytest.raises(Invalid, match="Too long"):
        _created(kinds.CONFIG_MAP, too_large)


def test_the_namespaces_that_a_cluster_needs_stay() -> None:
    with pytest.raises(Forbidden, match="this namespace may not be deleted"):
        with_registry(lambda registry: registry.delete(NAMESPACE, "", "kube-system"))


def test_a_status_says_what_others_can_decide_by() -> None:
    async def scenario(registry: Registry) -> None:
        await registry.create(POD, pod())
        for status in ({"phase": "Dancing"}, {"conditions": [{"type": "Ready", "status": "maybe"}]}):
            with pytest.raises(Invalid, match="Unsupported value"):
                await registry.patch(
                    POD, "default", "web", {"status": status}, PatchType.MERGE, subresource="status"
                )

    with_registry(scenario)
