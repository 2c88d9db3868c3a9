"""A run of the world `inference`: requests come, and every few seconds a controller scales the pools."""

from __future__ import annotations

import math

import numpy as np

from proreus.contract.replay import Stage
from proreus.contract.simulation import Look, Outcome
from proreus.model.errors import IllegalDecision
from proreus.worlds.inference.model.cluster import ClusterSpec
from proreus.worlds.inference.model.decision import Scale
from proreus.worlds.inference.model.objectives import Interval
from proreus.worlds.inference.model.requests import RequestTrace
from proreus.worlds.inference.simulation import columns as c
from proreus.worlds.inference.simulation.cluster import InferenceCluster, Timings
from proreus.worlds.inference.simulation.collector import Collector, promises
from proreus.worlds.inference.simulation.cost import Spending, spending
from proreus.worlds.inference.simulation.options import ControlOptions
from proreus.worlds.inference.simulation.outcome import (
    actions_of,
    measures_of,
    missed_share,
    prefix_hits,
    slowdown_measures,
)
from proreus.worlds.inference.simulation.rendering import Pictures
from proreus.worlds.inference.simulation.scaling_manager import ScalingManager
from proreus.worlds.inference.simulation.slowdown import slowdowns
from proreus.worlds.inference.state.observation import InferenceObservation

COLUMNS = (
    "step",
    "time",
    "requests_per_s",
    "waiting",
    "active",
    "starting",
    "draining",
    "met",
    "ttft",
    "prompt_change",
    "token_change",
    "mixed_change",
    "migrated",
)


