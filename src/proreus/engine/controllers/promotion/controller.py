"""The shell of promotion: reads what is chosen and what was recorded, has it judged, writes what follows.

The state is written on the fence of the term, only where it changed, and only if nobody chose otherwise
meanwhile: the scheduling agents follow it from there.
"""

from __future__ import annotations

import asyncio
import logging
from collections import deque
from collections.abc import Mapping
from concurrent.futures import BrokenExecutor
from dataclasses import dataclass, field
from typing import Any, Protocol

from proreus.engine.controllers.promotion.core import GateOptions, begun, counted, judged, not_judged
from proreus.engine.controllers.promotion.evaluation import Case, Weigh, weighing_apart
from proreus.engine.leader_election import Term
from proreus.engine.objects.errors import Fenced, NotFound, StatusError
from proreus.engine.objects.kinds import CONFIG_MAP
from proreus.engine.objects.promotions import NAME, Promotion, read_promotions, written
from proreus.engine.objects.registry import ObjectEvent, Registry
from proreus.engine.objects.scheduler_config import DEFAULT_SCHEDULER, NAMESPACE, Chosen, read_chosen
from proreus.engine.objects.scheduler_config import NAME as CHOICES
from proreus.engine.objects.timestamps import parse_timestamp
from proreus.engine.runtimes.clock import Timers
from proreus.engine.store.log.store_log import payload_of
from proreus.engine.store.protocol import StoreError
from proreus.engine.trace.segments import PREFIX
from proreus.engine.watch.informer import Informer
from proreus.model.errors import ProreusError, WorkError
from proreus.policies.policy_folders import PolicyFolders

_LOOK_SECONDS = 5.0
"""Between two looks at what is chosen."""
_log = logging.getLogger(__name__)


@dataclass(frozen=True)
class PromotionOptions:
    """How candidates are judged."""

    play: str = ""
    """Who plays contests, as "module:function"; "": nobody, and every candidate stays in the shadow."""
    seconds: float = 300.0
    """Between two judgements of a candidate."""
    gate: GateOptions = field(default_factory=GateOptions)
    weigh: Weigh | None = None
    """None: in a process of its own."""
    folders: PolicyFolders = field(default_factory=PolicyFolders)
    """What may be loaded for whoever puts up a candidate."""


class PromotionRecords(Protocol):
    """Where it stands who is put up, how far they have come, and what happened to pods."""

    async def choices(self) -> Mapping[str, Chosen]:
        """Who decides for each schedulerName, and who is put up."""
        ...

    async def standing(self) -> dict[str, Promotion]:
        """How far candidates have come."""
        ...

    async def write(self, promotions: dict[str, Promotion]) -> None:
        """They have come so far; a StatusError or StoreError where that could not be written."""
        ...

    async def segments(self) -> list[bytes]:
        """The trace, as `encode` made its parts."""
        ...


class RegistryRecords:
    """In an engine's registry, written on the fence of a term."""

    def __init__(self, registry: Registry, term: Term) -> None:
        self._registry, self._term = registry, term

    async def choices(self) -> Mapping[str, Chosen]:
        """Of the ConfigMap of schedulers."""
        return read_chosen(await self._config_map(CHOICES)).chosen

    async def standing(self) -> dict[str, Promotion]:
        """Of the ConfigMap of promotions."""
        return read_promotions(await self._config_map(NAME))

    async def write(self, promotions: dict[str, Promotion]) -> None:
        """Into the same."""
        data, named = written(promotions), {"metadata": {"name": NAME, "namespace": NAMESPACE}}
        try:
            await self._registry.create_or_edit(
                CONFIG_MAP, named, lambda standing: {**standing, "data": data}, self._term.fence
            )
        except Fenced:
            self._term.fenced()

    async def segments(self) -> list[bytes]:
        """Of the store."""
        return [payload_of(entry) for entry in (await self._registry.store.list(PREFIX)).entries]

    async def _config_map(self, name: str) -> dict[str, Any] | None:
        try:
            return await self._registry.get(CONFIG_MAP, NAMESPACE, name)
        except NotFound:
            return None


class Promoter:
    def __init__(
        self,
        records: PromotionRecords,
        timers: Timers,
        options: PromotionOptions | None = None,
        pods: Informer | None = None,
    ) -> None:
        """pods: whence is heard how many have come; or tell it yourself, with `pod_came`."""
        self._records, self._timers = records, timers
        self._options = options or PromotionOptions()
        self._came: dict[str, deque[float]] = {}
        """When the last pods of each schedulerName were made."""
        if pods is not None:
            pods.subscribe(self._pod_heard)

    async def run(self) -> None:
        """Judge until cancelled."""
        if self._options.weigh is not None:
            await self._run(self._options.weigh)
        async with weighing_apart() as weigh:
            await self._run(weigh)

    async def _run(self, weigh: Weigh) -> None:
        while True:
            try:
                await self._look(weigh)
            except (StatusError, StoreError, WorkError) as error:
                _log.warning("judging candidates: %s; trying again", error)
            await asyncio.sleep(_LOOK_SECONDS)

    async def _look(self, weigh: Weigh) -> None:
        """One look at all candidates."""
        choices = await self._records.choices()
        chosen = {name: choice for name, choice in choices.items() if choice.candidate}
        standing = await self._records.standing()
        now = self._timers.wall()
        promotions: dict[str, Promotion] = {}
        for name, choice in chosen.items():
            known = standing.get(name)
            promotion = known if known is not None and known.is_of(choice) else begun(choice, now)
            promotions[name] = counted(promotion, self._came_since(name, promotion.since), self._options.gate)
        if promotions != standing:
            await self._records.write(promotions)
        if not self._options.play:
            return
        for name, promotion in promotions.items():
            last = max(promotion.judged, promotion.since)
            if promotion.stage != "refused" and now - last >= self._options.seconds:
                await self._judge(name, chosen[name], promotion, weigh)

    def _pod_heard(self, event: ObjectEvent) -> None:
        if event.type == "ADDED":
            self.pod_came(event.object)

    def pod_came(self, pod: Mapping[str, Any]) -> None:
        """A pod that was not there before."""
        name = str(pod["spec"].get("schedulerName") or DEFAULT_SCHEDULER)
        made = parse_timestamp(pod["metadata"]["creationTimestamp"])
        self._came.setdefault(name, deque(maxlen=self._options.gate.least_pods)).append(made)

    def _came_since(self, name: str, since: float) -> int:
        return sum(made >= int(since) for made in self._came.get(name, ()))  # whole seconds, as objects say

    async def _judge(self, name: str, chosen: Chosen, promotion: Promotion, weigh: Weigh) -> None:
        options = self._options
        case = Case(name, chosen, promotion, self._timers.wall(), options.play, options.folders)
        try:
            evidence = await weigh(await self._records.segments(), case)
            after = judged(promotion, evidence, case.now, options.gate)
        except (ProreusError, ImportError, BrokenExecutor) as error:
            _log.warning("judging %s: %s", chosen.candidate, error)
            after = not_judged(promotion, str(error), case.now)
        if after.stage != promotion.stage:
            _log.info("%s: %s is at %s: %s", name, chosen.candidate, after.stage, after.told)
        await self._records.write({**await self._records.standing(), name: after})
