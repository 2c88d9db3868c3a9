"""One run: jobs arrive, wait in one line, and are worked off by the server they were sent to, in order."""

from __future__ import annotations

import math
from collections import deque

import numpy as np

from proreus.contract.replay import OUTSIDE, Move, Stage, levels_of
from proreus.contract.simulation import Look, Outcome
from proreus.contract.text_bars import bar
from proreus.model.errors import IllegalDecision
from proreus.model.measure import Measure, by_name
from tests.toy.model import ACTIONS, ROOM, SPEEDS, WAIT, Jobs, ToyObservation

MEASURES = by_name(
    Measure("time_in_system", "s", "lower", "Time from arrival to the end of a job, mean", "time"),
    Measure("jobs_done", "jobs", "higher", "Jobs done", "done"),
    Measure("decisions_per_s", "1/s", "higher", "Decision rate", "rate"),
)
COLUMNS = ("job", "arrival", "sent", "server", "done")


class ToyRun:
    """As `contract.simulation` says, pictures included."""

    def __init__(self, jobs: Jobs) -> None:
        self._jobs = jobs
        self._now, self._arrived, self._told_to_wait = 0.0, 0, False
        self._line: deque[int] = deque()
        self._ends: tuple[deque[float], deque[float]] = (deque(), deque())
        self._rows: list[tuple[int, float, float, int, float]] = []
        self._last: Move | None = None

    def next_decision(self) -> ToyObservation | None:
        """The first job in line; None when all are done."""
        while not self._line or self._told_to_wait:
            moment = self._next_moment()
            if moment == math.inf:
                return None
            self._now, self._told_to_wait = moment, False
            for ends in self._ends:
                while ends and ends[0] <= moment:
                    ends.popleft()
            while self._arrived < self._jobs.arrival.size and self._jobs.arrival[self._arrived] <= moment:
                self._line.append(self._arrived)
                self._arrived += 1
        return self._seen()

    def _next_moment(self) -> float:
        arrivals = self._jobs.arrival[self._arrived : self._arrived + 1].tolist()
        return min([*arrivals, *(ends[0] for ends in self._ends if ends)], default=math.inf)

    def _seen(self) -> ToyObservation:
        fast, slow = self._ends
        busy = [max(ends[-1] - self._now, 0.0) if ends else 0.0 for ends in self._ends]
        job = self._line[0]
        return ToyObservation(
            now=self._now,
            job=job,
            work=float(self._jobs.work[job]),
            held=(len(fast), len(slow)),
            busy=(busy[0], busy[1]),
            line=len(self._line),
            more=self._next_moment() < math.inf,
        )

    def apply(self, decision: int, /) -> float:
        """Send the job to a server, or let it wait until something happens; minus its time in the system."""
        if not self._line or self._told_to_wait:
            raise IllegalDecision("no job needs a server")
        if not isinstance(decision, int | np.integer) or not 0 <= decision < ACTIONS:
            raise IllegalDecision(f"{decision!r} is neither 0 or 1, a server, nor 2, to wait")
        seen, server = self._seen(), int(decision)
        if not seen.action_mask()[server]:
            raise IllegalDecision(f"job {seen.job}: action {server} is not possible now")
        if server == WAIT:
            self._told_to_wait, self._last = True, None
            return 0.0
        done = self._now + seen.busy[server] + seen.work / SPEEDS[server]
        arrival = float(self._jobs.arrival[seen.job])
        self._line.popleft()
        self._ends[server].append(done)
        self._rows.append((seen.job, arrival, self._now, server, done))
        self._last = Move(f"job {seen.job}", OUTSIDE, server)
        return arrival - done

    def subject(self) -> str:
        """The job's number."""
        return str(self._line[0]) if self._line else ""

    def outcome(self) -> Outcome:
        """What the jobs so far have come to."""
        measures = {"jobs_done": float(sum(row[4] <= self._now for row in self._rows))}
        if self._rows:
            measures["time_in_system"] = float(np.mean([row[4] - row[1] for row in self._rows]))
        return Outcome(measures, COLUMNS, self._rows, lambda: {"sent": [list(row) for row in self._rows]})

    def screen(self) -> list[str]:
        """A bar for each server."""
        bars = [f"server {at} ▕{bar(len(ends) / ROOM)}▏" for at, ends in enumerate(self._ends)]
        return [f"{self._now:,.1f} s: {len(self._rows)} sent, {len(self._line)} in line", *bars]

    def stage(self) -> Stage:
        """Two servers."""
        return Stage("server", ("fast", "slow"), ("room in use",), all_moves=False, clock=True)

    def look(self) -> Look:
        """The servers now, with the last job that was sent."""
        use = np.array([len(ends) / ROOM for ends in self._ends])
        moves, self._last = () if self._last is None else (self._last,), None
        series = {"line": float(len(self._line)), "held": float(use.sum() * ROOM)}
        return Look(self._now, len(self._rows), series, use, levels_of(use[:, None, None]), moves)

    def told(self, before: Look | None, now: Look) -> str:
        """So many jobs."""
        return f"{now.count} sent"

    def facts(self) -> tuple[str, ...]:
        """How many jobs."""
        return "2 servers", f"{self._jobs.arrival.size} jobs"
