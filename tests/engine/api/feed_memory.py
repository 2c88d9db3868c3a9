"""What watchers of long objects cost: `python -m tests.engine.api.feed_memory SCENE CHANGES [COUNT]`.

An API over a SQLite file, a ConfigMap of 900 kB that is changed again and again, and watchers that read, or
that begin far back and read nothing. Prints the megabytes that the process had before and at most.
"""

from __future__ import annotations

import asyncio
import json
import socket
import sys
import tempfile
import threading
import time
from collections.abc import Iterator
from contextlib import ExitStack, closing, contextmanager
from http.client import HTTPConnection
from pathlib import Path
from typing import Any

from proreus.engine.api.server.application import create_app
from proreus.engine.api.server.options import ApiOptions
from proreus.engine.api.server.server import ApiServer
from proreus.engine.objects.registry import Registry
from proreus.engine.store.sqlite.store import SQLiteStore

_PATH = "/api/v1/namespaces/default/configmaps"
_LONG = 900_000


def _megabytes(what: str) -> int:
    lines = Path("/proc/self/status").read_text().splitlines()
    return next(int(line.split()[1]) for line in lines if line.startswith(what)) // 1024


@contextmanager
def _serving(folder: Path) -> Iterator[int]:
    """The port of an API, served by a thread."""
    ports: list[int] = []
    ready, loops = threading.Event(), list[tuple[asyncio.AbstractEventLoop, asyncio.Event]]()

    async def main() -> None:
        store = await SQLiteStore.open(folder / "store.db")
        registry = Registry(store)
        await registry.prepare()
        options = ApiOptions()
        server = ApiServer(create_app(registry, options), options)
        await server.start()
        ports.append(server.port)
        loops.append((asyncio.get_running_loop(), asyncio.Event()))
        ready.set()
        await loops[0][1].wait()
        await server.stop()
        await store.close()

    thread = threading.Thread(target=asyncio.run, args=(main(),))
    thread.start()
    assert ready.wait(60)
    try:
        yield ports[0]
    finally:
        loop, ending = loops[0]
        loop.call_soon_threadsafe(ending.set)
        thread.join(60)


def _request(connection: HTTPConnection, method: str, path: str, body: Any = None) -> Any:
    headers = {"Content-Type": "application/json"}
    connection.request(method, path, None if body is None else json.dumps(body), headers)
    answer = connection.getresponse()
    document = json.loads(answer.read())
    assert answer.status < 300, document
    return document


def _change(port: int, times: int) -> int:
    """The revision before the first of so many changes."""
    with closing(HTTPConnection("127.0.0.1", port, timeout=60)) as connection:
        made = {"metadata": {"name": "long"}, "data": {"long": ""}}
        first = _request(connection, "POST", _PATH, made)
        for number in range(times):
            long = {**made, "data": {"long": f"{number:08}" + "x" * (_LONG - 8)}}
            _request(connection, "PUT", f"{_PATH}/long", long)
    return int(first["metadata"]["resourceVersion"])


def _watch(port: int, after: int, *, reads: bool) -> socket.socket:
    watcher = socket.create_connection(("127.0.0.1", port))
    if reads:
        threading.Thread(target=_read_on, args=(watcher,), daemon=True).start()
    version = f"&resourceVersion={after}" if after else ""
    watcher.sendall(f"GET {_PATH}?watch=1{version} HTTP/1.1\r\nHost: localhost\r\n\r\n".encode())
    return watcher


def _read_on(watcher: socket.socket) -> None:
    try:
        while watcher.recv(1 << 16):
            pass
    except OSError:
        return  # closed here


def main(scene: str, changes: int, watchers: int = 1) -> dict[str, int]:
    """Megabytes before, and at most."""
    with ExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory()))
        port = stack.enter_context(_serving(folder))
        before = _megabytes("VmRSS")
        match scene:
            case "reads":
                for _ in range(watchers):
                    stack.enter_context(closing(_watch(port, 0, reads=True)))
                time.sleep(0.5)
                _change(port, changes)
            case "past":  # the feed begins after the changes, and remembers none of them
                after = _change(port, changes)
                for _ in range(watchers):
                    stack.enter_context(closing(_watch(port, after, reads=False)))
                time.sleep(5)
            case _:
                raise SystemExit(f"{scene}: no such scene")
        return {"before": before, "most": _megabytes("VmHWM")}


if __name__ == "__main__":
    sys.stdout.write(json.dumps(main(sys.argv[1], *map(int, sys.argv[2:]))))
