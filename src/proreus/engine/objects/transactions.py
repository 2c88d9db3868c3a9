"""Wants become transactions: planned on what was last seen, committed if that stands, else planned anew.

A refusal, or the finding that nothing is to be done, is only believed of what has just been read: what was
remembered may be old.
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import Any, assert_never

from proreus.engine.objects.errors import Conflict, Fenced, Invalid, StatusError
from proreus.engine.objects.intents import Intent, Nothing, Remove, Step, Write
from proreus.engine.objects.object_cache import ObjectCache, StoredObject, encode, with_version
from proreus.engine.objects.offload import SMALL_BYTES, offload
from proreus.engine.objects.size_limits import check_values
from proreus.engine.store.protocol import ABSENT, Delete, KeyValue, Operation, Put, Unchanged

Outcome = dict[str, Any] | StatusError
"""The object as it was left, or why it was not."""
Outcomes = list[Outcome]
Objects = list[dict[str, Any]]

MOST_IN_ONE_COMMIT = 128
"""etcd takes no more operations, and no more conditions, in a transaction unless it was told to."""
MOST_BYTES = 1_500_000
"""Of an object, as etcd takes it."""
_MOST_ATTEMPTS = 64


async def settle(shelf: ObjectCache, want: Intent, *, dry_run: bool = False) -> dict[str, Any]:
    """One want; raises its refusal. A dry run plans on what stands now and stores nothing."""
    if dry_run:
        standing = await shelf.get(want.key)
        step = await _planned(want, standing)
        if isinstance(step, Write):
            _encoded(want, step)
        return step.object if standing is None else with_version(step.object, standing.revision)
    outcome = (await _settled(shelf, [want], together=False))[0]
    if isinstance(outcome, StatusError):
        raise outcome
    return outcome


async def settle_together(shelf: ObjectCache, wants: Sequence[Intent]) -> list[dict[str, Any]]:
    """All or none; raises the first refusal."""
    if len({want.key for want in wants}) != len(wants):
        raise ValueError("two wants of one transaction are about the same object")
    outcomes = await _settled(shelf, wants, together=True)
    return [outcome for outcome in outcomes if not isinstance(outcome, StatusError)]


async def settle_many(
    shelf: ObjectCache, wants: Sequence[Intent], fence: Unchanged | None = None
) -> list[Outcome]:
    """Each for itself; the parts of a long list are committed side by side.

    fence: a condition of every transaction; once it fails, the rest is refused as `Fenced`.
    """
    most = MOST_IN_ONE_COMMIT - (fence is not None)  # it is one of the transaction's conditions
    if len(wants) <= most:
        return await _guarded(shelf, wants, fence)
    parts = [wants[at : at + most] for at in range(0, len(wants), most)]
    settled = await asyncio.gather(*(_guarded(shelf, part, fence) for part in parts))
    return [outcome for part in settled for outcome in part]


async def _guarded(shelf: ObjectCache, wants: Sequence[Intent], fence: Unchanged | None) -> list[Outcome]:
    """Where the store fails, that is the outcome of each want: other parts may have been done."""
    try:
        return await _settled(shelf, wants, together=False, fence=fence)
    except StatusError as refusal:
        return [refusal for _ in wants]


async def _settled(
    shelf: ObjectCache, wants: Sequence[Intent], *, together: bool, fence: Unchanged | None = None
) -> list[Outcome]:
    outcomes: dict[int, Outcome] = {}
    fresh: dict[str, StoredObject | None] = {}
    waiting = list(range(len(wants)))
    for _ in range(_MOST_ATTEMPTS):
        steps: dict[int, tuple[Write | Remove, bytes]] = {}
        taken: set[str] = set()
        for place in waiting:
            if wants[place].key in taken:  # the same object twice: one after the other
                continue
            try:
                step = await _plan(shelf, wants[place], fresh)
                if isinstance(step, Nothing):
                    outcomes[place] = step.object
                elif step.key not in taken:
                    encoded = _encoded(wants[place], step) if isinstance(step, Write) else b""
                    steps[place] = (step, encoded)
                    taken.add(step.key)
            except StatusError as refusal:
                if together:
                    raise
                outcomes[place] = refusal
        if steps:
            committed = await shelf.commit(
                [
                    *([] if fence is None else [fence]),
                    *(Unchanged(step.key, step.revision) for step, _ in steps.values()),
                ],
                [_operation(step, encoded) for step, encoded in steps.values()],
            )
            if committed.done:
                for place, (step, encoded) in steps.items():
                    outcomes[place] = _remembered(shelf, step, encoded, committed.revision)
                fresh.clear()
            else:
                entries = committed.found
                if fence is not None:
                    _check_fence(fence, entries[0])
                    entries = entries[1:]
                for (step, _), entry in zip(steps.values(), entries, strict=True):
                    fresh[step.key] = None if entry is None else shelf.read(entry)
        waiting = [place for place in waiting if place not in outcomes]
        if not waiting:
            return [outcomes[place] for place in range(len(wants))]
    raise Conflict("the objects were changed by others each time; try again later")


async def _plan(shelf: ObjectCache, want: Intent, fresh: dict[str, StoredObject | None]) -> Step:
    """On what the last transaction found; else on what is remembered, if that leads to a write; else read."""
    if want.key in fresh:
        return await _planned(want, fresh[want.key])
    remembered = None if want.absent else shelf.peek(want.key)
    if want.absent or remembered is not None:
        step = await _hoped(want, remembered)
        if step is not None:
            return step
    fresh[want.key] = await shelf.get(want.key)
    return await _planned(want, fresh[want.key])


async def _planned(want: Intent, standing: StoredObject | None) -> Step:
    """The want's step; that of a large object is worked out beside the loop."""
    size = want.size + (0 if standing is None else standing.size)
    if size <= SMALL_BYTES:
        return want.plan(standing)
    return await offload(size, lambda: want.plan(standing))


def _check_fence(fence: Unchanged, entry: KeyValue | None) -> None:
    if (ABSENT if entry is None else entry.revision) != fence.revision:
        raise Fenced(f"{fence.key} was changed by somebody else: whoever writes on its terms is too late")


async def _hoped(want: Intent, remembered: StoredObject | None) -> Write | Remove | None:
    """The step that what is remembered leads to; None where that may only be for its being old."""
    try:
        step = await _planned(want, remembered)
    except StatusError:
        return None
    return None if isinstance(step, Nothing) else step


def _operation(step: Write | Remove, encoded: bytes) -> Operation:
    match step:
        case Write():
            return Put(step.key, encoded)
        case Remove():
            return Delete(step.key)
        case _:
            assert_never(step)


def _remembered(shelf: ObjectCache, step: Write | Remove, encoded: bytes, revision: int) -> dict[str, Any]:
    state = with_version(step.object, revision)
    if isinstance(step, Write):
        shelf.keep(step.key, StoredObject(state, revision, len(encoded)))
    else:
        shelf.gone(step.key, revision)
    return state


def _encoded(want: Intent, step: Write) -> bytes:
    encoded = encode(step.object)
    if len(encoded) > MOST_BYTES:
        raise Invalid(
            f"the object is {len(encoded):,} bytes long, more than {MOST_BYTES:,}", kind=want.kind.kind
        )
    check_values(encoded)  # whoever reads it waits for the parser
    return encoded
