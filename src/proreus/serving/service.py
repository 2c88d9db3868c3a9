"""A service as a whole: put together from its options, opened, drained and closed in the right order."""

from __future__ import annotations

import gc
import threading
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path

from proreus.httpserver.host_names import bare
from proreus.httpserver.pages import Pages
from proreus.httpserver.work_queue import LAST_SECONDS
from proreus.log.folder import LogFolder
from proreus.log.protocol import LogLimits, LogPlace
from proreus.model.errors import UsageError
from proreus.model.files import make_folder
from proreus.serving.admission import RequestAdmission, fair_turns
from proreus.serving.allowed_hosts import Visitors
from proreus.serving.application import ServiceParts
from proreus.serving.cluster_api.cost import MOST_UNITS
from proreus.serving.cluster_api.decide import NamedDecisions
from proreus.serving.decision_service import DecisionService, ServiceOptions
from proreus.serving.messages import Refused
from proreus.serving.models.live_version import LiveVersions
from proreus.serving.models.model_argument import make_live
from proreus.serving.models.version_store import ModelStore
from proreus.serving.online.experience_log import ExperienceLog
from proreus.serving.online.feedback import Feedback
from proreus.serving.online.learner import LearnerStatus, OnlineLearner, OnlineSettings, Places
from proreus.serving.online.learner_lock import LearnerLock
from proreus.serving.online.model_id import owner_of
from proreus.serving.online.progress import read_progress
from proreus.serving.server.grpc_calls import GrpcLimits
from proreus.serving.server.grpc_server import GrpcServer
from proreus.serving.server.http import HttpApp, HttpLimits
from proreus.serving.server.rest_handlers import RestApi
from proreus.serving.server.rest_server import RestServer

EXPERIENCE = "experience"
"""The folder of the logs, beside the versions of the model that they teach, and of the learner's place."""
_LEARNER_SECONDS = 20.0


@dataclass(frozen=True)
class Learning:
    """Who learns from experience, and how."""

    improve: str
    """The learner as "package.module:function"."""
    settings: OnlineSettings = field(default_factory=OnlineSettings)


@dataclass(frozen=True)
class ServingOptions:
    """Everything about a service but its addresses."""

    service: ServiceOptions
    store: Path
    model: str = ""
    """See `model_argument.make_live`."""
    policy: str = "learned"
    """The catalogue's policy behind /v1/decide."""
    learning: Learning | None = None
    """None: experience is logged and nothing learns from it."""
    log: LogLimits = field(default_factory=LogLimits)
    log_in: Callable[[str, str], LogPlace] | None = None
    """By the model's name and the id of the folder that it is kept in: where experience is logged. None: in
    files beside the model's versions."""
    token: bytes | None = None
    rate: float = 0.0
    """Requests per second and client; 0: any."""
    http: HttpLimits = field(default_factory=HttpLimits)
    grpc: GrpcLimits = field(default_factory=GrpcLimits)
    credentials: tuple[Path, Path] | None = None
    """Certificate and key for TLS."""
    allowed_hosts: tuple[str, ...] = ()
    """Names under which the service is reached, besides those of this machine."""
    anonymous_updates: bool = False
    """Whether anyone may teach the model and change its version, beyond this machine and without a token."""
    pages: Pages | None = None
    """The dashboard that REST shows; whoever hands it in closes it."""
    decide_units: float = MOST_UNITS
    """What a decision in named fields may cost: see `named.cost`."""


