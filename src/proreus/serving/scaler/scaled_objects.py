"""The scaled objects that KEDA asks about: each has a controller, which looks every few seconds."""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable, Iterable, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field

from proreus.model.errors import ProreusError
from proreus.policies.catalogue import AnyPolicy
from proreus.policies.deadline import Guard
from proreus.serving.messages import Refusal, Refused, invalid
from proreus.serving.metrics import Measurements
from proreus.serving.scaler.controller import PoolController, ScalingDecision
from proreus.serving.scaler.freshness import Freshness
from proreus.serving.scaler.http_fetcher import Closed, Fetcher
from proreus.serving.scaler.metric_sources import read_all
from proreus.serving.scaler.shadow_log import ShadowLog
from proreus.serving.scaler.state_file import Remembered, StateFile
from proreus.serving.scaler.trigger_metadata import Profile, ScaledObjectSpec, ScalerOptions, read_metadata
from proreus.worlds.inference.model.cluster import Role
from proreus.worlds.inference.state.replicas import Unreadable
from proreus.worlds.inference.state.shadow_fleet import ShadowTally

_log = logging.getLogger(__name__)
_MOST_OBJECTS = 256
_FORGOTTEN_SECONDS = 900.0
"""After so long without a question an object is gone: KEDA asks every half a minute."""
_NOTED_SECONDS = 300.0
"""What is remembered is written again after so long, that it does not grow old."""
_LOOKING_AT_ONCE = 8
Policies = Callable[[str], AnyPolicy]
"""A policy by the name that metadata give it."""
Told = Callable[[int], None]


@dataclass(frozen=True)
class ScalerDependencies:
    """What objects need from outside."""

    policies: Policies
    profile: Profile
    fetcher: Fetcher
    measurements: Measurements
    clock: Callable[[], float] = time.time
    shadow_log: ShadowLog | None = None
    memory: StateFile | None = None
    tick_seconds: float = 0.5
    """Between two looks for objects that are due, of the machine's own time, whatever `clock` says."""


@dataclass
class _Object:
    """A controller at work."""

    name: str
    options: ScalerOptions
    controlling: PoolController
    freshness: Freshness
    frozen: tuple[str, ...] = ()
    """Why each replica that stands still is not read."""
    lock: threading.Lock = field(default_factory=threading.Lock)
    due_at: float = -float("inf")
    asked_at: float = 0.0
    decided: ScalingDecision | None = None
    known: bool = False
    """Whether it has ever looked."""
    listeners: dict[object, tuple[Role, Told]] = field(default_factory=dict)
    noted: Remembered | None = None
    """What was last remembered of it."""

    def state(self, now: float) -> Remembered | None:
        """What is worth remembering of it."""
        if self.controlling.wanted is None:
            return None
        starts = {
            role: replica_starts.seen for role, replica_starts in self.controlling.collector.starts.items()
        }
        return Remembered(now, dict(self.controlling.wanted), starts)


