"""`proreus serve rest|grpc|all`: decisions over the wire, with the k8s simulator's commands and flags."""

from __future__ import annotations

import contextlib
import ipaddress
import json
import os
import signal
import sys
import threading
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Annotated, Literal

import tyro

from proreus.cli.arguments import Common, parse_named, prepare
from proreus.model.errors import UsageError
from proreus.model.files import write_atomically
from proreus.worlds.pods.policies.catalogue import POLICIES

DOORS = ("rest", "grpc", "all")
LEARNER = "proreus.worlds.pods.training.vector.recorded_ppo:improve"
"""What improves the model; named, not imported: the learner's process imports it."""
_REST_PORT, _GRPC_PORT = 5000, 50051


@dataclass(frozen=True)
class Security:
    """Who may ask."""

    token_file: Annotated[Path | None, tyro.conf.arg(metavar="FILE")] = None
    """Answer only those who send the token in this file's first line (Authorization: Bearer ...)."""
    tls_cert: Annotated[Path | None, tyro.conf.arg(metavar="FILE")] = None
    """Serve over TLS with this certificate (PEM)."""
    tls_key: Annotated[Path | None, tyro.conf.arg(metavar="FILE")] = None
    """The certificate's private key (PEM)."""
    strict: bool = False
    """Refuse to listen beyond this machine without a token or TLS, instead of warning."""


@dataclass(frozen=True)
class Limits:
    """What a client may ask of the service."""

    max_body: int = 32 * 1024 * 1024
    """Bytes of a request, at most."""
    max_concurrency: int = 1024
    """Requests under way at once, at most; more are told to come again."""
    rate: float = 0.0
    """Requests per second and client address, at most; 0: any number."""
    deadline_ms: float = 100.0
    """How long the model may take over one decision before the rule decides."""
    drain_seconds: float = 10.0
    """How long to wait for requests under way when the service is told to end."""
    grpc_threads: int = 8
    """Threads that answer gRPC calls."""
    grpc_one_core: bool = True
    """Keep these threads on one core, where they do not wait for each other's wake-ups."""
    max_log: int = 1 << 30
    """Bytes of experience kept on disk by this process, at most: the oldest that was learned from is dropped,
    and where there is none, reports are refused; 0: any number."""
    log_sample: int = 0
    """Log one of so many answered requests (at --log-level info); 0: none. Refusals are logged there too."""

    def __post_init__(self) -> None:
        for name, least in (
            ("max_body", 1024),
            ("max_concurrency", 1),
            ("grpc_threads", 1),
            ("rate", 0),
            ("log_sample", 0),
            ("max_log", 0),
        ):
            if not getattr(self, name) >= least:
                raise UsageError(f"--{name} {getattr(self, name)} is below {least}")
        if not 0 < self.deadline_ms < float("inf") or not 0 <= self.drain_seconds < float("inf"):
            raise UsageError("--deadline_ms must be a number above 0, --drain_seconds one from 0 on")


@dataclass(frozen=True)
class ServeArguments:
    """Flags of `proreus serve`."""

    state_dim: int
    """Numbers of a state: 2n for n nodes, 2n + 2 with the task's demand. Both are understood either way."""
    action_dim: int
    """Number of actions: 2n + 2 (place on each node, preempt on each node, delay, reject)."""
    host: str = "127.0.0.1"
    """The address to listen on; by default only this machine can reach it."""
    port: int | None = None
    """REST 5000, gRPC 50051; with `all` the REST port. 0: any free one."""
    grpc_port: int = _GRPC_PORT
    """With `all`: the gRPC port."""
    model: Annotated[str, tyro.conf.arg(metavar="PATH|NAME[@VERSION]")] = ""
    """A checkpoint's folder, or a model of the store; without it the one that comes with the package."""
    store: Annotated[Path, tyro.conf.arg(metavar="DIR")] = Path("runs/models")
    """Where versions and experience are kept."""
    deterministic: bool = False
    """Take the best action. Such decisions are logged, and the policy does not learn from them."""
    stochastic: bool = False
    """Draw actions from the policy, by a hash of the state: the default."""
    policy: str = "learned"
    """The policy behind /v1/decide, by its name in the catalogue or the path of a checkpoint."""
    learn: bool = True
    """Learn from what /update reports; without it experience is logged only."""
    device: Literal["cpu", "cuda", "auto"] = "cpu"
    """For the k8s simulator's commands. Decisions take microseconds and updates milliseconds on the CPU,
    which both use whatever is said here: a GPU would be slower at this size."""
    security: Security = field(default_factory=Security)
    limits: Limits = field(default_factory=Limits)
    common: Common = field(default_factory=Common)

    def __post_init__(self) -> None:
        if self.deterministic and self.stochastic:
            raise UsageError("--deterministic and --stochastic exclude each other")
        for name, port in (("port", self.port or 0), ("grpc_port", self.grpc_port)):
            if not 0 <= port <= 65_535:
                raise UsageError(f"--{name} {port} is outside 0..65535")


