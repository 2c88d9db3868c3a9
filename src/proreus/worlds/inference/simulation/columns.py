"""The arrays of a run of the world `inference`.

Letters in shape comments: N requests of the trace, S requests that are under way at most (slots), I instances
at most, C room of an instance's queues, B the largest batch, P pools (three for each model), R rows of the
log, G tokens of the largest page. A *task* is half of a request, 2 * slot + PROMPT_TASK or TOKEN_TASK. KV
memory is bytes, times are seconds.
"""

from __future__ import annotations

from typing import NamedTuple

from proreus.kernels.arrays import F64, I32, I64, U64
from proreus.kernels.structs import packable
from proreus.worlds.inference.simulation.iteration_time import Timing
from proreus.worlds.inference.simulation.lists import Lists


@packable
class Trace(NamedTuple):
    """The work, or the part of it that comes next: it never changes, and any number of runs share it."""

    arrival: F64  # [N] never falling
    prompt: I32  # [N] tokens of the prompt
    output: I32  # [N] tokens to generate, the first one included
    model: I32  # [N]
    service: I32  # [N] class of service
    block_begin: I64  # [N + 1] where the numbers of a prompt's blocks begin; [1] where they are not known
    block_number: I64  # [blocks of all prompts]


@packable
class InferenceColumns(NamedTuple):
    """All that a run knows, and where its log goes."""

    trace: Trace
    timing: Timing
    slot: I64  # [S, SLOT_FIELDS]
    moment: F64  # [S, MOMENTS]
    unused: I64  # [S] the slots that are free, the next one to be taken last
    fleet: I64  # [I, FLEET_FIELDS]
    figure: F64  # [I, FIGURES]
    finishing: I64  # [I, B] heap of the decoding requests of each batch by the iteration that ends them
    pending: Lists  # [I, C] tasks that are not in the batch
    prompts: Lists  # [I, C] slots whose prompt is pending, first come first served
    blocked: Lists  # [I, C] slots whose decoding was preempted
    waiting: Lists  # [I, C] slots that are not in the batch, by arrival
    prefilling: Lists  # [I, C] slots whose prompt is in the batch
    inbound: Lists  # [I, C] slots whose transfer waits for room on the instance
    leaving: Lists  # [I, C] slots whose KV moves away from the instance, where links are shared
    coming: Lists  # [I, C] slots whose KV moves to it
    phases: I64  # [I, G] decoding sequences by the iteration, modulo G, at which their pages are full
    entries: (
        I64  # [I, blocks that fit the memory, ENTRY] of prefix caches; [1, 1, ENTRY] where there are none
    )
    buckets: I64  # [I, chains of entries]
    fellows: Lists  # [I, I] instances that iterate in step, by group; [1, 1] where none do
    pools: Lists  # [P, I] instances that get work, in order
    routed: Lists  # [1, S] slots that wait at the router
    event_at: F64  # [2 I + S] when each actor acts next
    event_rank: I64  # [2 I + S] who comes first at one moment
    event_heap: I64  # [2 I + S]
    event_place: I64  # [2 I + S] where each actor stands in the heap, -1: it does not
    picked: I64  # [B] working space of a selection
    option: I64  # [OPTIONS]
    rate: F64  # [RATES]
    tally: I64  # [TALLIES]
    clock: F64  # [1]
    random: U64  # [1]
    log: F64  # [R, ROW] of requests that have ended
    spent: F64  # [instance kinds, SPENT] by instances that have stopped
    counts: F64  # [WINDOW_COUNTS] what happened since a controller looked last


PROMPT_TASK, TOKEN_TASK = range(2)
NOBODY = -1

# Of `slot`: the request and its numbers; where it stands; the instances it is bound to; the KV memory that it
# holds; neighbours in the batch, place in the heap of `finishing`, the iteration that ends it, tokens to
# come; how often its two tasks were passed over; since which start of a batch it waits, as which task;
# whether its decoding is blocked; whether a selection has it; how often its instance was lost; preemptions;
# tokens before the next one; tokens that are computed, those that this iteration computes; the numbers of
# its instances, which the log knows them by; blocks of its prompt that the prefix cache shares, tokens
# that it found there when it began; its numbers as they were before any loss.
(
    REQUEST, PROMPT, OUTPUT, MODEL, SERVICE, PHASE, PROMPT_AT, TOKEN_AT, KV, NEXT, PREVIOUS, PLACE, FINISH,
    LEFT, PROMPT_PREEMPTED, TOKEN_PREEMPTED, SINCE, WAITS_AS, BLOCKED, PICKED, LOSSES, PREEMPTIONS,
    CONTEXT_OF, COMPUTED, CHUNK, PROMPT_BY, TOKEN_BY, SHARED, FOUND,
    ASKED_PROMPT, ASKED_OUTPUT,
) = range(31)  # fmt: skip
SLOT_FIELDS = 31

# Of `moment`.
ARRIVED, STARTED, FIRST_TOKEN, SHIPPED, DECODING, TO_SHIP, SHIP_RATE, SHIP_SINCE, QUEUED = range(9)
MOMENTS = 9

# Of `PHASE`: nobody's slot; at the router; its prompt pending or running; its KV waiting for room, moving;
# its tokens pending or running.
FREE, AT_ROUTER, PREFILL, TO_MOVE, MOVING, DECODE = range(6)

