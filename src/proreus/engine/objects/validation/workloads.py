"""Deployments, ReplicaSets and Jobs: what is filled in, what is wrong, what may not change."""

from __future__ import annotations

import re
from typing import Any

from proreus.engine.objects.selectors import selector_of
from proreus.engine.objects.validation.error_list import Problems
from proreus.engine.objects.validation.job_policies import (
    IMMUTABLE,
    check_job_policies,
    defaulted_failure_policy,
)
from proreus.engine.objects.validation.metadata import check_selector
from proreus.engine.objects.validation.pods import check_template, defaulted_spec

_Map = dict[str, Any]
_PERCENT = re.compile(r"[0-9]+%")
_QUARTER = "25%"
_DEPLOYMENT = {"replicas": 1, "revisionHistoryLimit": 10, "progressDeadlineSeconds": 600}
_JOB = {"backoffLimit": 6, "completionMode": "NonIndexed", "suspend": False, "manualSelector": False}
_NO_LIMIT = 2**31 - 1
CONTROLLER_UID, JOB_NAME = "batch.kubernetes.io/controller-uid", "batch.kubernetes.io/job-name"


def defaulted_deployment(obj: _Map) -> _Map:
    """With one replica, and a rolling update by quarters."""
    spec = {**_DEPLOYMENT, **_with_template(obj.get("spec", {}))}
    strategy = {"type": "RollingUpdate", **spec.get("strategy", {})}
    if strategy["type"] == "RollingUpdate":
        steps = {"maxUnavailable": _QUARTER, "maxSurge": _QUARTER, **strategy.get("rollingUpdate", {})}
        strategy["rollingUpdate"] = steps
    spec["strategy"] = strategy
    return {**obj, "spec": spec}


def defaulted_replica_set(obj: _Map) -> _Map:
    """With one replica."""
    return {**obj, "spec": {"replicas": 1, **_with_template(obj.get("spec", {}))}}


def defaulted_job(obj: _Map) -> _Map:
    """With one completion, one at a time, and six retries."""
    stated = obj.get("spec", {})
    spec = {**_JOB, **_with_template(stated)}
    if "completions" not in stated and "parallelism" not in stated:
        spec["completions"] = 1
    spec.setdefault("parallelism", 1)
    if "podFailurePolicy" in stated:
        spec["podFailurePolicy"] = defaulted_failure_policy(stated["podFailurePolicy"])
    if "backoffLimit" not in stated and "backoffLimitPerIndex" in stated:
        spec["backoffLimit"] = _NO_LIMIT
    spec.setdefault(
        "podReplacementPolicy", "TerminatingOrFailed" if "podFailurePolicy" not in spec else "Failed"
    )
    return {**obj, "spec": spec}


def labelled_job(obj: _Map) -> _Map:
    """A new job whose pods are known by its uid; one that brings its own selector keeps it."""
    spec, metadata = obj["spec"], obj["metadata"]
    if spec.get("manualSelector"):
        return obj
    template = spec.get("template", {})
    known = {
        CONTROLLER_UID: metadata["uid"],
        "controller-uid": metadata["uid"],
        JOB_NAME: metadata["name"],
        "job-name": metadata["name"],
    }
    of_template = template.get("metadata", {})
    labels = {**of_template.get("labels", {}), **known}
    full = {**template, "metadata": {**of_template, "labels": labels}}
    selector = spec.get("selector") or {"matchLabels": {CONTROLLER_UID: metadata["uid"]}}
    return {**obj, "spec": {**spec, "template": full, "selector": selector}}


def _with_template(spec: _Map) -> _Map:
    template = spec.get("template", {})
    return {**spec, "template": {**template, "spec": defaulted_spec(template.get("spec", {}))}}


def check_deployment(obj: _Map, problems: Problems) -> None:
    """A whole Deployment."""
    spec = obj["spec"]
    _check_replicated(spec, problems)
    for key in ("revisionHistoryLimit", "progressDeadlineSeconds"):
        problems.at_least(f"spec.{key}", spec[key])
    if spec["progressDeadlineSeconds"] <= spec.get("minReadySeconds", 0):
        problems.invalid(
            "spec.progressDeadlineSeconds",
            spec["progressDeadlineSeconds"],
            "must be greater than minReadySeconds",
        )
    strategy = spec["strategy"]
    problems.one_of("spec.strategy.type", strategy["type"], ("Recreate", "RollingUpdate"))
    steps = strategy.get("rollingUpdate")
    if strategy["type"] == "Recreate" and steps is not None:
        problems.forbidden(
            "spec.strategy.rollingUpdate", "may not be specified when strategy `type` is 'Recreate'"
        )
    elif strategy["type"] == "RollingUpdate":
        for key in ("maxUnavailable", "maxSurge"):
            check_count_or_percent(steps[key], f"spec.strategy.rollingUpdate.{key}", problems)
        if all(steps[key] in (0, "0%") for key in ("maxUnavailable", "maxSurge")):
            problems.invalid(
                "spec.strategy.rollingUpdate.maxUnavailable",
                steps["maxUnavailable"],
                "may not be 0 when `maxSurge` is 0",
            )


