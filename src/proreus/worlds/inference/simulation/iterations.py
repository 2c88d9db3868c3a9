"""Contiguous iterations of a batch: how long they take, where they stop, what has been done by then."""

from __future__ import annotations

from proreus.kernels.compiled import compiled
from proreus.worlds.inference.simulation.columns import (
    BATCH,
    BUSY,
    BUSY_SINCE,
    CONTEXT,
    DECODES,
    FINISH,
    ITERATED,
    ITERATIONS,
    PAUSING,
    PREFILL_BUSY,
    PROMPT,
    RUN_END,
    RUN_GROWTH,
    RUN_TIME,
    RUNNING,
    TIMING,
    Run,
)
from proreus.worlds.inference.simulation.heaps import run_at
from proreus.worlds.inference.simulation.lists import at
from proreus.worlds.inference.simulation.timing import Batch, completed, iteration, lasting


@compiled
def run_batch(run: Run, instance: int, now: float) -> None:
    """Run the batch until a request of it is done; with prompts in it, once."""
    prompt_tokens = 0
    for place in range(run.prefilling.size[instance]):
        prompt_tokens += run.slot[at(run.prefilling, instance, place), PROMPT]
    fleet = run.fleet[instance]
    batch = Batch(prompt_tokens, 0.0, fleet[DECODES], fleet[CONTEXT], fleet[BATCH])
    run_for(run, instance, batch, now)


@compiled
def run_for(run: Run, instance: int, batch: Batch, now: float) -> None:
    """Run such a batch as long as it stays what it is."""
    seconds, growth, most = iteration(run.timing, run.fleet[instance, TIMING], batch)
    count = 1
    if batch.prompt_tokens == 0:
        first = run.finishing[instance, 0]
        count = min(run.slot[first, FINISH] - run.fleet[instance, ITERATIONS], most)
    lasts = lasting(seconds, growth, count)
    figure = run.figure[instance]
    figure[RUN_TIME], figure[RUN_GROWTH], figure[RUN_END] = seconds, growth, now + lasts
    if batch.prompt_tokens > 0:
        figure[PREFILL_BUSY] += lasts
    run.fleet[instance, RUNNING] = count
    run_at(run, instance, figure[RUN_END])


@compiled
def pause(run: Run, instance: int, now: float) -> None:
    """Stop at the next boundary between two iterations; a batch with prompts stops there anyway."""
    fleet, figure = run.fleet[instance], run.figure[instance]
    if fleet[PAUSING] or run.prefilling.size[instance] > 0:
        return
    fleet[PAUSING] = 1
    seconds, growth, count = figure[RUN_TIME], figure[RUN_GROWTH], fleet[RUNNING]
    elapsed = now - (figure[RUN_END] - lasting(seconds, growth, count))
    shorter = min(max(completed(seconds, growth, elapsed), 0) + 1, count)
    fleet[RUNNING] = shorter
    figure[RUN_END] = now + (lasting(seconds, growth, shorter) - elapsed)
    run_at(run, instance, figure[RUN_END])


@compiled
def count_iterations(run: Run, instance: int) -> None:
    """The iterations that ran are over."""
    fleet = run.fleet[instance]
    count = fleet[RUNNING]
    fleet[ITERATIONS] += count
    fleet[CONTEXT] += count * fleet[DECODES]
    fleet[RUNNING], fleet[PAUSING] = 0, 0
    run.tally[ITERATED] += count


@compiled
def rest(run: Run, instance: int, now: float) -> None:
    """The batch has become empty."""
    if run.fleet[instance, BATCH] == 0:
        run.figure[instance, BUSY] += now - run.figure[instance, BUSY_SINCE]
