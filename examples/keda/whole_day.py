"""A recorded day through KEDA, sixty times as fast as it was: three controllers of the same replicas.

    python -m examples.keda.whole_day --controllers learned,predictive,waiting --json day.json

Everything is there as in a cluster: replicas that answer as vLLM does over HTTP and take `--start-seconds` to
start, `proreus serve scaler`'s own service that looks at them by itself and is asked over gRPC as KEDA asks,
and the horizontal pod autoscaler every 15 s. `waiting` is what people write without a scaler: a trigger on
vllm:num_requests_waiting that Prometheus scrapes, with the autoscaler's own windows and tolerance; `running`
is the same on requests that wait or run, which somebody who has measured a replica would write.

One clock goes `--speed` times as fast as the machine's, for all of them: requests, start-up, decisions, looks
of the autoscaler, its windows, scrapes. What the machine itself takes to ask and to answer is not scaled: a
look of 20 ms lasts 1.2 s of the day at 60. Where the machine cannot keep up, the clock goes slower instead of
leaving less time to anybody, and the report says how fast it went. `--speed 0` does not wait at all.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import threading
import time
from dataclasses import asdict, dataclass
from itertools import pairwise
from pathlib import Path
from typing import Protocol
from urllib.error import HTTPError
from urllib.request import urlopen

from examples.keda.closed_loop import POOL, Keda, metadata_of, outcome, scaler
from proreus.serving.scaler.service import ScalerService
from proreus.worlds.inference.exporter.autoscaler import (
    AT_ONCE,
    SYNC_SECONDS,
    Behavior,
    HorizontalPodAutoscaler,
)
from proreus.worlds.inference.exporter.fleet import SimulatedFleet
from proreus.worlds.inference.exporter.server import ExporterServer
from proreus.worlds.inference.flags import InferenceFlags
from proreus.worlds.inference.model import vllm
from proreus.worlds.inference.scenarios import InferenceScenario

STEP_SECONDS = 1.0
"""Of the day, that pass at once."""
SCRAPE_SECONDS = 15.0
TRIGGERS: dict[str, tuple[tuple[str, ...], float]] = {
    "waiting": ((vllm.WAITING,), 5.0),
    "running": ((vllm.WAITING, vllm.RUNNING), 20.0),
}
"""What plain triggers add up, and their target a replica."""
_OWN_TIME = 0.002
"""Seconds of the machine between two looks at the clock."""


@dataclass(frozen=True)
class Sync:
    """One look of the autoscaler."""

    time: float
    replicas: int
    serving: int
    waiting: int
    late: float
    """Seconds of the day behind its time at which replicas were set."""


class Trigger(Protocol):
    """What the autoscaler asks."""

    behavior: Behavior

    def metric(self) -> tuple[float, float]:
        """(value, target)."""

    def look(self, now: float) -> None:
        """What has to be done as time passes."""


class ScalerTrigger:
    """An external trigger: the scaler, as KEDA asks it."""

    behavior = AT_ONCE

    def __init__(self, keda: Keda, service: ScalerService, by_hand: bool) -> None:
        self._keda, self._service, self._by_hand = keda, service, by_hand

    def metric(self) -> tuple[float, float]:
        """Replicas that it wants, with a target of one."""
        return self._keda.metric()

    def look(self, now: float) -> None:
        """It looks by itself, unless nobody waits for the clock."""
        del now
        if self._by_hand:
            self._service.objects.look_at_what_is_due()


class PlainTrigger:
    """A Prometheus trigger: the sum of gauges as last scraped, over a target a replica."""

    behavior = Behavior()

    def __init__(self, urls: list[str], gauges: tuple[str, ...], target: float) -> None:
        self._urls, self._gauges, self._target = urls, gauges, target
        self._due = 0.0
        self._sum = 0.0

    def metric(self) -> tuple[float, float]:
        """As sum(vllm:num_requests_waiting)."""
        return self._sum, self._target

    def look(self, now: float) -> None:
        """Scrape where it is time."""
        if now >= self._due:
            self._due = _next(self._due, SCRAPE_SECONDS, now)
            self._sum = sum(_gauges_at(url, self._gauges) for url in self._urls)


def _next(due: float, each: float, now: float) -> float:
    """When it is time again; times that have passed meanwhile are left out, as they are in a cluster."""
    return due + each * (1.0 + max((now - due) // each, 0.0))


def _gauges_at(url: str, gauges: tuple[str, ...]) -> float:
    try:
        with urlopen(url, timeout=30.0) as answer:
            lines = answer.read().decode().splitlines()
    except HTTPError:  # no replica serves there (yet)
        return 0.0
    series = tuple(f"{gauge}{{" for gauge in gauges)
    return sum(float(line.rpartition(" ")[2]) for line in lines if line.startswith(series))


class Pace(threading.Thread):
    """Lets the day pass, `speed` times as fast as the machine's time, or slower where that is too fast."""

    def __init__(self, exporter: ExporterServer, speed: float, until: float) -> None:
        super().__init__(name="pace", daemon=True)
        self._exporter, self._speed, self._until = exporter, speed, until
        self.ending = threading.Event()

    def run(self) -> None:
        """Step by step."""
        fleet, each = self._exporter.fleet, STEP_SECONDS / self._speed
        due = time.monotonic()
        while fleet.now < self._until and not self.ending.is_set():
            # A step that came late is not made up for: everybody keeps the time that a second of the day has.
            due = max(due + each, time.monotonic())
            self.ending.wait(max(due - time.monotonic(), 0.0))
            with self._exporter.lock:
                fleet.advance(min(fleet.now + STEP_SECONDS, self._until))


