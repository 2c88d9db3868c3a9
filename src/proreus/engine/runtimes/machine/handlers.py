"""What probes and lifecycle hooks have in common: the ways in which a container is asked for something."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass
from typing import Any
from urllib.parse import urlsplit

from proreus.engine.runtimes.protocol import Executed

_MOST_HEAD = 64 * 1024
_MOST_TOLD = 1024
_LARGEST_PORT = 65535


@dataclass(frozen=True, slots=True)
class Reached:
    """A container, and how one gets at it."""

    container: Mapping[str, Any]
    address: str
    execute: Callable[[list[str], float], Awaitable[Executed]]
    """A command in it, and the most seconds that it may take."""


async def run_exec(reached: Reached, spec: Mapping[str, Any], limit: float) -> tuple[int, str]:
    """The exit code, and the beginning of what it printed; raises `RuntimeRefused`, `ValueError`."""
    command = [str(one) for one in spec.get("command") or ()]
    if not command:
        raise ValueError("there is no command to execute")
    done = await reached.execute(command, limit)
    return done.exit_code, (done.stdout + done.stderr)[:_MOST_TOLD].decode(errors="replace")


async def http_status(reached: Reached, spec: Mapping[str, Any]) -> int:
    """Of a GET that follows nothing; raises `OSError`, and `ValueError` for what is not HTTP."""
    host, port = spec.get("host") or reached.address, port_of(reached.container, spec.get("port"))
    path = str(spec.get("path") or "/")
    if any(char in path for char in "\r\n ") or urlsplit(path).netloc:
        raise ValueError(f"{path!r} is not a path")
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
        raise ValueError("the answer is not HTTP")
    return int(status[1])


async def reach_port(reached: Reached, spec: Mapping[str, Any]) -> None:
    """Connect to `tcpSocket`, and no more; raises `OSError`, `ValueError`."""
    host, port = spec.get("host") or reached.address, port_of(reached.container, spec.get("port"))
    _, writer = await asyncio.open_connection(host, port)
    await _close(writer)


def _unchecked() -> Any:
    """A container is asked about itself: its certificate is nobody's business, as with Kubernetes."""
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
    """A number, or the name of one of the container's ports; raises `ValueError`."""
    if isinstance(port, int) or str(port).isdigit():
        number = int(str(port))
        if not 0 < number <= _LARGEST_PORT:
            raise ValueError(f"{number} is not a port")
        return number
    for one in container.get("ports") or ():
        if one.get("name") == port:
            return int(one["containerPort"])
    raise ValueError(f"the container has no port {port!r}")
