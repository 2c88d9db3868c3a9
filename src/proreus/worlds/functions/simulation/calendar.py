"""When running requests end: a calendar queue (Brown, 1988) that has a day for each request of the episode,
and none longer than a second, so that a burst in a quiet episode does not end on one day.

A day's page holds the requests that end on it, chained in the order in which they end, of equal times the one
that came first. The pages are used again after `DAYS` days, so the front of a chain may be of a later year.
To note an end and to find the next one take a few steps each, however many requests run. How long a day is
decides nothing but speed.
"""

from __future__ import annotations

from proreus.kernels.arrays import F64, I32
from proreus.kernels.indices import unsigned
from proreus.kernels.jit import compiled_inline
from proreus.worlds.functions.state import columns as c
from proreus.worlds.functions.state.columns import FunctionsWork

_LAST_DAY = 2.0**62
PAGE = c.DAYS - 1
"""The bits of a day's number that say its page."""


@compiled_inline
def days_per_second(work: FunctionsWork, episode: int) -> float:
    """How fast days go by in an episode."""
    requests, horizon = work.first[episode + 1] - work.first[episode], work.horizon[episode]
    return max(requests / horizon, 1.0) if horizon > 0.0 else 1.0


@compiled_inline
def day_of(when: float, pace: float) -> int:
    """The day of a time; a later time has no earlier day."""
    return int(min(when * pace, _LAST_DAY))


@compiled_inline
def note_end(due: F64, link: I32, calendar: I32, request: int, pace: float) -> None:
    """A request will end at `due[request]`. All arrays of a lane."""
    when = due[request]
    page = day_of(when, pace) & PAGE
    before, behind = c.NOBODY, calendar[page]
    while behind != c.NOBODY:
        place = unsigned(behind)
        if due[place] > when or (due[place] == when and behind > request):
            break
        before, behind = behind, link[place]
    link[request] = behind
    if before == c.NOBODY:
        calendar[page] = request
    else:
        link[before] = request


@compiled_inline
def next_day(due: F64, calendar: I32, today: int, pace: float) -> int:
    """The first day, from today on, on which a request ends; there must be one."""
    day = today
    while day < today + c.DAYS:
        first = calendar[day & PAGE]
        if first != c.NOBODY and day_of(due[unsigned(first)], pace) == day:
            return day
        day += 1
    earliest = c.NOBODY
    for page in range(c.DAYS):
        first = calendar[page]
        if first != c.NOBODY and (earliest == c.NOBODY or due[first] < due[earliest]):
            earliest = first
    return day_of(due[earliest], pace)
