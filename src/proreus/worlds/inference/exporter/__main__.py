"""`python -m proreus.worlds.inference.exporter`: the fake exporter as a process, in real or faster time."""

from __future__ import annotations

import argparse
import signal
import sys
import threading
import time
from pathlib import Path

from proreus.model.errors import ProreusError
from proreus.worlds.inference.exporter.fleet import SimulatedFleet
from proreus.worlds.inference.exporter.server import ExporterServer
from proreus.worlds.inference.flags import InferenceFlags

_TICK = 0.1
"""Seconds between two steps of the simulation."""


def main(words: list[str] | None = None) -> int:
    """Serve until told to end, or until the trace is over."""
    asked = _arguments(words)
    try:
        flags = InferenceFlags(
            scenario=asked.scenario,
            trace=asked.trace,
            rate=asked.rate,
            seconds=asked.seconds,
            mixed=asked.replicas,
            start_seconds=asked.start_seconds,
        )
        scenario = flags.chosen()
        trace = scenario.load(asked.seed)
        exporter = ExporterServer(SimulatedFleet(scenario, trace, asked.seed), asked.host, asked.port)
    except (ProreusError, OSError) as error:
        print(f"exporter: {error}", file=sys.stderr)  # noqa: T201 - a command
        return 2
    ending = threading.Event()
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, lambda *_: ending.set())
    exporter.start()
    print(f"exporter: {exporter.address}/mixed/0/metrics", flush=True)  # noqa: T201 - a command
    began, last = time.monotonic(), float(trace.arrival[-1])
    while not ending.wait(_TICK) and exporter.fleet.now < last:
        with exporter.lock:
            exporter.fleet.advance((time.monotonic() - began) * asked.speed)
    exporter.stop()
    return 0


def _arguments(words: list[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        prog="python -m proreus.worlds.inference.exporter",
        description="vLLM's metrics of simulated replicas that serve a trace.",
        epilog="Example: python -m proreus.worlds.inference.exporter --scenario colocated --port 9100",
    )
    parser.add_argument("--scenario", default="colocated", help="requests and cluster (one pool)")
    parser.add_argument("--trace", type=Path, help="your own requests: a table arrival,prompt,output")
    parser.add_argument("--rate", type=float, help="requests a second, mean")
    parser.add_argument("--seconds", type=float, help="how long requests come")
    parser.add_argument("--replicas", type=int, help="at the beginning")
    parser.add_argument("--start-seconds", type=float, help="until a new replica serves")
    parser.add_argument("--speed", type=float, default=1.0, help="seconds of the trace in a second")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--host", default="127.0.0.1")
    parser.add_argument("--port", type=int, default=9100, help="0: any free one")
    return parser.parse_args(words)


if __name__ == "__main__":
    sys.exit(main())
