"""Which ready instances have a free slot, by age: a bit for each place in the order of their starts.

A request goes to the oldest instance with a free slot. Slots come and go with nearly every request, and old
and young instances alternate, so a search among them takes long and cannot be foreseen; the lowest bit of a
function takes a few steps. Behind the words of bits stands a bit for each word. Places are given in order;
once all are used those that are left move up.
"""

from __future__ import annotations

from proreus.kernels.arrays import I64, U64
from proreus.kernels.indices import IN_WORD, ONE, TO_WORD, lowest_bit, signed, unsigned, unsigned_word
from proreus.kernels.jit import compiled, compiled_inline
from proreus.worlds.functions.state import columns as c
from proreus.worlds.functions.state.columns import FunctionsWork, Runs


def places_for(instances: int) -> int:
    """How many places so many instances have: some more, so that they seldom move up."""
    return 64 * (instances * 5 // 256 + 2)


def words_for(places: int) -> int:
    """Words for the bits of so many places, and for the bits of these words."""
    words = places // 64
    return words + (words + 63) // 64


@compiled_inline
def offer_room(of: I64, instance: I64, spare: U64, words: int, one: int) -> None:
    """A ready instance that had no free slot has one. Arrays of a lane; words: without those behind."""
    function, place = unsigned(instance[one, c.FUNCTION]), unsigned_word(instance[one, c.PLACE])
    word = place >> TO_WORD
    spare[function, word] |= ONE << (place & IN_WORD)
    spare[function, words + (word >> TO_WORD)] |= ONE << (word & IN_WORD)
    of[function, c.SPARE] = min(of[function, c.SPARE], signed(place))


@compiled_inline
def withdraw_first(of: I64, spare: U64, words: int, function: int) -> None:
    """The oldest ready instance with a free slot is full."""
    place = unsigned_word(of[function, c.SPARE])
    word = place >> TO_WORD
    left = spare[function, word] & ~(ONE << (place & IN_WORD))
    spare[function, word] = left
    if left == 0:
        behind = words + (word >> TO_WORD)
        spare[function, behind] &= ~(ONE << (word & IN_WORD))
        while behind < spare.shape[1] and spare[function, behind] == 0:
            behind += ONE
        if behind < spare.shape[1]:
            word = ((behind - words) << TO_WORD) | lowest_bit(spare[function, behind])
            left = spare[function, word]
    of[function, c.SPARE] = c.NO_PLACE if left == 0 else signed((word << TO_WORD) | lowest_bit(left))


@compiled
def withdraw(of: I64, instance: I64, spare: U64, words: int, one: int) -> None:
    """A ready instance with a free slot goes."""
    function, place = unsigned(instance[one, c.FUNCTION]), unsigned_word(instance[one, c.PLACE])
    if of[function, c.SPARE] == instance[one, c.PLACE]:
        withdraw_first(of, spare, words, function)
        return
    word = place >> TO_WORD
    spare[function, word] &= ~(ONE << (place & IN_WORD))
    if spare[function, word] == 0:
        spare[function, words + (word >> TO_WORD)] &= ~(ONE << (word & IN_WORD))


@compiled
def take_place(work: FunctionsWork, runs: Runs, lane: int, one: int) -> None:
    """The next place is that of an instance which starts; its phase says so already."""
    if runs.tally[lane, c.PLACES] == runs.crew.shape[1]:
        _move_up(work, runs, lane)
    place = runs.tally[lane, c.PLACES]
    runs.crew[lane, place] = one
    runs.instance[lane, one, c.PLACE] = place
    runs.tally[lane, c.PLACES] += 1


@compiled
def _move_up(work: FunctionsWork, runs: Runs, lane: int) -> None:
    """The places of instances that are gone are taken by those behind them."""
    crew, instance, words = runs.crew[lane], runs.instance[lane], unsigned_word(runs.crew.shape[1] // 64)
    base = work.first_function[runs.tally[lane, c.EPISODE]]
    runs.spare[lane] = 0
    runs.of[lane, :, c.SPARE] = c.NO_PLACE
    left = 0
    for place in range(crew.size):
        one = crew[place]
        if instance[one, c.PHASE] == c.ABSENT or instance[one, c.PLACE] != place:
            continue
        instance[one, c.PLACE] = left
        crew[left] = one
        left += 1
        most = work.need[base + instance[one, c.FUNCTION], c.CONCURRENCY]
        if instance[one, c.PHASE] != c.STARTS_UP and instance[one, c.TAKEN] < most:
            offer_room(runs.of[lane], instance, runs.spare[lane], words, one)
    runs.tally[lane, c.PLACES] = left
