"""A client that makes, changes and deletes workloads, and notes everything that was acknowledged."""

from __future__ import annotations

import asyncio
import random
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Any

from tests.engine.faults.client import PATHS, Client
from tests.engine.faults.laws import Laws
from tests.engine.faults.workloads import SimulatedWork, Work

WORKERS = 4
_MOST_JOBS, _MOST_PODS = 2, 3
_FINAL_REPLICAS = 3
Object = dict[str, Any]


@dataclass
class Ledger:
    """What was acknowledged, and what is asked for by it."""

    states: set[tuple[str, str, int]] = field(default_factory=set)
    """Kind, uid and revision of every state that an answer told."""
    deleted: set[tuple[str, str]] = field(default_factory=set)
    wanted: dict[tuple[str, str], Object] = field(default_factory=dict)
    """By kind and name: the object as it was last acknowledged."""
    lost: list[str] = field(default_factory=list)
    writes: int = 0

    def acknowledged(self, kind: str, obj: Object) -> None:
        """It stands so."""
        metadata = obj["metadata"]
        self.writes += 1
        self.states.add((kind, metadata["uid"], int(metadata["resourceVersion"])))
        self.wanted[kind, metadata["name"]] = obj

    def missing(self, laws: Laws) -> Iterator[str]:
        """Acknowledged writes that no watch has told of."""
        yield from self.lost
        for kind, uid, revision in self.states:
            if (uid, revision) not in laws.told[kind]:
                yield f"{kind} {uid}: revision {revision} was acknowledged and never told"
        for kind, uid in self.deleted:
            if uid not in laws.gone[kind]:
                yield f"{kind} {uid}: its deletion was acknowledged, and it was never told gone"


@dataclass
class Churn:
    """Workers of which each has its own objects; so what is asked for is known at any time."""

    client: Client
    seed: int
    work: Work = field(default_factory=SimulatedWork)
    workers: int = WORKERS
    ledger: Ledger = field(default_factory=Ledger)
    pause: float = 0.05
    """Seconds between two requests of a worker, on average."""
    _going: bool = True

    @asynccontextmanager
    async def going_on(self) -> AsyncIterator[None]:
        """Changes are made while the block lasts; then each worker asks for something that fits."""
        self._going = True
        workers = [asyncio.create_task(self._work(number)) for number in range(self.workers)]
        try:
            yield
            self._going = False
            await asyncio.gather(*workers)
        finally:
            for worker in workers:
                worker.cancel()
        for number in range(self.workers):
            await self.scaled_to(f"web-{number}", _FINAL_REPLICAS)

    async def _work(self, number: int) -> None:
        draw = random.Random(f"{self.seed} {number}")
        step = max((int(name.rsplit("-", 1)[1]) for _, name in self.ledger.wanted), default=0) + 1
        while self._going:
            await self._one(number, step, draw)
            step += 1
            await asyncio.sleep(draw.expovariate(1 / self.pause))

    async def _one(self, number: int, step: int, draw: random.Random) -> None:
        jobs, pods = self._mine("jobs", f"sum-{number}-"), self._mine("pods", f"bare-{number}-")
        web = f"web-{number}"
        match draw.choice(self.work.operations):
            case "scale":
                await self.scaled_to(web, draw.randrange(self.work.most_replicas + 1))
            case "roll":
                await self._roll(web, step)
            case "alone":  # never two of its pods at the same time
                await self._roll_alone(f"alone-{number}", step)
            case "delete" if draw.random() < 0.2:
                await self._delete("deployments", web)
            case "job" if len(jobs) >= _MOST_JOBS:
                await self._delete("jobs", jobs[0])
            case "job":
                await self._create("jobs", self.work.job(f"sum-{number}-{step}", 1 + draw.randrange(3)))
            case "pod" if len(pods) >= _MOST_PODS:
                await self._delete("pods", pods[0])
            case "pod":
                await self._create("pods", self.work.pod(f"bare-{number}-{step}"))
            case "note":
                await self._note(f"note-{number}", step)
            case _:
                return

    def _mine(self, kind: str, prefix: str) -> list[str]:
        return [name for of, name in self.ledger.wanted if of == kind and name.startswith(prefix)]

    async def scaled_to(self, name: str, replicas: int) -> None:
        """The Deployment asks for so many, whether it stood before or not."""
        if ("deployments", name) in self.ledger.wanted:
            await self._patch("deployments", name, {"spec": {"replicas": replicas}})
        else:
            await self._create("deployments", self.work.deployment(name, replicas))

    async def emptied(self) -> None:
        """Every workload is deleted."""
        for kind, name in list(self.ledger.wanted):
            if kind != "configmaps":
                await self._delete(kind, name)

    async def _roll(self, name: str, version: int) -> None:
        if ("deployments", name) in self.ledger.wanted:
            changed = [self.work.rolled(name, version)]
            await self._patch("deployments", name, {"spec": {"template": {"spec": {"containers": changed}}}})

    async def _roll_alone(self, name: str, version: int) -> None:
        if ("deployments", name) in self.ledger.wanted:
            await self._roll(name, version)
            return
        made = self.work.deployment(name, 1)
        made["spec"]["strategy"] = {"type": "Recreate"}
        await self._create("deployments", made)

    async def _note(self, name: str, step: int) -> None:
        if ("configmaps", name) in self.ledger.wanted:
            await self._patch("configmaps", name, {"data": {"step": str(step)}})
        else:
            made = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": name}}
            await self._create("configmaps", {**made, "data": {"step": str(step)}})

    async def _create(self, kind: str, obj: Object) -> None:
        code, told = await self.client.ask("POST", PATHS[kind], obj)
        if code == 409:  # an attempt without an answer was done
            code, told = await self.client.ask("GET", f"{PATHS[kind]}/{obj['metadata']['name']}")
        assert code in (200, 201), told
        self.ledger.acknowledged(kind, told)

    async def _patch(self, kind: str, name: str, patch: Object) -> None:
        code, told = await self.client.ask("PATCH", f"{PATHS[kind]}/{name}", patch)
        if code == 404:
            self.ledger.lost.append(f"{kind} {name} was acknowledged and is not there")
            del self.ledger.wanted[kind, name]
            return
        assert code == 200, told
        self.ledger.acknowledged(kind, told)

    async def _delete(self, kind: str, name: str) -> None:
        if (kind, name) not in self.ledger.wanted:
            return
        code, told = await self.client.ask(
            "DELETE", f"{PATHS[kind]}/{name}", {"propagationPolicy": "Background"}
        )
        assert code in (200, 202, 404), told
        self.ledger.writes += 1
        gone = self.ledger.wanted.pop((kind, name))
        self.ledger.deleted.add((kind, gone["metadata"]["uid"]))
