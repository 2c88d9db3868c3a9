"""Pods and pod templates: what is filled in, what is wrong, what may change once there is one."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import msgspec

from proreus.engine.objects.names import (
    config_key_problem,
    dns_label_problem,
    dns_subdomain_problem,
    label_key_problem,
    label_value_problem,
)
from proreus.engine.objects.validation.containers import check_containers, defaulted_container
from proreus.engine.objects.validation.error_list import Problems
from proreus.engine.objects.validation.lifecycle_hooks import check_lives
from proreus.engine.objects.validation.metadata import check_labels, check_selector
from proreus.engine.objects.validation.quantities import thousandths

_Map = dict[str, Any]
_SPEC = {
    "restartPolicy": "Always",
    "terminationGracePeriodSeconds": 30,
    "dnsPolicy": "ClusterFirst",
    "securityContext": {},
    "schedulerName": "default-scheduler",
}
_UNREADY_SECONDS = 300
_TOLERATED = tuple(
    {
        "key": f"node.kubernetes.io/{trouble}",
        "operator": "Exists",
        "effect": "NoExecute",
        "tolerationSeconds": _UNREADY_SECONDS,
    }
    for trouble in ("not-ready", "unreachable")
)
_EFFECTS = ("NoSchedule", "PreferNoSchedule", "NoExecute")
_NODE_OPERATORS = ("In", "NotIn", "Exists", "DoesNotExist", "Gt", "Lt")
_REQUIRED, _PREFERRED = (
    "requiredDuringSchedulingIgnoredDuringExecution",
    "preferredDuringSchedulingIgnoredDuringExecution",
)
_MUTABLE_WORDS = (
    "pod updates may not change fields other than `spec.containers[*].image`,"
    "`spec.initContainers[*].image`,`spec.activeDeadlineSeconds`,`spec.tolerations` (only additions to "
    "existing tolerations),`spec.terminationGracePeriodSeconds` (allow it to be set to 1 if it was "
    "previously negative)"
)


def defaulted_spec(spec: _Map) -> _Map:
    """The spec of a pod or a template with what Kubernetes fills in."""
    full = {**_SPEC, **spec}
    for key in ("containers", "initContainers"):
        if key in full:
            full[key] = [defaulted_container(container) for container in full[key]]
    if "volumes" in full:
        full["volumes"] = [_defaulted_volume(volume) for volume in full["volumes"]]
    return full


def defaulted_pod(pod: _Map) -> _Map:
    """A pod with its defaults, the tolerations of a node's short trouble among them."""
    spec = defaulted_spec(pod.get("spec", {}))
    tolerations = spec.get("tolerations", [])
    missing = [
        toleration
        for toleration in _TOLERATED
        if not any(_covers(given, toleration["key"]) for given in tolerations)
    ]
    if missing:
        spec["tolerations"] = [*tolerations, *missing]
    spec.setdefault("enableServiceLinks", True)
    return {**pod, "spec": spec}


def _covers(toleration: _Map, key: Any) -> bool:
    return toleration.get("key", "") in (key, "") and toleration.get("effect", "") in ("NoExecute", "")


def _defaulted_volume(volume: _Map) -> _Map:
    if len(volume) == 1 and "name" in volume:
        return {**volume, "emptyDir": {}}
    for source in ("configMap", "secret", "projected", "downwardAPI"):
        if source in volume and "defaultMode" not in volume[source]:
            return {**volume, source: {**volume[source], "defaultMode": 0o644}}
    return volume


def quality_of_service(spec: _Map) -> str:
    """Guaranteed, Burstable or BestEffort, by what the containers request."""
    containers = [*spec.get("containers", ()), *spec.get("initContainers", ())]
    guaranteed, anything = True, False
    for container in containers:
        resources = container.get("resources", {})
        requests, limits = resources.get("requests", {}), resources.get("limits", {})
        for name in ("cpu", "memory"):
            asked, most = thousandths(requests.get(name, 0)), thousandths(limits.get(name, 0))
            anything = anything or bool(asked) or bool(most)
            guaranteed = guaranteed and bool(most) and asked == most
    if not anything:
        return "BestEffort"
    return "Guaranteed" if guaranteed else "Burstable"


def check_pod(pod: _Map, problems: Problems) -> None:
    """A whole pod."""
    check_spec(pod["spec"], "spec", problems)


def check_template(template: _Map, field: str, problems: Problems) -> None:
    """The template of a workload's pods."""
    metadata = template.get("metadata", {})
    check_labels(metadata.get("labels", {}), f"{field}.labels", problems)
    for key in metadata.get("annotations", {}):
        problems.unless(f"{field}.annotations", key, label_key_problem(key.lower()))
    check_spec(template.get("spec", {}), f"{field}.spec", problems)


