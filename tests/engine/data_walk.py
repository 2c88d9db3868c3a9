"""The walk of the data, counted: which files a pod passes through, and as values of which types.

    python -m tests.engine.data_walk

A cluster runs in this process, with its API, a simulated node and a store in SQLite. A profiler notes every
function of the package that is handed the pod (by its name, however deep it lies in the arguments) and every
value of a class of the package that is made with the pod in it. Two walks: from `kubectl apply` to a pod that
runs, and from a change in the store to the line that a watcher reads.
"""

from __future__ import annotations

import asyncio
import dataclasses
import json
import sys
import tempfile
from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from types import CodeType, FrameType
from typing import Any

import httpx
import msgspec

import proreus
from proreus.engine.api.server.options import ApiOptions
from proreus.engine.cluster import Engine, EngineOptions
from proreus.engine.node_host import SimulatedNodes
from proreus.engine.scheduler.core import SchedulingOptions

NAME = "walked-pod"
_PACKAGE = str(Path(proreus.__file__).parent)
_DEEPEST = 6
_WIDEST = 64
_PODS = "/api/v1/namespaces/default/pods"
_SECONDS = 60.0


@dataclass
class Walk:
    """Where the pod was seen."""

    files: Counter[str] = field(default_factory=Counter)
    """Calls with the pod among their arguments, by file."""
    types: Counter[str] = field(default_factory=Counter)
    """Values that were made with the pod in them, by class."""
    out_only: bool = False
    """Whether only the way from the store to one watcher of the API is looked at."""
    _published: bool = False
    _watchers: list[asyncio.Task[Any] | None] = field(default_factory=list)

    def see(self, frame: FrameType, event: str, _: Any) -> None:
        """For `sys.setprofile`."""
        if self.out_only and not self._comes_out(frame, event):
            return
        if event == "call":
            self._see_call(frame)
        elif event == "return" and frame.f_code.co_name in ("__init__", "__post_init__"):
            self._see_made(frame)

    def _comes_out(self, frame: FrameType, event: str) -> bool:
        """Whether it is of the store's feed, the feed of the kind, or the watcher's own request."""
        name, task = frame.f_code.co_qualname, asyncio.current_task()
        if event == "call" and name.startswith("Watches."):
            self._watchers.append(task)
        if event == "call" and name == "WatchFeed.publish":
            self._published |= carries([change.key for change in frame.f_locals["changes"]])
        of_feed = task is not None and task.get_name().startswith("feed of")
        return self._published and (name.startswith("WatchFeed.") or of_feed or task in self._watchers)

    def _see_call(self, frame: FrameType) -> None:
        code = frame.f_code
        if not code.co_filename.startswith(_PACKAGE) or not code.co_argcount + code.co_kwonlyargcount:
            return
        if any(carries(frame.f_locals.get(name)) for name in _arguments(code)):
            self.files[code.co_filename.removeprefix(_PACKAGE + "/")] += 1

    def _see_made(self, frame: FrameType) -> None:
        made = frame.f_locals.get("self")
        if made is None or not type(made).__module__.startswith("proreus."):
            return
        if frame.f_code.co_name == "__init__" and any(carries(part) for part in _parts(made)):
            self.types[f"{type(made).__module__.removeprefix('proreus.')}.{type(made).__qualname__}"] += 1


def _arguments(code: CodeType) -> tuple[str, ...]:
    names = code.co_varnames[: code.co_argcount + code.co_kwonlyargcount]
    return names[1:] if names[:1] == ("self",) else names


def _parts(value: Any) -> list[Any]:
    if isinstance(value, msgspec.Struct):
        return [getattr(value, name) for name in value.__struct_fields__]
    if dataclasses.is_dataclass(value):
        return [getattr(value, part.name, None) for part in dataclasses.fields(value)]
    names = [name for cls in type(value).__mro__ for name in getattr(cls, "__slots__", ())]
    return [getattr(value, name, None) for name in names] or list(vars(value).values())