def check_replica_set(obj: _Map, problems: Problems) -> None:
    """A whole ReplicaSet."""
    _check_replicated(obj["spec"], problems)


def check_job(obj: _Map, problems: Problems) -> None:
    """A whole Job."""
    spec = obj["spec"]
    for key in (
        "parallelism",
        "completions",
        "activeDeadlineSeconds",
        "backoffLimit",
        "ttlSecondsAfterFinished",
        "backoffLimitPerIndex",
        "maxFailedIndexes",
    ):
        if key in spec:
            problems.at_least(f"spec.{key}", spec[key])
    problems.one_of("spec.completionMode", spec["completionMode"], ("Indexed", "NonIndexed"))
    if spec["completionMode"] == "Indexed" and "completions" not in spec:
        problems.required("spec.completions", "when completion mode is Indexed")
    template = spec.get("template", {})
    check_template(template, "spec.template", problems)
    policy = template.get("spec", {}).get("restartPolicy")
    if policy == "Always":
        problems.one_of("spec.template.spec.restartPolicy", policy, ("OnFailure", "Never"))
    else:
        check_job_policies(spec, problems)
    if "selector" in spec:
        check_selector(spec["selector"], "spec.selector", problems)


def _check_replicated(spec: _Map, problems: Problems) -> None:
    problems.at_least("spec.replicas", spec["replicas"])
    problems.at_least("spec.minReadySeconds", spec.get("minReadySeconds", 0))
    selector, template = spec.get("selector"), spec.get("template", {})
    if selector is None:
        problems.required("spec.selector")
    else:
        check_selector(selector, "spec.selector", problems)
        if not selector.get("matchLabels") and not selector.get("matchExpressions"):
            problems.invalid("spec.selector", selector, "empty selector is invalid for deployment")
        elif not problems.causes and not selector_of(selector).matches(
            template.get("metadata", {}).get("labels", {})
        ):
            problems.invalid(
                "spec.template.metadata.labels",
                template.get("metadata", {}).get("labels", {}),
                "`selector` does not match template `labels`",
            )
    check_template(template, "spec.template", problems)
    policy = template.get("spec", {}).get("restartPolicy", "Always")
    if policy != "Always":
        problems.one_of("spec.template.spec.restartPolicy", policy, ("Always",))
    if template.get("spec", {}).get("activeDeadlineSeconds") is not None:
        problems.forbidden(
            "spec.template.spec.activeDeadlineSeconds",
            "activeDeadlineSeconds in ReplicaSet is not Supported",
        )


def check_count_or_percent(value: Any, field: str, problems: Problems) -> None:
    """A number of pods, or a share of them."""
    if isinstance(value, int):
        problems.at_least(field, value)
    elif not _PERCENT.fullmatch(value):
        problems.invalid(
            field,
            value,
            "a valid percent string must be a numeric string followed by an ending '%' (e.g. '1%',  or "
            "'93%', regex used for validation is '[0-9]+%')",
        )
    elif "maxUnavailable" in field and int(value[:-1]) > 100:
        problems.invalid(field, value, "must not be greater than 100%")


def check_selector_kept(old: _Map, new: _Map, problems: Problems) -> None:
    """Which pods are its own does not change."""
    if old["spec"].get("selector") != new["spec"].get("selector"):
        problems.invalid("spec.selector", new["spec"].get("selector"), "field is immutable")


def check_job_update(old: _Map, new: _Map, problems: Problems) -> None:
    """Of a job its selector, template and number of completions stay."""
    check_selector_kept(old, new, problems)
    before, after = old["spec"], new["spec"]
    if before.get("template") != after.get("template") and not _may_be_retargeted(old):
        problems.invalid("spec.template", after.get("template"), "field is immutable")
    if before.get("completions") != after.get("completions") and before["completionMode"] != "Indexed":
        problems.invalid("spec.completions", after.get("completions"), "field is immutable")
    for key in ("completionMode", *IMMUTABLE):
        if before.get(key) != after.get(key):
            problems.invalid(f"spec.{key}", after.get(key), "field is immutable")


def _may_be_retargeted(job: _Map) -> bool:
    """Suspended and never begun: where its pods go may still be chosen."""
    return bool(job["spec"].get("suspend")) and "startTime" not in job.get("status", {})
