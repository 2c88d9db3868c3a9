"""Iterations of instances that share the experts of a layer: all of them take as long as the slowest.

Each fills its own batch; one without work computes a token for nothing, since the others need its experts.
What only it computes (attention, dense layers, head) is awaited by all; the experts see the tokens of all,
and what instances tell each other lasts as long as the fullest of them has to tell. While nobody comes or
goes, iterations are one event for the whole group: until another one of them becomes the slowest.
"""

from __future__ import annotations

from proreus.kernels.jit import compiled, compiled_inline
from proreus.worlds.inference.simulation import columns as c
from proreus.worlds.inference.simulation.chunked_prefill import batch_of, fill, most_iterations
from proreus.worlds.inference.simulation.columns import InferenceColumns
from proreus.worlds.inference.simulation.heaps import run_at
from proreus.worlds.inference.simulation.iteration_time import (
    IterationBatch,
    iteration,
    lasting,
    shared_seconds,
)
from proreus.worlds.inference.simulation.iterations import until_one_is_done
from proreus.worlds.inference.simulation.lists import at
from proreus.worlds.inference.simulation.lockstep_groups import first_fellow
from proreus.worlds.inference.simulation.paged_kv import pages_over, take_pages

_FAR = 1 << 40


@compiled_inline
def start_in_step(run: InferenceColumns, instance: int, now: float) -> bool:
    """Fill the batches of the whole group and run them; false: nobody has anything that could run."""
    group = run.fleet[instance, c.GROUP]
    members = run.fellows.size[group]
    count, total, most, working = _FAR, 0, 0, False
    for place in range(members):
        member = at(run.fellows, group, place)
        preempted = fill(run, member, now)
        batch = IterationBatch(0, 0.0, 1, 1, 1)
        if run.fleet[member, c.BATCH] > 0:
            working = True
            batch = batch_of(run, member)
            count = min(count, most_iterations(run, member, batch, preempted))
            count = until_one_is_done(run, member, count)
        seconds, growth, alike = iteration(run.timing, run.fleet[member, c.TIMING], batch)
        count = min(count, alike)
        run.figure[member, c.RUN_TIME], run.figure[member, c.RUN_GROWTH] = seconds, growth
        tokens = batch.prompt_tokens + batch.decodes
        total, most = total + tokens, max(most, tokens)
    if not working:
        return False
    seconds, growth, count = _slowest(run, group, count)
    which = run.fleet[instance, c.TIMING]
    seconds += shared_seconds(run.timing, which, total / members, float(most))
    end = now + lasting(seconds, growth, count)
    for place in range(members):
        member = at(run.fellows, group, place)
        figure, fleet = run.figure[member], run.fleet[member]
        figure[c.RUN_TIME], figure[c.RUN_GROWTH], figure[c.RUN_END] = seconds, growth, end
        fleet[c.RUNNING] = count if fleet[c.BATCH] > 0 else 0
        take_pages(run, member, pages_over(run, member, fleet[c.ITERATIONS], fleet[c.RUNNING]))
    run_at(run, first_fellow(run, instance), end)
    return True


@compiled
def _slowest(run: InferenceColumns, group: int, count: int) -> tuple[float, float, int]:
    """(seconds, growth, iterations for which it stays the slowest), of the member that all wait for."""
    first = at(run.fellows, group, 0)
    seconds, growth = run.figure[first, c.RUN_TIME], run.figure[first, c.RUN_GROWTH]
    for place in range(1, run.fellows.size[group]):
        figure = run.figure[at(run.fellows, group, place)]
        if figure[c.RUN_TIME] > seconds or (figure[c.RUN_TIME] == seconds and figure[c.RUN_GROWTH] > growth):
            seconds, growth = figure[c.RUN_TIME], figure[c.RUN_GROWTH]
    for place in range(run.fellows.size[group]):
        figure = run.figure[at(run.fellows, group, place)]
        if figure[c.RUN_GROWTH] > growth:
            count = min(count, int((seconds - figure[c.RUN_TIME]) / (figure[c.RUN_GROWTH] - growth)) + 1)
    return seconds, growth, count