# Of `fleet`: what the instance is; where it is in its life; KV memory in use and promised, tokens promised;
# its batch; the contiguous iterations that run; with how many it iterates in step, its group of `fellows`;
# whether batches are composed an iteration ahead, who has left since; whether it has a prefix cache, bytes
# of the blocks there that nobody uses, the first free entry, the blocks that were used longest ago and last;
# prompts that are bound to it and not computed, requests whose tokens are; whether it lets in only prompts
# that fit whole.
(
    ENGINE, TIMING, OF_MODEL, KIND, GPUS, CAPACITY, WEIGHTS, KV_BYTES, BATCH_LIMIT, TOKEN_LIMIT,
    PREEMPTION_LIMIT, BLOCK, STATUS, TAG, POOL, NUMBER, BOUND, MEMORY, PLANNED_MEMORY, PLANNED_TOKENS, FIRST,
    LAST, BATCH, DECODES, BATCH_TOKENS, CONTEXT, ITERATIONS, RUNNING, PAUSING, STARTS, PARTIAL, IN_STEP,
    GROUP, PLANS_AHEAD, GONE, CACHES, CACHED, FREE_ENTRY, OLDEST, NEWEST, PROMPTS_TO_DO, TOKENS_TO_DO,
    WHOLE_PROMPTS,
) = range(43)  # fmt: skip
FLEET_FIELDS = 43

# Of `figure`: end of the contiguous iterations that run, seconds of the first one, what each later one takes
# longer; seconds with a batch, those with prompts in it; moments of its life, and what the rest of its start
# takes; since when the next batch is composed, where that is done ahead.
(
    RUN_END, RUN_TIME, RUN_GROWTH, BUSY, PREFILL_BUSY, ORDERED_AT, ACTIVE_AT, DRAINED_SINCE,
    LOADING_SECONDS, WARMING_SECONDS, COMPOSED_AT,
) = range(11)  # fmt: skip
FIGURES = 11

# Of `ENGINE`: first come first served without limits on tokens; with them, prompts first and preemption;
# chunked prompts over paged KV memory.
ORCA, SPLITWISE, CHUNKED = range(3)

# Of `STATUS`, and what a pool is of.
ABSENT, PROVISIONING, LOADING, WARMING, ACTIVE, DRAINING, STOPPED = range(7)
PROMPT_POOL, TOKEN_POOL, MIXED_POOL = range(3)
ROLES = 3

# Of `option`.
(
    SCHEDULER, RESERVES, COUNTS_TOKENS, PROMPT_QUEUE_LIMIT, MOST_LOSSES, ROUTER_LIMIT, SHARED_LINKS,
    BLOCK_TOKENS, GIVES_BACK,
) = range(9)  # fmt: skip
OPTIONS = 9

# Of `SCHEDULER`.
(
    RANDOM, ROUND_ROBIN, JSQ, TOKEN_JSQ, KV_ROUND_ROBIN, KV_JSQ, KV_TOKEN_JSQ, MIXED, CACHE_AWARE,
    KV_CACHE_AWARE,
) = range(10)  # fmt: skip

# Of `rate`: bytes a second that one transfer gets; seconds until a transfer that found no room tries again,
# 0: it is woken; seconds between two looks at a draining instance, 0: it stops at once.
LINK_BYTES, RETRY_SECONDS, DRAIN_CHECK = range(3)
RATES = 3

# Of `tally`: the next request of the trace, actors in the heap, free slots, rows of the log, requests under
# way, events so far, iterations so far, the most requests that an instance has had, turns of round robin,
# instances that there have ever been, the place among those at the router who is asked next, NOBODY: none;
# requests before those of `trace`, whether others come after them, and whether KV may wait in a circle.
(
    NEXT_REQUEST, EVENTS_WAITING, FREE_SLOTS, ROWS, UNDER_WAY, EVENTS, ITERATED, MOST_BOUND, TURN, TOKEN_TURN,
    NUMBERED, ROUTING, BEFORE_TRACE, MORE_TO_COME, CIRCLE,
) = range(15)  # fmt: skip
TALLIES = 15

# Of `log`: one row for each request that has ended.
(
    L_REQUEST, L_STATUS, L_ARRIVAL, L_STARTED, L_FIRST, L_SHIPPED, L_DECODING, L_ENDED, L_PROMPT_BY,
    L_TOKEN_BY, L_PROMPT, L_OUTPUT, L_MODEL, L_SERVICE, L_PREEMPTIONS, L_LOSSES, L_FOUND,
) = range(17)  # fmt: skip
ROW = 17

COMPLETED, REJECTED, LOST = range(3)

# Of `entries`: the number of a block, requests that use it, neighbours among those that nobody uses, by when
# they were used last, and the next one of its chain.
E_NUMBER, E_USERS, E_OLDER, E_NEWER, E_CHAIN = range(5)
ENTRY = 5

# Of `counts`: sums since they were last set to zero.
(
    W_ARRIVED, W_PROMPT_TOKENS, W_OUTPUT_TOKENS, W_TTFT, W_FIRST_TOKENS, W_WAIT, W_STARTED,
) = range(7)  # fmt: skip
WINDOW_COUNTS = 7

# Of `spent`: seconds from order to stop, seconds with a batch, those with prompts in it.
SPENT_SECONDS, SPENT_BUSY, SPENT_PREFILL = range(3)
SPENT = 3

# What `advance` stops for.
TIME_UP, ALL_DONE, NEEDS_SLOTS, NEEDS_QUEUES, LOG_FULL, NEEDS_REQUESTS = range(6)
