"""What a scheduler tells Prometheus, and whether it is well."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import accumulate

from proreus.kubeagents.scheduler.agent import KubeScheduler
from proreus.kubeagents.scheduler.status_server import Answer, Answers, readiness

_PREFIX = "proreus_kube_scheduler"
_BOUNDS = (0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0)
_Labelled = Sequence[tuple[Mapping[str, str], float]]


@dataclass
class Histogram:
    """Seconds, in buckets."""

    counts: list[int] = field(default_factory=lambda: [0] * (len(_BOUNDS) + 1))
    total: float = 0.0

    def add(self, seconds: float) -> None:
        """One more."""
        self.counts[bisect_left(_BOUNDS, seconds)] += 1
        self.total += seconds


class SchedulerStatus:
    """Answers about one scheduler."""

    def __init__(self, scheduler: KubeScheduler) -> None:
        self._scheduler = scheduler
        self._bound = Histogram()

    def answers(self) -> Answers:
        """For a status server."""
        return {
            "/livez": lambda: Answer("ok\n"),
            "/healthz": self._health,
            "/readyz": self._ready,
            "/metrics": lambda: Answer(self.metrics()),
        }

    def _health(self) -> Answer:
        """Unwell only where nothing was ever heard: a server that is away is not this process' fault."""
        troubles = self._scheduler.troubles()
        return Answer("\n".join(["ok", *troubles]) + "\n")

    def _ready(self) -> Answer:
        scheduler = self._scheduler
        told = [*scheduler.troubles(), *filter(None, [scheduler.switch.told])]
        return readiness(told, synced=scheduler.synced)

    def metrics(self) -> str:
        """In Prometheus' text form."""
        lines: list[str] = []
        for name, kind, says, samples in self._samples():
            lines.append(f"# HELP {_PREFIX}_{name} {says}")
            lines.append(f"# TYPE {_PREFIX}_{name} {kind}")
            lines.extend(f"{_PREFIX}_{name}{_labels(labels)} {number:g}" for labels, number in samples)
        if self._scheduler.binder is not None:
            self._histogram(lines, self._scheduler.binder.take_latencies())
        return "\n".join(lines) + "\n"

    def _samples(self) -> Iterator[tuple[str, str, str, _Labelled]]:
        """Name, kind, what it says, and numbers by labels."""
        scheduler, core, events = self._scheduler, self._scheduler.core, self._scheduler.events
        leading = scheduler.loop is not None and scheduler.loop.led is not None
        yield "leading", "gauge", "Whether this replica decides.", [({}, float(leading))]
        yield "stopped", "gauge", "Whether the kill switch is on.", [({}, float(scheduler.switch.on))]
        yield "synced", "gauge", "Whether everything was listed.", [({}, float(scheduler.synced))]
        yield "decisions_total", "counter", "Decisions by what came of them.", _by("result", core.counts)
        fallbacks = _by("reason", core.fallbacks())
        yield "fallbacks_total", "counter", "Decisions of the kube rules in the policy's place.", fallbacks
        yield "pending_pods", "gauge", "Pods that wait, by where.", _by("queue", core.queue.counts())
        compared = [
            ({"scheduler": name, "result": result}, float(getattr(difference, result)))
            for name, difference in core.differences.items()
            for result in ("agreed", "differed")
        ]
        yield "shadow_decisions_total", "counter", "Decisions with a shadow beside them.", compared
        lists = {one.resource.plural: one.lists for one in scheduler.followed}
        yield "lists_total", "counter", "Lists by resource.", _by("resource", lists)
        watches = {one.resource.plural: one.watches for one in scheduler.followed}
        yield "watches_total", "counter", "Watches begun by resource.", _by("resource", watches)
        told = {"written": events.written, "dropped": events.dropped}
        yield "events_total", "counter", "Events by what became of them.", _by("result", told)
        retried: _Labelled = [({}, float(scheduler.client.retried))]
        yield "api_retries_total", "counter", "Requests that were tried again.", retried
        if scheduler.binder is not None:
            conflicts: _Labelled = [({}, float(scheduler.binder.conflicts))]
            yield "binding_conflicts_total", "counter", "Bindings refused with 409.", conflicts

    def _histogram(self, lines: list[str], latencies: Iterable[float]) -> None:
        for seconds in latencies:
            self._bound.add(seconds)
        name = f"{_PREFIX}_binding_seconds"
        lines.append(f"# HELP {name} Seconds of a binding request.")
        lines.append(f"# TYPE {name} histogram")
        sums = list(accumulate(self._bound.counts))
        for bound, count in zip((*map(str, _BOUNDS), "+Inf"), sums, strict=True):
            lines.append(f'{name}_bucket{{le="{bound}"}} {count}')
        lines.append(f"{name}_sum {self._bound.total:g}")
        lines.append(f"{name}_count {sums[-1]}")


def _by(label: str, counts: Mapping[str, float]) -> _Labelled:
    return [({label: name}, float(number)) for name, number in sorted(counts.items())]


def _labels(labels: Mapping[str, str]) -> str:
    if not labels:
        return ""
    written = ",".join(f'{name}="{_escaped(text)}"' for name, text in labels.items())
    return f"{{{written}}}"


def _escaped(text: str) -> str:
    return text.replace("\\", r"\\").replace('"', r"\"").replace("\n", r"\n")
