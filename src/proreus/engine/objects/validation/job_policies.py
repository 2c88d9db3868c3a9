"""What a Job says of failures and success beyond plain numbers: podFailurePolicy, successPolicy, indexes."""

from __future__ import annotations

import re
from typing import Any

from proreus.engine.objects.validation.error_list import Problems

_Map = dict[str, Any]
_MOST_RULES, _MOST_CODES, _MOST_PATTERNS = 20, 255, 20
_LONGEST_INDEXES = 65_536
_MOST_INDEXES = 100_000
_INDEXES = re.compile(r"\d{1,10}(-\d{1,10})?(,\d{1,10}(-\d{1,10})?)*")
_ACTIONS = ("Count", "FailIndex", "FailJob", "Ignore")
IMMUTABLE = ("podFailurePolicy", "successPolicy", "backoffLimitPerIndex", "maxFailedIndexes")


def defaulted_failure_policy(policy: _Map) -> _Map:
    """A condition is meant to be true where nothing else is said."""
    return {
        **policy,
        "rules": [
            {
                **rule,
                **(
                    {
                        "onPodConditions": [
                            {"status": "True", **pattern} for pattern in rule["onPodConditions"]
                        ]
                    }
                    if "onPodConditions" in rule
                    else {}
                ),
            }
            for rule in policy.get("rules", ())
        ],
    }


def check_job_policies(spec: _Map, problems: Problems) -> None:
    """Those fields of a Job that only some Jobs may have."""
    indexed = spec.get("completionMode") == "Indexed"
    for key in ("backoffLimitPerIndex", "maxFailedIndexes", "successPolicy"):
        if key in spec and not indexed:
            problems.invalid(f"spec.{key}", spec[key], "requires indexed completion mode")
    if "maxFailedIndexes" in spec and "backoffLimitPerIndex" not in spec:
        problems.required("spec.backoffLimitPerIndex", "when maxFailedIndexes is specified")
    if indexed:
        _check_sizes(spec, problems)
        if "successPolicy" in spec:
            _check_success(spec, problems)
    policy = spec.get("template", {}).get("spec", {}).get("restartPolicy")
    for key in ("podFailurePolicy", "backoffLimitPerIndex"):
        if key in spec and policy != "Never":
            problems.invalid(
                "spec.template.spec.restartPolicy",
                policy,
                f'only "Never" is supported when {key} is specified',
            )
            break
    if "podFailurePolicy" in spec:
        _check_failure(spec, problems)


def _check_sizes(spec: _Map, problems: Problems) -> None:
    """Indexes are written down one by one: there is an end to that."""
    for key in ("parallelism", "completions", "maxFailedIndexes"):
        if spec.get(key, 0) > _MOST_INDEXES:
            why = f"must be less than or equal to {_MOST_INDEXES} when completion mode is Indexed"
            problems.invalid(f"spec.{key}", spec[key], why)
    if spec.get("maxFailedIndexes", 0) > spec.get("completions", 0):
        problems.invalid(
            "spec.maxFailedIndexes", spec["maxFailedIndexes"], "must be less than or equal to completions"
        )


