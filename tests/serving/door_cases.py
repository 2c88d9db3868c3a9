"""Small services for the tests: models that misbehave on purpose, a running service, and bare requests."""

from __future__ import annotations

import http.client
import json
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from proreus.kernels.arrays import F64, I64, Bool
from proreus.policies.checkpoint import save_checkpoint
from proreus.serving.decision_service import DecisionService, ServiceOptions
from proreus.serving.service import RunningService, ServingOptions
from proreus.serving.validation import Dimensions
from proreus.worlds.pods.policies.vector.model import checkpoint_of, fresh_scorer

NODES = 3
DIMENSIONS = Dimensions(2 * NODES, 2 * NODES + 2)


@dataclass
class Scripted:
    """A model that does what a test tells it to; otherwise takes the action `choice` for sure."""

    choice: int = 0
    seconds: float = 0.0
    error: Exception | None = None
    log_prob: float = -0.5
    kind: str = "scripted"
    tensors: dict[str, NDArray[Any]] = field(default_factory=dict)
    calls: int = 0
    once: Callable[[], None] | None = None

    def accepts(self, state_length: int, actions: int) -> str | None:
        return None

    def chances(self, state: F64, actions: int, mask: Bool | None) -> F64:
        chances = np.zeros(actions)
        chances[self.choice] = 1.0
        return chances

    def decide(self, state: F64, actions: int, mask: Bool | None, draw: float) -> tuple[int, float]:
        self.calls += 1
        time.sleep(self.seconds)
        if self.error is not None:
            raise self.error
        return self.choice, self.log_prob

    def decide_batch(self, states: F64, actions: int, masks: Bool | None, draws: F64) -> tuple[I64, F64]:
        if self.error is not None:
            raise self.error
        return np.full(len(states), self.choice), np.full(len(states), self.log_prob)


def new_service(model: Any = None, version: int = 1, **options: Any) -> DecisionService:
    """A service of three nodes without doors; its states are unrelated, unless the test says otherwise."""
    chosen = ServiceOptions(DIMENSIONS, **{"mind_refusals": False, **options})
    return DecisionService(chosen, version, model or fresh_scorer(0))


def fresh_checkpoint(folder: Path, seed: int = 0) -> Path:
    """An untrained model on disk."""
    save_checkpoint(folder, checkpoint_of(fresh_scorer(seed), "none"))
    return folder


def serving_options(folder: Path, **changes: Any) -> ServingOptions:
    """A service of three nodes over an untrained model, with its store in `folder`; its states are unrelated,
    unless the test says otherwise."""
    service = {"dimensions": DIMENSIONS, "mind_refusals": False, **changes.pop("service", {})}
    model = fresh_checkpoint(folder / "fresh")
    return ServingOptions(
        **{
            "service": ServiceOptions(**service),
            "store": folder / "store",
            "model": str(model),
            "policy": "best_fit",
            **changes,
        }
    )


@dataclass
class Doors:
    """A running service with both doors open."""

    running: RunningService
    rest: int
    grpc: int

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.rest}"

    @property
    def address(self) -> str:
        return f"127.0.0.1:{self.grpc}"


def open_doors(options: ServingOptions) -> Doors:
    """Start a service and both of its doors on free ports."""
    running = RunningService(options)
    running.start()
    return Doors(running, running.open_rest("127.0.0.1", 0), running.open_grpc("127.0.0.1", 0))


@dataclass(frozen=True)
class Reply:
    """What the REST door answered."""

    status: int
    body: bytes
    headers: Mapping[str, str]

    @property
    def json(self) -> Any:
        return json.loads(self.body)


def ask(port: int, path: str, body: Any = None, method: str = "", **headers: str) -> Reply:
    """One REST request; a body that is not bytes is sent as JSON."""
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=30)
    try:
        sent = body if body is None or isinstance(body, bytes) else json.dumps(body).encode()
        named = {name.replace("_", "-"): value for name, value in headers.items()}
        if sent is not None:
            named = {"content-type": "application/json", **named}
        connection.request(method or ("GET" if body is None else "POST"), path, sent, named)
        response = connection.getresponse()
        return Reply(response.status, response.read(), {k.lower(): v for k, v in response.getheaders()})
    finally:
        connection.close()
