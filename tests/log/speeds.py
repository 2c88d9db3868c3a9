"""Reports a second into each kind of log: `python -m tests.log.speeds [SECONDS]`; kinds take turns."""

from __future__ import annotations

import contextlib
import statistics
import sys
import tempfile
import threading
import time
from pathlib import Path

from proreus.log.protocol import LogLimits
from proreus.serving.online.experience_log import ExperienceLog
from tests.engine.store.etcd_servers import etcd_cluster
from tests.log.logs import Log, never
from tests.serving.serving_cases import an_experience

ROUNDS = 5
THREADS = (1, 8, 32)
STEPS = 16


def reports(log: Log, threads: int, seconds: float) -> tuple[float, float]:
    """Reports of 16 steps a second, and the median of how long one took, in milliseconds."""
    kept = ExperienceLog(log.place.open(LogLimits(), never))
    report, took = an_experience(0, STEPS), []
    until = time.perf_counter() + seconds

    def work() -> None:
        while (begin := time.perf_counter()) < until:
            kept.append(report)
            took.append(time.perf_counter() - begin)

    working = [threading.Thread(target=work) for _ in range(threads)]
    for thread in working:
        thread.start()
    for thread in working:
        thread.join()
    kept.close()
    return len(took) / seconds, 1e3 * statistics.median(took)


def main(seconds: float) -> None:
    """Print the median of some rounds, and the range."""
    with contextlib.ExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory(dir=Path.cwd())))
        etcd = stack.enter_context(etcd_cluster(folder / "etcd")).members[0].endpoint
        for threads in THREADS:
            by_kind: dict[str, list[tuple[float, float]]] = {}
            for turn in range(ROUNDS):
                where = {
                    "files": str(folder / f"{threads}-{turn}"),
                    "sqlite": f"sqlite:{folder / f'{threads}-{turn}.db'}",
                    "etcd": f"etcd://{etcd}/{threads}-{turn}",
                }
                for kind, place in where.items():
                    by_kind.setdefault(kind, []).append(reports(Log(kind, place), threads, seconds))
            for kind, rounds in by_kind.items():
                rates = sorted(rate for rate, _ in rounds)
                took = statistics.median(median for _, median in rounds)
                line = f"{threads:2} threads, {kind:6}: {statistics.median(rates):5.0f} reports/s"
                print(f"{line} ({rates[0]:.0f} to {rates[-1]:.0f}), median {took:.1f} ms")  # noqa: T201


if __name__ == "__main__":
    main(float(sys.argv[1]) if len(sys.argv) > 1 else 2.0)