class ScaledObjects:
    """All that are known; asking about one that is not makes it known."""

    def __init__(self, around: ScalerDependencies) -> None:
        self._around = around
        self._lock = threading.Lock()
        self._objects: dict[tuple[object, ...], _Object] = {}
        self._ending = threading.Event()
        self._ticker: threading.Thread | None = None
        self._lookers = ThreadPoolExecutor(_LOOKING_AT_ONCE, thread_name_prefix="look")
        around.measurements.table(
            "proreus_scaler_replicas", "Replicas asked for.", ("object", "pool"), self._replicas
        )
        around.measurements.table(
            "proreus_scaler_silent_seconds",
            "Since any replica of the object could be read.",
            ("object",),
            self._silent,
        )
        around.measurements.table(
            "proreus_scaler_frozen_replicas",
            "Replicas whose metrics stand still where they cannot.",
            ("object",),
            self._frozen,
        )
        around.measurements.table(
            "proreus_scaler_start_seconds",
            "From asking for a replica to its first request, as learned.",
            ("object", "pool"),
            self._start_seconds,
        )

        around.measurements.table(
            "proreus_scaler_shadow_gpu_hours",
            "Held since the shadow began: really, and by the policy in the shadow (estimated).",
            ("object", "whose"),
            self._shadow_hours,
        )
        around.measurements.table(
            "proreus_scaler_shadow_kept_ratio",
            "Requests served as promised: measured, as the model says of the real replicas, of the shadow's.",
            ("object", "whose"),
            self._shadow_kept,
        )

    def start(self) -> None:
        """Look at objects when it is time, whether or not anybody asks."""
        self._ticker = threading.Thread(target=self._tick, name="ticker", daemon=True)
        self._ticker.start()

    def end_looking(self) -> None:
        """Begin no more looks of one's own; who asks is still answered."""
        self._ending.set()
        self._lookers.shutdown(wait=False, cancel_futures=True)

    def stop(self) -> None:
        """Look no more."""
        self.end_looking()
        if self._ticker is not None:
            self._ticker.join(5.0)

    def metric(self, namespace: str, name: str, metadata: Mapping[str, str]) -> str:
        """The name of the metric; refuses metadata that cannot be meant."""
        asked = self._read(metadata)
        self._object(namespace, name, asked)
        return asked.metric

    def replicas(self, namespace: str, name: str, metadata: Mapping[str, str]) -> tuple[str, int]:
        """(the name of the metric, replicas of the object's pool)."""
        asked = self._read(metadata)
        obj = self._object(namespace, name, asked)
        obj.asked_at = self._around.clock()
        if self._ticker is None or not obj.known:  # else somebody else looks, and nobody has to wait
            self._look_for(obj)
        wanted = obj.controlling.wanted
        if wanted is None:
            why = "" if obj.decided is None else obj.decided.why
            says = f"no replica of {obj.name} could be read yet, and any number would be a guess {why}"
            raise Refused(Refusal.UNAVAILABLE, says.strip())
        return asked.metric, wanted[asked.role]

    def listen(
        self, namespace: str, name: str, metadata: Mapping[str, str], told: Told
    ) -> Callable[[], None]:
        """Be told the number of replicas, now where it is known and whenever it changes; how to stop."""
        asked = self._read(metadata)
        obj = self._object(namespace, name, asked)
        key = object()
        obj.listeners[key] = (asked.role, told)
        self._look_for(obj)
        wanted = obj.controlling.wanted
        if wanted is not None:
            told(wanted[asked.role])
        return lambda: obj.listeners.pop(key, None) and None

    def wanted(self, namespace: str, name: str) -> Mapping[Role, int] | None:
        """What is asked for of an object of one pool; None: nothing is known of it."""
        with self._lock:
            obj = self._objects.get(("object", namespace, name))
        return None if obj is None else obj.controlling.wanted

    def trouble(self) -> str:
        """What is wrong with any of them; "": nothing."""
        with self._lock:
            objects = list(self._objects.values())
        for obj in objects:
            if obj.known and (obj.decided is None or obj.decided.by == "held"):
                why = "nothing was read yet" if obj.decided is None else obj.decided.why
                return f"{obj.name}: {why}"
            if obj.frozen:
                return f"{obj.name}: {obj.frozen[0]}"
        return ""

    def _read(self, metadata: Mapping[str, str]) -> ScaledObjectSpec:
        return read_metadata(metadata, self._around.profile)

    def _object(self, namespace: str, name: str, asked: ScaledObjectSpec) -> _Object:
        whole = f"{namespace}/{name}"
        # The two pools of one service are two objects of Kubernetes that one controller scales.
        place: tuple[object, ...] = (
            ("object", namespace, name) if asked.role == "mixed" else ("pools", namespace, asked.shared)
        )
        with self._lock:
            obj = self._objects.get(place)
            if obj is not None and obj.options == asked.options:
                return obj
        made = self._made(whole if asked.role == "mixed" else f"{whole} and its pair", asked.options)
        now = self._around.clock()
        with self._lock:
            before = self._objects.get(place)
            if before is not None and before.options == asked.options:
                return before
            if before is None:
                self._make_room(now)
                memory = self._around.memory
                known = None if memory is None else memory.of(made.name, now)
            else:
                known = before.state(now)
                made.listeners.update(before.listeners)
            if known is not None and known.wanted.keys() == made.options.sources.keys():
                made.controlling.go_on_from(now, known.wanted, known.starts)
            made.asked_at = now
            self._objects[place] = made
        return made

    def _make_room(self, now: float) -> None:
        gone = [place for place, obj in self._objects.items() if now - obj.asked_at > _FORGOTTEN_SECONDS]
        for place in gone:
            if not self._objects[place].listeners:
                del self._objects[place]
        if len(self._objects) >= _MOST_OBJECTS:
            raise Refused(Refusal.EXHAUSTED, f"more than {_MOST_OBJECTS} scaled objects")

    def _made(self, name: str, options: ScalerOptions) -> _Object:
        made = {}
        for field_, wanted in (("policy", options.policy), ("fallback", options.fallback)):
            try:
                made[field_] = self._around.policies(wanted)
            except ProreusError as error:
                raise invalid(field_, str(error)) from error
        guard = Guard(inline=False)  # a decision every few seconds can afford a thread, and none can hang
        controlling = PoolController(options, made["policy"], made["fallback"], guard.run)
        freshness = Freshness(options.frozen_seconds, options.live.interval, options.stale_seconds)
        return _Object(name, options, controlling, freshness)

    def _look_for(self, obj: _Object) -> None:
        """For somebody who asks."""
        try:
            self._look_if_due(obj)
        except Closed:
            raise Refused(Refusal.UNAVAILABLE, "the scaler ends") from None

    def _look_if_due(self, obj: _Object) -> None:
        """At most one looks at a time; who comes meanwhile waits for what it finds."""
        if self._around.clock() < obj.due_at and obj.known:
            return
        with obj.lock:
            now = self._around.clock()
            if now < obj.due_at and obj.known:
                return
            self._look(obj, now)

    def _look(self, obj: _Object, now: float) -> None:
        around = self._around
        obj.due_at = now + obj.options.live.interval
        readings, at_router = around.fetcher.run(read_all(around.fetcher, obj.options, now))
        judged = obj.freshness.judge(readings, at_router)
        self._tell_frozen(obj, judged.frozen)
        for of_pool in judged.readings.values():
            for reading in of_pool.values():
                if isinstance(reading, Unreadable):
                    around.measurements.count("proreus_scaler_unreadable", reason=reading.reason)
        before, decided = obj.decided, obj.controlling.step(now, judged.readings, at_router, judged.doubt)
        obj.decided, obj.known = decided, True
        if decided is None:
            around.measurements.count("proreus_scaler_decisions", by="nobody", reason="unknown")
            return
        around.measurements.count("proreus_scaler_decisions", by=decided.by, reason=decided.reason or "none")
        self._remember(obj, now)
        self._tell(obj, before, decided)

    def _tell_frozen(self, obj: _Object, frozen: tuple[str, ...]) -> None:
        before, obj.frozen = obj.frozen, frozen
        if len(before) == len(frozen):  # how long it lasts is for /metrics
            return
        level = logging.WARNING if frozen else logging.INFO
        fields = {"object": obj.name, "replicas": len(frozen), "why": frozen[0] if frozen else ""}
        _log.log(level, "frozen metrics", extra={"fields": fields})

    def _remember(self, obj: _Object, now: float) -> None:
        state, noted = obj.state(now), obj.noted
        if self._around.memory is None or state is None:
            return
        changed = noted is None or (state.wanted, state.starts) != (noted.wanted, noted.starts)
        if noted is None or changed or now - noted.at >= _NOTED_SECONDS:
            obj.noted = state
            self._around.memory.note(obj.name, state)

    def _tell(self, obj: _Object, before: ScalingDecision | None, decided: ScalingDecision) -> None:
        if obj.options.shadow != "off" and self._around.shadow_log is not None:
            self._around.shadow_log.write(obj.name, decided)
        if before is None or (before.by, before.reason) != (decided.by, decided.reason):
            level = logging.INFO if decided.by == "policy" else logging.WARNING
            fields = {"object": obj.name, "by": decided.by, "reason": decided.reason, "why": decided.why}
            _log.log(level, "who decides", extra={"fields": fields})
        if before is None or before.replicas != decided.replicas:
            asked_for = {"object": obj.name, "replicas": dict(decided.replicas), "why": decided.why}
            _log.info("replicas", extra={"fields": asked_for})
            for role, told in list(obj.listeners.values()):
                told(decided.replicas[role])

    def look_at_what_is_due(self) -> None:
        """What the ticker does again and again, once and to the end."""
        for obj in self._due():
            self._looked(obj)

    def _due(self) -> list[_Object]:
        now = self._around.clock()
        return [
            obj
            for obj in self._all()
            if now >= obj.due_at and (obj.listeners or now - obj.asked_at <= _FORGOTTEN_SECONDS)
        ]

    def _tick(self) -> None:
        while not self._ending.wait(self._around.tick_seconds):
            for obj in self._due():
                if not obj.lock.locked() and not self._submitted(obj):
                    return

    def _submitted(self, obj: _Object) -> bool:
        """False: it was told to end meanwhile."""
        try:
            self._lookers.submit(self._looked, obj)
        except RuntimeError:
            if not self._ending.is_set():
                raise
            return False
        return True

    def _looked(self, obj: _Object) -> None:
        try:
            self._look_if_due(obj)
        except Closed:  # it ends, and nobody waits for this look
            return
        except Exception:  # noqa: BLE001 - a thread of its own has nobody else to tell
            self._around.measurements.count("proreus_failures", door="scaler")
            _log.exception("an object could not be looked at", extra={"fields": {"object": obj.name}})

    def _all(self) -> Iterable[_Object]:
        with self._lock:
            return list(self._objects.values())

    def _replicas(self) -> dict[tuple[str, ...], float]:
        return {
            (obj.name, role): float(count)
            for obj in self._all()
            for role, count in (obj.controlling.wanted or {}).items()
        }

    def _silent(self) -> dict[tuple[str, ...], float]:
        now = self._around.clock()
        return {(obj.name,): obj.controlling.silent_seconds(now) for obj in self._all()}

    def _frozen(self) -> dict[tuple[str, ...], float]:
        return {(obj.name,): float(len(obj.frozen)) for obj in self._all()}

    def _start_seconds(self) -> dict[tuple[str, ...], float]:
        return {
            (obj.name, role): starts.seconds
            for obj in self._all()
            for role, starts in obj.controlling.collector.starts.items()
        }

    def _shadows(self) -> Iterable[tuple[_Object, ShadowTally]]:
        for obj in self._all():
            tally = obj.controlling.shadow_tally
            if tally is not None:
                yield obj, tally

    def _shadow_hours(self) -> dict[tuple[str, ...], float]:
        return {
            (obj.name, whose): seconds * obj.options.gpus / 3600.0
            for obj, tally in self._shadows()
            for whose, seconds in (("real", tally.real), ("shadow", tally.would))
        }

    def _shadow_kept(self) -> dict[tuple[str, ...], float]:
        return {
            (obj.name, whose): share
            for obj, tally in self._shadows()
            for whose, share in (
                ("measured", tally.met / tally.ended if tally.ended else 1.0),
                ("modelled", tally.modelled_met / tally.requests if tally.requests else 1.0),
                ("shadow", tally.would_met / tally.requests if tally.requests else 1.0),
            )
        }
