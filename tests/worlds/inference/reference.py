"""One instance in plain Python, as slow as it is simple: every request is touched at every step.

What the kernels do with heaps, lazily and for many iterations at once is done here with lists, eagerly and
one by one. Both engines take whole requests: prompt and tokens on the same instance.
"""

from __future__ import annotations

import math
from bisect import insort
from dataclasses import dataclass, field

import numpy as np

from proreus.worlds.inference.model.cluster import InstanceKind
from proreus.worlds.inference.model.requests import RequestTrace
from proreus.worlds.inference.model.timings import LayerProfile, Table
from proreus.worlds.inference.simulation.iteration_time import IterationBatch, iteration, on_curve, timing_of

Served = dict[int, tuple[float, float]]
"""Request -> (moment of its first token, of its last one)."""


@dataclass(eq=False)
class Request:
    """Under way."""

    number: int
    arrival: float
    prompt: int
    output: int
    left: int = field(init=False)
    phase: str = "prompt"
    blocked: bool = False
    passed_over: int = 0
    first: float = math.nan
    held: int = 0
    computed: int = 0
    chunk: int = 0
    blocks: tuple[int, ...] = ()
    shared: int = 0
    found: int = -1
    """Tokens that it found cached when it began; -1: it has not begun."""

    def __post_init__(self) -> None:
        self.left = self.output


def requests_of(trace: RequestTrace) -> list[Request]:
    """In order of arrival."""
    columns = zip(trace.arrival.tolist(), trace.prompt.tolist(), trace.output.tolist(), strict=True)
    return [Request(number, *row) for number, row in enumerate(columns)]


