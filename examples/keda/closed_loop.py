"""The whole loop on one machine, faster than time: trace > exporter > scaler > KEDA and the HPA > replicas.

    python examples/keda/closed_loop.py --policy threshold --seconds 900 --plot loop.png

The exporter plays a trace through the simulator and answers as vLLM does, over HTTP; the scaler is the one of
`proreus serve scaler`, asked over gRPC as KEDA asks it; between them stands the formula of the horizontal pod
autoscaler with its tolerance. All of them share one clock, which goes on when an interval has been decided.
"""

from __future__ import annotations

import argparse
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import grpc

from proreus.serving.protos import externalscaler_pb2 as messages
from proreus.serving.scaler.service import ScalerService, ScalerServiceOptions
from proreus.worlds.inference.exporter.autoscaler import SYNC_SECONDS, hpa_replicas
from proreus.worlds.inference.exporter.fleet import SimulatedFleet
from proreus.worlds.inference.exporter.server import ExporterServer
from proreus.worlds.inference.flags import InferenceFlags
from proreus.worlds.inference.model.cluster import Role
from proreus.worlds.inference.scenarios import InferenceScenario
from proreus.worlds.inference.simulation.cost import spending
from proreus.worlds.inference.simulation.outcome import measures_of
from proreus.worlds.inference.simulation.throughput import profiled_ability

SCALER = "externalscaler.ExternalScaler"
POOL: Role = "mixed"


@dataclass(frozen=True)
class Moment:
    """The loop at one synchronisation of the autoscaler."""

    time: float
    wanted: int
    """By the scaler."""
    replicas: int
    """Of the Deployment, after the autoscaler."""
    serving: int
    waiting: int


class Keda:
    """Asks a scaler as KEDA does: the specification once, then at every poll metrics and activity."""

    def __init__(self, port: int, name: str, metadata: dict[str, str]) -> None:
        self._channel = grpc.insecure_channel(f"127.0.0.1:{port}")
        self._object = messages.ScaledObjectRef(name=name, namespace="llm", scalerMetadata=metadata)
        spec = self._call("GetMetricSpec", self._object, messages.GetMetricSpecResponse).metricSpecs[0]
        self._metric, self._target = spec.metricName, spec.targetSizeFloat or float(spec.targetSize)

    def _call(self, method: str, request: Any, answer: Any) -> Any:
        ask = self._channel.unary_unary(
            f"/{SCALER}/{method}",
            request_serializer=lambda message: message.SerializeToString(),
            response_deserializer=answer.FromString,
        )
        return ask(request, timeout=30.0)

    def metric(self) -> tuple[float, float]:
        """(value, target) of type AverageValue; no value where the scaler says that nobody is needed."""
        asked = messages.GetMetricsRequest(scaledObjectRef=self._object, metricName=self._metric)
        value = self._call("GetMetrics", asked, messages.GetMetricsResponse).metricValues[0]
        if not self._call("IsActive", self._object, messages.IsActiveResponse).result:
            return 0.0, self._target
        amount = value.metricValueFloat if value.metricValueFloat > 0 else float(value.metricValue)
        return amount, self._target

    def desired(self, current: int, tolerance: float) -> int:
        """What the autoscaler makes of it."""
        amount, target = self.metric()
        return hpa_replicas(amount, target, current, tolerance)

    def close(self) -> None:
        """Hang up."""
        self._channel.close()


@contextmanager
def scaler(fleet: SimulatedFleet, **options: Any) -> Iterator[tuple[ScalerService, int]]:
    """A scaler whose clock is that of the trace, and its port."""
    service = ScalerService(
        ScalerServiceOptions(
            profile=profiled_ability,
            clock=lambda: fleet.now,
            **{"ticking": False, **options},
        )
    )
    try:
        yield service, service.open_grpc("127.0.0.1", 0)
    finally:
        service.stop(1.0)


def metadata_of(scenario: InferenceScenario, exporter: ExporterServer, policy: str) -> dict[str, str]:
    """What a ScaledObject for the scenario would say."""
    machines, limits = scenario.machines, scenario.control.limits
    return {
        "policy": policy,
        "metrics": ",".join(exporter.urls()),
        "languageModel": machines.model,
        "gpu": machines.gpu,
        "gpus": str(machines.gpus),
        "least": str(limits.least),
        "most": str(limits.most_in_total),
        "interval": str(scenario.control.interval),
        "startSeconds": "60",
        "cooldownSeconds": "0",
    }


