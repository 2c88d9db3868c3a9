"""The arrays of the world `functions`: demands, which never change, and runs side by side over them.

Letters in shape comments: P episodes, R requests of all episodes, A functions of all episodes, N nodes, L
lanes, F most functions of an episode, Q most requests of an episode, I most instances, W words of bits for
them, B bins.
"""

from __future__ import annotations

from typing import NamedTuple

from proreus.kernels.arrays import F64, I8, I32, I64, U64, Bool
from proreus.kernels.structs import packable


@packable
class FunctionsWork(NamedTuple):
    """Episodes one behind the other; all lanes share them."""

    first: I64  # [P + 1] where the requests of an episode begin
    first_function: I64  # [P + 1] where its functions begin
    arrival: F64  # [R]
    function: I32  # [R] counted within the episode
    seconds: F64  # [R]
    cold: F64  # [R]
    need: I64  # [A, NEEDS]
    standard: F64  # [A]
    horizon: F64  # [P]
    capacity: I64  # [N, 4] CPU, MEMORY, NET, DISK
    price: I64  # [N] millionths of a dollar an hour
    term: F64  # [TERMS]
    option: I64  # [OPTIONS]


CPU, MEMORY, NET, DISK = range(4)
# Of `need`: what an instance reserves (CPU, MEMORY), what a request uses (NET and DISK as above, CPU_USE).
CPU_USE, CONCURRENCY, FUNCTION_KIND = 4, 5, 6
NEEDS = 7
# Of `term`: seconds of patience; weight of response time; the bounds of RFRT that count 0 and 1; the RFRT of
# the objective; seconds of a fixed keep-alive; the price of all nodes.
PATIENCE, BETA, LOW, HIGH, OBJECTIVE, KEPT, FULL_PRICE = range(7)
TERMS = 7
# Of `option`: requests of a function that may wait; who says how long idle instances stay.
QUEUE, KEEPER = range(2)
OPTIONS = 2
ASKED, FIXED, BY_HISTOGRAM = range(3)


@packable
class Runs(NamedTuple):
    """One run in each lane."""

    tally: I64  # [L, TALLIES]
    figure: F64  # [L, FIGURES]
    mark: F64  # [L, FIGURES] the figures at the last decision
    node: I64  # [L, N, NODE_COLUMNS]
    since: F64  # [L, N] when the node became active
    active: F64  # [L, N] seconds that it was active before
    replicas: I32  # [L, N, F]
    of: I64  # [L, F, FUNCTION_COLUMNS]
    rate: F64  # [L, F, FUNCTION_FIGURES]
    gaps: I32  # [L, F, B] idle times of each function
    instance: I64  # [L, I, INSTANCE_COLUMNS]
    crew: I32  # [L, W * 64] the instance at each place, see `state.spares`
    spare: U64  # [L, F, W + W / 64] which of them are ready and have a free slot
    wake: F64  # [L, I] when an instance is ready, or is given up
    warming: I32  # [L, I] instances that start, the one that is ready first behind all others
    resting: I32  # [L, I] instances that idle, in any order; some may serve again
    noted: Bool  # [L, I] instances that stand in `resting`
    free: I32  # [L, I] numbers that no instance has; the last one is taken next
    status: I8  # [L, Q]
    link: I32  # [L, Q] the request behind this one, in a queue, before an instance that starts or on a day
    due: F64  # [L, Q] when a request that runs ends
    calendar: I32  # [L, DAYS] the first request that ends on a day, see `simulation.calendar`
    marked: U64  # [L, DAYS / 64 + 1] a bit for each day with a request; behind them one for each such word
    host: I32  # [L, Q] its instance
    began: F64  # [L, Q] when it began to run; [L, 0] where nobody asks later
    ended: F64  # [L, Q]
    server: I32  # [L, Q] its node


# Of `tally`.
(
    EPISODE,  # which one is played
    NEXT,  # the next request to come
    PATIENT,  # the first request that may still run out of patience
    KIND,  # of the decision at hand
    SUBJECT,  # its function, or its instance
    AGAIN,  # functions that are to be asked about again
    HEAPED,  # requests that run
    LEAVING,  # the one that ends next
    RESTING,  # instances in `resting`
    FREE,  # numbers that no instance has
    PLACES,  # places of instances that were given
    QUEUED,  # requests that wait for an instance
    HELD,  # requests that wait for one that starts
    PRICE,  # of the active nodes
    ACTIVE,  # nodes
    LIVE,  # instances
    STARTING,  # instances that start
    STARTS,  # cold starts so far
    CAME,  # requests so far
    SERVED,
    DROPPED,
    COLD,  # requests that waited for a cold start
    IN_TIME,  # requests that met the objective
    DECISIONS,
) = range(24)
TALLIES = 24
NOTHING, PLACING, KEEPING, OVER = range(4)
"""Of KIND."""

# Of `figure`: the clock; price x seconds (millionths of a dollar an hour, seconds); sums over served and
# dropped requests of RFRT (at most CLIP) and of its share between the bounds; requests that ended, were
# dropped, met the objective; times before which no instance wakes, and none that
# idles is given up.
NOW, PAID, RFRT, SHARE, ENDED, LOST, MET, WAKES, RESTS = range(9)
FIGURES = 9
CLIP = 40.0
"""The largest RFRT that counts, and that of a request which is dropped."""
MICRO_HOURS = 3.6e9
"""From price x seconds to dollars."""

# Of `node`: what instances reserve (CPU, MEMORY), what requests use (NET, DISK, BUSY_CPU), instances, those
# that are not idle.
BUSY_CPU, HOLDS, WORKING, WARMING = 4, 5, 6, 7
NODE_COLUMNS = 8

# Of `of`: free slots; requests that wait, the first and the last; instances, the oldest and the youngest;
# requests that run or are held; 1 where it is to be asked about again; requests so far; the place of the
# oldest instance that is ready and has a free slot.
OPEN, WAITING, HEAD, TAIL, OLDEST, YOUNGEST, INSTANCES, RUNNING, ASK, SEEN, SPARE = range(11)
FUNCTION_COLUMNS = 11
# Of `rate`: RFRT of the last request; mean gap between requests; when the last one came, and ended.
LAST_RFRT, GAP, LAST_CAME, LAST_ENDED = range(4)
FUNCTION_FIGURES = 4

# Of `instance`: its function and node; slots taken; what it does; its older and younger neighbours of the
# function; the first and the last request that it holds until it has started; its place in the order of all.
FUNCTION, NODE, TAKEN, PHASE, OLDER, YOUNGER, FIRST_HELD, LAST_HELD, PLACE = range(9)
INSTANCE_COLUMNS = 9
ABSENT, STARTS_UP, BUSY, IDLE = range(4)
"""Of PHASE."""

TO_COME, WAITS_FOR_ROOM, HELD_BACK, RUNS, DONE, GIVEN_UP = range(6)
"""Of `status`."""
NOBODY = -1
NO_PLACE = 2**62
"""Behind all places."""
DAYS = 4096
"""Pages of `calendar`, a power of two: at most 64 words of 64 bits mark them."""
