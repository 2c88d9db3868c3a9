"""A run as Python sees it: built from a cluster and a trace, advanced in time, read row by row."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from dataclasses import replace
from typing import Any

import numpy as np

from proreus.kernels.arrays import F64, I64
from proreus.kernels.rng import seeded
from proreus.kernels.structs import pack
from proreus.model.errors import UsageError, unknown_name
from proreus.worlds.inference.model.cluster import ROLES as ROLE_NAMES
from proreus.worlds.inference.model.cluster import UNLIMITED, ClusterSpec, InstanceKind, Role, Scheduler
from proreus.worlds.inference.model.requests import RequestTrace
from proreus.worlds.inference.model.start_up import StartUp
from proreus.worlds.inference.model.timings import LayerProfile, Table
from proreus.worlds.inference.simulation import columns as c
from proreus.worlds.inference.simulation.heaps import life_at
from proreus.worlds.inference.simulation.instance_lifecycle import drain, lose
from proreus.worlds.inference.simulation.iteration_time import timing_of
from proreus.worlds.inference.simulation.kernel import advance
from proreus.worlds.inference.simulation.lists import append, new_lists, with_room
from proreus.worlds.inference.simulation.lockstep_groups import join
from proreus.worlds.inference.simulation.prefix_cache import clear_cache
from proreus.worlds.inference.simulation.router import move

_SLOTS, _QUEUE, _ROWS = 256, 64, 4_096
_ENGINES = {"orca": c.ORCA, "splitwise": c.SPLITWISE, "chunked": c.CHUNKED}
_OVERLAP = 10.0
"""How much faster a transfer ends that has begun during the prompt."""
_SCHEDULERS: Mapping[Scheduler, tuple[int, float]] = {
    "random": (c.RANDOM, 1.0),
    "round_robin": (c.ROUND_ROBIN, 1.0),
    "jsq": (c.JSQ, 1.0),
    "token_jsq": (c.TOKEN_JSQ, 1.0),
    "kv_round_robin": (c.KV_ROUND_ROBIN, 1.0),
    "kv_jsq": (c.KV_JSQ, 1.0),
    "overlap_kv_jsq": (c.KV_JSQ, _OVERLAP),
    "kv_token_jsq": (c.KV_TOKEN_JSQ, 1.0),
    "overlap_kv_token_jsq": (c.KV_TOKEN_JSQ, _OVERLAP),
    "mixed_pool": (c.MIXED, 1.0),
    "cache_aware": (c.CACHE_AWARE, 1.0),
    "kv_cache_aware": (c.KV_CACHE_AWARE, 1.0),
}
TWO_POOLS = frozenset(name for name in _SCHEDULERS if name.startswith(("kv_", "overlap_"))) | {"mixed_pool"}
"""Schedulers that know prompt and token instances; the others know one pool of instances that do both."""
_BY_INSTANCE = ("pending", "prompts", "blocked", "waiting", "prefilling", "inbound", "leaving", "coming")
Timings = Mapping[str, Table | LayerProfile]


class InferenceCluster:
    """A run over a trace."""

    def __init__(
        self,
        spec: ClusterSpec,
        trace: RequestTrace | Iterator[RequestTrace],
        timings: Timings,
        seed: int = 0,
        most_instances: int = 0,
    ) -> None:
        """`trace` may come in parts, each after the one before it: then memory does not grow with it."""
        self._parts = iter(()) if isinstance(trace, RequestTrace) else trace
        trace = trace if isinstance(trace, RequestTrace) else next(trace)
        self.spec, self.trace, self.seed = spec, trace, seed
        self._kinds = {kind.name: kind for kind in spec.kinds}
        self._models = _model_numbers(spec)
        self._check_models(trace)
        self._timings = _timing_numbers(spec, timings)
        started = sum(group.count for group in spec.groups)
        self._run = _new_run(spec, trace, max(started, most_instances, 1), len(self._models), seed)
        self._run["timing"] = timing_of([timings[name] for name in self._timings])
        self._rows: list[F64] = []
        self._flushed = 0
        self.keeps_rows = True
        """Whether the rows of all requests are wanted; else memory stays bounded, however long the run."""
        self._next_part = next(self._parts, None)
        self._run["tally"][c.MORE_TO_COME] = self._next_part is not None
        if self._next_part is not None and trace.prefix is not None:
            raise UsageError("requests that come in parts cannot know the blocks of their prompts")
        self._pack()
        self._start()

    def _check_models(self, trace: RequestTrace) -> None:
        if not 0 <= trace.model.min() <= trace.model.max() < len(self._models):
            raise UsageError(
                f"requests are for model {trace.model.max()}, the cluster has {len(self._models)}"
            )

    def _pack(self) -> None:
        self.run = pack(c.InferenceColumns(**self._run))

    def _start(self) -> None:
        instance = 0
        for group in self.spec.groups:
            for _ in range(group.count):
                self._set_up(instance, group.kind, group.role)
                self.run.fleet[instance, c.STATUS] = c.ACTIVE
                append(self.run.pools, self._pool(instance), instance)
                join(self.run, instance)
                instance += 1

    def route_by(self, scheduler: str) -> None:
        """Let another scheduler find the instances of requests, before the first has come."""
        if scheduler not in _SCHEDULERS:
            raise unknown_name("router", scheduler, _SCHEDULERS)
        if scheduler == self.spec.scheduler:
            return
        if (scheduler in TWO_POOLS) != (self.spec.scheduler in TWO_POOLS):
            pools = "prompts and tokens" if scheduler in TWO_POOLS else "one pool"
            raise UsageError(f"router: {scheduler} is of {pools}, and the cluster is not")
        if self.now > 0.0:
            raise UsageError("router: requests have been routed already")
        self.spec = replace(self.spec, scheduler=scheduler)  # type: ignore[arg-type] # one of _SCHEDULERS
        self.run.option[:] = _options(self.spec, self.trace)
        self.run.rate[:] = _rates(self.spec)

    def check_drains_every(self, seconds: float) -> None:
        """Look at draining instances so often; 0: they stop as soon as they are empty."""
        self.spec = replace(self.spec, drain_check_seconds=seconds)
        self.run.rate[:] = _rates(self.spec)

    def _pool(self, instance: int) -> int:
        fleet = self.run.fleet[instance]
        return int(fleet[c.OF_MODEL] * c.ROLES + fleet[c.POOL])

    def _set_up(self, instance: int, kind_name: str, role: Role) -> None:
        """A new instance of that kind, which has done nothing yet."""
        if kind_name not in self._kinds:
            raise unknown_name("kind of instance", kind_name, self._kinds)
        self._check_role(role)
        kind = self._kinds[kind_name]
        fleet, figure = self.run.fleet[instance], self.run.figure[instance]
        fleet[:], figure[:] = 0, 0.0
        for field, value in self._numbers_of(kind).items():
            fleet[field] = value
        fleet[c.TAG] = fleet[c.POOL] = ROLE_NAMES.index(role)
        fleet[c.MEMORY] = fleet[c.PLANNED_MEMORY] = kind.weights
        fleet[c.FIRST] = fleet[c.LAST] = fleet[c.PARTIAL] = fleet[c.GROUP] = c.NOBODY
        fleet[c.NUMBER] = self.run.tally[c.NUMBERED]
        self.run.tally[c.NUMBERED] += 1
        if fleet[c.CACHES]:
            clear_cache(self.run, instance)

    def _check_role(self, role: Role) -> None:
        if (self.spec.scheduler in TWO_POOLS) == (role == "mixed") and self.spec.scheduler != "mixed_pool":
            raise UsageError(f"scheduler {self.spec.scheduler!r} has no {role} instances")

    def _numbers_of(self, kind: InstanceKind) -> dict[int, int]:
        model = kind.model
        orca = kind.engine == "orca"
        return {
            c.ENGINE: _ENGINES[kind.engine],
            c.TIMING: self._timings[kind.timing],
            c.OF_MODEL: self._models[model.name],
            c.KIND: [instance_kind.name for instance_kind in self.spec.kinds].index(kind.name),
            c.GPUS: kind.gpus,
            c.CAPACITY: kind.capacity,
            c.WEIGHTS: kind.weights,
            c.KV_BYTES: self.kv_bytes(kind),
            c.BATCH_LIMIT: kind.batch_limit,
            c.TOKEN_LIMIT: UNLIMITED if orca else kind.token_limit,
            c.PREEMPTION_LIMIT: kind.preemption_limit,
            c.BLOCK: kind.block,
            c.IN_STEP: kind.in_step,
            c.PLANS_AHEAD: kind.plans_ahead,
            c.WHOLE_PROMPTS: kind.reserves_prompt,
            c.CACHES: kind.prefix_cache and self.trace.prefix is not None,
        }

    def order(self, kind_name: str, role: Role, start: StartUp) -> int | None:
        """An instance that becomes active when it has started; None: there is no room for one more."""
        status = self.run.fleet[:, c.STATUS]
        free = np.flatnonzero((status == c.ABSENT) | (status == c.STOPPED))
        if not free.size:
            return None
        instance = int(free[0])
        self._set_up(instance, kind_name, role)
        fleet, figure = self.run.fleet[instance], self.run.figure[instance]
        fleet[c.STATUS], fleet[c.POOL] = c.PROVISIONING, c.NOBODY
        figure[c.ORDERED_AT] = self.now
        figure[c.LOADING_SECONDS] = start.loading_seconds(self._kinds[kind_name])
        figure[c.WARMING_SECONDS] = start.warm_up_seconds
        life_at(self.run, instance, self.now + start.provision_seconds)
        return instance

    def drain(self, instance: int) -> None:
        """No more work for it; it stops when it has none."""
        drain(self.run, instance, self.now)

    def lose(self, instance: int) -> None:
        """It is taken away with all that it holds."""
        lose(self.run, instance, self.now)

    def migrate(self, instance: int, role: Role) -> None:
        """It changes pools, at once and with what it has."""
        self._check_role(role)
        self.run.fleet[instance, c.TAG] = ROLE_NAMES.index(role)
        if self.run.fleet[instance, c.STATUS] == c.ACTIVE:
            move(self.run, instance, ROLE_NAMES.index(role))

    @property
    def now(self) -> float:
        """Seconds."""
        return float(self.run.clock[0])

    @property
    def events(self) -> int:
        """That have happened."""
        return int(self.run.tally[c.EVENTS])

    def advance(self, until: float = math.inf) -> bool:
        """Let everything happen that comes before `until`; true: nothing is left to happen."""
        while True:
            match int(advance(self.run, until)):
                case c.TIME_UP:
                    return False
                case c.ALL_DONE:
                    return True
                case c.LOG_FULL:
                    self._flushed += int(self.run.tally[c.ROWS])
                    if self.keeps_rows:
                        self._rows.append(self._written())
                    self.run.tally[c.ROWS] = 0
                case c.NEEDS_SLOTS:
                    self._grow_slots()
                case c.NEEDS_QUEUES:
                    self._grow_queues()
                case c.NEEDS_REQUESTS:
                    self._take_next_part()

    def _take_next_part(self) -> None:
        assert self._next_part is not None
        if self._next_part.arrival[0] < self.trace.arrival[-1]:
            raise ValueError("a part of the requests begins before the end of the one before it")
        self._check_models(self._next_part)
        self.run.tally[c.BEFORE_TRACE] += len(self.trace)
        self.trace = self._next_part
        self._next_part = next(self._parts, None)
        self.run.tally[c.MORE_TO_COME] = self._next_part is not None
        self._run["trace"] = _columns_of(self.trace)
        self._pack()

    def _written(self) -> F64:
        return np.array(self.run.log[: self.run.tally[c.ROWS]])

    def model_number(self, kind_name: str) -> int:
        """Which of the cluster's models those of a kind serve."""
        if kind_name not in self._kinds:
            raise unknown_name("kind of instance", kind_name, self._kinds)
        return self._models[self._kinds[kind_name].model.name]

    def timing_number(self, kind: InstanceKind) -> int:
        """Which of the run's timings is that of a kind."""
        return self._timings[kind.timing]

    @property
    def has_prefix_caches(self) -> bool:
        """Whether instances keep blocks that prompts of this trace could find."""
        return self.trace.prefix is not None and any(kind.prefix_cache for kind in self.spec.kinds)

    def kv_bytes(self, kind: InstanceKind) -> int:
        """KV memory that a token leaves behind."""
        model = kind.model
        return model.kv_bytes_of_all_heads if self.spec.compatibility.kv_of_all_heads else model.kv_bytes

    @property
    def ended(self) -> int:
        """Requests that have, however they did."""
        return int(self.run.tally[c.ROWS]) + self._flushed

    def rows_since(self, count: int) -> F64:
        """Those behind the first so many."""
        wanted, written = self.ended - count, int(self.run.tally[c.ROWS])
        if wanted <= written:  # as between two looks: the rows before them need not be copied
            return np.array(self.run.log[written - wanted : written])
        kept = [self._written()]
        for rows in reversed(self._rows):
            if sum(map(len, kept)) >= wanted:
                break
            kept.insert(0, rows)
        found = np.concatenate(kept)
        return found[len(found) - wanted :]

    def rows(self) -> F64:
        """[requests that have ended, ROW] in the order of their ends."""
        return np.concatenate([*self._rows, self._written()])

    def _grow_slots(self) -> None:
        old, columns = len(self._run["slot"]), self._run
        new = 2 * old
        for name in ("slot", "moment", "unused"):
            columns[name] = _longer(columns[name], new)
        columns["unused"][:old] = np.arange(new - 1, old - 1, -1)
        self.run.tally[c.FREE_SLOTS] = old
        columns["routed"] = with_room(columns["routed"], new)
        for name in ("event_at", "event_rank", "event_heap", "event_place"):
            columns[name] = _longer(columns[name], len(columns[name]) + old)
        columns["event_place"][-old:] = c.NOBODY
        self._pack()

    def _grow_queues(self) -> None:
        for name in _BY_INSTANCE:
            self._run[name] = with_room(self._run[name], 2 * self._run[name].cells.shape[1])
        self._pack()