def play(scenario: InferenceScenario, exporter: ExporterServer, trigger: Trigger, speed: float) -> list[Sync]:
    """The day under one trigger."""
    fleet, limits = exporter.fleet, scenario.control.limits
    last = float(fleet.cluster.trace.arrival[-1])
    autoscaler = HorizontalPodAutoscaler(trigger.behavior, limits.least, limits.most_in_total)
    pace = Pace(exporter, speed, last)
    if speed:
        pace.start()
    history: list[Sync] = []
    sync_at = fleet.now
    try:
        while fleet.now < last:
            trigger.look(fleet.now)
            if fleet.now >= sync_at:
                due, sync_at = sync_at, _next(sync_at, SYNC_SECONDS, fleet.now)
                amount, target = trigger.metric()
                with exporter.lock:
                    count = autoscaler.replicas(fleet.now, amount, target, fleet.replicas(POOL))
                    fleet.scale(POOL, count)
                    waiting = int(fleet.cluster.run.waiting.size.sum())
                    history.append(
                        Sync(due, fleet.replicas(POOL), fleet.serving(POOL), waiting, fleet.now - due)
                    )
            elif speed:
                time.sleep(_OWN_TIME)
            else:
                with exporter.lock:
                    fleet.advance(min(fleet.now + SYNC_SECONDS / 3, sync_at, last))
    finally:
        pace.ending.set()
        if speed:
            pace.join()
    return history


def day(asked: argparse.Namespace, controller: str) -> dict[str, object]:
    """What one controller makes of the day."""
    flags = InferenceFlags(
        scenario=asked.scenario,
        rate=asked.rate,
        seconds=asked.seconds,
        start_seconds=asked.start_seconds,
        scheduler="jsq",
        mixed=asked.replicas,
        most_instances=asked.most,
    )
    scenario = flags.chosen()
    exporter = ExporterServer(SimulatedFleet(scenario, scenario.load(asked.seed), asked.seed))
    exporter.start()
    began = time.monotonic(), time.process_time()
    try:
        exporter.fleet.advance(scenario.control.interval)  # a service runs before somebody scales it
        if controller in TRIGGERS:
            gauges, target = TRIGGERS[controller]
            trigger = PlainTrigger(exporter.urls(), gauges, asked.target or target)
            history = play(scenario, exporter, trigger, asked.speed)
        else:
            history = _by_scaler(scenario, exporter, controller, asked)
        held = exporter.fleet.gpu_hours
        wall, cpu = time.monotonic() - began[0], time.process_time() - began[1]
        spanned = exporter.fleet.now
        measured = outcome(exporter.fleet, scenario)
    finally:
        exporter.stop()
    return {
        "controller": controller,
        "trace": exporter.fleet.cluster.trace.name,
        "seed": asked.seed,
        "requests": len(exporter.fleet.cluster.trace),
        "served_as_promised": measured["slo_attainment"],
        "gpu_hours": held,
        "weighed_gpu_hours": held * measured["weighed_gpu_hours"] / measured["gpu_hours"],
        "ttft_p90": measured["ttft_p90"],
        "ttft_p99": measured["ttft_p99"],
        "tbt_p90": measured["tbt_p90"],
        "turns_per_hour": _turns([sync.replicas for sync in history]) / (spanned / 3600.0),
        "replicas_mean": sum(sync.replicas for sync in history) / len(history),
        "replicas_least": min(sync.replicas for sync in history),
        "replicas_most": max(sync.replicas for sync in history),
        "seconds": spanned,
        "speed": spanned / wall,
        "cpu_seconds": cpu,
        "late_p99": sorted(sync.late for sync in history)[int(0.99 * (len(history) - 1))],
        "history": [asdict(sync) for sync in history],
    }


