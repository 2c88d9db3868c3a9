"""The indexes of an Indexed Job: which are done, which have failed for good, and how often each was tried."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from proreus.engine.controllers.workloads.job_failure_policy import (
    FAIL_INDEX,
    IGNORE,
    counts,
    failed,
    matched,
)
from proreus.engine.controllers.workloads.pods import active, phase_of
from proreus.engine.objects.metadata import Object, annotations_of, created, uid_of

INDEX = "batch.kubernetes.io/job-completion-index"
FAILURES = "batch.kubernetes.io/job-index-failure-count"
IGNORED = "batch.kubernetes.io/job-index-ignored-failure-count"
"""Annotations of a pod whose Job limits the failures of each index: how many there were before it."""


def index_of(pod: Object) -> int | None:
    """Which completion an Indexed Job's pod is for."""
    stated = annotations_of(pod).get(INDEX, "")
    return int(stated) if stated.isdecimal() else None


def read_indexes(written: str, below: int) -> set[int]:
    """ "0,3-5" as numbers, as far as they are indexes of the Job; what cannot be read is none."""
    range_: set[int] = set()
    for part in written.split(","):
        first, _, last = part.partition("-")
        if first.isdecimal() and (last or first).isdecimal():
            range_.update(range(int(first), min(int(last or first), below - 1) + 1))
    return range_


def write_indexes(indexes: Iterable[int]) -> str:
    """Numbers as "0,1,3-5": three and more in a row are told by their ends."""
    runs: list[list[int]] = []
    for index in sorted(indexes):
        if runs and runs[-1][1] == index - 1:
            runs[-1][1] = index
        else:
            runs.append([index, index])
    return ",".join(
        f"{first}-{last}" if last > first + 1 else ",".join(map(str, range(first, last + 1)))
        for first, last in runs
    )


def succeeded_indexes(job: Object, pods: Sequence[Object]) -> frozenset[int]:
    """Those that are done."""
    known = _stated_indexes(job, "completedIndexes")
    done = {index_of(pod) for pod in pods if phase_of(pod) == "Succeeded"}
    return frozenset(known | {index for index in done if index is not None})


def limits_each_index(job: Object) -> bool:
    """Whether each index may fail so often by itself."""
    return job["spec"].get("backoffLimitPerIndex") is not None


def failed_indexes(job: Object, pods: Sequence[Object], succeeded: frozenset[int]) -> frozenset[int]:
    """Those that are not tried again; only where each index has a limit of its own."""
    if not limits_each_index(job):
        return frozenset()
    known = _stated_indexes(job, "failedIndexes")
    lost = {index_of(pod) for pod in pods if _ends_its_index(job, pod)}
    return frozenset(known | {index for index in lost if index is not None}) - succeeded


def _ends_its_index(job: Object, pod: Object) -> bool:
    if not counts(job, pod):
        return False
    met = matched(job, pod)
    if met is not None and met.action == FAIL_INDEX:
        return True
    return _stated(pod, FAILURES) >= int(job["spec"]["backoffLimitPerIndex"])


def last_failures(job: Object, pods: Sequence[Object]) -> dict[int, Object]:
    """The last attempt at each index where that has failed, and nobody has taken its place."""
    by_index: dict[int, list[Object]] = {}
    for pod in pods:
        index = index_of(pod)
        if index is not None:
            by_index.setdefault(index, []).append(pod)
    failures = {}
    for index, attempts in by_index.items():
        ended = [pod for pod in attempts if failed(job, pod)]
        if ended and not any(active(pod) or phase_of(pod) == "Succeeded" for pod in attempts):
            failures[index] = max(ended, key=lambda pod: (tries_before(pod), created(pod), uid_of(pod)))
    return failures


def tries_before(pod: Object) -> int:
    """How often its index had failed before it, for whatever reason."""
    return _stated(pod, FAILURES) + _stated(pod, IGNORED)


def counts_after(job: Object, last: Object | None) -> dict[str, str]:
    """The annotations of the next pod of an index, after the last one failed."""
    if last is None:
        return {FAILURES: "0"}
    met = matched(job, last)
    ignored = met is not None and met.action == IGNORE
    annotations = {FAILURES: str(_stated(last, FAILURES) + (not ignored))}
    overlooked = _stated(last, IGNORED) + ignored
    return annotations | ({IGNORED: str(overlooked)} if overlooked else {})


def kept_for_their_counts(job: Object, pods: Sequence[Object], over: frozenset[int]) -> frozenset[str]:
    """Failed pods whose objects must not go yet: the next attempt at their index reads on from them."""
    if not limits_each_index(job):
        return frozenset()
    return frozenset(uid_of(pod) for index, pod in last_failures(job, pods).items() if index not in over)


def met_by(job: Object, succeeded: frozenset[int]) -> str:
    """Which rule of its successPolicy an Indexed Job meets, in words; "": none."""
    for place, rule in enumerate((job["spec"].get("successPolicy") or {}).get("rules") or ()):
        stated, enough = rule.get("succeededIndexes"), rule.get("succeededCount")
        meant = read_indexes(stated or "", completions_of(job))
        among = succeeded if stated is None else succeeded & meant
        wanted = int(enough) if enough is not None else len(meant)
        if len(among) >= wanted > 0:
            return f"Matched rules at index {place}"
    return ""


def completions_of(job: Object) -> int:
    """How many indexes it has."""
    return int(job["spec"].get("completions") or 0)


def _stated_indexes(job: Object, field: str) -> set[int]:
    return read_indexes((job.get("status") or {}).get(field) or "", completions_of(job))


def _stated(pod: Object, annotation: str) -> int:
    stated = annotations_of(pod).get(annotation, "")
    return int(stated) if stated.isdecimal() else 0