def _longer(column: Any, length: int) -> Any:
    grown = np.zeros((length, *column.shape[1:]), dtype=column.dtype)
    grown[: len(column)] = column
    return grown


def _model_numbers(spec: ClusterSpec) -> dict[str, int]:
    return {name: number for number, name in enumerate(dict.fromkeys(kind.model.name for kind in spec.kinds))}


def _timing_numbers(spec: ClusterSpec, timings: Timings) -> dict[str, int]:
    names = dict.fromkeys(kind.timing for kind in spec.kinds)
    for name in names:
        if name not in timings:
            raise unknown_name("timing", name, timings)
    return {name: number for number, name in enumerate(names)}


def _new_run(
    spec: ClusterSpec, trace: RequestTrace, instances: int, models: int, seed: int
) -> dict[str, Any]:
    """The columns of a run in which nothing has happened."""
    batch = max(kind.batch_limit for kind in spec.kinds)
    actors = 2 * instances + _SLOTS
    steps = any(kind.in_step > 1 for kind in spec.kinds)
    blocks = _cacheable(spec, trace)
    tally = np.zeros(c.TALLIES, dtype=np.int64)
    tally[c.FREE_SLOTS], tally[c.ROUTING] = _SLOTS, c.NOBODY
    return {
        "trace": _columns_of(trace),
        "slot": np.zeros((_SLOTS, c.SLOT_FIELDS), dtype=np.int64),
        "moment": np.zeros((_SLOTS, c.MOMENTS)),
        "unused": np.arange(_SLOTS - 1, -1, -1, dtype=np.int64),
        "fleet": np.zeros((instances, c.FLEET_FIELDS), dtype=np.int64),
        "figure": np.zeros((instances, c.FIGURES)),
        "finishing": np.zeros((instances, batch), dtype=np.int64),
        **{name: new_lists(instances, _QUEUE) for name in _BY_INSTANCE},
        "phases": np.zeros((instances, max(kind.block for kind in spec.kinds)), dtype=np.int64),
        "entries": np.zeros((instances if blocks else 1, max(blocks, 1), c.ENTRY), dtype=np.int64),
        "buckets": np.zeros((instances if blocks else 1, 2 * blocks + 1), dtype=np.int64),
        "fellows": new_lists(*((instances, instances) if steps else (1, 1))),
        "pools": new_lists(models * c.ROLES, instances + 1),
        "routed": new_lists(1, _SLOTS + 1),
        "event_at": np.zeros(actors),
        "event_rank": np.zeros(actors, dtype=np.int64),
        "event_heap": np.zeros(actors, dtype=np.int64),
        "event_place": np.full(actors, c.NOBODY, dtype=np.int64),
        "picked": np.zeros(batch, dtype=np.int64),
        "option": _options(spec, trace),
        "rate": _rates(spec),
        "tally": tally,
        "clock": np.zeros(1),
        "random": seeded(seed),
        "log": np.zeros((_ROWS + 2 * batch, c.ROW)),
        "spent": np.zeros((len(spec.kinds), c.SPENT)),
        "counts": np.zeros(c.WINDOW_COUNTS),
    }


