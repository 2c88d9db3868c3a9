"""Probes of a container: whether it has started, serves, and lives, as its spec wants that found out."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass
from typing import Any
from urllib.parse import urlsplit

from proreus.engine.runtimes.protocol import Executed, RuntimeRefused

_MOST_HEAD = 64 * 1024


@dataclass(frozen=True, slots=True)
class Probed:
    """A container that is probed, and what to do about what is found."""

    container: Mapping[str, Any]
    address: str
    execute: Callable[[list[str], float], Awaitable[Executed]]
    ready: Callable[[bool], None]
    """Called with every change."""
    fail: Callable[[str], Awaitable[None]]
    """It must be killed: the message says which probe failed."""


async def probe(probed: Probed) -> None:
    """Until cancelled: first the startup probe, then the others side by side."""
    startup = probed.container.get("startupProbe")
    if startup and not await _until(probed, startup, "Startup"):
        return
    readiness, liveness = probed.container.get("readinessProbe"), probed.container.get("livenessProbe")
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
        ok, told = await once(probed, spec)
        if ok:
            return True
        failures += 1
        if failures >= int(spec.get("failureThreshold") or 3):
            await probed.fail(f"{name} probe failed: {told}")
            return False
        await asyncio.sleep(_period(spec))


async def _readiness(probed: Probed, spec: Mapping[str, Any]) -> None:
    await asyncio.sleep(float(spec.get("initialDelaySeconds") or 0))
    ready, row = False, 0
    while True:
        ok, _ = await once(probed, spec)
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


async def once(probed: Probed, spec: Mapping[str, Any]) -> tuple[bool, str]:
    """Whether it went well this time, and what to say where it did not."""
    limit = float(spec.get("timeoutSeconds") or 1)
    try:
        async with asyncio.timeout(limit):
            if "exec" in spec:
                done = await probed.execute([str(one) for one in spec["exec"].get("command") or ()], limit)
                return done.exit_code == 0, (done.stdout + done.stderr)[:1024].decode(errors="replace")
            if "httpGet" in spec:
                return await _http(probed, spec["httpGet"])
            if "tcpSocket" in spec:
                where = spec["tcpSocket"]
                _, writer = await asyncio.open_connection(
                    where.get("host") or probed.address, port_of(probed.container, where["port"])
                )
                await _close(writer)
                return True, ""
    except TimeoutError:
        return False, f"no answer in {limit:g}s"
    except (OSError, RuntimeRefused, ValueError) as error:
        return False, str(error)
    return False, f"a probe of a kind that this node does not know: {sorted(spec)}"


async def _http(probed: Probed, spec: Mapping[str, Any]) -> tuple[bool, str]:
    """A GET without following anything: 200 to 399 is well."""
    host, port = spec.get("host") or probed.address, port_of(probed.container, spec["port"])
    path = str(spec.get("path") or "/")
    if any(char in path for char in "\r\n ") or urlsplit(path).netloc:
        return False, f"{path!r} is not a path"
    secure = str(spec.get("scheme") or "HTTP").upper() == "HTTPS"
    headers = {"Host": f"{host}:{port}", "User-Agent": "proreus-probe", "Connection": "close"}
    for one in spec.get("httpHeaders") or ():
        headers[str(one["name"])] = str(one["value"])
    lines = [f"GET {path} HTTP/1.1", *(f"{name}: {value}" for name, value in headers.items()), "", ""]
    context = _unchecked() if secure else None
    reader, writer = await asyncio.open_connection(host, port, ssl=context, limit=_MOST_HEAD)
    try:
        writer.write("\r\n".join(lines).encode())
        await writer.drain()
        status = (await reader.readline()).split()
    finally:
        await _close(writer)
    if len(status) < 2 or not status[1].isdigit():
        return False, "the answer is not HTTP"
    code = int(status[1])
    return 200 <= code < 400, f"HTTP probe failed with statuscode: {code}"


def _unchecked() -> Any:
    """Probes ask a container about itself: its certificate is nobody's business, as with Kubernetes."""
    import ssl

    context = ssl.create_default_context()
    context.check_hostname = False
    context.verify_mode = ssl.CERT_NONE
    return context


async def _close(writer: asyncio.StreamWriter) -> None:
    writer.close()
    with contextlib.suppress(OSError):
        await writer.wait_closed()


def port_of(container: Mapping[str, Any], port: object) -> int:
    """A number, or the name of one of the container's ports."""
    if isinstance(port, int) or str(port).isdigit():
        return int(str(port))
    for one in container.get("ports") or ():
        if one.get("name") == port:
            return int(one["containerPort"])
    raise ValueError(f"the container has no port {port!r}")
