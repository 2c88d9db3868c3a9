"""The SchedulingAgent's loop: the core between whoever tells of the cluster and whoever writes to it.

Both are handed in: over the registry of an engine (`agent.py`), or over the API server of a cluster that is
somebody else's. Those that do not lead follow all the same, so that whoever takes over knows the cluster.
Before it decides it has everything listed anew: what an earlier leader wrote is in there.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections import deque
from collections.abc import Callable, Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import partial
from typing import Generic, Protocol, TypeGuard, TypeVar

from proreus.engine.objects.errors import StatusError
from proreus.engine.objects.promotions import ways
from proreus.engine.objects.scheduler_config import NAME, NAMESPACE, Chosen, read_chosen
from proreus.engine.scheduler.core import SchedulingCore
from proreus.engine.scheduler.decider import Decider
from proreus.engine.scheduler.instructions import (
    Event,
    Instruction,
    InstructionFailed,
    ObjectDeleted,
    ObjectUpdated,
)
from proreus.engine.scheduler.warm_up import warm_up_scheduling
from proreus.model.errors import ProreusError
from proreus.policies.isolated_policy import Strangers

_MOST_AT_ONCE = 64
"""Decisions before others have their turn on the event loop."""
_MOST_UNDER_WAY = 4
"""Batches of instructions that are being carried out while others are decided."""
_MOST_LOADING = 4
"""Policies that are loaded and compiled at once."""
_LONGEST_WAIT = 1.0
_log = logging.getLogger(__name__)
Mandate = TypeVar("Mandate")
"""What a leader shows when it writes: a fence, or the number of its term."""
_Given = TypeVar("_Given", covariant=True)
_Shown = TypeVar("_Shown", contravariant=True)


class Followed(Protocol):
    """One kind of objects, followed."""

    synced: asyncio.Event

    async def run(self) -> None:
        """Follow, until cancelled."""
        ...

    async def resync(self) -> None:
        """Tell everything that was acknowledged before now."""
        ...


class Leadership(Protocol[_Given]):
    """Who stands for election."""

    changed: asyncio.Event

    @property
    def mandate(self) -> _Given | None:
        """None while it does not lead."""
        ...

    async def run(self) -> None:
        """Stand for election, until cancelled."""
        ...

    async def resign(self) -> None:
        """Let another lead at once."""
        ...


class Hands(Protocol[_Shown]):
    """Who carries out what the core instructs."""

    async def carry_out(
        self, instructions: Sequence[Instruction], mandate: _Shown
    ) -> list[InstructionFailed]:
        """Do it all; what did not come about."""
        ...


@dataclass(frozen=True)
class Surroundings(Generic[Mandate]):
    """Where a core is at work."""

    followed: Sequence[Followed]
    leader: Leadership[Mandate]
    hands: Hands[Mandate]
    clock: Callable[[], float] = time.time
    steady: Callable[[], float] = time.time
    """Seconds since 1970 that never jump."""


class DecisionLoop(Generic[Mandate]):
    """Follows, stands for election, and decides while it leads."""

    def __init__(
        self, core: SchedulingCore, around: Surroundings[Mandate], strangers: Strangers | None = None
    ) -> None:
        """strangers: where policies from elsewhere run; they are closed with the loop."""
        self.core, self._around, self._strangers = core, around, strangers
        self._steady = around.steady
        self._inbox: deque[Event] = deque()
        self._made: deque[tuple[Chosen, Decider | str]] = deque()
        """Deciders that are ready, or why there is none."""
        self._making: dict[Chosen, asyncio.Task[None]] = {}
        self._choosing: asyncio.Task[None] | None = None
        """Waits until all whom a ConfigMap chooses are ready."""
        self._loading = ThreadPoolExecutor(_MOST_LOADING, "policy-loading")
        self._deciding = ThreadPoolExecutor(1, "deciding")
        self._news = asyncio.Event()
        self._under_way: set[asyncio.Task[None]] = set()
        self.led: Mandate | None = None
        """Under which everything was listed anew."""

    async def run(self) -> None:
        """Follow, stand for election, and decide while leading, until cancelled."""
        await asyncio.to_thread(warm_up_scheduling)
        default = self.core.options.default
        if not self.core.knows(default):
            self.core.adopt(await asyncio.to_thread(self.core.made, default))
        try:
            async with asyncio.TaskGroup() as group:
                for followed in self._around.followed:  # in their order: what pods mean depends on others
                    group.create_task(followed.run())
                    await followed.synced.wait()
                group.create_task(self._around.leader.run())
                group.create_task(self._work())
        finally:
            self.close()

    def close(self) -> None:
        """Leave behind whatever is under way: strangers are killed, and who waits for them goes on."""
        for task in (*self._under_way, *self._making.values(), self._choosing):
            if task is not None:
                task.cancel()
        if self._strangers is not None:
            self._strangers.close()
        for pool in (self._loading, self._deciding):
            pool.shutdown(wait=False, cancel_futures=True)

    def hear(self, event: Event) -> None:
        """What happened in the cluster."""
        self._inbox.append(event)
        self._news.set()

    # Below the face.

    async def _work(self) -> None:
        while True:
            self._news.clear()
            self._take_note()
            mandate = self._around.leader.mandate
            if mandate is None:
                self.led = None
            elif mandate != self.led:
                await self._take_over(mandate)
                continue
            elif await self._decide(mandate):
                await asyncio.sleep(0)
                continue
            await self._pause()

    def _take_note(self) -> None:
        while self._made or self._inbox:
            while self._made:
                chosen, made = self._made.popleft()
                self._making.pop(chosen, None)
                if isinstance(made, str):
                    self.core.give_up(chosen, made)
                else:
                    self.core.adopt(made)
            if self._inbox:
                event = self._inbox.popleft()
                if not self._prepare(event):
                    self.core.handle(event, self._steady())

    def _prepare(self, event: Event) -> bool:
        """Whether who is chosen has to be loaded and compiled first, elsewhere: then the event comes again,
        and until then the choice before it counts. One that came meanwhile takes its place."""
        if not _is_choice(event):
            return False
        if self._choosing is not None:
            self._choosing.cancel()
            self._choosing = None
        missing = {
            way
            for choice in (
                read_chosen(event.object).chosen.values() if isinstance(event, ObjectUpdated) else ()
            )
            for way in ways(choice)
            if not self.core.knows(way) and not self.core.gave_up(way)
        }
        if missing:
            self._choosing = asyncio.create_task(self._prepared(event, missing))
        return bool(missing)

    async def _prepared(self, event: Event, missing: Iterable[Chosen]) -> None:
        await asyncio.wait(self._make(missing))
        self._choosing = None
        self._inbox.append(event)
        self._news.set()

    def _make(self, wanted: Iterable[Chosen]) -> list[asyncio.Task[None]]:
        """Load and compile them, beside the event loop and beside all decisions."""
        for chosen in wanted:
            if chosen not in self._making:
                self._making[chosen] = asyncio.create_task(self._make_one(chosen))
        return [self._making[chosen] for chosen in wanted]

    async def _make_one(self, chosen: Chosen) -> None:
        made: Decider | str
        try:
            made = await asyncio.get_running_loop().run_in_executor(self._loading, self.core.made, chosen)
        except (ProreusError, ImportError) as error:
            made = str(error)
        self._made.append((chosen, made))
        self._news.set()

    async def _take_over(self, mandate: Mandate) -> None:
        """Everything anew, now that nobody else can write."""
        await asyncio.gather(*(followed.resync() for followed in self._around.followed))
        self._take_note()
        while self._choosing is not None:  # nobody is decided about by whom the ConfigMap does not name
            await asyncio.wait([self._choosing])
            self._take_note()
        if self._around.leader.mandate == mandate:
            self.led = mandate

    async def _decide(self, mandate: Mandate) -> bool:
        """One round of decisions; whether there was anything to do."""
        while len(self._under_way) >= _MOST_UNDER_WAY:
            await asyncio.wait(self._under_way, return_when=asyncio.FIRST_COMPLETED)
        if self.core.asks_apart():  # who may take until its deadline, and nobody else waits for that
            loop = asyncio.get_running_loop()
            cycle = partial(self.core.cycle, self._steady(), _MOST_AT_ONCE)
            instructions = await loop.run_in_executor(self._deciding, cycle)
        else:
            instructions = self.core.cycle(self._steady(), _MOST_AT_ONCE)
        self._make(self.core.wanted())
        if not instructions:
            return False
        task = asyncio.create_task(self._carry_out(instructions, mandate))
        self._under_way.add(task)
        task.add_done_callback(self._under_way.discard)
        return True

    async def _carry_out(self, instructions: Sequence[Instruction], mandate: Mandate) -> None:
        try:
            failed = await self._around.hands.carry_out(instructions, mandate)
        except StatusError as error:
            _log.warning("%s", error)
            failed = []
        self._inbox.extend(failed)
        if failed:
            self._news.set()

    async def _pause(self) -> None:
        """Until something happens, or a pod has backed off long enough."""
        due = self.core.queue.next_time()
        patience = _LONGEST_WAIT if due is None else min(max(due - self._steady(), 0.01), _LONGEST_WAIT)
        waiting = [
            asyncio.create_task(self._news.wait()),
            asyncio.create_task(self._around.leader.changed.wait()),
        ]
        try:
            await asyncio.wait(waiting, timeout=patience, return_when=asyncio.FIRST_COMPLETED)
        finally:
            for task in waiting:
                task.cancel()
            self._around.leader.changed.clear()


def _is_choice(event: Event) -> TypeGuard[ObjectUpdated | ObjectDeleted]:
    """Whether that is the ConfigMap that says who decides for whom."""
    if isinstance(event, InstructionFailed) or event.kind != "ConfigMap":
        return False
    metadata = event.object["metadata"]
    return (metadata["namespace"], metadata["name"]) == (NAMESPACE, NAME)


def steady_from(clock: Callable[[], float]) -> Callable[[], float]:
    """Seconds since 1970 as the clock shows them now, then by the steady clock: nobody backs off for an hour
    because the machine's clock was put back by one."""
    ahead = clock() - time.monotonic()
    return lambda: ahead + time.monotonic()
