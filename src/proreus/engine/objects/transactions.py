"""Intents become transactions: planned on what was last seen, committed if that stands, else planned anew.

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


async def settle(cache: ObjectCache, intent: Intent, *, dry_run: bool = False) -> dict[str, Any]:
    """One intent; raises its refusal. A dry run plans on what stands now and stores nothing."""
    if dry_run:
        standing = await cache.get(intent.key)
        step = await _planned(intent, standing)
        if isinstance(step, Write):
            _encoded(intent, step)
        return step.object if standing is None else with_version(step.object, standing.revision)
    outcome = (await _settled(cache, [intent], together=False))[0]
    if isinstance(outcome, StatusError):
        raise outcome
    return outcome


async def settle_together(cache: ObjectCache, intents: Sequence[Intent]) -> list[dict[str, Any]]:
    """All or none; raises the first refusal."""
    if len({intent.key for intent in intents}) != len(intents):
        raise ValueError("two intents of one transaction are about the same object")
    outcomes = await _settled(cache, intents, together=True)
    return [outcome for outcome in outcomes if not isinstance(outcome, StatusError)]


async def settle_many(
    cache: ObjectCache, intents: Sequence[Intent], fence: Unchanged | None = None
) -> list[Outcome]:
    """Each for itself; the parts of a long list are committed side by side.

    fence: a condition of every transaction; once it fails, the rest is refused as `Fenced`.
    """
    most = MOST_IN_ONE_COMMIT - (fence is not None)  # it is one of the transaction's conditions
    if len(intents) <= most:
        return await _guarded(cache, intents, fence)
    parts = [intents[at : at + most] for at in range(0, len(intents), most)]
    settled = await asyncio.gather(*(_guarded(cache, part, fence) for part in parts))
    return [outcome for part in settled for outcome in part]


async def _guarded(cache: ObjectCache, intents: Sequence[Intent], fence: Unchanged | None) -> list[Outcome]:
    """Where the store fails, that is the outcome of each intent: other parts may have been done."""
    try:
        return await _settled(cache, intents, together=False, fence=fence)
    except StatusError as refusal:
        return [refusal for _ in intents]


async def _settled(
    cache: ObjectCache, intents: Sequence[Intent], *, together: bool, fence: Unchanged | None = None
) -> list[Outcome]:
    outcomes: dict[int, Outcome] = {}
    fresh: dict[str, StoredObject | None] = {}
    waiting = list(range(len(intents)))
    for _ in range(_MOST_ATTEMPTS):
        steps: dict[int, tuple[Write | Remove, bytes]] = {}
        taken: set[str] = set()
        for place in waiting:
            if intents[place].key in taken:  # the same object twice: one after the other
                continue
            try:
                step = await _plan(cache, intents[place], fresh)
                if isinstance(step, Nothing):
                    outcomes[place] = step.object
                elif step.key not in taken:
                    encoded = _encoded(intents[place], step) if isinstance(step, Write) else b""
                    steps[place] = (step, encoded)
                    taken.add(step.key)
            except StatusError as refusal:
                if together:
                    raise
                outcomes[place] = refusal
        if steps:
            committed = await cache.commit(
                [
                    *([] if fence is None else [fence]),
                    *(Unchanged(step.key, step.revision) for step, _ in steps.values()),
                ],
                [_operation(step, encoded) for step, encoded in steps.values()],
            )
            if committed.done:
                for place, (step, encoded) in steps.items():
                    outcomes[place] = _remembered(cache, step, encoded, committed.revision)
                fresh.clear()
            else:
                entries = committed.found
                if fence is not None:
                    _check_fence(fence, entries[0])
                    entries = entries[1:]
                for (step, _), entry in zip(steps.values(), entries, strict=True):
                    fresh[step.key] = None if entry is None else cache.read(entry)
        waiting = [place for place in waiting if place not in outcomes]
        if not waiting:
            return [outcomes[place] for place in range(len(intents))]
    raise Conflict("the objects were changed by others each time; try again later")


async def _plan(cache: ObjectCache, intent: Intent, fresh: dict[str, StoredObject | None]) -> Step:
    """On what the last transaction found; else on what is remembered, if that leads to a write; else read."""
    if intent.key in fresh:
        return await _planned(intent, fresh[intent.key])
    remembered = None if intent.absent else cache.peek(intent.key)
    if intent.absent or remembered is not None:
        step = await _hoped(intent, remembered)
        if step is not None:
            return step
    fresh[intent.key] = await cache.get(intent.key)
    return await _planned(intent, fresh[intent.key])


async def _planned(intent: Intent, standing: StoredObject | None) -> Step:
    """The intent's step; that of a large object is worked out beside the loop."""
    size = intent.size + (0 if standing is None else standing.size)
    if size <= SMALL_BYTES:
        return intent.plan(standing)
    return await offload(size, lambda: intent.plan(standing))


def _check_fence(fence: Unchanged, entry: KeyValue | None) -> None:
    if (ABSENT if entry is None else entry.revision) != fence.revision:
        raise Fenced(f"{fence.key} was changed by somebody else: whoever writes on its terms is too late")


async def _hoped(intent: Intent, remembered: StoredObject | None) -> Write | Remove | None:
    """The step that what is remembered leads to; None where that may only be for its being old."""
    try:
        step = await _planned(intent, remembered)
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


def _remembered(cache: ObjectCache, step: Write | Remove, encoded: bytes, revision: int) -> dict[str, Any]:
    state = with_version(step.object, revision)
    if isinstance(step, Write):
        cache.keep(step.key, StoredObject(state, revision, len(encoded)))
    else:
        cache.gone(step.key, revision)
    return state


def _encoded(intent: Intent, step: Write) -> bytes:
    encoded = encode(step.object)
    if len(encoded) > MOST_BYTES:
        raise Invalid(
            f"the object is {len(encoded):,} bytes long, more than {MOST_BYTES:,}", kind=intent.kind.kind
        )
    check_values(encoded)  # whoever reads it waits for the parser
    return encoded
