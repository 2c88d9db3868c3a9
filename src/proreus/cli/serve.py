"""`proreus serve rest|grpc|all`: decisions over the wire, with the k8s simulator's commands and flags."""

from __future__ import annotations

import contextlib
import ctypes
import os
import sys
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Annotated

import tyro
from rich.console import Console

from proreus.cli.arguments import CommonArguments, parse_named, prepare
from proreus.cli.compile_progress import compiling_said
from proreus.cli.output import new_console, write_json
from proreus.cli.signals import StopEvent, told_to_end
from proreus.httpserver.host_names import is_loopback
from proreus.learning.device import Device, device_name
from proreus.model.errors import UsageError, needs_extra
from proreus.worlds.pods.policies.catalogue import POLICIES

DOORS = ("rest", "grpc", "all")
SCALER, SHADOW_REPORT = "scaler", "shadow-report"
"""A service of its own (`cli.serve_scaler`), and what its shadows have found (`cli.serve_shadow_report`)."""
LEARNER = "proreus.worlds.pods.training.vector.recorded_ppo:improve"
"""What improves the model; named, not imported: the learner's process imports it."""
_REST_PORT, _GRPC_PORT = 5000, 50051
_M_MMAP_THRESHOLD = -3
_EXAMPLES = {
    "rest": "proreus serve rest --host 127.0.0.1 --port 5000 --state_dim 14 --action_dim 16",
    "grpc": "proreus serve grpc --host 127.0.0.1 --port 50051 --state_dim 14 --action_dim 16",
    "all": "proreus serve all --port 5000 --grpc_port 50051 --state_dim 14 --action_dim 16 --policy runs/x",
}


@dataclass(frozen=True)
class Security:
    """Who may ask."""

    token_file: Annotated[Path | None, tyro.conf.arg(metavar="FILE")] = None
    """Answer only those who send the token in this file's first line (Authorization: Bearer ...)."""
    tls_cert: Annotated[Path | None, tyro.conf.arg(metavar="FILE")] = None
    """Serve over TLS with this certificate (PEM)."""
    tls_key: Annotated[Path | None, tyro.conf.arg(metavar="FILE")] = None
    """The certificate's private key (PEM)."""
    allowed_host: Annotated[tuple[str, ...], tyro.conf.arg(metavar="NAME")] = ()
    """Names under which REST is asked, besides localhost and addresses of loopback; beyond this machine and
    without any, all are answered to."""
    anonymous_updates: bool = False
    """Beyond this machine: let those who send no token teach the model and change its version too."""
    strict: bool = False
    """Refuse to listen beyond this machine without a token, and a token that others may read, instead of
    warning."""