def _check_failure(spec: _Map, problems: Problems) -> None:
    rules = spec["podFailurePolicy"].get("rules") or []
    if len(rules) > _MOST_RULES:
        problems.too_long("spec.podFailurePolicy.rules", f"must have at most {_MOST_RULES} items")
        return
    if spec.get("podReplacementPolicy") != "Failed":
        problems.one_of("spec.podReplacementPolicy", spec.get("podReplacementPolicy"), ("Failed",))
    for place, rule in enumerate(rules):
        field = f"spec.podFailurePolicy.rules[{place}]"
        problems.one_of(f"{field}.action", rule.get("action", ""), _ACTIONS)
        if rule.get("action") == "FailIndex" and "backoffLimitPerIndex" not in spec:
            problems.invalid(f"{field}.action", "FailIndex", "requires the backoffLimitPerIndex to be set")
        if ("onExitCodes" in rule) == bool(rule.get("onPodConditions")):
            problems.invalid(field, rule, "specifying one of OnExitCodes and OnPodConditions is required")
        elif "onExitCodes" in rule:
            _check_codes(rule["onExitCodes"], f"{field}.onExitCodes", spec, problems)
        elif len(rule["onPodConditions"]) > _MOST_PATTERNS:
            problems.too_long(f"{field}.onPodConditions", f"must have at most {_MOST_PATTERNS} items")
        else:
            for number, pattern in enumerate(rule["onPodConditions"]):
                status = pattern.get("status", "")
                problems.one_of(
                    f"{field}.onPodConditions[{number}].status", status, ("False", "True", "Unknown")
                )


def _check_codes(codes: _Map, field: str, spec: _Map, problems: Problems) -> None:
    problems.one_of(f"{field}.operator", codes.get("operator", ""), ("In", "NotIn"))
    pod = spec.get("template", {}).get("spec", {})
    names = [
        container.get("name") for container in (*pod.get("containers", ()), *pod.get("initContainers", ()))
    ]
    if "containerName" in codes and codes["containerName"] not in names:
        problems.invalid(
            f"{field}.containerName",
            codes["containerName"],
            "must be one of the container or initContainer names",
        )
    values = codes.get("values") or []
    if not values:
        problems.invalid(f"{field}.values", values, "at least one value is required")
    elif len(values) > _MOST_CODES:
        problems.too_long(f"{field}.values", f"must have at most {_MOST_CODES} items")
    elif values != sorted(values):
        problems.invalid(f"{field}.values", values, "must be ordered")
    elif len(set(values)) < len(values):
        problems.duplicate(f"{field}.values", values)
    elif codes.get("operator") == "In" and 0 in values:
        problems.invalid(f"{field}.values", 0, "must not be 0 for the In operator")


def _check_success(spec: _Map, problems: Problems) -> None:
    rules = spec["successPolicy"].get("rules") or []
    if not rules:
        problems.required(
            "spec.successPolicy.rules",
            "at least one rules must be specified when the successPolicy is specified",
        )
    if len(rules) > _MOST_RULES:
        problems.too_long("spec.successPolicy.rules", f"must have at most {_MOST_RULES} items")
        return
    for place, rule in enumerate(rules):
        field = f"spec.successPolicy.rules[{place}]"
        if "succeededCount" not in rule and "succeededIndexes" not in rule:
            problems.required(field, "at least one of succeededCount or succeededIndexes must be specified")
            continue
        most = spec.get("completions", 0)
        if "succeededIndexes" in rule:
            most = _check_indexes(rule["succeededIndexes"], f"{field}.succeededIndexes", most, problems)
        count = rule.get("succeededCount")
        if count is not None:
            problems.at_least(f"{field}.succeededCount", count, 1)
            if count > most:
                why = f"must be less than or equal to {most} (the number of indexes that are meant)"
                problems.invalid(f"{field}.succeededCount", count, why)


def _check_indexes(written: str, field: str, completions: int, problems: Problems) -> int:
    """How many indexes are written there."""
    if len(written) > _LONGEST_INDEXES:
        problems.too_long(field, f"may not be more than {_LONGEST_INDEXES} bytes")
        return completions
    if not _INDEXES.fullmatch(written):
        problems.invalid(field, written, "cannot convert string to integer for index")
        return completions
    count, before = 0, -1
    for part in written.split(","):
        first, _, last = part.partition("-")
        begin, end = int(first), int(last or first)
        if not before < begin <= end or (last and begin == end):
            problems.invalid(field, written, "non-increasing order")
            return completions
        count, before = count + end - begin + 1, end
    if before >= completions:
        problems.invalid(field, written, "too large index")
        return completions
    return count