class InferenceRun:
    """As `contract.simulation` says, pictures included."""

    def __init__(
        self, trace: RequestTrace, spec: ClusterSpec, timings: Timings, options: ControlOptions, seed: int
    ) -> None:
        self.options, self._seed = options, seed
        self.cluster = InferenceCluster(spec, trace, timings, seed, options.limits.most_in_total)
        self.lines: list[str] = []
        """What the scaling manager said."""
        self.manager = ScalingManager(self.cluster, options.limits, options.start, self.lines.append)
        self._timings = timings
        self._collector = Collector(self.cluster, options)
        self._pictures = Pictures(self.cluster)
        self._horizon = math.ceil((trace.arrival[-1] + 1e-9) / options.interval) * options.interval
        self.interval: Interval | None = None
        """What happened between the last decision and now; None before the first."""
        self._changes: list[Scale] = []
        self._rows: list[tuple[object, ...]] = []
        self._spent = Spending()
        self._seen: InferenceObservation | None = None
        self._last_look: Look | None = None
        self._go_to(options.interval)

    def _go_to(self, when: float) -> None:
        """Let time pass; on the way the provider takes spot instances away."""
        while (loss := self._next_loss(when)) is not None:
            moment, row = loss
            self.cluster.advance(moment)
            self.cluster.lose(row)
        self.cluster.advance(when)
        self.manager.notice()
        self._spent = spending(self.cluster)
        self._latest = self._collector.look()
        self._seen = None if when >= self._horizon else self._latest
        if self._seen is None:
            # A picture shows the end of the run, not the empty cluster that has served all that was left.
            self._last_look = self._pictures.look(self._latest, len(self._changes))
            self.cluster.advance()

    def _next_loss(self, before: float) -> tuple[float, int] | None:
        """(when, which) instance is lost next."""
        if self.options.spot_seconds == 0.0:
            return None
        fleet, figure = self.cluster.run.fleet, self.cluster.run.figure
        losses = [
            (float(figure[row, c.ORDERED_AT]) + self._life_of(int(fleet[row, c.NUMBER])), int(row))
            for row in np.flatnonzero((fleet[:, c.STATUS] == c.ACTIVE) | (fleet[:, c.STATUS] == c.DRAINING))
        ]
        soonest = min(losses, default=None)
        if soonest is None or max(soonest[0], self.cluster.now) >= before:
            return None
        return max(soonest[0], self.cluster.now), soonest[1]

    def _life_of(self, number: int) -> float:
        return float(np.random.default_rng([self._seed, number]).exponential(self.options.spot_seconds))

    def next_decision(self) -> InferenceObservation | None:
        """The cluster at the end of an interval; None when the last one is over."""
        return self._seen

    def apply(self, decision: Scale | int, /) -> float:
        """Scale the pools and let an interval pass; what it was worth."""
        seen = self._seen
        if seen is None:
            raise IllegalDecision("the run is over")
        change = self._meant(decision, seen)
        refusal = seen.refusal(change)
        if refusal:
            raise IllegalDecision(f"{change}: {refusal}")
        before, ended = self._spent, self.cluster.ended
        self._note(seen, change)
        self.manager.carry_out(change)
        self._go_to(seen.now + self.options.interval)
        self.interval = self._interval(change, before, ended)
        return self.options.objectives.reward(self.interval)

    def _meant(self, decision: object, seen: InferenceObservation) -> Scale:
        if isinstance(decision, int | np.integer) and not isinstance(decision, bool):
            if not 0 <= decision < len(seen.steps):
                raise IllegalDecision(f"{decision!r} is not one of the {len(seen.steps)} actions")
            return seen.steps.action(int(decision))
        if not isinstance(decision, Scale):
            raise IllegalDecision(f"{decision!r} is no change of pools")
        try:
            seen.steps.number(decision)
        except (TypeError, ValueError) as error:
            raise IllegalDecision(str(error)) from error
        return decision

    def _note(self, seen: InferenceObservation, change: Scale) -> None:
        self._changes.append(change)
        self._rows.append(
            (
                len(self._changes) - 1,
                round(seen.now, 6),
                round(seen.traffic.requests, 6),
                sum(pool.waiting for pool in seen.pools) + seen.at_router,
                sum(pool.active for pool in seen.pools),
                sum(len(pool.starting) for pool in seen.pools),
                sum(pool.draining for pool in seen.pools),
                round(seen.traffic.met, 6),
                round(seen.traffic.ttft, 6),
                change.prompt,
                change.token,
                change.mixed,
                change.migrate,
            )
        )

    def _interval(self, change: Scale, before: Spending, ended: int) -> Interval:
        spent = self._spent.since(before)
        kinds, most = self.cluster.spec.kinds, self.options.limits.most_in_total
        dearest = max(kind.gpus * kind.gpu.price for kind in kinds) / 3600.0
        hottest = max(kind.gpus * kind.gpu.prefill_watts for kind in kinds)
        seconds = self.options.interval
        return Interval(
            missed=self._missed(ended),
            cost=spent.dollars / (most * dearest * seconds),
            changed=actions_of(change),
            busy=tuple(pool.busy for pool in self._latest.pools),
            energy=spent.joules / (most * hottest * seconds),
        )

    def _missed(self, ended: int) -> float:
        rows, met = self._collector.ended
        if self.cluster.ended > ended + len(rows):  # the run is over: what was under way has ended as well
            rows = self.cluster.rows_since(ended)
            met, _, _ = promises(rows, self.options)
        return missed_share(rows, met, self.options)

    def subject(self) -> str:
        """The number of the decision."""
        return "" if self._seen is None else str(len(self._changes))

    def outcome(self) -> Outcome:
        """What the run has come to."""
        rows, services = self.cluster.rows(), self.cluster.trace.service
        arrived = services[: int(self.cluster.run.tally[c.NEXT_REQUEST])]
        measures = measures_of(rows, arrived, self._spent, self._changes, self.options)
        served = rows[rows[:, c.L_STATUS] == c.COMPLETED]
        measures.update(slowdown_measures(slowdowns(self.cluster, self._timings, served)))
        if self.cluster.has_prefix_caches:
            measures["prefix_hits"] = prefix_hits(served)
        return Outcome(measures, COLUMNS, self._rows, self._export)

    def _export(self) -> dict[str, object]:
        return {"status": dict(self.manager.get_status_summary()), "log": list(self.lines)}

    def screen(self) -> list[str]:
        """A bar for each instance."""
        return self._pictures.screen(f"{self.cluster.now:,.0f} s: {self._summary()}")

    def _summary(self) -> str:
        summary = self.manager.get_status_summary()
        waiting = int(self.cluster.run.waiting.size.sum() + self.cluster.run.routed.size[0])
        return (
            f"{summary['active_instances']} active, {summary['scaling_up_instances']} starting, "
            f"{summary['draining_instances']} draining, {waiting} requests wait"
        )

    def stage(self) -> Stage:
        """The servers, in the pools of their instances."""
        return self._pictures.stage()

    def look(self) -> Look:
        """The cluster now, with what was scaled."""
        return self._last_look or self._pictures.look(self._latest, len(self._changes))

    def told(self, before: Look | None, now: Look) -> str:
        """What was seen then."""
        return self._pictures.told(now)

    def facts(self) -> tuple[str, ...]:
        """The size of the run."""
        return f"{len(self.cluster.trace):,} requests", f"{self.manager.total()} instances at the end"
