"""What probes and lifecycle hooks have in common: the ways in which a container is asked for something.

Who does not answer is named as a kubelet names it: `Get "http://10.0.0.1:80/": dial tcp 10.0.0.1:80: ...`.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import ssl
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass
from typing import Any
from urllib.parse import urlsplit

from proreus.engine.runtimes.protocol import CommandResult

_MOST_HEAD = 64 * 1024
_MOST_TOLD = 1024
_LARGEST_PORT = 65535


@dataclass(frozen=True, slots=True)
class Reached:
    """A container, and how one gets at it."""

    container: Mapping[str, Any]
    address: str
    execute: Callable[[list[str], float], Awaitable[CommandResult]]
    """A command in it, and the most seconds that it may take."""


async def run_exec(reached: Reached, spec: Mapping[str, Any], limit: float) -> tuple[int, str]:
    """The exit code, and the beginning of what it printed; raises `RuntimeRefused`, `ValueError`."""
    command = [str(word) for word in spec.get("command") or ()]
    if not command:
        raise ValueError("there is no command to execute")
    done = await reached.execute(command, limit)
    return done.exit_code, (done.stdout + done.stderr)[:_MOST_TOLD].decode(errors="replace")


def url_of(reached: Reached, spec: Mapping[str, Any]) -> str:
    """What `httpGet` asks for; raises `ValueError` where that cannot be."""
    path = _path_of(spec)
    return f"{_scheme_of(spec)}://{_at(*_server_of(reached, spec))}{path}"


async def http_status(reached: Reached, spec: Mapping[str, Any]) -> int:
    """Of a GET that follows nothing; raises `OSError`, and `ValueError` for what is not HTTP."""
    url, path, (host, port) = url_of(reached, spec), _path_of(spec), _server_of(reached, spec)
    secure = _scheme_of(spec) == "https"
    headers = {"Host": _at(host, port), "User-Agent": "proreus-probe", "Connection": "close"}
    for http_header in spec.get("httpHeaders") or ():
        headers[str(http_header["name"])] = str(http_header["value"])
    lines = [f"GET {path} HTTP/1.1", *(f"{name}: {value}" for name, value in headers.items()), "", ""]
    context = _unchecked() if secure else None
    try:
        reader, writer = await _connect(host, port, context)
        try:
            writer.write("\r\n".join(lines).encode())
            await writer.drain()
            answer = await reader.readline()
        finally:
            await _close(writer)
    except OSError as error:
        raise ConnectionError(f'Get "{url}": {_reason(error)}') from error
    if not answer:
        raise ConnectionError(f'Get "{url}": EOF')
    status = answer.split()
    if len(status) < 2 or not status[1].isdigit():
        raise ValueError(f'Get "{url}": the answer is not HTTP')
    return int(status[1])


async def reach_port(reached: Reached, spec: Mapping[str, Any]) -> None:
    """Connect to `tcpSocket`, and no more; raises `OSError`, `ValueError`."""
    _, writer = await _connect(*_server_of(reached, spec))
    await _close(writer)


def dialled(reached: Reached, spec: Mapping[str, Any]) -> str:
    """What `tcpSocket` connects to; raises `ValueError` where that cannot be."""
    return f"dial tcp {_at(*_server_of(reached, spec))}"


def _server_of(reached: Reached, spec: Mapping[str, Any]) -> tuple[str, int]:
    return str(spec.get("host") or reached.address), port_of(reached.container, spec.get("port"))


def _at(host: str, port: int) -> str:
    return f"[{host}]:{port}" if ":" in host else f"{host}:{port}"


def _scheme_of(spec: Mapping[str, Any]) -> str:
    return str(spec.get("scheme") or "HTTP").lower()


def _path_of(spec: Mapping[str, Any]) -> str:
    path = str(spec.get("path") or "/")
    if any(char in path for char in "\r\n ") or urlsplit(path).netloc:
        raise ValueError(f"{path!r} is not a path")
    return path if path.startswith("/") else f"/{path}"


async def _connect(
    host: str, port: int, context: ssl.SSLContext | None = None
) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
    try:
        return await asyncio.open_connection(host, port, ssl=context, limit=_MOST_HEAD)
    except ssl.SSLError:
        raise  # there was a connection
    except OSError as error:
        raise ConnectionError(f"dial tcp {_at(host, port)}: connect: {_reason(error)}") from error


def _reason(error: OSError) -> str:
    """In the system's words, without its number; those of asyncio name the call instead of the reason."""
    if error.errno is None or error.errno < 0 or isinstance(error, ssl.SSLError):
        return str(error)
    return os.strerror(error.errno).lower()


def _unchecked() -> ssl.SSLContext:
    """A container is asked about itself: its certificate is nobody's business, as with Kubernetes."""
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
    for stated in container.get("ports") or ():
        if stated.get("name") == port:
            return int(stated["containerPort"])
    raise ValueError(f"the container has no port {port!r}")
