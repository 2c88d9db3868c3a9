"""Where readings come from: replicas themselves, or a Prometheus server that has asked them."""

from __future__ import annotations

import asyncio
import math
from collections import defaultdict
from collections.abc import Mapping
from typing import Any
from urllib.parse import urlsplit

import msgspec

from proreus.serving.scaler.exposition import MOST_SERIES, NAMES, Series, read_series, read_text
from proreus.serving.scaler.fetching import Fetcher
from proreus.serving.scaler.options import Direct, ScalerOptions, Source, ThroughPrometheus
from proreus.serving.values import shortened
from proreus.worlds.inference.model import vllm
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
    roles = list(options.sources)
    pools = await asyncio.gather(*(_pool(fetcher, options.sources[role], options, now) for role in roles))
    at_router = await _router(fetcher, options) if options.router_query else 0
    return dict(zip(roles, pools, strict=True)), at_router


async def _pool(fetcher: Fetcher, source: Source, options: ScalerOptions, now: float) -> dict[str, Reading]:
    match source:
        case Direct(urls):
            found: dict[str, Reading] = {}
            for one in await asyncio.gather(*(_direct(fetcher, url, options, now) for url in urls)):
                found.update(one)
            return found
        case ThroughPrometheus():
            return await _prometheus(fetcher, source, options, now)


async def _direct(fetcher: Fetcher, url: str, options: ScalerOptions, now: float) -> dict[str, Reading]:
    addresses = await fetcher.addresses(url)
    if not isinstance(addresses, list):
        return {url: addresses}
    port = urlsplit(url).port
    bodies = await asyncio.gather(*(fetcher.get(url, address) for address in addresses))
    path = urlsplit(url).path
    return {
        f"{address}:{port}{path}": read_text(body, now, options.model_name) if isinstance(body, str) else body
        for address, body in zip(addresses, bodies, strict=True)
    }


async def _query(fetcher: Fetcher, server: str, query: str) -> list[_Labelled] | Unreadable:
    addresses = await fetcher.addresses(server)
    if not isinstance(addresses, list):
        return Unreadable("failed", shortened(f"prometheus: {addresses.why}"))
    body = await fetcher.get(f"{server}/api/v1/query", addresses[0], [("query", query)])
    if not isinstance(body, str):
        return Unreadable("failed", shortened(f"prometheus: {body.why}"))
    try:
        answer = _answer.decode(body)
        if answer.status != "success":
            return Unreadable("failed", shortened(f"prometheus: {answer.error or 'no success'}"))
        found: list[_Labelled] = msgspec.convert(answer.data.result, list[_Labelled])
    except msgspec.MsgspecError as error:
        return Unreadable("malformed", shortened(f"prometheus: {error}"))
    if len(found) > MOST_SERIES * 16:
        return Unreadable("too_large", "prometheus: too many series")
    return found


async def _prometheus(
    fetcher: Fetcher, source: ThroughPrometheus, options: ScalerOptions, now: float
) -> dict[str, Reading]:
    """All series of vLLM as they are, replica by replica; one that is too old is not read.

    What an instant query answers has the time of the query: how old values are is asked apart.
    """
    matchers = [f'__name__=~"{"|".join(sorted(NAMES))}"']
    if options.model_name:
        matchers.append(f"{vllm.MODEL_LABEL}={msgspec.json.encode(options.model_name).decode()}")
    if source.selector:
        matchers.append(source.selector)
    found, written = await asyncio.gather(
        _query(fetcher, source.server, "{" + ",".join(matchers) + "}"),
        _query(fetcher, source.server, f"time() - timestamp({vllm.RUNNING}{{{','.join(matchers[1:])}}})"),
    )
    if isinstance(found, Unreadable):
        return {source.server: found}
    if isinstance(written, Unreadable):
        return {source.server: written}
    ages = {_replica(one.metric): _number(one.value[1]) for one in written}
    series: Mapping[str, list[Series]] = defaultdict(list)
    for one in found:
        labels = dict(one.metric)
        series[_replica(labels)].append(Series(labels.pop("__name__", ""), labels, _number(one.value[1])))
    if len(series) > _MOST_REPLICAS:
        return {source.server: Unreadable("too_large", f"prometheus: more than {_MOST_REPLICAS} replicas")}
    readings: dict[str, Reading] = {}
    for replica, mine in series.items():
        age = ages.get(replica, math.inf)
        if not age <= options.stale_seconds:
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


async def _router(fetcher: Fetcher, options: ScalerOptions) -> int:
    """Requests that wait before any replica has them; nobody's answer is none."""
    source = next(one for one in options.sources.values() if isinstance(one, ThroughPrometheus))
    found = await _query(fetcher, source.server, options.router_query)
    if isinstance(found, Unreadable):
        return 0
    total = sum(_number(one.value[1]) for one in found)
    return round(total) if 0.0 <= total <= 1e9 else 0
