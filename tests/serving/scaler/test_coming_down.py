"""After an overload that was not heeded every controller comes down again: it goes by what it sees.

A fleet of replicas that take requests as they can, and a Deployment that may not do what it is asked for a
while, as where no GPU is free.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import pytest

from proreus.serving.scaler.controller import PoolController
from proreus.serving.scaler.trigger_metadata import read_metadata
from proreus.worlds.inference.model import vllm
from proreus.worlds.inference.model.cluster import Role
from proreus.worlds.inference.policies.catalogue import POLICIES
from proreus.worlds.inference.state.histograms import Histogram
from proreus.worlds.inference.state.replicas import Reading, ReplicaSample
from tests.serving.scaler.replicas import ABILITY, NUMBERS

INTERVAL, START = 10.0, 60.0
PROMPT, OUTPUT = 500.0, 100.0
"""Tokens of a request."""
EACH = 1.0 / (PROMPT / ABILITY.prompt_tokens + OUTPUT / ABILITY.output_tokens)
"""Requests a second that a replica serves."""
MOST = 8
CONTROLLERS = [name for name in POLICIES.rules if name not in ("static", "oracle")]
SECONDS = 5_400.0
"""Within which a controller is down to the least: `plan` keeps an hour's highest load in mind."""


@dataclass
class Replica:
    """Serves so many a second, and counts."""

    queue: float = 0.0
    served: float = 0.0
    late: float = 0.0

    def pass_time(self, arriving: float, seconds: float) -> None:
        self.queue += arriving
        done = min(self.queue, EACH * seconds)
        waits = self.queue > EACH * seconds
        self.queue -= done
        self.served += done
        self.late += done if waits else 0.0

    def sample(self, at: float) -> ReplicaSample:
        running, waiting = min(self.queue, 64.0), max(self.queue - 64.0, 0.0)
        return ReplicaSample(
            at,
            float(round(running)),
            float(round(waiting)),
            min((PROMPT + OUTPUT) * running / ABILITY.kv_tokens, 1.0),
            PROMPT * self.served,
            OUTPUT * self.served,
            self.served,
            self.served,
            self._times(vllm.TTFT_BOUNDS, 0.1, 40.0),
            self._times(vllm.TBT_BOUNDS, 0.025, 0.2),
            self._times(vllm.REQUEST_BOUNDS, 0.3, 40.0),
        )

    def _times(self, bounds: tuple[float, ...], quick: float, slow: float) -> Histogram:
        in_time = self.served - self.late
        counts = tuple(
            (in_time if bound >= quick else 0.0) + (self.late if bound >= slow else 0.0)
            for bound in (*bounds, float("inf"))
        )
        return Histogram((*bounds, float("inf")), counts, quick * in_time + slow * self.late)


@dataclass
class Deployment:
    """Replicas, those that start, and whether anybody heeds what is asked for."""

    replicas: list[Replica] = field(default_factory=lambda: [Replica() for _ in range(2)])
    starting: list[float] = field(default_factory=list)

    def scale(self, now: float, wanted: int) -> None:
        while len(self.replicas) + len(self.starting) < wanted:
            self.starting.append(now + START)
        while self.starting and len(self.replicas) + len(self.starting) > wanted:
            self.starting.pop()
        del self.replicas[max(wanted, 1) :]

    def pass_time(self, now: float, rate: float, seconds: float) -> None:
        ready = [at for at in self.starting if at <= now]
        self.starting = [at for at in self.starting if at > now]
        self.replicas += [Replica() for _ in ready]
        for replica in self.replicas:
            replica.pass_time(rate * seconds / len(self.replicas), seconds)


class Loop:
    """A controller and its Deployment."""

    def __init__(self, policy: str, **metadata: str) -> None:
        given = {
            "metrics": "http://127.0.0.1:1/",
            "policy": policy,
            "most": str(MOST),
            "interval": f"{INTERVAL:g}",
            "startSeconds": f"{START:g}",
            "hpaSyncSeconds": "0",
            **NUMBERS,
            **metadata,
        }
        options = read_metadata(given, lambda model, gpu, gpus: ABILITY).options
        make = POLICIES.make
        self.controlling = PoolController(options, make(policy), make("threshold"), _at_once)
        self.deployment = Deployment()
        self.now = 0.0
        self.wanted = 2

    def play(self, seconds: float, rate: float, *, heeded: bool) -> None:
        end = self.now + seconds
        while self.now < end:
            self.now += INTERVAL
            self.deployment.pass_time(self.now, rate, INTERVAL)
            readings: dict[str, Reading] = {
                f"r{place}": replica.sample(self.now)
                for place, replica in enumerate(self.deployment.replicas)
            }
            role: Role = "mixed"
            decided = self.controlling.step(self.now, {role: readings})
            assert decided is not None and decided.by == "policy", decided
            self.wanted = decided.replicas[role]
            if heeded:
                self.deployment.scale(self.now, self.wanted)


def _at_once(compute: Any, seconds: float) -> Any:
    return compute()


@pytest.mark.parametrize("overload", [60.0, 600.0])
@pytest.mark.parametrize("low", [0.0, 0.1])
@pytest.mark.parametrize("policy", CONTROLLERS)
def test_after_an_overload_that_was_not_heeded(policy: str, low: float, overload: float) -> None:
    """`low`: of what one replica serves."""
    loop = Loop(policy)
    loop.play(300.0, EACH, heeded=True)
    loop.play(overload, 4.0 * EACH, heeded=False)
    loop.play(SECONDS, low * EACH, heeded=True)
    assert loop.wanted == 1
    assert len(loop.deployment.replicas) == 1


@pytest.mark.parametrize("replicas", [1, 2])
@pytest.mark.parametrize("policy", CONTROLLERS)
def test_where_nobody_heeds_it_the_wish_comes_down_all_the_same(policy: str, replicas: int) -> None:
    loop = Loop(policy)
    del loop.deployment.replicas[replicas:]
    loop.play(300.0, 4.0 * EACH, heeded=False)
    overloaded = loop.wanted
    loop.play(SECONDS, 0.05 * EACH, heeded=False)
    assert loop.wanted <= replicas
    assert overloaded > replicas


@pytest.mark.parametrize("policy", CONTROLLERS)
def test_in_an_overload_the_wish_stands(policy: str) -> None:
    """Replicas that do not come for long are still needed."""
    loop = Loop(policy)
    loop.play(900.0, 6.0 * EACH, heeded=False)
    overloaded = loop.wanted
    for _ in range(12):
        loop.play(300.0, 6.0 * EACH, heeded=False)
        assert loop.wanted >= min(overloaded, 4)
