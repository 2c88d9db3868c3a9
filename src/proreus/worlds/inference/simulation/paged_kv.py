"""KV memory in pages of so many tokens, which decoding takes one by one as it goes.

A sequence takes a page at the iteration at which its pages are full. While it decodes, that is the same
iteration modulo the size of a page, so a count of sequences by that phase says what a whole batch will take
over any number of iterations.
"""

from __future__ import annotations

from proreus.kernels.jit import compiled
from proreus.worlds.inference.simulation import columns as c
from proreus.worlds.inference.simulation.columns import InferenceColumns
from proreus.worlds.inference.simulation.prefix_cache import make_room


@compiled
def page_bytes(run: InferenceColumns, instance: int) -> int:
    """Of one page."""
    return int(run.fleet[instance, c.BLOCK] * run.fleet[instance, c.KV_BYTES])


@compiled
def pages(run: InferenceColumns, instance: int, tokens: int) -> int:
    """That so many tokens of one request take."""
    block = run.fleet[instance, c.BLOCK]
    return int((tokens + block - 1) // block)


@compiled
def free_pages(run: InferenceColumns, instance: int) -> int:
    """That nobody has."""
    return int((run.fleet[instance, c.CAPACITY] - run.fleet[instance, c.MEMORY]) // page_bytes(run, instance))


@compiled
def empty_pages(run: InferenceColumns, instance: int) -> int:
    """That nobody has, and that no block of the prefix cache is in."""
    fleet = run.fleet[instance]
    return int((fleet[c.CAPACITY] - fleet[c.MEMORY] - fleet[c.CACHED]) // page_bytes(run, instance))


@compiled
def count_phase(run: InferenceColumns, instance: int, slot: int, change: int) -> None:
    """A sequence begins (1) or stops (-1) to decode; its CONTEXT_OF counts from the first iteration."""
    run.phases[instance, run.slot[slot, c.CONTEXT_OF] % run.fleet[instance, c.BLOCK]] += change


@compiled
def pages_over(run: InferenceColumns, instance: int, first: int, iterations: int) -> int:
    """Pages that the decoding sequences take in so many iterations, from number `first` on."""
    block = run.fleet[instance, c.BLOCK]
    whole, rest = divmod(iterations, block)
    total, phase = whole * run.fleet[instance, c.DECODES], (-first) % block
    for _ in range(rest):  # phase by phase: with a remainder in it the compiler makes thousands of this loop
        total += run.phases[instance, phase]
        phase = phase - 1 if phase > 0 else block - 1
    return int(total)


@compiled
def iterations_with(run: InferenceColumns, instance: int, free: int, most: int) -> int:
    """How many iterations, at most so many, the free pages last."""
    decodes, block = run.fleet[instance, c.DECODES], run.fleet[instance, c.BLOCK]
    if decodes == 0:
        return most
    whole = free // decodes
    free -= whole * decodes
    steps, first = whole * block, run.fleet[instance, c.ITERATIONS]
    while steps < most:
        free -= run.phases[instance, (-(first + steps)) % block]
        if free < 0:
            break
        steps += 1
    return int(min(steps, most))


@compiled
def take_pages(run: InferenceColumns, instance: int, count: int) -> None:
    """From the free ones; negative: give back."""
    run.fleet[instance, c.MEMORY] += count * page_bytes(run, instance)
    make_room(run, instance, 0)
