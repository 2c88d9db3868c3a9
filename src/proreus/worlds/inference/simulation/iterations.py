"""Contiguous iterations of a batch: how long they take, where they stop, what has been done by then."""

from __future__ import annotations

from proreus.kernels.jit import compiled, compiled_inline
from proreus.worlds.inference.simulation import columns as c
from proreus.worlds.inference.simulation.columns import InferenceColumns
from proreus.worlds.inference.simulation.heaps import run_at
from proreus.worlds.inference.simulation.iteration_time import IterationBatch, completed, iteration, lasting
from proreus.worlds.inference.simulation.lists import at
from proreus.worlds.inference.simulation.lockstep_groups import in_step
from proreus.worlds.inference.simulation.paged_kv import pages_over, take_pages

_FAR = 1 << 40


@compiled_inline
def run_batch(run: InferenceColumns, instance: int, now: float) -> None:
    """Run the batch until a request of it is done; with prompts in it, once."""
    prompt_tokens = 0
    for place in range(run.prefilling.size[instance]):
        prompt_tokens += run.slot[at(run.prefilling, instance, place), c.PROMPT]
    fleet = run.fleet[instance]
    batch = IterationBatch(prompt_tokens, 0.0, fleet[c.DECODES], fleet[c.CONTEXT], fleet[c.BATCH])
    run_for(run, instance, batch, 1 if prompt_tokens else _FAR, now)


@compiled
def run_for(run: InferenceColumns, instance: int, batch: IterationBatch, most: int, now: float) -> None:
    """Run such a batch as long as it stays what it is, at most so many iterations."""
    seconds, growth, alike = iteration(run.timing, run.fleet[instance, c.TIMING], batch)
    count = until_one_is_done(run, instance, min(alike, most))
    figure = run.figure[instance]
    figure[c.RUN_TIME], figure[c.RUN_GROWTH] = seconds, growth
    figure[c.RUN_END] = now + lasting(seconds, growth, count)
    run.fleet[instance, c.RUNNING] = count
    run_at(run, instance, figure[c.RUN_END])


@compiled
def until_one_is_done(run: InferenceColumns, instance: int, most: int) -> int:
    """Iterations, at most so many, until a request of the batch has its last token."""
    if run.fleet[instance, c.DECODES] == 0:
        return most
    first = run.finishing[instance, 0]
    return int(min(most, run.slot[first, c.FINISH] - run.fleet[instance, c.ITERATIONS]))


@compiled
def pause(run: InferenceColumns, instance: int, now: float) -> None:
    """Stop at the next boundary between two iterations, with all that iterate in step."""
    if not in_step(run, instance):
        if run.prefilling.size[instance] == 0 and not run.fleet[instance, c.PAUSING]:
            _pause(run, instance, now)
            run_at(run, instance, run.figure[instance, c.RUN_END])
        return  # a batch with prompts stops there anyway
    group = run.fleet[instance, c.GROUP]
    for place in range(run.fellows.size[group]):
        fellow = at(run.fellows, group, place)
        if run.fleet[fellow, c.RUNNING] > 1 and not run.fleet[fellow, c.PAUSING]:
            _pause(run, fellow, now)
            run_at(run, at(run.fellows, group, 0), run.figure[fellow, c.RUN_END])


@compiled
def _pause(run: InferenceColumns, instance: int, now: float) -> None:
    fleet, figure = run.fleet[instance], run.figure[instance]
    fleet[c.PAUSING] = 1
    seconds, growth, count = figure[c.RUN_TIME], figure[c.RUN_GROWTH], fleet[c.RUNNING]
    elapsed = now - (figure[c.RUN_END] - lasting(seconds, growth, count))
    shorter = min(max(completed(seconds, growth, elapsed), 0) + 1, count)
    fleet[c.RUNNING] = shorter
    if fleet[c.ENGINE] == c.CHUNKED:
        over = pages_over(run, instance, fleet[c.ITERATIONS] + shorter, count - shorter)
        take_pages(run, instance, -over)
    figure[c.RUN_END] = now + (lasting(seconds, growth, shorter) - elapsed)


@compiled
def count_iterations(run: InferenceColumns, instance: int) -> None:
    """The iterations that ran are over."""
    fleet = run.fleet[instance]
    count = fleet[c.RUNNING]
    lasted = lasting(run.figure[instance, c.RUN_TIME], run.figure[instance, c.RUN_GROWTH], count)
    run.figure[instance, c.BUSY] += lasted
    if run.prefilling.size[instance] > 0:
        run.figure[instance, c.PREFILL_BUSY] += lasted
    if count > 0:  # while its last one ran, the next batch was composed
        figure = run.figure[instance]
        figure[c.COMPOSED_AT] = figure[c.RUN_END] - (figure[c.RUN_TIME] + figure[c.RUN_GROWTH] * (count - 1))
    fleet[c.ITERATIONS] += count
    fleet[c.CONTEXT] += count * fleet[c.DECODES]
    fleet[c.RUNNING], fleet[c.PAUSING] = 0, 0
    run.tally[c.ITERATED] += count
