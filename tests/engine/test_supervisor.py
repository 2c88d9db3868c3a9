"""Parts that run side by side: told to end, failing, and ending badly."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from typing import Any

import pytest

from proreus.engine.supervisor import supervise
from proreus.model.errors import InputError, WorkError


class Parts:
    """Parts that note when they end."""

    def __init__(self) -> None:
        self.ended: list[str] = []

    def waiting(self, name: str) -> Callable[[], Coroutine[Any, Any, None]]:
        async def run() -> None:
            try:
                await asyncio.Event().wait()
            finally:
                await asyncio.sleep(0)
                self.ended.append(name)

        return run


async def fail(error: Exception | None) -> None:
    await asyncio.sleep(0)
    if error is not None:
        raise error


def test_told_to_end_they_end_in_the_reverse_order() -> None:
    async def play() -> list[str]:
        parts, ending = Parts(), asyncio.Event()
        asyncio.get_running_loop().call_later(0.01, ending.set)
        await supervise({name: parts.waiting(name) for name in ("a", "b", "c")}, ending)
        return parts.ended

    assert asyncio.run(play()) == ["c", "b", "a"]


@pytest.mark.parametrize(
    ("error", "says"),
    [
        (InputError("wrong", file="x"), "the part: x: wrong"),
        (RuntimeError("broken"), "the part failed: RuntimeError: broken"),
        (None, "the part ended by itself"),
    ],
)
def test_one_that_fails_is_named_and_ends_the_others(error: Exception | None, says: str) -> None:
    parts = Parts()

    async def play() -> None:
        await supervise({"other": parts.waiting("other"), "the part": lambda: fail(error)}, asyncio.Event())

    with pytest.raises(WorkError, match=says):
        asyncio.run(play())
    assert parts.ended == ["other"]


def test_cancelled_from_outside_all_have_ended_before_it_returns() -> None:
    async def play() -> list[str]:
        parts = Parts()
        task = asyncio.create_task(
            supervise({name: parts.waiting(name) for name in ("a", "b", "c")}, asyncio.Event())
        )
        await asyncio.sleep(0.01)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        return parts.ended

    assert asyncio.run(play()) == ["c", "b", "a"]


def test_one_that_ends_badly_does_not_keep_the_others() -> None:
    parts = Parts()

    async def badly() -> None:
        try:
            await asyncio.Event().wait()
        finally:
            raise ValueError("while ending")

    async def play() -> None:
        ending = asyncio.Event()
        asyncio.get_running_loop().call_later(0.01, ending.set)
        await supervise({"first": parts.waiting("first"), "badly": badly}, ending)

    asyncio.run(play())
    assert parts.ended == ["first"]