def check_spec(spec: _Map, field: str, problems: Problems) -> None:
    """The spec of a pod, its defaults filled in."""
    names: set[str] = set()
    if not spec.get("containers"):
        problems.required(f"{field}.containers")
    else:
        check_containers(spec["containers"], f"{field}.containers", names, problems)
    if "initContainers" in spec:
        check_containers(spec["initContainers"], f"{field}.initContainers", names, problems)
    problems.one_of(f"{field}.restartPolicy", spec["restartPolicy"], ("Always", "OnFailure", "Never"))
    problems.one_of(
        f"{field}.dnsPolicy",
        spec["dnsPolicy"],
        ("ClusterFirstWithHostNet", "ClusterFirst", "Default", "None"),
    )
    problems.at_least(f"{field}.terminationGracePeriodSeconds", spec["terminationGracePeriodSeconds"])
    if "activeDeadlineSeconds" in spec:
        problems.at_least(f"{field}.activeDeadlineSeconds", spec["activeDeadlineSeconds"], 1)
    for key in ("nodeName", "priorityClassName", "serviceAccountName"):
        if spec.get(key):
            problems.unless(f"{field}.{key}", spec[key], dns_subdomain_problem(spec[key]))
    if name := spec.get("schedulerName"):
        # Kubernetes asks for nothing here; whatever may be a key of a ConfigMap can be chosen for.
        problems.unless(f"{field}.schedulerName", name, config_key_problem(name))
    if "nodeSelector" in spec:
        check_labels(spec["nodeSelector"], f"{field}.nodeSelector", problems)
    for place, toleration in enumerate(spec.get("tolerations", ())):
        _check_toleration(toleration, f"{field}.tolerations[{place}]", problems)
    if "affinity" in spec:
        _check_affinity(spec["affinity"], f"{field}.affinity", problems)
    for place, constraint in enumerate(spec.get("topologySpreadConstraints", ())):
        _check_spread(constraint, f"{field}.topologySpreadConstraints[{place}]", problems)
    if "volumes" in spec:
        _check_volumes(spec["volumes"], f"{field}.volumes", problems)
    _check_mounts(spec, field, problems)
    check_lives(spec, field, problems)


def _check_volumes(volumes: list[_Map], field: str, problems: Problems) -> None:
    names: set[str] = set()
    for place, volume in enumerate(volumes):
        name = volume.get("name", "")
        if not name:
            problems.required(f"{field}[{place}].name")
        else:
            problems.unless(f"{field}[{place}].name", name, dns_label_problem(name))
        if name in names:
            problems.duplicate(f"{field}[{place}].name", name)
        names.add(name)
        limit = (volume.get("emptyDir") or {}).get("sizeLimit")
        if limit is not None and thousandths(limit) is None:
            message = "SizeLimit field must be a valid resource quantity"
            problems.forbidden(f"{field}[{place}].emptyDir.sizeLimit", message)


def _check_mounts(spec: _Map, field: str, problems: Problems) -> None:
    volumes = {volume.get("name") for volume in spec.get("volumes", ())}
    for key in ("containers", "initContainers"):
        for place, container in enumerate(spec.get(key, ())):
            for at, mount in enumerate(container.get("volumeMounts", ())):
                here = f"{field}.{key}[{place}].volumeMounts[{at}]"
                if mount.get("name") not in volumes:
                    problems.not_found(f"{here}.name", mount.get("name", ""))
                if not mount.get("mountPath"):
                    problems.required(f"{here}.mountPath")


def _check_toleration(toleration: _Map, here: str, problems: Problems) -> None:
    key, operator = toleration.get("key", ""), toleration.get("operator", "Equal") or "Equal"
    effect = toleration.get("effect", "")
    if key:
        problems.unless(f"{here}.key", key, label_key_problem(key))
    elif operator != "Exists":
        problems.invalid(
            f"{here}.operator",
            operator,
            'operator must be Exists when `key` is empty, which means "match all values and all keys"',
        )
    problems.one_of(f"{here}.operator", operator, ("Equal", "Exists", "Lt", "Gt"))
    if operator == "Exists" and toleration.get("value"):
        problems.invalid(f"{here}.operator", toleration, "value must be empty when `operator` is 'Exists'")
    elif toleration.get("value"):
        problems.unless(f"{here}.operator", toleration["value"], label_value_problem(toleration["value"]))
    if effect:
        problems.one_of(f"{here}.effect", effect, _EFFECTS)
    if "tolerationSeconds" in toleration and effect != "NoExecute":
        problems.invalid(
            f"{here}.effect", effect, "effect must be 'NoExecute' when `tolerationSeconds` is set"
        )


def _check_affinity(affinity: _Map, field: str, problems: Problems) -> None:
    node = affinity.get("nodeAffinity", {})
    required = node.get(_REQUIRED)
    here = f"{field}.nodeAffinity.{_REQUIRED}.nodeSelectorTerms"
    if required is not None and not required.get("nodeSelectorTerms"):
        problems.required(here, "must have at least one node selector term")
    for place, term in enumerate((required or {}).get("nodeSelectorTerms", ())):
        _check_node_term(term, f"{here}[{place}]", problems)
    for place, preferred in enumerate(node.get(_PREFERRED, ())):
        at = f"{field}.nodeAffinity.{_PREFERRED}[{place}]"
        _check_weight(preferred, at, problems)
        _check_node_term(preferred.get("preference", {}), f"{at}.preference", problems)
    for key in ("podAffinity", "podAntiAffinity"):
        pods = affinity.get(key, {})
        for place, term in enumerate(pods.get(_REQUIRED, ())):
            _check_pod_term(term, f"{field}.{key}.{_REQUIRED}[{place}]", problems)
        for place, preferred in enumerate(pods.get(_PREFERRED, ())):
            at = f"{field}.{key}.{_PREFERRED}[{place}]"
            _check_weight(preferred, at, problems)
            _check_pod_term(preferred.get("podAffinityTerm", {}), f"{at}.podAffinityTerm", problems)


