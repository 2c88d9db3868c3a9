"""The shell of promotion: reads what is chosen and what was recorded, has it judged, writes what follows.

The state is written on the fence of the term, only where it changed, and only if nobody chose otherwise
meanwhile: the scheduling agents follow it from there.
"""

from __future__ import annotations

import asyncio
import logging
from concurrent.futures import BrokenExecutor
from dataclasses import dataclass, field
from typing import Any

from proreus.engine.controllers.promotion.core import GateOptions, begun, judged, not_judged
from proreus.engine.controllers.promotion.evaluation import Case, Weigh, weighing_apart
from proreus.engine.leader_election import Term
from proreus.engine.objects.errors import Fenced, NotFound, StatusError
from proreus.engine.objects.kinds import CONFIG_MAP
from proreus.engine.objects.promotions import NAME, Promotion, read_promotions, written
from proreus.engine.objects.registry import Registry
from proreus.engine.objects.scheduler_config import NAME as CHOICES
from proreus.engine.objects.scheduler_config import NAMESPACE, Chosen, read_chosen
from proreus.engine.runtimes.clock import Timers
from proreus.engine.store.log.store_log import payload_of
from proreus.engine.store.protocol import StoreError
from proreus.engine.trace.segments import PREFIX
from proreus.model.errors import ProreusError
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


class Promoter:
    def __init__(
        self, registry: Registry, timers: Timers, term: Term, options: PromotionOptions | None = None
    ) -> None:
        self._registry, self._timers, self._term = registry, timers, term
        self._options = options or PromotionOptions()

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
            except Fenced:
                self._term.fenced()
            except (StatusError, StoreError) as error:
                _log.warning("judging candidates: %s; trying again", error)
            await asyncio.sleep(_LOOK_SECONDS)

    async def _look(self, weigh: Weigh) -> None:
        """One look at all candidates."""
        chosen = {
            name: choice
            for name, choice in read_chosen(await self._config_map(CHOICES)).chosen.items()
            if choice.candidate
        }
        standing = read_promotions(await self._config_map(NAME))
        now = self._timers.wall()
        promotions: dict[str, Promotion] = {}
        for name, choice in chosen.items():
            known = standing.get(name)
            promotions[name] = known if known is not None and known.is_of(choice) else begun(choice, now)
        if promotions != standing:
            await self._write(promotions)
        if not self._options.play:
            return
        for name, promotion in promotions.items():
            last = max(promotion.judged, promotion.since)
            if promotion.stage != "refused" and now - last >= self._options.seconds:
                await self._judge(name, chosen[name], promotion, weigh)

    async def _judge(self, name: str, chosen: Chosen, promotion: Promotion, weigh: Weigh) -> None:
        entries = (await self._registry.store.list(PREFIX)).entries
        options = self._options
        case = Case(name, chosen, promotion, self._timers.wall(), options.play, options.folders)
        try:
            evidence = await weigh([payload_of(entry) for entry in entries], case)
            after = judged(promotion, evidence, case.now, options.gate)
        except (ProreusError, ImportError, BrokenExecutor) as error:
            _log.warning("judging %s: %s", chosen.candidate, error)
            after = not_judged(promotion, str(error), case.now)
        if after.stage != promotion.stage:
            _log.info("%s: %s is at %s: %s", name, chosen.candidate, after.stage, after.told)
        await self._write({**read_promotions(await self._config_map(NAME)), name: after})

    async def _config_map(self, name: str) -> dict[str, Any] | None:
        try:
            return await self._registry.get(CONFIG_MAP, NAMESPACE, name)
        except NotFound:
            return None

    async def _write(self, promotions: dict[str, Promotion]) -> None:
        data, named = written(promotions), {"metadata": {"name": NAME, "namespace": NAMESPACE}}
        await self._registry.create_or_edit(
            CONFIG_MAP, named, lambda standing: {**standing, "data": data}, self._term.fence
        )
