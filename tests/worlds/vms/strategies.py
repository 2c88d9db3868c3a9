"""Small random virtual machine traces and clusters for property tests: crowded, with ties and odd amounts."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from hypothesis import strategies as st

from proreus.worlds.vms.model import DoubleRule, ServerShape, VmTrace, events_of
from proreus.worlds.vms.simulation.world import VmsOptions

CPUS = (0.5, 1.0, 2.0, 3.0, 4.0, 8.0, 0.001, 2.25)
MEMS = (1.0, 2.0, 4.0, 11.0, 16.0, 0.333, 7.5)


@dataclass(frozen=True)
class Case:
    """A trace, a cluster, and numbers from which a test takes its choices."""

    trace: VmTrace
    options: VmsOptions
    start: int
    limit: int
    choices: tuple[int, ...]

    def choice(self, step: int, avail: list[bool]) -> int:
        """A legal place, by the step's number."""
        legal = [place for place, fits in enumerate(avail) if fits]
        return legal[self.choices[step % len(self.choices)] % len(legal)]


def make_trace(rows: list[tuple[float, float, int, float]]) -> VmTrace:
    """From (cpu, mem, gap since the one before, lifetime)."""
    arrival = np.cumsum([float(gap) for _, _, gap, _ in rows])
    lifetime = np.array([float(life) for _, _, _, life in rows])
    cpu, mem = np.array([row[0] for row in rows]), np.array([row[1] for row in rows])
    return VmTrace("made", cpu, mem, arrival, lifetime, events_of(arrival, lifetime))


@st.composite
def cases(draw: st.DrawFn, full: str | None = None) -> Case:
    """Up to forty machines on up to four servers of one or two kinds."""
    seed = draw(st.integers(0, 2**32 - 1))
    rng = np.random.default_rng(seed)
    count = draw(st.integers(1, 40))
    lives = (0.0, 1.0, 3.0, 10.0, 40.0, np.inf)
    rows = [
        (
            float(rng.choice(CPUS)),
            float(rng.choice(MEMS)),
            int(rng.integers(0, 4)),
            float(rng.choice(lives[: 6 if rng.random() < 0.3 else 5])),
        )
        for _ in range(count)
    ]
    trace = make_trace(rows)
    shapes = tuple(
        ServerShape(
            int(rng.integers(1, 3)), float(rng.choice((4.0, 8.0, 8.5))), float(rng.choice((12.0, 20.0)))
        )
        for _ in range(int(rng.integers(1, 3)))
    )
    rule = DoubleRule.parse(str(rng.choice(("mem>10", "cpu>2", "cpu>=2", "mem>1000"))))
    treated = full or draw(st.sampled_from(("end", "reject", "wait")))
    growth = int(rng.choice((0, 0, 1, 2)))
    options = VmsOptions(
        servers=shapes,
        double=rule,
        full=treated,  # type: ignore[arg-type]  # one of the three
        release=treated == "wait" or bool(rng.random() < 0.8),
        reward="wait" if treated == "wait" else "placement",
        growth=growth,
        threshold=float(rng.choice((0.3, 0.7))),
    )
    start = int(rng.integers(0, count)) if rng.random() < 0.5 else 0
    limit = int(rng.integers(1, count + 1)) if rng.random() < 0.3 else count
    return Case(trace, options, start, limit, tuple(int(n) for n in rng.integers(0, 1000, 13)))
