"""Random requests at the API of a real `proreus up --nodes 5`, for as long as asked.

    python -m tests.engine.api.fuzz --seconds 3600 --seed 1 --report fuzz.json

Ends with 1 where an answer was a 5xx, the engine ended, or no pod is scheduled afterwards; with
--most-worked-ms N also where the engine's loop worked for longer in one go, which it says itself: how long it
was held is told too, but on a machine that others use that is theirs as well. What /livez takes is measured
by a process of its own. What is sent depends on the seed and on what was answered.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import math
import multiprocessing
import os
import signal
import sys
import tempfile
import threading
import time
from collections import Counter, deque
from contextlib import suppress
from dataclasses import dataclass, field
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any

import httpx

from tests.engine.api.grammar import NAMESPACES, Grammar
from tests.engine.api.known import Known, Request
from tests.engine.faults.processes import TOKEN, EngineProcess, up

_KNOWN = {"authorization": f"Bearer {TOKEN}"}
_SPAWN = multiprocessing.get_context("spawn")
_WORKERS = 4
_STREAM_SECONDS = 0.3
"""How long a stream is read before its client hangs up."""
_LOOK_SECONDS = 5.0
_LONG_SECONDS = 0.05
"""Of work of the loop in one go: what was sent just before is told with it."""
_FRAMES = (
    b"\x82\x85\x00\x00\x00\x00\x00true",
    b"\x88\x80\x00\x00\x00\x00",
    b"\xff" * 40,
    b"\x82\xff" + b"\0" * 12,
)


def _probe(server: str, told: Connection) -> None:
    """What /livez takes, asked all the time; nothing once nobody answers."""
    waits = []
    with httpx.Client(base_url=server, timeout=60) as client:
        while not told.poll():
            began = time.perf_counter()
            try:
                client.get("/livez")
            except httpx.TransportError:
                time.sleep(0.2)
                continue
            waits.append(time.perf_counter() - began)
            time.sleep(0.02)
    told.send(waits)


@dataclass
class Found:
    """What came of it."""

    answers: Counter[str] = field(default_factory=Counter)
    failed: list[str] = field(default_factory=list)
    recent: deque[str] = field(default_factory=lambda: deque(maxlen=60))
    held: float = 0.0
    worked: float = 0.0
    long: list[str] = field(default_factory=list)
    """Times at which the loop worked long in one go, with what was sent just before."""
    most_mib: int = 0

    def look(self, client: httpx.Client, process: int) -> None:
        """How long the loop was held and how much it worked since the last look, and the memory."""
        before = list(self.recent)
        told = client.get("/v1/metrics?format=json").json()
        held, worked = (
            float(told[f"proreus_api_loop_{name}_seconds"]["samples"][0]["value"])
            for name in ("held", "worked")
        )
        self.held, self.worked = max(self.held, held), max(self.worked, worked)
        if worked > _LONG_SECONDS:
            self.long.append(f"{time.strftime('%H:%M:%S')} {worked * 1e3:.0f} ms: {before[-12:]}")
        pages = Path(f"/proc/{process}/statm").read_text().split()[1]
        self.most_mib = max(self.most_mib, int(pages) * 4096 // 2**20)


class Fuzz:
    """Some clients that ask at the same time."""

    def __init__(self, server: str, seed: int, ending: threading.Event) -> None:
        self.server, self._seed, self._ending = server, seed, ending
        self.found, self._known = Found(), Known()
        self._threads = [threading.Thread(target=self._ask, args=(number,)) for number in range(_WORKERS)]

    def start(self) -> None:
        """Until the event is set."""
        for thread in self._threads:
            thread.start()

    def join(self) -> None:
        """Until all have ended."""
        for thread in self._threads:
            thread.join(60)

    def _ask(self, number: int) -> None:
        try:
            self._ask_on(number)
        except Exception as error:
            self.found.failed.append(f"the fuzzer itself: {error!r}")
            raise

    def _ask_on(self, number: int) -> None:
        grammar = Grammar(self._seed * _WORKERS + number, self._known)
        with httpx.Client(base_url=self.server, timeout=30, headers=_KNOWN) as client:
            while not self._ending.is_set():
                request = grammar.request()
                self.found.recent.append(str(request)[:300])
                try:
                    if request.stream:
                        self._listen(client, request)
                    else:
                        self._send(client, request)
                except (httpx.TransportError, httpx.InvalidURL, UnicodeEncodeError) as error:
                    self.found.answers[f"{request.method} {type(error).__name__}"] += 1

    def _send(self, client: httpx.Client, request: Request) -> None:
        answer = client.request(request.method, request.url, content=request.body, headers=request.headers)
        self._note(request, answer)
        self._known.learn(request, answer)

    def _listen(self, client: httpx.Client, request: Request) -> None:
        """The first moments of it."""
        timeout = httpx.Timeout(30, read=1.0)
        until = time.monotonic() + _STREAM_SECONDS
        with client.stream(
            request.method, request.url, content=request.body, headers=request.headers, timeout=timeout
        ) as answer:
            if answer.status_code == 101:
                stream = answer.extensions["network_stream"]
                for frame in _FRAMES[: 1 + hash(request.url) % len(_FRAMES)]:
                    stream.write(frame, timeout=2)
                self._note(request, answer)
                return
            if answer.status_code >= 400:
                answer.read()
            self._note(request, answer)
            if answer.status_code < 400:
                with suppress(httpx.ReadTimeout):  # nothing happens for a while: it hangs up
                    for _ in answer.iter_raw():
                        if time.monotonic() > until:
                            break

    def _note(self, request: Request, answer: httpx.Response) -> None:
        self.found.answers[f"{request.method} {answer.status_code}"] += 1
        if answer.status_code >= 500 and not _still_to_come(answer):
            self.found.failed.append(f"{request}: {answer.status_code} {answer.text[:300]}")


def _still_to_come(answer: httpx.Response) -> bool:
    """Whether a revision was asked for that nobody has made: 504, as the real API server says it."""
    return answer.status_code == 504 and "Too large resource version" in answer.text


def _cleared(client: httpx.Client) -> None:
    """Nothing that was made runs any more: what is asked last is about room on nodes."""
    for namespace in NAMESPACES:
        for kind in ("apps/v1/deployments", "apps/v1/replicasets", "batch/v1/jobs", "v1/pods"):
            group, _, plural = kind.rpartition("/")
            base = "/api" if group == "v1" else "/apis"
            path = f"{base}/{group}/namespaces/{namespace}/{plural}"
            client.request("DELETE", path, json={"gracePeriodSeconds": 0, "propagationPolicy": "Background"})


def _why_not_scheduled(client: httpx.Client) -> str:
    """Why a pod finds no node any more; "" where it does."""
    _cleared(client)
    path = "/api/v1/namespaces/default/pods"
    body = {"metadata": {"name": "afterwards"}, "spec": {"containers": [{"name": "c", "image": "i"}]}}
    client.delete(f"{path}/afterwards?gracePeriodSeconds=0")
    made = client.post(path, json=body)
    if made.status_code != 201:
        return made.text[:500]
    until = time.monotonic() + 60
    while time.monotonic() < until:
        if client.get(f"{path}/afterwards").json().get("spec", {}).get("nodeName"):
            return ""
        time.sleep(0.2)
    nodes = [node["metadata"]["name"] for node in client.get("/api/v1/nodes").json()["items"]]
    return f"nodes {nodes}, {client.get(f'{path}/afterwards').json().get('status')}"[:1000]


def fuzz(seconds: float, seed: int, folder: Path) -> dict[str, Any]:
    """What came of it."""
    engine, server = up(folder, "--nodes", "5")
    ours, theirs = _SPAWN.Pipe()
    probe = _SPAWN.Process(target=_probe, args=(server, theirs), daemon=True)
    ending = threading.Event()
    run = Fuzz(server, seed, ending)
    began = time.monotonic()
    try:
        asyncio.run(engine.start())
        probe.start()
        unscheduled = _attacked(engine, run, seconds, ending)
        ours.send("enough")
        waits: list[float] = sorted(ours.recv()) if ours.poll(90) else []
    finally:
        ending.set()
        engine.end(signal.SIGKILL)
        if probe.pid is not None:  # the engine never began otherwise
            probe.kill()
    return _report(run.found, waits, seed, time.monotonic() - began) | {
        "alive": unscheduled != _ENDED,
        "unscheduled_afterwards": unscheduled,
        "errors_in_its_log": _errors(engine.said()),
    }


_ENDED = "the engine ended"


def _attacked(engine: EngineProcess, run: Fuzz, seconds: float, ending: threading.Event) -> str:
    """Why nothing is scheduled afterwards; "" where all is well."""
    process = engine.process
    assert process is not None
    headers = {**_KNOWN}
    with httpx.Client(base_url=run.server, timeout=60, headers=headers) as client:
        client.get("/v1/metrics?format=json")  # what starting took is not meant
        for namespace in NAMESPACES[1:]:
            client.post("/api/v1/namespaces", json={"metadata": {"name": namespace}})
        run.start()
        until = time.monotonic() + seconds
        try:
            while time.monotonic() < until and process.poll() is None:
                ending.wait(min(_LOOK_SECONDS, max(0.0, until - time.monotonic())))
                run.found.look(client, process.pid)
        except (httpx.TransportError, FileNotFoundError) as error:
            time.sleep(1)
            if process.poll() is None:
                run.found.failed.append(f"it does not answer: {error!r}")
        ending.set()
        run.join()
        return _ENDED if process.poll() is not None else _why_not_scheduled(client)


def _errors(said: str) -> list[str]:
    """Tracebacks, and lines that tell of a failure."""
    lines = said.splitlines()
    return [line[:500] for line in lines if "Traceback" in line or " failed" in line or "ERROR" in line][:20]


def _report(found: Found, waits: list[float], seed: int, seconds: float) -> dict[str, Any]:
    codes: Counter[str] = Counter()
    for name, count in found.answers.items():
        codes[name.rpartition(" ")[2]] += count
    return {
        "seed": seed,
        "seconds": round(seconds, 1),
        "requests": found.answers.total(),
        "codes": dict(sorted(codes.items())),
        "answers": dict(sorted(found.answers.items())),
        "failed": len(found.failed),
        "first_failures": found.failed[:20],
        "livez_p99_ms": round(waits[int(len(waits) * 0.99)] * 1e3, 1) if waits else None,
        "livez_max_ms": round(waits[-1] * 1e3, 1) if waits else None,
        "loop_held_ms": round(found.held * 1e3, 1),
        "loop_worked_ms": round(found.worked * 1e3, 1),
        "worked_long": found.long[:20],
        "most_mib": found.most_mib,
        "load": [round(load, 1) for load in os.getloadavg()],
    }


def main() -> int:
    """Try until the time is up."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seconds", type=float, default=3600.0)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--most-worked-ms", type=float, default=math.inf)
    parser.add_argument("--report", type=Path)
    wanted = parser.parse_args()
    with tempfile.TemporaryDirectory() as name:
        report = fuzz(wanted.seconds, wanted.seed, Path(name) / "up")
    text = json.dumps(report, indent=2)
    sys.stdout.write(text + "\n")
    if wanted.report is not None:
        wanted.report.write_text(text)
    worked = report["loop_worked_ms"] > wanted.most_worked_ms
    return 1 if report["failed"] or report["unscheduled_afterwards"] or worked else 0


if __name__ == "__main__":
    sys.exit(main())
