"""Contiguous iterations of a batch: how long they take, where they stop, what has been done by then."""

from __future__ import annotations

from proreus.kernels.compiled import compiled
from proreus.worlds.inference.simulation.columns import (
    BATCH,
    BUSY,
    CHUNKED,
    CONTEXT,
    DECODES,
    ENGINE,
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
from proreus.worlds.inference.simulation.paging import pages_over, take_pages
from proreus.worlds.inference.simulation.timing import Batch, completed, iteration, lasting

_FAR = 1 << 40


@compiled
def run_batch(run: Run, instance: int, now: float) -> None:
    """Run the batch until a request of it is done; with prompts in it, once."""
    prompt_tokens = 0
    for place in range(run.prefilling.size[instance]):
        prompt_tokens += run.slot[at(run.prefilling, instance, place), PROMPT]
    fleet = run.fleet[instance]
    batch = Batch(prompt_tokens, 0.0, fleet[DECODES], fleet[CONTEXT], fleet[BATCH])
    run_for(run, instance, batch, 1 if prompt_tokens else _FAR, now)


@compiled
def run_for(run: Run, instance: int, batch: Batch, most: int, now: float) -> None:
    """Run such a batch as long as it stays what it is, at most so many iterations."""
    seconds, growth, alike = iteration(run.timing, run.fleet[instance, TIMING], batch)
    count = min(alike, most)
    if run.fleet[instance, DECODES] > 0:
        first = run.finishing[instance, 0]
        count = min(count, run.slot[first, FINISH] - run.fleet[instance, ITERATIONS])
    figure = run.figure[instance]
    figure[RUN_TIME], figure[RUN_GROWTH] = seconds, growth
    figure[RUN_END] = now + lasting(seconds, growth, count)
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
    if fleet[ENGINE] == CHUNKED:
        over = pages_over(run, instance, fleet[ITERATIONS] + shorter, count - shorter)
        take_pages(run, instance, -over)
    figure[RUN_END] = now + (lasting(seconds, growth, shorter) - elapsed)
    run_at(run, instance, figure[RUN_END])


@compiled
def count_iterations(run: Run, instance: int) -> None:
    """The iterations that ran are over."""
    fleet = run.fleet[instance]
    count = fleet[RUNNING]
    lasted = lasting(run.figure[instance, RUN_TIME], run.figure[instance, RUN_GROWTH], count)
    run.figure[instance, BUSY] += lasted
    if run.prefilling.size[instance] > 0:
        run.figure[instance, PREFILL_BUSY] += lasted
    fleet[ITERATIONS] += count
    fleet[CONTEXT] += count * fleet[DECODES]
    fleet[RUNNING], fleet[PAUSING] = 0, 0
    run.tally[ITERATED] += count