def play(
    scenario: InferenceScenario, metadata: dict[str, str], exporter: ExporterServer, tolerance: float = 0.0
) -> list[Moment]:
    """The loop until the trace is over; what happened at each synchronisation."""
    fleet = exporter.fleet
    last = float(fleet.cluster.trace.arrival[-1])
    history: list[Moment] = []
    with scaler(fleet, policies=(metadata["policy"],)) as (service, port):
        fleet.advance(scenario.control.interval)  # a service runs before somebody scales it
        keda = Keda(port, "vllm", metadata)
        look_at = sync_at = fleet.now
        while fleet.now < last:
            if fleet.now >= look_at:
                look_at += scenario.control.interval
                service.objects.look_at_what_is_due()
            if fleet.now < sync_at:
                with exporter.lock:
                    fleet.advance(min(look_at, sync_at, last))
                continue
            sync_at += SYNC_SECONDS
            current = fleet.replicas(POOL)
            desired = keda.desired(current, tolerance)
            wanted = (service.objects.wanted("llm", "vllm") or {}).get(POOL, 0)
            with exporter.lock:
                fleet.scale(POOL, desired)
                serving = fleet.serving(POOL)
                waiting = int(fleet.cluster.run.waiting.size.sum())
            history.append(Moment(fleet.now, wanted, fleet.replicas(POOL), serving, waiting))
            with exporter.lock:
                fleet.advance(min(look_at, sync_at, last))
        keda.close()
    return history


def outcome(fleet: SimulatedFleet, scenario: InferenceScenario) -> dict[str, float]:
    """What has come of it, measured as in `proreus compare inference`."""
    fleet.cluster.advance()
    rows = fleet.cluster.rows()
    return measures_of(rows, fleet.cluster.trace.service, spending(fleet.cluster), [], scenario.control)


def main() -> None:
    """Play, print, and draw where a file is given."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--policy", default="threshold", help="a rule, a run, file.py:Name")
    parser.add_argument("--scenario", default="colocated")
    parser.add_argument("--trace", type=Path, help="your own requests: a table arrival,prompt,output")
    parser.add_argument("--seconds", type=float, default=600.0)
    parser.add_argument("--start-seconds", type=float, default=120.0)
    parser.add_argument("--tolerance", type=float, default=0.0, help="of the HPA; clusters have 0.1")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--plot", type=Path, help="a .png or .svg")
    asked = parser.parse_args()
    flags = InferenceFlags(
        scenario=asked.scenario, trace=asked.trace, seconds=asked.seconds, start_seconds=asked.start_seconds
    )
    scenario = flags.chosen()
    scenario = replace(scenario, machines=replace(scenario.machines, scheduler="jsq"))
    exporter = ExporterServer(SimulatedFleet(scenario, scenario.load(asked.seed), asked.seed))
    exporter.start()
    try:
        history = play(scenario, metadata_of(scenario, exporter, asked.policy), exporter, asked.tolerance)
        measured = outcome(exporter.fleet, scenario)
    finally:
        exporter.stop()
    print("   time  wanted  replicas  serving  waiting")
    for moment in history:
        print(
            f"{moment.time:7.0f} {moment.wanted:7} {moment.replicas:9} {moment.serving:8} {moment.waiting:8}"
        )
    for name in ("slo_attainment", "gpu_hours", "ttft_p90", "tbt_p90"):
        print(f"{name}: {measured[name]:.4g}")
    if asked.plot is not None:
        draw(history, asked.plot)


def draw(history: list[Moment], path: Path) -> None:
    """Replicas and waiting requests over time."""
    import matplotlib

    matplotlib.use("Agg")
    from matplotlib import pyplot

    figure, (upper, lower) = pyplot.subplots(2, sharex=True, figsize=(8, 5))
    times = [moment.time for moment in history]
    upper.step(times, [moment.replicas for moment in history], where="post", label="asked for")
    upper.step(times, [moment.serving for moment in history], where="post", label="serving")
    upper.set_ylabel("replicas")
    upper.legend()
    lower.plot(times, [moment.waiting for moment in history])
    lower.set_ylabel("requests waiting")
    lower.set_xlabel("seconds")
    figure.tight_layout()
    figure.savefig(path)


if __name__ == "__main__":
    main()
