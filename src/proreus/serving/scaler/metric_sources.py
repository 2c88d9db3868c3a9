"""Where readings come from: replicas themselves, or a Prometheus server that has asked them."""

from __future__ import annotations

import asyncio
import math
from collections import defaultdict
from collections.abc import Mapping, Sequence
from typing import Any
from urllib.parse import urlsplit

import msgspec

from proreus.serving.messages import shortened
from proreus.serving.scaler.http_fetcher import Fetcher
from proreus.serving.scaler.prometheus_text import MOST_SERIES, NAMES, Series, read_series, read_text
from proreus.serving.scaler.trigger_metadata import Direct, ScalerOptions, Source, ThroughPrometheus
from proreus.worlds.inference.model import sglang, vllm
from proreus.worlds.inference.model.cluster import Role
from proreus.worlds.inference.state.replicas import Reading, Unreadable

_MOST_REPLICAS = 1_024


class _Data(msgspec.Struct):
    result: Any = None


class _Answer(msgspec.Struct):
    """What Prometheus answers to a query."""

    status: str = ""
    data: _Data = msgspec.field(default_factory=_Data)
    error: str = ""


class _Labelled(msgspec.Struct):
    metric: dict[str, str]
    value: tuple[float, str]


_answer = msgspec.json.Decoder(_Answer)


async def read_all(
    fetcher: Fetcher, options: ScalerOptions, now: float
) -> tuple[dict[Role, dict[str, Reading]], int]:
    """The readings of every pool, and the requests that wait before all of them."""
    asking = _Asking(fetcher, options, now)
    roles = list(options.sources)
    at_router = asyncio.create_task(asking.router())
    pools = await asyncio.gather(*(asking.pool(options.sources[role]) for role in roles))
    return dict(zip(roles, pools, strict=True)), await at_router


class _Asking:
    """One look at one object. What comes is read in other threads: the loop is there for all objects."""

    def __init__(self, fetcher: Fetcher, options: ScalerOptions, now: float) -> None:
        self._fetcher, self._options, self._now = fetcher, options, now
        self._slots = fetcher.slots()

    async def pool(self, source: Source) -> dict[str, Reading]:
        """The replicas of one pool."""
        match source:
            case Direct(urls):
                readings: dict[str, Reading] = {}
                for one in await asyncio.gather(*(self._direct(url) for url in urls)):
                    readings.update(one)
                return readings
            case ThroughPrometheus():
                return await self._prometheus(source)

    async def _direct(self, url: str) -> dict[str, Reading]:
        addresses = await self._fetcher.addresses(url)
        if not isinstance(addresses, list):
            return {url: addresses}
        parts = urlsplit(url)
        readings = await asyncio.gather(*(self._replica(url, address) for address in addresses))
        names = (f"{address}:{parts.port}{parts.path}" for address in addresses)
        return dict(zip(names, readings, strict=True))

    async def _replica(self, url: str, address: str) -> Reading:
        oldest = self._options.stale_seconds
        body = await self._fetcher.get(self._slots, url, address, oldest=oldest)
        if not isinstance(body, str):
            return body
        return await asyncio.to_thread(read_text, body, self._now, self._options.model_name)

    async def _query(self, server: str, query: str) -> list[_Labelled] | Unreadable:
        addresses = await self._fetcher.addresses(server)
        if not isinstance(addresses, list):
            return Unreadable("failed", shortened(f"prometheus: {addresses.why}"))
        url = f"{server}/api/v1/query"
        body = await self._fetcher.get(self._slots, url, addresses[0], [("query", query)])
        if not isinstance(body, str):
            return Unreadable("failed", shortened(f"prometheus: {body.why}"))
        return await asyncio.to_thread(_result, body)

    async def _prometheus(self, source: ThroughPrometheus) -> dict[str, Reading]:
        """All series of vLLM as they are, replica by replica.

        What an instant query answers has the time of the query: how old values are is asked apart.
        """
        matchers = [f'__name__=~"{"|".join(sorted(NAMES))}"']
        if self._options.model_name:
            name = msgspec.json.encode(self._options.model_name).decode()
            matchers.append(f"{vllm.MODEL_LABEL}={name}")
        if source.selector:
            matchers.append(source.selector)
        running = f'__name__=~"{vllm.RUNNING}|{sglang.RUNNING}"'
        age = f"time() - timestamp({{{','.join((running, *matchers[1:]))}}})"
        unreadable, ages = await asyncio.gather(
            self._query(source.server, "{" + ",".join(matchers) + "}"), self._query(source.server, age)
        )
        if isinstance(unreadable, Unreadable):
            return {source.server: unreadable}
        if isinstance(ages, Unreadable):
            return {source.server: ages}
        if len({_replica(one.metric) for one in unreadable}) > _MOST_REPLICAS:
            why = f"prometheus: more than {_MOST_REPLICAS} replicas"
            return {source.server: Unreadable("too_large", why)}
        return await asyncio.to_thread(_readings, unreadable, ages, self._now, self._options.stale_seconds)

    async def router(self) -> int:
        """Requests that wait before any replica has them; nobody's answer is none."""
        if not self._options.router_query:
            return 0
        sources = self._options.sources.values()
        server = next(source.server for source in sources if isinstance(source, ThroughPrometheus))
        query = await self._query(server, self._options.router_query)
        if isinstance(query, Unreadable):
            return 0
        total = sum(_number(one.value[1]) for one in query)
        return round(total) if 0.0 <= total <= 1e9 else 0


def _result(body: str) -> list[_Labelled] | Unreadable:
    try:
        answer = _answer.decode(body)
        if answer.status != "success":
            return Unreadable("failed", shortened(f"prometheus: {answer.error or 'no success'}"))
        convert: list[_Labelled] = msgspec.convert(answer.data.result, list[_Labelled])
    except msgspec.MsgspecError as error:
        return Unreadable("malformed", shortened(f"prometheus: {error}"))
    return convert if len(convert) <= MOST_SERIES else Unreadable("too_large", "prometheus: too many series")


def _readings(
    found: Sequence[_Labelled], ages: Sequence[_Labelled], now: float, stale: float
) -> dict[str, Reading]:
    """By replica; one whose values are too old is not read."""
    age_of = {_replica(one.metric): _number(one.value[1]) for one in ages}
    series: Mapping[str, list[Series]] = defaultdict(list)
    for one in found:
        labels = dict(one.metric)
        series[_replica(labels)].append(Series(labels.pop("__name__", ""), labels, _number(one.value[1])))
    readings: dict[str, Reading] = {}
    for replica, mine in series.items():
        age = age_of.get(replica, math.inf)
        if not age <= stale:
            readings[replica] = Unreadable("stale", f"its metrics are {age:.0f} s old")
        else:
            readings[replica] = read_series(mine, now - max(age, 0.0))
    return readings


def _replica(labels: Mapping[str, str]) -> str:
    """Who a series is of."""
    return labels.get("pod") or labels.get("instance") or ""


def _number(text: str) -> float:
    try:
        return float(text)
    except ValueError:
        return math.nan
