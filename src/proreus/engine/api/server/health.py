"""/livez and /readyz, in the words of Kubernetes' API server: does the process run, and can it serve?"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Sequence
from dataclasses import dataclass

from proreus.engine.api.server.reply import Answer, Header, Reply
from proreus.engine.api.server.request import ApiRequest
from proreus.engine.objects.errors import NotFound, Unserviceable
from proreus.engine.objects.kinds import NAMESPACE
from proreus.engine.objects.registry import Registry
from proreus.engine.store.protocol import StoreError

STORE_SECONDS = 2.0
"""A store that has not answered after this time counts as away."""
_TEXT = b"text/plain; charset=utf-8"
_NO_SNIFFING: tuple[Header, ...] = ((b"x-content-type-options", b"nosniff"),)
_FAILED = 500
_log = logging.getLogger(__name__)


@dataclass(frozen=True)
class Check:
    """One thing that was looked at."""

    name: str
    well: bool


def written(endpoint: str, checks: Sequence[Check], *, verbose: bool) -> Reply:
    """The answer; where something is wrong it names all checks. Why, the log says: anybody may ask here."""
    well = all(check.well for check in checks)
    if well and not verbose:
        return Reply(b"ok", media_type=_TEXT)
    lines = [
        f"[+]{check.name} ok" if check.well else f"[-]{check.name} failed: reason withheld"
        for check in checks
    ]
    lines.append(f"{endpoint} check {'passed' if well else 'failed'}")
    return Reply(
        "".join(f"{line}\n" for line in lines).encode(), 200 if well else _FAILED, _TEXT, _NO_SNIFFING
    )


class HealthChecks:
    """Looks at the store once at a time, however many ask."""

    def __init__(self, registry: Registry) -> None:
        self._registry = registry
        self._looking: asyncio.Task[bool] | None = None

    async def alive(self, asked: ApiRequest) -> Answer:
        """Whether the process answers. A store that is away is no reason to start it anew."""
        endpoint = asked.path.decode("latin-1").strip("/")
        return written(endpoint, [Check("ping", well=True)], verbose="verbose" in asked.query)

    async def ready(self, asked: ApiRequest) -> Answer:
        """Whether requests can be served: the store answers, and takes writes."""
        checks = [Check("ping", well=True), Check("store", well=await self._store_answers())]
        return written("readyz", checks, verbose="verbose" in asked.query)

    async def _store_answers(self) -> bool:
        if self._looking is None or self._looking.done():
            self._looking = asyncio.create_task(self._look(), name="readiness")
        looking = self._looking
        done, _ = await asyncio.wait((looking,), timeout=STORE_SECONDS)
        return bool(done) and looking.result()

    async def _look(self) -> bool:
        try:
            await self._registry.get(NAMESPACE, "", "default")
        except (Unserviceable, StoreError) as error:
            _log.warning("not ready: %s", error)
            return False
        except NotFound:  # says the store
            pass
        if trouble := self._registry.store.trouble():
            _log.warning("not ready: %s", trouble)
        return not trouble

    async def stop(self) -> None:
        """Nobody waits for the store any more."""
        if self._looking is not None and not self._looking.done():
            self._looking.cancel()
            await asyncio.wait((self._looking,))