def _by_scaler(
    scenario: InferenceScenario, exporter: ExporterServer, controller: str, asked: argparse.Namespace
) -> list[Sync]:
    metadata = {**metadata_of(scenario, exporter, controller), "startSeconds": f"{asked.start_seconds:g}"}
    own: dict[str, object] = {}
    if asked.speed:
        own = {"ticking": True, "tick_seconds": STEP_SECONDS / asked.speed}
    if asked.shadow:
        metadata |= {"policy": asked.shadow, "fallback": controller, "shadow": "true"}
        own["shadow_log"] = asked.shadow_log
    with scaler(exporter.fleet, policies=tuple(filter(None, (controller, asked.shadow))), **own) as (
        service,
        port,
    ):
        keda = Keda(port, "vllm", metadata)
        try:
            return play(scenario, exporter, ScalerTrigger(keda, service, not asked.speed), asked.speed)
        finally:
            keda.close()


def _turns(replicas: list[int]) -> int:
    """From more to fewer or back."""
    steps = [after - before for before, after in pairwise(replicas) if after != before]
    return sum((one > 0) != (other > 0) for one, other in pairwise(steps))


def table(days: list[dict[str, object]]) -> str:
    """A row for each controller."""
    lines = [
        "controller   served  GPU-hours  weighed  TTFT p90  replicas      turns   speed",
        "          as promised                              mean (range)  an hour",
    ]
    for one in days:
        spread = f"{one['replicas_mean']:.1f} ({one['replicas_least']}-{one['replicas_most']})"
        lines.append(
            f"{one['controller']!s:11} {one['served_as_promised']:6.2f} % {one['gpu_hours']:9.1f} "
            f"{one['weighed_gpu_hours']:8.1f} {one['ttft_p90']:7.2f} s  {spread:13} "
            f"{one['turns_per_hour']:6.1f}  {one['speed']:5.1f}x"
        )
    return "\n".join(lines)


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        prog="python -m examples.keda.whole_day", description=(__doc__ or "").splitlines()[0]
    )
    parser.add_argument(
        "--controllers",
        default="learned,predictive,waiting",
        help="policies of `serve scaler`, and waiting, running; each in a process of its own, all at once",
    )
    parser.add_argument("--scenario", default="servegen", help="requests (a dataset: set PROREUS_DATA)")
    parser.add_argument("--rate", type=float, default=20.0, help="requests a second, mean of all days")
    parser.add_argument("--seconds", type=float, default=86_400.0)
    parser.add_argument("--start-seconds", type=float, default=120.0)
    parser.add_argument("--replicas", type=int, default=4, help="at the beginning")
    parser.add_argument("--most", type=int, default=16)
    parser.add_argument("--target", type=float, default=0.0, help="of plain triggers: requests a replica")
    parser.add_argument("--speed", type=float, default=60.0, help="0: as fast as it goes")
    parser.add_argument("--seed", type=int, default=0, help="of servegen: the day")
    parser.add_argument("--shadow", default="", help="a policy in the shadow of the one that scales")
    parser.add_argument("--shadow-log", type=Path, help="for `proreus serve shadow-report`")
    parser.add_argument("--json", type=Path, help="all figures, every look of the autoscaler included")
    return parser.parse_args()


def _apart(controller: str) -> subprocess.Popen[str]:
    """The same command for one controller, in a process of its own, which writes to its output."""
    words = [*sys.argv[1:], "--controllers", controller, "--json", "/dev/stdout"]
    command = [sys.executable, "-m", "examples.keda.whole_day", *words]
    return subprocess.Popen(command, stdout=subprocess.PIPE, text=True)


def main() -> int:
    """Play, and print the table."""
    asked = _arguments()
    controllers = asked.controllers.split(",")
    if len(controllers) == 1:
        days = [day(asked, controllers[0])]
    else:
        processes = [_apart(controller) for controller in controllers]
        texts = [process.communicate()[0] for process in processes]
        if any(process.returncode for process in processes):
            return 1
        days = [json.loads(text)[0] for text in texts]
    if asked.json is not None:
        asked.json.write_text(json.dumps(days) + "\n")
    if str(asked.json) != "/dev/stdout":
        print(table(days))
    return 0


if __name__ == "__main__":
    sys.exit(main())
