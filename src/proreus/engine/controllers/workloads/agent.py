"""The agent of one workload, without I/O: it is shown what stands, and says what is to be done about it.

What it remembers beside that is how its last attempts went: it looks again only when it can see what it has
done itself, and later each time that it was refused.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from proreus.engine.controllers.instructions import CreateObject, Instruction, ReconcileResult, RecordEvent
from proreus.engine.controllers.workloads.deployments import reconcile_deployment
from proreus.engine.controllers.workloads.jobs import reconcile_job
from proreus.engine.controllers.workloads.replica_sets import reconcile_replica_set
from proreus.engine.objects.errors import Conflict, NotFound, StatusError
from proreus.engine.objects.kinds import DEPLOYMENT, JOB, POD, REPLICA_SET, Kind
from proreus.engine.objects.metadata import Object
from proreus.engine.objects.registry import Outcome

_FIRST_PAUSE, _LONGEST_PAUSE = 0.2, 60.0
_MOST_WORDS = 1024
_MOST_NOTES = 10
"""Events of pods made at once: enough to see, not enough to drown the store."""


@dataclass(frozen=True)
class OwnedObjects:
    """What a workload may own: its ReplicaSets (of a Deployment only) and its pods."""

    replica_sets: Sequence[Object] = ()
    pods: Sequence[Object] = ()


@dataclass
class TaskAgent:
    kind: Kind
    failure: str = ""
    """Why the last attempt at making something was refused."""
    refusals: int = 0
    """How many attempts in a row were."""
    not_before: float = 0.0
    """It need not look again before this moment of the steady clock."""
    must_see: dict[Kind, int] = field(default_factory=dict)
    """The revision of its own last write, by kind: it looks only at what is as new."""

    def look(self, workload: Object, around: OwnedObjects, now: float) -> ReconcileResult:
        """What is to be done, and when to look again."""
        match self.kind:
            case _ if self.kind is DEPLOYMENT:
                plan = reconcile_deployment(workload, around.replica_sets, around.pods, now, self.failure)
            case _ if self.kind is REPLICA_SET:
                plan = reconcile_replica_set(workload, around.pods, now, self.failure)
            case _ if self.kind is JOB:
                plan = reconcile_job(workload, around.pods, now)
            case _:
                raise ValueError(f"a {self.kind.kind} is no workload")
        return plan

    def can_see(self, revisions: Mapping[Kind, int]) -> bool:
        """Whether what is known is as new as what it has done."""
        return all(revisions.get(kind, 0) >= revision for kind, revision in self.must_see.items())

    def heard(
        self, workload: Object, instructions: Sequence[Instruction], outcomes: Sequence[Outcome]
    ) -> list[Instruction]:
        """How it went; what people should be told of it comes out."""
        failure, made, refused = "", 0, False
        notes: list[Instruction] = []
        for instruction, outcome in zip(instructions, outcomes, strict=True):
            if not isinstance(outcome, StatusError):
                if not isinstance(instruction, RecordEvent):
                    revision = int(outcome["metadata"]["resourceVersion"])
                    known = self.must_see.get(instruction.kind, 0)
                    self.must_see[instruction.kind] = max(known, revision)
                if isinstance(instruction, CreateObject) and instruction.kind is POD:
                    made += 1
                    message = f"Created pod: {outcome['metadata']['name']}"
                    notes.append(RecordEvent(self.kind, workload, "Normal", "SuccessfulCreate", message))
            elif isinstance(instruction, CreateObject):
                failure, refused = outcome.message[:_MOST_WORDS], True
            elif not isinstance(outcome, (NotFound, Conflict)) and not isinstance(instruction, RecordEvent):
                refused = True  # the store is away, or the status was not accepted
        if failure:
            notes.append(
                RecordEvent(self.kind, workload, "Warning", "FailedCreate", f"Error creating: {failure}")
            )
        self.failure = failure
        self.refusals = self.refusals + 1 if refused else 0
        return notes if made <= _MOST_NOTES else notes[:_MOST_NOTES]

    @property
    def pause(self) -> float | None:
        """Seconds until it tries again what was refused; None: nothing was."""
        if not self.refusals:
            return None
        return min(_FIRST_PAUSE * 2.0 ** min(self.refusals - 1, 20), _LONGEST_PAUSE)