class Splitwise:
    """Whole prompts, a limit on tokens, preemption; memory is taken for the whole request with its prompt."""

    def __init__(self, kind: InstanceKind, table: Table) -> None:
        self._kind, self._table = kind, table
        self._room = (kind.capacity - kind.model.weights) // kind.model.kv_bytes
        self.holders: list[Request] = []
        self.batch: list[Request] = []
        self.waiting: list[Request] = []
        self.blocked: list[Request] = []
        self.pending: list[tuple[Request, str]] = []
        self.batch_tokens = 0
        self.run = (0.0, 0.0, 0)  # when it ends, seconds of an iteration, iterations
        self.pausing = False
        self.served: Served = {}

    def serve(self, trace: RequestTrace) -> Served:
        """All requests to their end."""
        coming = requests_of(trace)
        while coming or self.batch:
            if self.batch and (not coming or self.run[0] <= coming[0].arrival):
                self._end(self.run[0])
            else:
                self._arrive(coming.pop(0))
        return self.served

    def _arrive(self, request: Request) -> None:
        insort(self.waiting, request, key=lambda one: (one.arrival, one.number))
        for task in ("prompt", "token")[: 2 if request.output > 1 else 1]:
            self._add_pending(request, task)
            if not self.batch:
                self._start(request.arrival)
                continue
            tokens = request.prompt if task == "prompt" else 1
            decoding = sum(one.phase == "token" for one in self.batch)
            fits = len(self.batch) < self._kind.batch_limit
            if (fits and self.batch_tokens + tokens <= self._kind.token_limit) or (
                task == "prompt"
                and decoding > 0
                and self.batch_tokens - decoding + tokens <= self._kind.token_limit
            ):
                self._pause(request.arrival)

    def _add_pending(self, request: Request, task: str) -> None:
        insort(self.pending, (request, task), key=self._key)

    @staticmethod
    def _key(entry: tuple[Request, str]) -> tuple[int, float]:
        request, task = entry
        return (request.passed_over if task == request.phase else 0), request.arrival

    def _pause(self, now: float) -> None:
        if self.pausing or any(request.phase == "prompt" for request in self.batch):
            return
        self.pausing = True
        ends, seconds, count = self.run
        elapsed = now - (ends - seconds * count)
        count = min(max(int(elapsed // seconds), 0) + 1, count)
        self.run = (now + (seconds * count - elapsed), seconds, count)

    def _end(self, now: float) -> None:
        self.pausing = False
        for request in list(self.batch):
            if request.phase == "prompt":
                self.batch.remove(request)
                request.first, request.left = now, request.left - 1
                request.phase, request.passed_over = "token", 0
                if request.left:
                    insort(self.waiting, request, key=lambda one: (one.arrival, one.number))
                    continue
            else:
                request.left -= self.run[2]
                if request.left:
                    continue
                self.batch.remove(request)
            request.held = 0
            self.served[request.number] = (request.first, now)
            self.holders.remove(request)
        self._start(now)

    def _start(self, now: float) -> None:
        chosen = self._select()
        for request in [one for one in self.batch if one not in chosen]:
            self.batch.remove(request)
            request.blocked = True
            self.blocked.append(request)
            insort(self.waiting, request, key=lambda one: (one.arrival, one.number))
            self._add_pending(request, "token")
        for request in [one for one in chosen if one not in self.batch]:
            self.pending.remove((request, request.phase))
            self.waiting.remove(request)
            if request.blocked:
                self.blocked.remove(request)
                request.blocked = False
            if request.phase == "prompt":
                request.held = request.prompt + request.output
                self.holders.append(request)
            self.batch.append(request)
        for request in self.waiting:
            request.passed_over += 1
        if self.batch:
            self._run(now)

    def _run(self, now: float) -> None:
        prompts = sum(request.prompt for request in self.batch if request.phase == "prompt")
        decodes = sum(request.phase == "token" for request in self.batch)
        x = float(prompts + decodes)
        if prompts:
            seconds = on_curve(self._table.prompt_at, self._table.prompt_time, len(self._table.prompt_at), x)
            seconds *= 1.1 if decodes else 1.0
            count = 1
        else:
            seconds = on_curve(self._table.token_at, self._table.token_time, len(self._table.token_at), x)
            count = min(request.left for request in self.batch)
        self.run = (now + seconds * count, seconds, count)

    def _select(self) -> list[Request]:
        chosen: list[Request] = []
        held = sum(holder.held for holder in self.holders)
        tokens = 0

        def add(request: Request) -> bool:
            nonlocal held, tokens
            need = request.prompt + request.output if request.phase == "prompt" and not request.held else 0
            if held + need > self._room:
                return False
            held, tokens = held + need, tokens + self._tokens(request)
            chosen.append(request)
            return True

        def too_many(request: Request) -> bool:
            return bool(chosen) and tokens + self._tokens(request) > self._kind.token_limit

        limit = self._kind.batch_limit
        for request, task in self.pending:
            passed = request.passed_over if task == request.phase else 0
            if passed < self._kind.preemption_limit or len(chosen) == limit or too_many(request):
                break
            if request not in chosen:
                add(request)
        for request in self._prompts_in_order():
            if len(chosen) == limit or too_many(request):
                break
            if request not in chosen and not add(request):
                break
        for request in [*self.blocked, *self.batch]:
            if len(chosen) == limit or too_many(request):
                break
            if request not in chosen:
                add(request)
        full = False
        for request in list(self.waiting):
            if len(chosen) == limit:
                break
            if request in chosen or (full and request.phase == "prompt"):
                continue
            if too_many(request):
                break
            full = not add(request) or full
        self.batch_tokens = tokens
        return chosen

    def _prompts_in_order(self) -> list[Request]:
        return sorted(
            (request for request in self.waiting if request.phase == "prompt"),
            key=lambda request: request.number,
        )

    @staticmethod
    def _tokens(request: Request) -> int:
        return request.prompt if request.phase == "prompt" else 1


class Chunked:
    """One instance with chunked prompts over pages: what it computes in an iteration, and what follows."""

    def __init__(self, kind: InstanceKind, size: int = 0) -> None:
        """`size`: tokens of a block that is cached, 0: none are."""
        self._kind = kind
        self._pages = (kind.capacity - kind.weights) // (kind.model.kv_bytes * kind.block)
        self.waiting: list[Request] = []
        self.running: list[Request] = []
        self._composed_at, self._gone = -math.inf, 0
        self._size = size
        self.cached: list[int] = []
        """Blocks that nobody uses, the one that was used longest ago first."""

    def wait(self, request: Request) -> None:
        """By arrival."""
        insort(self.waiting, request, key=lambda one: (one.arrival, one.number))

    def _used(self) -> set[int]:
        return {block for request in self.running for block in request.blocks[: request.shared]}

    def _held(self) -> int:
        """Pages in use, with what the next iteration computes."""
        own = sum(
            math.ceil((request.computed + request.chunk) / self._kind.block)
            - request.shared * self._size // self._kind.block
            for request in self.running
        )
        return own + len(self._used()) * self._size // self._kind.block

    def _evict(self) -> None:
        while self.cached and self._held() + len(self.cached) * self._size // self._kind.block > self._pages:
            self.cached.pop(0)

    def _put_back(self, request: Request) -> None:
        self.running.remove(request)
        request.computed, request.chunk, request.phase = 0, 0, "prompt"
        self._release(request)
        self.wait(request)

    def _release(self, request: Request) -> None:
        """Whoever used them last is remembered longest; of one prompt, its beginning."""
        blocks, request.shared = request.blocks[: request.shared], 0
        still = self._used()
        self.cached += [block for block in reversed(blocks) if block not in still]

    def _known(self, request: Request) -> int:
        known, there = 0, self._used() | set(self.cached)
        if self._size and self._kind.prefix_cache:
            for block in request.blocks[: (self._target(request) - 1) // self._size]:
                if block not in there:
                    break
                known += 1
        return known

    @staticmethod
    def _target(request: Request) -> int:
        return request.prompt + request.output - request.left

    def fill(self) -> IterationBatch:
        """The batch of the next iteration; nobody's where nothing can run."""
        kind = self._kind
        free = kind.batch_limit - len(self.running) - self._gone
        ahead = kind.plans_ahead and bool(self.running)
        if not ahead:
            free = kind.batch_limit - len(self.running)
        budget, preempted = kind.token_limit, False
        for request in self.running:
            request.chunk = int(request.phase == "token")
        while self._held() > self._pages:
            self._put_back(self.running[-1])
            preempted = True
        self._evict()
        decoding = [one for one in self.running if one.phase == "token"]
        budget -= len(decoding)
        for request in [one for one in self.running if one.phase == "prompt"]:
            request.chunk = min(self._target(request) - request.computed, budget)
            if self._held() > self._pages:
                self._put_back(request)
                preempted = True
            else:
                self._evict()
                budget -= request.chunk
        while not preempted and self.waiting and budget > 0 and free > 0:
            request = self.waiting[0]
            if ahead and request.arrival > self._composed_at:
                break
            request.shared = self._known(request)
            request.computed = request.shared * self._size
            left = self._target(request) - request.computed
            request.chunk = left if kind.reserves_prompt and self.running else min(left, budget)
            self.running.append(request)
            if self._held() > self._pages:
                self.running.pop()
                request.chunk = request.computed = request.shared = 0
                break
            request.chunk = min(left, budget)
            self.waiting.pop(0)
            self.cached = [block for block in self.cached if block not in request.blocks[: request.shared]]
            if request.found < 0:
                request.found = request.computed
            budget, free = budget - request.chunk, free - 1
            self._evict()
        prompts = [one for one in self.running if one.phase == "prompt" and one.chunk]
        tokens = sum(prompt.chunk for prompt in prompts)
        behind = sum(prompt.chunk * prompt.computed for prompt in prompts) / max(tokens, 1)
        context = sum(one.computed for one in decoding)
        return IterationBatch(tokens, behind, len(decoding), context, len(self.running))

    def iterate(self, began: float, now: float) -> Served:
        """Who is done at the end of the iteration."""
        served: Served = {}
        kind = self._kind
        decoding = sorted((one for one in self.running if one.phase == "token"), key=lambda one: one.number)
        prompts = [one for one in self.running if one.phase == "prompt" and one.chunk]
        for request in [*decoding, *prompts]:
            request.computed += request.chunk
            if kind.prefix_cache and request.phase == "prompt":
                request.shared = min(request.computed // self._size, len(request.blocks))
                self.cached = [
                    block for block in self.cached if block not in request.blocks[: request.shared]
                ]
            if request.computed == self._target(request):
                request.left -= 1
                request.phase = "token"
                request.first = now if math.isnan(request.first) else request.first
                if request.left == 0:
                    self.running.remove(request)
                    self._release(request)
                    served[request.number] = (request.first, now)
        self._composed_at, self._gone = began, len(served)
        return served


def serve_chunked(trace: RequestTrace, kind: InstanceKind, profile: LayerProfile) -> Served:
    """By as many instances as iterate in step, each request by the one that has fewest; step by step."""
    timing, coming = timing_of([profile]), requests_of(trace)
    size = 0 if trace.prefix is None else trace.prefix.tokens
    instances = [Chunked(kind, size) for _ in range(kind.in_step)]
    if trace.prefix is not None:
        for number, request in enumerate(coming):
            request.blocks = tuple(trace.prefix.of(number).tolist())
    served: Served = {}
    now = 0.0

    def arrive(request: Request) -> None:
        min(instances, key=lambda instance: len(instance.waiting) + len(instance.running)).wait(request)

    while coming or any(instance.waiting or instance.running for instance in instances):
        if not any(instance.waiting or instance.running for instance in instances):
            now = max(now, coming[0].arrival)
            arrive(coming.pop(0))
        batches = [instance.fill() for instance in instances]
        batches = [batch if batch.sequences else IterationBatch(0, 0.0, 1, 1, 1) for batch in batches]
        seconds = max(iteration(timing, 0, batch)[0] for batch in batches)
        if kind.in_step > 1:
            tokens = [batch.prompt_tokens + batch.decodes for batch in batches]
            mean = float(np.interp(sum(tokens) / len(tokens), profile.shared_at, profile.shared_time))
            seconds += mean + profile.exchange[0] + max(tokens) * profile.exchange[1]
        began, now = now, now + seconds
        while coming and coming[0].arrival < now:  # iterations end before somebody comes
            arrive(coming.pop(0))
        for one in instances:
            served |= one.iterate(began, now)
    return served
