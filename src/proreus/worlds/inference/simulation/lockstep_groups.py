"""Instances that iterate in step: who belongs together, and whose event stands for all of them.

The event of the first member is that of the group. Those who become active fill the first group of their kind
that is not complete; who stops leaves its group, and the others go on.
"""

from __future__ import annotations

from proreus.kernels.jit import compiled
from proreus.worlds.inference.simulation import columns as c
from proreus.worlds.inference.simulation.columns import InferenceColumns
from proreus.worlds.inference.simulation.heaps import run_at, runs
from proreus.worlds.inference.simulation.lists import append, at, remove


@compiled
def in_step(run: InferenceColumns, instance: int) -> bool:
    """Whether it iterates with others, though they may not be there now."""
    return bool(run.fleet[instance, c.GROUP] != c.NOBODY)


@compiled
def first_fellow(run: InferenceColumns, instance: int) -> int:
    """The member of its group whose event is that of all."""
    return at(run.fellows, run.fleet[instance, c.GROUP], 0)


@compiled
def join(run: InferenceColumns, instance: int) -> None:
    """It has become active: it takes part from the next iteration of its group on."""
    fleet = run.fleet[instance]
    fleet[c.GROUP] = c.NOBODY
    if fleet[c.IN_STEP] == 1:
        return
    empty, group = c.NOBODY, c.NOBODY
    for place in range(run.fellows.size.size):
        size = run.fellows.size[place]
        if size == 0:
            empty = place if empty == c.NOBODY else empty
        elif size < fleet[c.IN_STEP] and run.fleet[at(run.fellows, place, 0), c.KIND] == fleet[c.KIND]:
            group = place
            break
    fleet[c.GROUP] = empty if group == c.NOBODY else group
    append(run.fellows, fleet[c.GROUP], instance)


@compiled
def leave(run: InferenceColumns, instance: int) -> None:
    """It has stopped; iterations that run go on without it."""
    group = run.fleet[instance, c.GROUP]
    if group == c.NOBODY:
        return
    remove(run.fellows, group, instance)
    run.fleet[instance, c.GROUP] = c.NOBODY
    if runs(run, instance) and run.fellows.size[group] > 0:
        run_at(run, at(run.fellows, group, 0), run.event_at[instance])
