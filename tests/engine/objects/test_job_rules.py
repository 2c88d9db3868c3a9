"""What may be said of a Job's failures and of its success."""

from __future__ import annotations

from typing import Any

import pytest

from proreus.engine.objects.errors import Invalid
from proreus.engine.objects.kinds import JOB
from proreus.engine.objects.registry import Registry
from tests.engine.objects.worlds import with_registry

_CONTAINERS = [{"name": "main", "image": "a"}]
_CODES = {"operator": "In", "values": [1, 42]}


def _job(restart: str = "Never", **spec: Any) -> dict[str, Any]:
    template = {"spec": {"restartPolicy": restart, "containers": _CONTAINERS}}
    return {"metadata": {"name": "sum", "namespace": "default"}, "spec": {"template": template, **spec}}


def _indexed(**spec: Any) -> dict[str, Any]:
    return _job(completionMode="Indexed", completions=5, **spec)


def _failing(*rules: dict[str, Any], **spec: Any) -> dict[str, Any]:
    return _job(podFailurePolicy={"rules": list(rules)}, **spec)


def _succeeding(**rule: Any) -> dict[str, Any]:
    return _indexed(successPolicy={"rules": [rule]})


def _on_codes(**codes: Any) -> dict[str, Any]:
    return _failing({"action": "FailJob", "onExitCodes": {**_CODES, **codes}})


_RULES = "spec.podFailurePolicy.rules"
REFUSED = [
    (_job(backoffLimitPerIndex=1), "spec.backoffLimitPerIndex", "requires indexed completion mode"),
    (_job(successPolicy={"rules": [{"succeededCount": 1}]}), "spec.successPolicy", "requires indexed"),
    (_indexed(maxFailedIndexes=1), "spec.backoffLimitPerIndex", "when maxFailedIndexes is specified"),
    (_indexed(backoffLimitPerIndex=1, maxFailedIndexes=6), "spec.maxFailedIndexes", "equal to completions"),
    (_job(completionMode="Indexed", completions=100_001), "spec.completions", "less than or equal to 100000"),
    (
        _job("OnFailure", podFailurePolicy={"rules": []}),
        "spec.template.spec.restartPolicy",
        'only "Never" is supported when podFailurePolicy is specified',
    ),
    (_failing({"action": "Wait", "onExitCodes": _CODES}), f"{_RULES}[0].action", "Unsupported value"),
    (_failing({"action": "FailIndex", "onExitCodes": _CODES}), f"{_RULES}[0].action", "backoffLimitPerIndex"),
    (_failing({"action": "Ignore"}), f"{_RULES}[0]", "one of OnExitCodes and OnPodConditions"),
    (_failing(*[{"action": "Count", "onExitCodes": _CODES}] * 21), _RULES, "at most 20 items"),
    (_failing(podReplacementPolicy="TerminatingOrFailed"), "spec.podReplacementPolicy", "Unsupported value"),
    (_on_codes(operator="Above"), f"{_RULES}[0].onExitCodes.operator", "Unsupported value"),
    (_on_codes(containerName="other"), f"{_RULES}[0].onExitCodes.containerName", "must be one of the"),
    (_on_codes(values=[]), f"{_RULES}[0].onExitCodes.values", "at least one value"),
    (_on_codes(values=[2, 1]), f"{_RULES}[0].onExitCodes.values", "must be ordered"),
    (_on_codes(values=[1, 1]), f"{_RULES}[0].onExitCodes.values", "Duplicate"),
    (_on_codes(values=[0]), f"{_RULES}[0].onExitCodes.values", "must not be 0 for the In operator"),
    (_succeeding(), "spec.successPolicy.rules[0]", "at least one of succeededCount or succeededIndexes"),
    (
        _succeeding(succeededCount=0),
        "spec.successPolicy.rules[0].succeededCount",
        "greater than or equal to 1",
    ),
    (_succeeding(succeededCount=6), "spec.successPolicy.rules[0].succeededCount", "less than or equal to 5"),
    (_succeeding(succeededIndexes="a"), "spec.successPolicy.rules[0].succeededIndexes", "cannot convert"),
    (_succeeding(succeededIndexes="3,1"), "spec.successPolicy.rules[0].succeededIndexes", "non-increasing"),
    (_succeeding(succeededIndexes="0-5"), "spec.successPolicy.rules[0].succeededIndexes", "too large index"),
    (
        _succeeding(succeededIndexes="0,2", succeededCount=3),
        "spec.successPolicy.rules[0].succeededCount",
        "less than or equal to 2",
    ),
]


@pytest.mark.parametrize(("job", "field", "says"), REFUSED, ids=[f"{one[1]}: {one[2]}" for one in REFUSED])
def test_what_cannot_be_meant_is_refused(job: dict[str, Any], field: str, says: str) -> None:
    with pytest.raises(Invalid) as refused:
        with_registry(lambda registry: registry.create(JOB, job))
    assert [says in cause.message for cause in refused.value.causes if cause.field == field] == [True]


def test_what_is_not_said_is_filled_in_and_stays() -> None:
    pattern = {"action": "Ignore", "onPodConditions": [{"type": "DisruptionTarget"}]}
    job = _indexed(backoffLimitPerIndex=1, podFailurePolicy={"rules": [pattern]})

    async def play(registry: Registry) -> dict[str, Any]:
        made = await registry.create(JOB, job)
        changed = {**made, "spec": {**made["spec"], "backoffLimitPerIndex": 2}}
        with pytest.raises(Invalid, match="field is immutable"):
            await registry.replace(JOB, changed)
        return made

    spec = with_registry(play)["spec"]
    assert (spec["backoffLimit"], spec["podReplacementPolicy"]) == (2**31 - 1, "Failed")
    (rule,) = spec["podFailurePolicy"]["rules"]
    assert rule["onPodConditions"] == [{"type": "DisruptionTarget", "status": "True"}]