def carries(value: Any, depth: int = _DEEPEST) -> bool:
    """Whether the pod's name stands in it; services, which hold everything, are not looked into."""
    if isinstance(value, str):
        return NAME in value
    if isinstance(value, bytes):
        return NAME.encode() in value
    if not depth:
        return False
    if isinstance(value, Mapping):
        return any(carries(part, depth - 1) for part in [*value, *value.values()][:_WIDEST])
    if isinstance(value, list | tuple):
        return any(carries(part, depth - 1) for part in value[:_WIDEST])
    if isinstance(value, msgspec.Struct):
        frozen = bool(type(value).__struct_config__.frozen)
    elif isinstance(value, type) or not dataclasses.is_dataclass(value):
        return False
    else:
        frozen = bool(vars(type(value))["__dataclass_params__"].frozen)
    return frozen and any(carries(part, depth - 1) for part in _parts(value))


def pod(**metadata: Any) -> dict[str, Any]:
    """As `kubectl apply` sends it."""
    spec = {"containers": [{"name": "main", "image": "work", "resources": {"requests": {"cpu": "1"}}}]}
    return {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": NAME, **metadata}, "spec": spec}


def _apply(port: int) -> None:
    """Until the pod runs."""
    with httpx.Client(base_url=f"http://127.0.0.1:{port}", timeout=_SECONDS) as client:
        answer = client.post(_PODS, json=pod(), params={"fieldManager": "kubectl-client-side-apply"})
        answer.raise_for_status()
        _wait_for_line(client, lambda event: event["object"].get("status", {}).get("phase") == "Running")


def _change(port: int, walk: Walk) -> None:
    """Until a watcher has read the change."""
    with httpx.Client(base_url=f"http://127.0.0.1:{port}", timeout=_SECONDS) as client:
        found = client.get(f"{_PODS}/{NAME}").json()
        found["metadata"]["labels"] = {"changed": "yes"}
        params = {"watch": "1", "resourceVersion": found["metadata"]["resourceVersion"]}
        with client.stream("GET", _PODS, params=params) as watched:
            lines = watched.iter_lines()
            with httpx.Client(base_url=client.base_url, timeout=_SECONDS) as other:
                other.put(f"{_PODS}/{NAME}", json=found).raise_for_status()
            for line in lines:
                if json.loads(line)["object"]["metadata"].get("labels"):
                    return
    raise RuntimeError(f"no line came: {walk}")


def _wait_for_line(client: httpx.Client, wanted: Callable[[dict[str, Any]], bool]) -> None:
    with client.stream("GET", _PODS, params={"watch": "1"}) as watched:
        for line in watched.iter_lines():
            if wanted(json.loads(line)):
                return


async def _watched(walk: Walk, ask: Callable[[], None]) -> Walk:
    """What happens to the pod while a client asks, from another thread, which is not looked at."""
    loop = asyncio.get_running_loop()
    thread = loop.run_in_executor(None, ask)
    sys.setprofile(walk.see)
    try:
        await thread
        await asyncio.sleep(0.2)  # whoever is told last
    finally:
        sys.setprofile(None)
    return walk


async def walks(folder: str) -> tuple[Walk, Walk]:
    """From `kubectl apply` to a pod that runs; from the store's change to a watcher's line."""
    nodes = SimulatedNodes(("node-1",), {"cpu": "8", "memory": "16Gi", "pods": "110"})
    engine = Engine(EngineOptions(f"sqlite:{folder}/cluster.db", nodes, SchedulingOptions(), ApiOptions()))
    await asyncio.to_thread(engine.load)
    ending, ready = asyncio.Event(), asyncio.Event()
    running = asyncio.create_task(engine.run(ending, lambda _: ready.set()))
    try:
        await asyncio.wait_for(ready.wait(), _SECONDS)
        await asyncio.sleep(2.0)  # informers have listed, somebody leads
        there = await _watched(Walk(), lambda: _apply(engine.port))
        back = Walk(out_only=True)
        await _watched(back, lambda: _change(engine.port, back))
    finally:
        ending.set()
        await running
    return there, back


def main() -> None:
    """Print both, then what they passed through."""
    with tempfile.TemporaryDirectory() as folder:
        there, back = asyncio.run(walks(folder))
    for title, walk in (("apply to running", there), ("store's change to a watcher's line", back)):
        made = sum(walk.types.values())
        sys.stdout.write(f"{title}: {len(walk.files)} files, {len(walk.types)} types, {made} values made\n")
        for name, count in [*sorted(walk.types.items()), *sorted(walk.files.items())]:
            sys.stdout.write(f"    {count:4} {name}\n")


if __name__ == "__main__":
    main()
