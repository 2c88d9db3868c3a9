"""The pods of a Job: which have ended and how, which are counted, and what the next one looks like."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from proreus.engine.controllers.workloads.job_failure_policy import counts, failed
from proreus.engine.controllers.workloads.job_indexes import INDEX
from proreus.engine.controllers.workloads.pods import phase_of, pod_from
from proreus.engine.objects.conditions import find_condition, moment_of
from proreus.engine.objects.kinds import JOB
from proreus.engine.objects.metadata import Object, created, deleting, name_of, uid_of
from proreus.engine.objects.timestamps import parse_timestamp

FINALIZER = "batch.kubernetes.io/job-tracking"
CONTROLLER_UID, JOB_NAME = "batch.kubernetes.io/controller-uid", "batch.kubernetes.io/job-name"
_LEGACY = ("controller-uid", "job-name")


@dataclass(frozen=True)
class JobTally:
    """How the pods of a Job ended, each counted once, however often one looks and whoever deletes them.

    A pod that ended is first written down as uncounted, then loses its finalizer, and is then counted; until
    that its object cannot go.
    """

    succeeded: int
    """Counted, as `failed`."""
    failed: int
    uncounted_succeeded: frozenset[str]
    uncounted_failed: frozenset[str]

    @property
    def all_succeeded(self) -> int:
        """Those that are still to be counted with them."""
        return self.succeeded + len(self.uncounted_succeeded)

    @property
    def all_failed(self) -> int:
        """Those that are still to be counted with them."""
        return self.failed + len(self.uncounted_failed)


def standing_tally(job: Object) -> JobTally:
    """As the Job's status states it."""
    status = job.get("status") or {}
    uncounted = status.get("uncountedTerminatedPods") or {}
    return JobTally(
        int(status.get("succeeded") or 0),
        int(status.get("failed") or 0),
        frozenset(uncounted.get("succeeded") or ()),
        frozenset(uncounted.get("failed") or ()),
    )


def counted_on(
    job: Object, standing: JobTally, pods: Sequence[Object], later: frozenset[str] = frozenset()
) -> JobTally:
    """The tally with what can be counted now, and with what has ended since; later: not yet these."""
    held = {uid_of(pod): pod for pod in pods if tracked(pod)}
    known = standing.uncounted_succeeded | standing.uncounted_failed | later
    ended = [pod for uid, pod in held.items() if uid not in known]
    return JobTally(
        standing.succeeded + len(standing.uncounted_succeeded - held.keys()),
        standing.failed + len(standing.uncounted_failed - held.keys()),
        (standing.uncounted_succeeded & held.keys())
        | {uid_of(pod) for pod in ended if phase_of(pod) == "Succeeded"},
        (standing.uncounted_failed & held.keys()) | {uid_of(pod) for pod in ended if counts(job, pod)},
    )


def tracked(pod: Object) -> bool:
    """Whether it is still to be counted."""
    return FINALIZER in (pod["metadata"].get("finalizers") or ())


def finished_at(pod: Object) -> float:
    """When it ended, as well as can be told."""
    ended = [
        (container_status.get("state") or {}).get("terminated")
        for container_status in (pod.get("status") or {}).get("containerStatuses") or ()
    ]
    moments = [(end or {}).get("finishedAt") for end in ended]
    if moments and all(moments):
        return max(parse_timestamp(moment) for moment in moments if moment)
    condition = find_condition(pod, "Ready")
    since = moment_of(condition) if condition is not None and condition["status"] == "False" else None
    if since is not None:
        return since
    metadata = pod["metadata"]
    if deleting(pod):
        grace = float(metadata.get("deletionGracePeriodSeconds") or 0)
        return parse_timestamp(metadata["deletionTimestamp"]) - grace
    return created(pod)


def failures_in_a_row(job: Object, pods: Sequence[Object]) -> tuple[int, float]:
    """How many pods failed since the last success, and when the last one did."""
    success = max((finished_at(pod) for pod in pods if phase_of(pod) == "Succeeded"), default=0.0)
    failures = [moment for pod in pods if failed(job, pod) and (moment := finished_at(pod)) > success]
    return len(failures), max(failures, default=0.0)


def restarts_of(pods: Iterable[Object]) -> int:
    """How often containers of these pods were run again."""
    total = 0
    for pod in pods:
        status = pod.get("status") or {}
        for field in ("initContainerStatuses", "containerStatuses"):
            total += sum(int(container.get("restartCount") or 0) for container in status.get(field) or ())
    return total


def job_pod(job: Object, index: int | None = None, counted: Mapping[str, str] | None = None) -> Object:
    """The next pod; of an Indexed Job with its index, and with what is counted of that as annotations."""
    labels = {CONTROLLER_UID: uid_of(job), JOB_NAME: name_of(job)}
    labels |= dict(zip(_LEGACY, labels.values(), strict=True))
    template = job["spec"]["template"]
    if index is None:
        return pod_from(JOB, job, template, labels=labels, finalizers=[FINALIZER])
    spec = template["spec"]
    indexed = {
        **spec,
        "hostname": spec.get("hostname") or f"{name_of(job)}-{index}",
        "containers": [_with_index(container, index) for container in spec["containers"]],
    }
    if spec.get("initContainers"):
        indexed["initContainers"] = [
            _with_index(init_container, index) for init_container in spec["initContainers"]
        ]
    return pod_from(
        JOB,
        job,
        {**template, "spec": indexed},
        labels=labels | {INDEX: str(index)},
        annotations={INDEX: str(index), **(counted or {})},
        finalizers=[FINALIZER],
        generateName=f"{name_of(job)}-{index}-",
    )


def _with_index(container: Mapping[str, Any], index: int) -> dict[str, Any]:
    others = [
        variable for variable in container.get("env") or () if variable["name"] != "JOB_COMPLETION_INDEX"
    ]
    return {**container, "env": [*others, {"name": "JOB_COMPLETION_INDEX", "value": str(index)}]}