@dataclass(frozen=True)
class ServeLimits:
    """What a client may ask of the service."""

    max_body: int = 32 * 1024 * 1024
    """Bytes of a request, at most."""
    max_concurrency: int = 1024
    """Requests under way at once, at most; more are told to come again."""
    rate: float = 0.0
    """Requests per second and client address, at most; 0: any number."""
    max_decide_cost: float = 4e6
    """Units of work (about microseconds) of one request to /v1/decide, at most."""
    deadline_ms: float = 100.0
    """How long the model may take over one decision before the rule decides."""
    drain_seconds: float = 10.0
    """How long to wait for requests under way when the service is told to end."""
    max_log: int = 1 << 30
    """Bytes of experience kept, at most, by this process, or by all in the store of --log: the oldest that
    was learned from is dropped, and where there is none, reports are refused; 0: any number."""
    log_sample: int = 0
    """Log one of so many answered requests (at --log-level info); 0: none. Refusals are logged there too."""

    def __post_init__(self) -> None:
        for name, least in (
            ("max_body", 1024),
            ("max_concurrency", 1),
            ("rate", 0),
            ("max_decide_cost", 1),
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
    """What answers /predict: a checkpoint of `proreus models train`, or a model of the store; without it the
    one that comes with the package. A run of `proreus train` goes to --policy."""
    runs: Annotated[tuple[Path, ...], tyro.conf.arg(metavar="DIR")] = ()
    """Folders of training runs and comparisons that the dashboard, at the root of REST, shows as well."""
    store: Annotated[Path, tyro.conf.arg(metavar="DIR")] = Path("runs/models")
    """Where versions and experience are kept."""
    log: Annotated[str, tyro.conf.arg(metavar="sqlite:PATH|etcd://HOST:PORT")] = ""
    """Keep experience in a store of the engine instead; without it, in files beside the versions."""
    deterministic: bool = False
    """Take the best action. Such decisions are logged, and the policy does not learn from them."""
    stochastic: bool = False
    """Draw actions from the policy, by a hash of the state: the default."""
    mind_refusals: bool = True
    """Do not name a node again that refused such a task, as the next state has shown, until room has come."""
    policy: str = "learned"
    """The policy behind /v1/decide: a name, the path of a run or checkpoint of `proreus train`, or
    file.py:Class."""
    learn: bool = True
    """Learn from what /update reports; without it experience is logged only."""
    node_memory: bool = True
    """Learn what is particular about each node, by its position; the versions learned so serve as many nodes
    as this service has. Without it the default model stays size-free, and equal nodes stay equal."""
    device: Device = "cpu"
    """Where learning computes: forward passes of batches and gradients. A single decision takes the CPU
    whatever is said here: it is done before a GPU would have begun."""
    security: Security = field(default_factory=Security)
    limits: ServeLimits = field(default_factory=ServeLimits)
    common: CommonArguments = field(default_factory=CommonArguments)

    def __post_init__(self) -> None:
        if self.deterministic and self.stochastic:
            raise UsageError("--deterministic and --stochastic exclude each other")
        for name, port in (("port", self.port or 0), ("grpc_port", self.grpc_port)):
            if not 0 <= port <= 65_535:
                raise UsageError(f"--{name} {port} is outside 0..65535")


def run(words: Sequence[str]) -> int:
    """Serve until told to end."""
    if words and words[0] == SCALER:
        from proreus.cli import serve_scaler

        return serve_scaler.run(words[1:])
    if words and words[0] == SHADOW_REPORT:
        from proreus.cli import serve_shadow_report

        return serve_shadow_report.run(words[1:])
    asked = words[0] if words and words[0] in DOORS else DOORS[0]
    description = (
        f"Doors: {', '.join(DOORS)} (both in one process); scaler scales replicas through KEDA, "
        "shadow-report says what it would have saved. "
        f"Policies of /v1/decide: {', '.join(POLICIES.names)}.\n\nExample: {_EXAMPLES[asked]}"
    )
    doors = ("door", (*DOORS, SCALER, SHADOW_REPORT))
    door, arguments = parse_named(ServeArguments, "serve", doors, words, description)
    prepare(arguments.common)
    check_host(arguments)
    with told_to_end() as ending:
        _serve(door, arguments, ending)
    return 0


def _serve(door: str, arguments: ServeArguments, ending: StopEvent) -> None:
    """Load, open the doors, and close them when told to."""
    try:
        from proreus.cli.serve_options import serving_options
        from proreus.serving.service import RunningService
    except ImportError as error:
        raise UsageError(f"serve {needs_extra('serve')} ({error})") from error
    learns_on = device_name(arguments.device)
    from proreus.web.dashboard import Dashboard, DashboardOptions

    dashboard = Dashboard(DashboardOptions("service", arguments.runs))
    options = replace(serving_options(arguments, LEARNER if arguments.learn else ""), pages=dashboard)
    _give_back_large_blocks()
    _say(arguments, "loading")
    with compiling_said(arguments.common):
        service = RunningService(options)
    ending.loaded()
    try:
        service.start()
        ready = _open(service, door, arguments)
        _announce({**ready, "device": learns_on}, arguments)
        ending.wait()
    finally:
        _say(arguments, "draining")
        dashboard.close()
        service.stop(arguments.limits.drain_seconds)


def _give_back_large_blocks() -> None:
    """Have memory that a large request took given back when it is done, where the system's library can.

    Left to itself, glibc comes to keep blocks of up to 32 MiB, between whose remains nothing large fits.
    """
    with contextlib.suppress(OSError, AttributeError):
        ctypes.CDLL(None).mallopt(_M_MMAP_THRESHOLD, 1 << 20)


def _open(service: object, door: str, arguments: ServeArguments) -> dict[str, object]:
    """Open the doors; what to tell about them."""
    from proreus.serving.service import RunningService

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
    console = new_console(arguments.common)
    for name in ("rest", "grpc"):
        place = ready.get(name)
        if isinstance(place, dict):
            console.print(f"{name}: {place['host']}:{place['port']}", soft_wrap=True, highlight=False)
            if name == "rest":
                _announce_page(console, place, arguments)
    console.print(
        f"model: {ready['model']}@{ready['version']} ({ready['kind']}), "
        f"{(arguments.action_dim - 2) // 2} nodes, {how}",
        soft_wrap=True,
        highlight=False,
    )
    if not (arguments.learn and _may_learn(arguments)):
        learning = "off"
    else:
        learning = f"on {ready['device']}; single decisions on the CPU"
    console.print(f"learning: {learning}", soft_wrap=True, highlight=False)
    write_json(arguments.common, ready)


def _announce_page(console: Console, place: dict[str, object], arguments: ServeArguments) -> None:
    scheme = "http" if arguments.security.tls_cert is None else "https"
    console.print(f"dashboard: {scheme}://{place['host']}:{place['port']}/", soft_wrap=True, highlight=False)


def _say(arguments: ServeArguments, text: str) -> None:
    """How far the service is, on stderr."""
    if not arguments.common.quiet:
        print(f"proreus: {text}", file=sys.stderr, flush=True)


def check_host(arguments: ServeArguments) -> None:
    """Beyond this machine: refused when strict, else with a warning, unless there is a token.

    TLS keeps others from listening in, and lets everyone ask.
    """
    security = arguments.security
    if security.token_file is not None or is_loopback(arguments.host):
        return
    can = ", teach the model and change its version" if security.anonymous_updates else ""
    says = (
        f"anyone who reaches {arguments.host} can ask for decisions{can}; give --token-file (TLS alone "
        "authenticates nobody), or listen on 127.0.0.1"
    )
    if security.strict:
        raise UsageError(f"--strict: {says}")
    print(f"proreus: WARNING: {says}", file=sys.stderr, flush=True)
    if not _may_learn(arguments):
        says = (
            "the model never learns: beyond this machine /update is refused without a token; add "
            "--token-file FILE (who sends it may teach), or --anonymous-updates (anyone may)"
        )
        print(f"proreus: note: {says}", file=sys.stderr, flush=True)


def _may_learn(arguments: ServeArguments) -> bool:
    """Whether anybody may report what came of decisions."""
    security = arguments.security
    return security.token_file is not None or security.anonymous_updates or is_loopback(arguments.host)
