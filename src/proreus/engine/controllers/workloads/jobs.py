"""A Job: pods until enough have succeeded, or too many failed, or it took too long."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from typing import Any

from proreus.engine.controllers.instructions import (
    CreateObject,
    DeleteObject,
    Instruction,
    ReconcileResult,
    RecordEvent,
    UpdateObject,
    sooner,
)
from proreus.engine.controllers.workloads.job_failure_policy import (
    FAIL_JOB,
    counts,
    failed,
    given_up,
    matched,
    replaces_only_ended,
)
from proreus.engine.controllers.workloads.job_indexes import (
    completions_of,
    counts_after,
    failed_indexes,
    index_of,
    kept_for_their_counts,
    last_failures,
    limits_each_index,
    met_by,
    succeeded_indexes,
    tries_before,
    write_indexes,
)
from proreus.engine.controllers.workloads.job_pods import (
    CONTROLLER_UID,
    FINALIZER,
    JobTally,
    counted_on,
    failures_in_a_row,
    finished_at,
    job_pod,
    restarts_of,
    standing_tally,
    tracked,
)
from proreus.engine.controllers.workloads.pods import active, claim, first_to_go, phase_of
from proreus.engine.objects.conditions import Condition, find_condition, holds, moment_of, with_conditions
from proreus.engine.objects.kinds import JOB, POD
from proreus.engine.objects.metadata import Object, deleting, read_selector, uid_of, without_finalizer
from proreus.engine.objects.timestamps import parse_timestamp, timestamp
from proreus.model.selectors import match_labels

FIRST_PAUSE, LONGEST_PAUSE = 10.0, 600.0
"""Seconds between a failure and the next pod; twice as long with each failure in a row."""
MOST_AT_ONCE = 500
_ENDS = ("Complete", "Failed")
"""Conditions of a Job that is over."""


@dataclass(frozen=True)
class _Seen:
    """A Job and what has become of its pods by now."""

    job: Object
    pods: Sequence[Object]
    tally: JobTally
    indexes: frozenset[int]
    """That have succeeded; of an Indexed Job only."""
    lost: frozenset[int]
    """Indexes that have failed for good."""
    now: float

    @property
    def living(self) -> list[Object]:
        """Pods that work on it."""
        return [pod for pod in self.pods if active(pod)]

    @property
    def leaving(self) -> list[Object]:
        """Pods on their way out that have not ended."""
        ended = ("Succeeded", "Failed")
        return [
            pod for pod in self.pods if deleting(pod) and not given_up(pod) and phase_of(pod) not in ended
        ]

    @property
    def indexed(self) -> bool:
        """Whether each completion is another."""
        return bool(self.job["spec"].get("completionMode") == "Indexed")

    @property
    def succeeded(self) -> int:
        """How far it is."""
        return len(self.indexes) if self.indexed else self.tally.all_succeeded


def reconcile_job(job: Object, pods: Iterable[Object], now: float) -> ReconcileResult:
    """What brings the Job on: pods made or ended, their ends counted, its status."""
    # A Job that states no selector has the pods that carry its uid, as the API server would have it.
    selector = read_selector(job["spec"].get("selector")) or match_labels({CONTROLLER_UID: uid_of(job)})
    mine, instructions = claim(JOB, job, selector, pods, POD)
    if any(holds(job, kind) for kind in _ENDS):
        instructions += _let_go(job, mine, everything=True)
        return _after_the_end(job, instructions, now)
    standing = standing_tally(job)
    done = succeeded_indexes(job, mine)
    lost = failed_indexes(job, mine, done)
    kept = kept_for_their_counts(job, mine, done | lost)
    instructions += _let_go(job, mine, everything=deleting(job), but=kept)
    if deleting(job):
        return ReconcileResult(tuple(instructions))
    seen = _Seen(job, mine, counted_on(job, standing, mine), done, lost, now)
    verdict = _verdict(seen)
    if verdict is None:
        seen = replace(seen, tally=counted_on(job, standing, mine, kept))
    suspended = bool(job["spec"].get("suspend")) and verdict is None
    wait: float | None = None
    if verdict is not None or suspended:
        instructions += [DeleteObject(POD, pod) for pod in seen.living]
    else:
        made, wait = _manage(seen)
        instructions += made
    status = _status(seen, verdict, suspended=suspended)
    if status != (job.get("status") or {}):
        instructions += _noted(job, status)
        instructions.append(UpdateObject(JOB, {**job, "status": status}, "status"))
    return ReconcileResult(tuple(instructions), sooner(wait, _seconds_to_deadline(job, status, now)))


def _manage(seen: _Seen) -> tuple[list[Instruction], float | None]:
    """As many pods as may work on it now; after failures only when their pause is over."""
    spec, living = seen.job["spec"], seen.living
    parallelism = _number(spec.get("parallelism"), 1)
    completions = spec.get("completions")
    if completions is None:
        wanted = len(living) if seen.succeeded else parallelism
    else:
        wanted = min(parallelism, max(0, int(completions) - seen.succeeded - len(seen.lost)))
    misplaced = _misplaced(seen) if seen.indexed else []
    if misplaced:
        return [DeleteObject(POD, pod) for pod in misplaced], None
    if len(living) > wanted:
        return [DeleteObject(POD, pod) for pod in first_to_go(living)[: len(living) - wanted]], None
    occupied = len(living) + (len(seen.leaving) if replaces_only_ended(seen.job) else 0)
    missing = min(wanted - occupied, MOST_AT_ONCE)
    if missing <= 0:
        return [], None
    if limits_each_index(seen.job):
        return _next_tries(seen, missing)
    left = _seconds_of_pause(*failures_in_a_row(seen.job, seen.pods), seen.now)
    if left > 0:
        return [], left
    if not seen.indexed:
        return [CreateObject(POD, job_pod(seen.job))] * missing, None
    return [CreateObject(POD, job_pod(seen.job, index)) for index in _free_indexes(seen)[:missing]], None


def _next_tries(seen: _Seen, missing: int) -> tuple[list[Instruction], float | None]:
    """Each index after a pause of its own."""
    made: list[Instruction] = []
    wait: float | None = None
    failures = last_failures(seen.job, seen.pods)
    for index in _free_indexes(seen):
        if len(made) == missing:
            break
        last = failures.get(index)
        left = 0.0
        if last is not None:
            left = _seconds_of_pause(tries_before(last) + 1, finished_at(last), seen.now)
        if left > 0:
            wait = sooner(wait, left)
        else:
            made.append(CreateObject(POD, job_pod(seen.job, index, counts_after(seen.job, last))))
    return made, wait


def _seconds_of_pause(failures: int, last: float, now: float) -> float:
    """How long it is until the next try after so many failures, of which this was the last."""
    if not failures:
        return 0.0
    return last + min(FIRST_PAUSE * 2.0 ** min(failures - 1, 10), LONGEST_PAUSE) - now


def _free_indexes(seen: _Seen) -> list[int]:
    """Indexes that nobody works on, and somebody is to."""
    busy = [*seen.living, *(seen.leaving if replaces_only_ended(seen.job) else ())]
    taken = seen.indexes | seen.lost | {index_of(pod) for pod in busy}
    return [index for index in range(completions_of(seen.job)) if index not in taken]


def _misplaced(seen: _Seen) -> list[Object]:
    """Living pods of no index, of one that is no longer wanted, or of one that another works on."""
    kept: set[int] = set()
    pods = []
    for pod in reversed(first_to_go(seen.living)):
        index = index_of(pod)
        if index is None or index >= completions_of(seen.job) or index in kept:
            pods.append(pod)
        else:
            kept.add(index)
    return pods


def _verdict(seen: _Seen) -> Condition | None:
    """Whether it is decided: what it will be called once all its pods have ended."""
    for kind in ("FailureTarget", "SuccessCriteriaMet"):
        decided = find_condition(seen.job, kind)
        if decided is not None and decided["status"] == "True":
            return Condition(kind, "True", decided.get("reason", ""), decided.get("message", ""))
    spec = seen.job["spec"]
    for pod in seen.pods:
        met = matched(seen.job, pod) if failed(seen.job, pod) else None
        if met is not None and met.action == FAIL_JOB:
            return Condition("FailureTarget", "True", "PodFailurePolicy", met.told)
    limit = _number(spec.get("backoffLimit"), 6)
    on_failure = spec["template"]["spec"].get("restartPolicy") == "OnFailure"
    restarts = restarts_of(seen.living) if on_failure else 0
    if seen.tally.all_failed > limit or (restarts > 0 and restarts >= limit):
        message = "Job has reached the specified backoff limit"
        return Condition("FailureTarget", "True", "BackoffLimitExceeded", message)
    remaining = _seconds_to_deadline(seen.job, seen.job.get("status") or {}, seen.now)
    if remaining == 0.0:
        message = "Job was active longer than specified deadline"
        return Condition("FailureTarget", "True", "DeadlineExceeded", message)
    if seen.indexed:
        decided_by_indexes = _verdict_by_indexes(seen)
        if decided_by_indexes is not None:
            return decided_by_indexes
    completions = spec.get("completions")
    if completions is None:
        done = seen.succeeded > 0 and not seen.living
    else:
        done = seen.succeeded >= int(completions)
    if done:
        message = "Reached expected number of succeeded pods"
        return Condition("SuccessCriteriaMet", "True", "CompletionsReached", message)
    return None


def _verdict_by_indexes(seen: _Seen) -> Condition | None:
    """Whether too many indexes have failed, or enough have succeeded."""
    spec = seen.job["spec"]
    most = spec.get("maxFailedIndexes")
    if most is not None and len(seen.lost) > int(most):
        message = "Job has exceeded the specified maximal number of failed indexes"
        return Condition("FailureTarget", "True", "MaxFailedIndexesExceeded", message)
    if seen.lost and len(seen.lost) + len(seen.indexes) >= completions_of(seen.job):
        return Condition("FailureTarget", "True", "FailedIndexes", "Job has failed indexes")
    met = met_by(seen.job, seen.indexes)
    return Condition("SuccessCriteriaMet", "True", "SuccessPolicy", met) if met else None


def _status(seen: _Seen, verdict: Condition | None, *, suspended: bool) -> dict[str, Any]:
    job, tally = seen.job, seen.tally
    before = job.get("status") or {}
    told_at_zero = {
        "ready": sum(holds(pod, "Ready") for pod in seen.living),
        "terminating": len(seen.leaving),
    }
    numbers = {
        "active": len(seen.living),
        "succeeded": len(seen.indexes) if seen.indexed else tally.succeeded,
        "failed": tally.failed,
    }
    status: dict[str, Any] = told_at_zero | {name: number for name, number in numbers.items() if number}
    status["uncountedTerminatedPods"] = {
        name: sorted(uids)
        for name, uids in (("succeeded", tally.uncounted_succeeded), ("failed", tally.uncounted_failed))
        if uids
    }
    if seen.indexed:
        status["completedIndexes"] = write_indexes(seen.indexes)
    if limits_each_index(job):
        status["failedIndexes"] = write_indexes(seen.lost)
    started = None if suspended else before.get("startTime") or timestamp(seen.now)
    if started is not None:
        status["startTime"] = started
    wanted = [] if verdict is None else [verdict]
    if suspended:
        wanted.append(Condition("Suspended", "True", "JobSuspended", "Job suspended"))
    elif holds(job, "Suspended"):
        wanted.append(Condition("Suspended", "False", "JobResumed", "Job resumed"))
    all_counted = not tally.uncounted_succeeded and not tally.uncounted_failed
    if verdict is not None and all_counted and not seen.living and not seen.leaving:
        complete = verdict.type == "SuccessCriteriaMet"
        end = "Complete" if complete else "Failed"
        wanted.append(Condition(end, "True", verdict.reason, verdict.message))
        if complete:
            status["completionTime"] = timestamp(seen.now)
    conditions = with_conditions(before.get("conditions") or (), wanted, seen.now)
    if conditions:
        status["conditions"] = [_probed(condition) for condition in conditions]
    return status


def _let_go(
    job: Object, pods: Sequence[Object], *, everything: bool, but: frozenset[str] = frozenset()
) -> list[Instruction]:
    """Pods that were written down, or need not be, lose the finalizer that kept them for it."""
    uncounted = (job.get("status") or {}).get("uncountedTerminatedPods") or {}
    known = {*(uncounted.get("succeeded") or ()), *(uncounted.get("failed") or ())}
    instructions: list[Instruction] = []
    for pod in pods:
        overlooked = failed(job, pod) and not counts(job, pod) and uid_of(pod) not in but
        if tracked(pod) and (everything or overlooked or uid_of(pod) in known):
            free = without_finalizer(pod, FINALIZER)
            if free is not None:
                instructions.append(UpdateObject(POD, free))
    return instructions


def _after_the_end(job: Object, instructions: list[Instruction], now: float) -> ReconcileResult:
    """It is kept as long as it says, then deleted with its pods."""
    limit = job["spec"].get("ttlSecondsAfterFinished")
    ended = _finished(job)
    if limit is None or ended is None or deleting(job):
        return ReconcileResult(tuple(instructions))
    left = ended + float(limit) - now
    if left > 0:
        return ReconcileResult(tuple(instructions), left)
    return ReconcileResult((*instructions, DeleteObject(JOB, job, propagation="Foreground")))


def _finished(job: Object) -> float | None:
    """When it ended; None: it has not, or nobody says when, and it is left alone."""
    ends = [condition for kind in _ENDS if holds(job, kind) and (condition := find_condition(job, kind))]
    return moment_of(ends[0]) if ends else None


def _seconds_to_deadline(job: Object, status: dict[str, Any], now: float) -> float | None:
    limit = job["spec"].get("activeDeadlineSeconds")
    if limit is None or status.get("startTime") is None or job["spec"].get("suspend"):
        return None
    return max(0.0, parse_timestamp(status["startTime"]) + float(limit) - now)


def _noted(job: Object, status: dict[str, Any]) -> list[Instruction]:
    """What people are told once: that it was suspended or resumed, that it ended."""
    events = {"Suspended": ("Normal", "Suspended"), "Complete": ("Normal", "Completed")}
    notes: list[Instruction] = []
    for condition in status.get("conditions") or ():
        kind = condition.get("type", "")
        before = find_condition(job, kind)
        if before is not None and before.get("status") == condition.get("status"):
            continue
        if kind == "Failed":
            notes.append(
                RecordEvent(JOB, job, "Warning", condition.get("reason", ""), condition.get("message", ""))
            )
        elif kind in events and condition.get("status") == "True":
            message = "Job completed" if kind == "Complete" else condition.get("message", "")
            notes.append(RecordEvent(JOB, job, *events[kind], message))
    return notes


def _probed(condition: dict[str, Any]) -> dict[str, Any]:
    """A Job's conditions also tell when they were looked at: here, when they changed."""
    changed = condition.get("lastTransitionTime")
    return {"lastProbeTime": changed, **condition} if changed else condition


def _number(stated: object, unstated: int) -> int:
    return unstated if stated is None else int(str(stated))
