"""Instructions become writes: many in one transaction, each for itself, all on the leader's fence."""

from __future__ import annotations

from collections.abc import Sequence
from typing import assert_never

from proreus.engine.controllers.instructions import (
    CreateObject,
    DeleteObject,
    Instruction,
    RecordEvent,
    UpdateObject,
)
from proreus.engine.leader_election import Term
from proreus.engine.objects.error_messages import check_preconditions
from proreus.engine.objects.errors import Fenced, StatusError
from proreus.engine.objects.event_recorder import EventRecorder
from proreus.engine.objects.intents import Change, DeletionTerms, Intent
from proreus.engine.objects.metadata import Object, name_of, namespace_of, uid_of
from proreus.engine.objects.registry import Outcome, Registry


async def carry_out(
    registry: Registry, recorder: EventRecorder, instructions: Sequence[Instruction], term: Term | None = None
) -> list[Outcome]:
    """What became of each; term: None where nobody else could lead."""
    outcomes: dict[int, Outcome] = {}
    intents: dict[int, Intent] = {}
    events: dict[int, RecordEvent] = {}
    for place, instruction in enumerate(instructions):
        if isinstance(instruction, RecordEvent):
            events[place] = instruction
            continue
        try:
            intents[place] = await _intent(registry, instruction)
        except StatusError as refusal:
            outcomes[place] = refusal
    fence = None if term is None else term.fence
    done, recorded = await recorder.commit(list(intents.values()), list(events.values()), fence)
    if term is not None and any(isinstance(outcome, Fenced) for outcome in (*done, *recorded)):
        term.fenced()
    outcomes.update(zip(intents, done, strict=True))
    outcomes.update(zip(events, recorded, strict=True))
    return [outcomes[place] for place in range(len(instructions))]


async def _intent(registry: Registry, instruction: CreateObject | UpdateObject | DeleteObject) -> Intent:
    match instruction:
        case CreateObject(kind, obj):
            return await registry.creating(kind, obj)
        case UpdateObject(kind, obj, subresource):
            change = _unless_changed(instruction)
            return registry.editing(kind, namespace_of(obj), name_of(obj), change, subresource=subresource)
        case DeleteObject(kind, obj, grace, propagation, disruption):
            terms = DeletionTerms(uid_of(obj), "", grace, propagation, disruption)
            return registry.deleting(kind, namespace_of(obj), name_of(obj), terms)
        case _:
            assert_never(instruction)


def _unless_changed(update: UpdateObject) -> Change:
    metadata = update.object["metadata"]

    def change(standing: Object) -> Object:
        check_preconditions(update.kind, standing, metadata["uid"], metadata["resourceVersion"])
        return update.object

    return change