class RunningService:
    """From a model on disk to open doors, and back."""

    def __init__(self, options: ServingOptions) -> None:
        self.options = options
        store = ModelStore.open(options.store)
        self.name = make_live(store, options.model, options.service.dimensions.nodes)
        version = store.current(self.name)
        model = store.load(self.name, version)
        try:
            service = DecisionService(options.service, version, model)
        except Refused as refused:
            raise UsageError(f"{self.name}@{version}: {refused}") from refused
        self.kind = model.kind
        named = NamedDecisions(
            options.policy, options.service.deadline_seconds, service.measurements, options.decide_units
        )
        named.warm_up()
        store.sweep(self.name)
        experience = options.store / self.name / EXPERIENCE
        make_folder(experience, private=True)
        self._logs = self._places(experience)
        kept = self._logs[0].open(options.log, lambda name: read_progress(experience).of(name).next)
        self.log = ExperienceLog(kept)
        versions = LiveVersions(store, self.name, service)
        self._learning: LearnerLock | None = None
        if options.learning is not None:
            self._learning = LearnerLock(
                experience, self.log, partial(self._new_learner, versions, experience)
            )
        status = None if self._learning is None else self._learning.status
        self.application = ServiceParts(
            service, Feedback(service, self.log, status, versions.knows), versions, named
        )
        if status is not None:
            _export(service, status)
        self._admission = RequestAdmission(options.token, options.rate)
        self._turns = fair_turns()
        self._rest: RestServer | None = None
        self._grpc: GrpcServer | None = None

    def _places(self, experience: Path) -> tuple[LogPlace, ...]:
        """Where experience is: the first is written to. What was logged in files before is read, too."""
        files = LogFolder(experience)
        if self.options.log_in is None:
            return (files,)
        return (self.options.log_in(self.name, owner_of(experience)), files)

    def _new_learner(self, versions: LiveVersions, experience: Path) -> OnlineLearner:
        learning = self.options.learning
        assert learning is not None
        places = Places(self.options.store, self.name, experience, self._logs)
        return OnlineLearner(
            places, learning.improve, learning.settings, on_new_version=lambda _: versions.follow()
        )

    def start(self) -> None:
        """Begin to follow the store and to learn, where no other process that serves this model does."""
        self.application.versions.follow_in_background()
        if self._learning is not None:
            self._learning.start()

    def open_rest(self, host: str, port: int) -> int:
        """Open the REST door; the port."""
        api = RestApi(self.application, self.options.http.body_bytes)
        app = HttpApp(
            api.routes(),
            self._admission,
            self.application.service.measurements,
            self.options.http,
            self._visitors(host),
            self._turns,
            self.options.pages,
        )
        self._rest = RestServer(app)
        _settle()
        return self._rest.start(host, port, self.options.credentials)

    def open_grpc(self, host: str, port: int) -> int:
        """Open the gRPC door; the port."""
        place = f"[{bare(host)}]:{port}" if ":" in bare(host) else f"{host}:{port}"
        self._grpc = GrpcServer(
            self.application, self._admission, self.options.grpc, self._visitors(host), self._turns
        )
        _settle()
        return self._grpc.start(place, self.options.credentials)

    def _visitors(self, host: str) -> Visitors:
        options = self.options
        return Visitors.of(
            host,
            options.allowed_hosts,
            token=options.token is not None,
            anonymous_updates=options.anonymous_updates,
        )

    def stop(self, seconds: float) -> None:
        """Answer what has been asked, then let go of everything; what was acknowledged is on the disk."""
        self.application.service.draining = True
        doors = [door for door in (self._rest, self._grpc) if door is not None]
        if self._grpc is not None:
            self._grpc.drain()
        closing = [threading.Thread(target=door.stop, args=(seconds,)) for door in doors]
        for thread in closing:
            thread.start()
        for thread in closing:
            thread.join()
        self.application.named.close()
        self._turns.close(LAST_SECONDS)
        self.application.versions.stop()
        if self._learning is not None:
            self._learning.stop(_LEARNER_SECONDS)
        self.log.close()


def _settle() -> None:
    """Leave what was loaded so far out of every later search for garbage.

    It is there to stay, and there is so much of it that a search takes a fifth of a second, in which nobody
    is answered.
    """
    gc.collect()
    gc.freeze()


def _export(service: DecisionService, status: Callable[[], LearnerStatus]) -> None:
    """What learning does, for Prometheus."""
    measure = service.measurements
    measure.gauge("proreus_learner_queue", "Decisions that wait to be learned from.", lambda: status().queue)
    measure.gauge(
        "proreus_learner_lag_seconds", "How long the oldest of them waits.", lambda: status().lag_seconds
    )
    measure.gauge(
        "proreus_learner_restarts",
        "How often the learner had to be started again.",
        lambda: status().restarts,
    )

    def results() -> dict[str, float]:
        now = status()
        failed = now.rounds - now.accepted - now.rejected
        return {"accepted": now.accepted, "rejected": now.rejected, "failed": failed}

    measure.totals("proreus_updates", results)