def _check_weight(preferred: _Map, here: str, problems: Problems) -> None:
    weight = preferred.get("weight", 0)
    if not 1 <= weight <= 100:
        problems.invalid(f"{here}.weight", weight, "must be in the range 1-100")


def _check_node_term(term: _Map, here: str, problems: Problems) -> None:
    for key in ("matchExpressions", "matchFields"):
        for place, requirement in enumerate(term.get(key, ())):
            at = f"{here}.{key}[{place}]"
            operator, values = requirement.get("operator", ""), requirement.get("values", ())
            if operator not in _NODE_OPERATORS:
                problems.invalid(f"{at}.operator", operator, "not a valid selector operator")
            elif operator in ("In", "NotIn") and not values:
                problems.required(f"{at}.values", "must be specified when `operator` is 'In' or 'NotIn'")
            elif operator in ("Gt", "Lt") and len(values) != 1:
                problems.required(
                    f"{at}.values", "must be specified single value when `operator` is 'Lt' or 'Gt'"
                )
            elif operator in ("Exists", "DoesNotExist") and values:
                problems.forbidden(
                    f"{at}.values", "may not be specified when `operator` is 'Exists' or 'DoesNotExist'"
                )
            problems.unless(
                f"{at}.key", requirement.get("key", ""), label_key_problem(requirement.get("key", ""))
            )


def _check_pod_term(term: _Map, here: str, problems: Problems) -> None:
    if not term.get("topologyKey"):
        problems.required(f"{here}.topologyKey", "can not be empty")
    else:
        problems.unless(f"{here}.topologyKey", term["topologyKey"], label_key_problem(term["topologyKey"]))
    for key in ("labelSelector", "namespaceSelector"):
        if key in term:
            check_selector(term[key], f"{here}.{key}", problems)


def _check_spread(constraint: _Map, here: str, problems: Problems) -> None:
    if constraint.get("maxSkew", 0) <= 0:
        problems.invalid(f"{here}.maxSkew", constraint.get("maxSkew", 0), "must be greater than zero")
    if not constraint.get("topologyKey"):
        problems.required(f"{here}.topologyKey", "can not be empty")
    problems.one_of(
        f"{here}.whenUnsatisfiable",
        constraint.get("whenUnsatisfiable", ""),
        ("DoNotSchedule", "ScheduleAnyway"),
    )
    if "labelSelector" in constraint:
        check_selector(constraint["labelSelector"], f"{here}.labelSelector", problems)


def check_pod_update(old: _Map, new: _Map, problems: Problems) -> None:
    """Of a pod that is there only images, a deadline and further tolerations may change."""
    before, after = old["spec"], new["spec"]
    if before == after:
        return
    for key in ("containers", "initContainers"):
        if len(before.get(key, ())) != len(after.get(key, ())):
            problems.forbidden(f"spec.{key}", "pod updates may not add or remove containers")
            return
    if not _each(before.get("tolerations", ())) <= _each(after.get("tolerations", ())):
        problems.forbidden(
            "spec.tolerations", "existing toleration can not be modified except its tolerationSeconds"
        )
    deadline, earlier = after.get("activeDeadlineSeconds"), before.get("activeDeadlineSeconds")
    if earlier is not None and (deadline is None or deadline > earlier):
        problems.invalid(
            "spec.activeDeadlineSeconds",
            deadline,
            "must not update from a positive integer to nil value"
            if deadline is None
            else f"must be less than or equal to previous value ({earlier})",
        )
    if not _each(after.get("schedulingGates", ())) <= _each(before.get("schedulingGates", ())):
        problems.forbidden("spec.schedulingGates", "only deletion is allowed, but found new scheduling gate")
    if _fixed(before, before) != _fixed(after, before):
        problems.forbidden("spec", _MUTABLE_WORDS)


def _each(elements: Iterable[_Map]) -> set[bytes]:
    """To be compared as sets are, which takes no longer than to read them."""
    return {msgspec.json.encode(element, order="sorted") for element in elements}


def _fixed(spec: _Map, before: _Map) -> _Map:
    """The spec without what may change."""
    changeable = {"activeDeadlineSeconds", "tolerations", "schedulingGates"}
    if before.get("terminationGracePeriodSeconds", 0) < 0:
        changeable.add("terminationGracePeriodSeconds")
    if before.get("schedulingGates"):  # nobody has looked for a node yet
        changeable |= {"nodeSelector", "affinity"}
    fixed = {key: value for key, value in spec.items() if key not in changeable}
    for key in ("containers", "initContainers"):
        if key in fixed:
            fixed[key] = [{**container, "image": ""} for container in fixed[key]]
    return fixed
