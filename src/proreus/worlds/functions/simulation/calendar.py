"""When running requests end: a calendar queue (Brown, 1988) with eight days for each request of the episode,
and none longer than an eighth of a second, so that a burst in a quiet episode does not end on one day.

A day's page holds the requests that end on it, chained in any order. The pages are used again after `DAYS`
days, so some of a chain may be of a later year. Pages in use are marked by bits: the next of them is found
without a look at those between, so days are short and nearly all chains have one request. To note an end and
to find the next one take a few steps each, however many requests run. How long a day is decides nothing but
speed.
"""

from __future__ import annotations

from proreus.kernels.arrays import F64, I32, U64
from proreus.kernels.indices import ALL, IN_WORD, ONE, TO_WORD, lowest_bit, signed, unsigned, unsigned_word
from proreus.kernels.jit import compiled, compiled_inline
from proreus.worlds.functions.state import columns as c
from proreus.worlds.functions.state.columns import FunctionsWork

_LAST_DAY = 2.0**62
_SHORTNESS = 8.0
_WORDS = c.DAYS // 64
PAGE = c.DAYS - 1
"""The bits of a day's number that say its page."""


@compiled_inline
def days_per_second(work: FunctionsWork, episode: int) -> float:
    """How fast days go by in an episode."""
    requests, horizon = work.first[episode + 1] - work.first[episode], work.horizon[episode]
    return _SHORTNESS * (max(requests / horizon, 1.0) if horizon > 0.0 else 1.0)


@compiled_inline
def day_of(when: float, pace: float) -> int:
    """The day of a time; a later time has no earlier day."""
    return int(min(when * pace, _LAST_DAY))


@compiled_inline
def note_end(due: F64, link: I32, pages: tuple[I32, U64], request: int, pace: float) -> None:
    """A request will end at `due[request]`; pages: `calendar` and `marked`. All arrays of a lane.

    No branch hangs on when it ends, which is known late: a processor goes on meanwhile.
    """
    calendar, marked = pages
    page = unsigned_word(day_of(due[request], pace) & PAGE)
    word = page >> TO_WORD
    link[request] = calendar[page]
    calendar[page] = request
    marked[word] |= ONE << (page & IN_WORD)
    marked[_WORDS] |= ONE << word


@compiled_inline
def strike_end(link: I32, pages: tuple[I32, U64], request: int, day: int) -> None:
    """A request that ends on that day has ended."""
    calendar, marked = pages
    page, behind = unsigned_word(day & PAGE), link[request]
    if unsigned(calendar[page]) != request:
        before = unsigned(calendar[page])
        while unsigned(link[before]) != request:
            before = unsigned(link[before])
        link[before] = behind
    else:
        calendar[page] = behind
        if behind == c.NOBODY:
            word = page >> TO_WORD
            left = marked[word] & ~(ONE << (page & IN_WORD))
            marked[word] = left
            if left == 0:
                marked[_WORDS] &= ~(ONE << word)


@compiled_inline
def next_end(due: F64, link: I32, pages: tuple[I32, U64], today: int, pace: float) -> tuple[int, int]:
    """(the request that ends next, its day), from today on; there must be one."""
    calendar, marked = pages
    day = today
    while True:
        page = _next_marked(marked, unsigned_word(day & PAGE))
        day += signed(page - unsigned_word(day & PAGE)) & PAGE
        first = _first_of(due, link, calendar[page])
        if day_of(due[first], pace) == day:
            break
        day += 1
        if day - today >= c.DAYS:  # all of them end in a later year
            first = _first_of_all(due, link, calendar)
            day = day_of(due[first], pace)
            break
    return first, day


@compiled_inline
def _next_marked(marked: U64, page: int) -> int:
    """The first page in use from a page on, in the circle of all; there must be one."""
    word = page >> TO_WORD
    bits = marked[word] & (ALL << (page & IN_WORD))
    if bits == 0:
        words = marked[_WORDS]
        later = words & (ALL << word) & ~(ONE << word)
        word = lowest_bit(later if later != 0 else words)
        bits = marked[word]
    return (word << TO_WORD) | lowest_bit(bits)


@compiled_inline
def _first_of(due: F64, link: I32, front: int) -> int:
    """The request of a chain that ends first, of equal times the one that came first."""
    first, other = unsigned(front), link[unsigned(front)]
    while other != c.NOBODY:
        place = unsigned(other)
        if due[place] < due[first] or (due[place] == due[first] and place < first):
            first = place
        other = link[place]
    return first


@compiled
def _first_of_all(due: F64, link: I32, calendar: I32) -> int:
    """The same over all chains; there must be one."""
    found, first = False, unsigned(0)
    for page in range(c.DAYS):
        if calendar[page] != c.NOBODY:
            one = _first_of(due, link, calendar[page])
            if not found or due[one] < due[first]:  # equal times stand on one page
                found, first = True, one
    return first