def _columns_of(trace: RequestTrace) -> c.Trace:
    none = np.zeros(1, dtype=np.int64)
    begin, number = (none, none) if trace.prefix is None else (trace.prefix.begin, trace.prefix.number)
    return c.Trace(trace.arrival, trace.prompt, trace.output, trace.model, trace.service, begin, number)


def _cacheable(spec: ClusterSpec, trace: RequestTrace) -> int:
    """Blocks of prompts that the memory of any instance could hold; 0: nobody caches."""
    most = 0
    for kind in spec.kinds:
        if kind.prefix_cache and trace.prefix is not None:
            if trace.prefix.tokens % kind.block:
                raise UsageError(f"blocks of {trace.prefix.tokens} tokens are no pages of {kind.block} each")
            size = trace.prefix.tokens * kind.model.kv_bytes
            most = max(most, (kind.capacity - kind.weights) // size + 1)
    return most


def _options(spec: ClusterSpec, trace: RequestTrace) -> I64:
    if spec.scheduler not in _SCHEDULERS:
        raise unknown_name("scheduler", spec.scheduler, _SCHEDULERS)
    option = np.zeros(c.OPTIONS, dtype=np.int64)
    number, _ = _SCHEDULERS[spec.scheduler]
    as_it_was = spec.compatibility.kv_token_jsq_counts_nothing and number == c.KV_TOKEN_JSQ
    option[c.SCHEDULER], option[c.COUNTS_TOKENS] = number, not as_it_was
    option[c.SHARED_LINKS] = not spec.compatibility.private_links
    option[c.RESERVES] = not spec.compatibility.memory_in_parts
    option[c.GIVES_BACK] = not spec.compatibility.lent_until_empty
    option[c.PROMPT_QUEUE_LIMIT], option[c.ROUTER_LIMIT] = spec.prompt_queue_limit, spec.router_limit
    option[c.MOST_LOSSES] = spec.most_losses
    option[c.BLOCK_TOKENS] = 0 if trace.prefix is None else trace.prefix.tokens
    return option


def _rates(spec: ClusterSpec) -> F64:
    rate = np.zeros(c.RATES)
    rate[c.LINK_BYTES] = spec.link_gigabytes * _SCHEDULERS[spec.scheduler][1] * 1024**3
    rate[c.RETRY_SECONDS] = spec.compatibility.retry_seconds
    rate[c.DRAIN_CHECK] = spec.drain_check_seconds
    return rate
