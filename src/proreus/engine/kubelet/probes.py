"""Probes of a container: whether it has started, serves, and lives, as its spec wants that found out."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass
from typing import Any

from proreus.engine.kubelet.handlers import (
    Reached,
    dialled,
    http_status,
    reach_port,
    run_exec,
    url_of,
)
from proreus.engine.kubelet.handlers import port_of as port_of
from proreus.engine.runtimes.protocol import RuntimeAway, RuntimeRefused

PROBES = ("startupProbe", "readinessProbe", "livenessProbe")


@dataclass(frozen=True, slots=True)
class Probed:
    """A container that is probed, and what to do about what is found."""

    reached: Reached
    ready: Callable[[bool], None]
    """Called with every change."""
    unwell: Callable[[str], None]
    """Called with every failure: the message says which probe failed, and how."""
    fail: Callable[[str, Mapping[str, Any]], Awaitable[None]]
    """It must be killed for that; with the probe's spec."""


async def probe(probed: Probed) -> None:
    """Until cancelled: first the startup probe, then the others side by side."""
    startup = probed.reached.container.get("startupProbe")
    if startup and not await _until(probed, startup, "Startup"):
        return
    readiness, liveness = (
        probed.reached.container.get("readinessProbe"),
        probed.reached.container.get("livenessProbe"),
    )
    if not readiness:
        probed.ready(True)
    async with asyncio.TaskGroup() as group:
        if readiness:
            group.create_task(_readiness(probed, readiness))
        if liveness:
            group.create_task(_liveness(probed, liveness))


async def _until(probed: Probed, spec: Mapping[str, Any], name: str) -> bool:
    """Wait for a success; False where the container was failed instead."""
    await asyncio.sleep(float(spec.get("initialDelaySeconds") or 0))
    failures = 0
    while True:
        ok, text = await once(probed, spec)
        if ok is None:
            await asyncio.sleep(_period(spec))
            continue
        if ok:
            return True
        failures += 1
        message = f"{name} probe failed: {text}"
        probed.unwell(message)
        if failures >= int(spec.get("failureThreshold") or 3):
            await probed.fail(message, spec)
            return False
        await asyncio.sleep(_period(spec))


async def _readiness(probed: Probed, spec: Mapping[str, Any]) -> None:
    await asyncio.sleep(float(spec.get("initialDelaySeconds") or 0))
    ready, row = False, 0
    while True:
        ok, message = await once(probed, spec)
        if ok is None:
            await asyncio.sleep(_period(spec))
            continue
        if not ok:
            probed.unwell(f"Readiness probe failed: {message}")
        row = 0 if ok == ready else row + 1
        needed = int(spec.get("failureThreshold") or 3) if ready else int(spec.get("successThreshold") or 1)
        if row >= needed:
            ready, row = ok, 0
            probed.ready(ready)
        await asyncio.sleep(_period(spec))


async def _liveness(probed: Probed, spec: Mapping[str, Any]) -> None:
    while await _until(probed, spec, "Liveness"):
        await asyncio.sleep(_period(spec))
        spec = {**spec, "initialDelaySeconds": 0}


def _period(spec: Mapping[str, Any]) -> float:
    return float(spec.get("periodSeconds") or 10)


async def once(probed: Probed, spec: Mapping[str, Any]) -> tuple[bool | None, str]:
    """Whether it went well this time, and what to say where it did not; None: nobody could ask."""
    limit = float(spec.get("timeoutSeconds") or 1)
    try:
        async with asyncio.timeout(limit):
            if "exec" in spec:
                code, message = await run_exec(probed.reached, spec["exec"], limit)
                return code == 0, message
            if "httpGet" in spec:
                status = await http_status(probed.reached, spec["httpGet"])
                return 200 <= status < 400, f"HTTP probe failed with statuscode: {status}"
            if "tcpSocket" in spec:
                await reach_port(probed.reached, spec["tcpSocket"])
                return True, ""
    except RuntimeAway as away:
        return None, str(away)
    except TimeoutError:
        return False, _late(probed.reached, spec, limit)
    except (OSError, RuntimeRefused, ValueError) as error:
        return False, str(error)
    return False, f"a probe of a kind that this node does not know: {sorted(spec)}"


def _late(reached: Reached, spec: Mapping[str, Any], limit: float) -> str:
    """Who gave no answer in time, in a kubelet's words where it is asked over the network."""
    if "httpGet" in spec:
        message = "context deadline exceeded (Client.Timeout exceeded while awaiting headers)"
        return f'Get "{url_of(reached, spec["httpGet"])}": {message}'
    if "tcpSocket" in spec:
        return f"{dialled(reached, spec['tcpSocket'])}: i/o timeout"
    return f"no answer in {limit:g}s"