def run(words: Sequence[str]) -> int:
    """Serve until told to end."""
    description = (
        f"Doors: {', '.join(DOORS)} (both in one process). "
        f"Policies of /v1/decide: {', '.join(POLICIES.names)}.\n\n"
        "Example: proreus serve rest --host 127.0.0.1 --port 5000 --state_dim 14 --action_dim 16"
    )
    door, arguments = parse_named(ServeArguments, "serve", ("door", DOORS), words, description)
    prepare(arguments.common)
    check_host(arguments)
    with _told_to_end() as ending:
        _serve(door, arguments, ending)
    return 0


def _serve(door: str, arguments: ServeArguments, ending: _Ending) -> None:
    """Load, open the doors, and close them when told to."""
    try:
        from proreus.cli.serve_options import serving_options
        from proreus.serving.running import RunningService
    except ImportError as error:
        raise UsageError(f"serve needs the extra serve (pip install 'proreus[serve]'): {error}") from error
    if arguments.device == "cuda":
        print("proreus: note: deciding and learning online take the CPU; a GPU is not used", file=sys.stderr)
    options = serving_options(arguments, LEARNER if arguments.learn else "")
    print("proreus: loading (the first start compiles for a minute)", file=sys.stderr, flush=True)
    service = RunningService(options)
    ending.loaded()
    try:
        service.start()
        ready = _open(service, door, arguments)
        _announce(ready, arguments)
        ending.wait()
    finally:
        print("proreus: draining", file=sys.stderr, flush=True)
        service.stop(arguments.limits.drain_seconds)


def _open(service: object, door: str, arguments: ServeArguments) -> dict[str, object]:
    """Open the doors; what to tell about them."""
    from proreus.serving.running import RunningService

    assert isinstance(service, RunningService)
    ready: dict[str, object] = {"pid": os.getpid()}
    if door in ("rest", "all"):
        port = service.open_rest(arguments.host, _REST_PORT if arguments.port is None else arguments.port)
        ready["rest"] = {"host": arguments.host, "port": port}
    if door in ("grpc", "all"):
        wanted = arguments.grpc_port if door == "all" else arguments.port
        port = service.open_grpc(arguments.host, _GRPC_PORT if wanted is None else wanted)
        ready["grpc"] = {"host": arguments.host, "port": port}
    version = service.application.service.version
    return {**ready, "model": service.name, "version": version, "kind": service.kind}


def _announce(ready: dict[str, object], arguments: ServeArguments) -> None:
    how = "deterministic" if arguments.deterministic else "stochastic"
    for name in ("rest", "grpc"):
        place = ready.get(name)
        if isinstance(place, dict):
            print(f"{name}: {place['host']}:{place['port']}")
    print(
        f"model: {ready['model']}@{ready['version']} ({ready['kind']}), "
        f"{(arguments.action_dim - 2) // 2} nodes, {how}",
        flush=True,
    )
    if arguments.common.json is not None:
        write_atomically(arguments.common.json, (json.dumps(ready, indent=2) + "\n").encode())


def check_host(arguments: ServeArguments) -> None:
    """Beyond this machine: refused when strict, else with a warning, unless there is a token or TLS."""
    safe = arguments.security.token_file is not None or arguments.security.tls_cert is not None
    if safe or _is_loopback(arguments.host):
        return
    says = (
        f"anyone who reaches {arguments.host} can ask for decisions, teach the model and change its version; "
        "give --token-file or --tls-cert and --tls-key, or listen on 127.0.0.1"
    )
    if arguments.security.strict:
        raise UsageError(f"--strict: {says}")
    print(f"proreus: WARNING: {says}", file=sys.stderr, flush=True)


def _is_loopback(host: str) -> bool:
    if host == "localhost":
        return True
    try:
        return ipaddress.ip_address(host.removeprefix("[").removesuffix("]")).is_loopback
    except ValueError:
        return False


class _Ending(threading.Event):
    """That the service was told to end."""

    has_loaded = False

    def loaded(self) -> None:
        """From here on there is something to close."""
        self.has_loaded = True


@contextlib.contextmanager
def _told_to_end() -> Iterator[_Ending]:
    """Set by the first SIGTERM or SIGINT; the second one ends the process at once.

    Before it is loaded nothing was promised to anybody, and loading may take a minute: it ends at once.
    """
    ending = _Ending()

    def handle(number: int, _: object) -> None:
        if ending.is_set():
            os._exit(128 + number)
        ending.set()
        if not ending.has_loaded:
            raise SystemExit(0)

    before = {number: signal.signal(number, handle) for number in (signal.SIGTERM, signal.SIGINT)}
    try:
        yield ending
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
