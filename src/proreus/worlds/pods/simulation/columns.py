"""The arrays of a run of the pods world. P pods, C classes, R resource columns, N nodes, X = R + 2 sums."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from proreus.kernels.arrays import F64, I8, I64
from proreus.kernels.structs import packable

# Where a pod is in its life.
FUTURE, ACTIVE, BACKING_OFF, POOLED, RUNNING, DONE, REJECTED, FAILED = range(8)

# Places in `Run.counters`.
NEXT_ARRIVAL, DECISIONS, PLACEMENTS, EVICTIONS, SEQUENCE, POOL_SIZE, SAMPLES, STRIDE, EVENTS, ALIVE = range(
    10
)
COUNTERS = 10

# Places in `Run.options`.
DROP_FAILURES, REQUEUE_EVICTED, SKIP_BACKOFF_WHEN_IDLE, ATTEMPT_LIMIT, TICKED = range(5)

# Columns of `Run.samples` before the sums: time, GPU share that has arrived, pods waiting, pods running.
SAMPLE_TIME, SAMPLE_ARRIVED, SAMPLE_WAITING, SAMPLE_RUNNING, SAMPLE_SUMS = range(5)
SAMPLE_ROWS = 512
HEAT_EVERY = 8


@packable
class Heap(NamedTuple):
    """A binary heap of pods that can also drop any pod. Order: first, second, tie, all ascending."""

    first: F64  # [P] by pod
    second: F64  # [P] by pod
    tie: I64  # [P] by pod
    order: I64  # [P] pods in heap order
    slot: I64  # [P] where a pod is in `order`, -1 when absent
    size: I64  # [1]


@packable
class Run(NamedTuple):
    arrival: F64  # [P]
    work: F64  # [P] seconds at speed 1, infinite for pods that stay
    bound: I64  # [P] the node that the pod is on from its arrival, -1 for pods that are to be placed
    status: I8  # [P]
    attempts: I64  # [P] failed or delayed decisions since the pod last ran
    queued: F64  # [P] when it came into the queue, or was last decided about in vain
    ticket: I64  # [P] the order in which that happened
    started: F64  # [P] last start, NaN before
    finished: F64  # [P] NaN before
    evicted: I64  # [P] how often
    where: I64  # [P] the node it was last placed on, -1 before
    active: Heap  # by priority (high first), then time in the queue
    woken: Heap  # taken when nobody is active: by the second in which the back-off ends, then as above
    backoff: Heap  # by the time the back-off ends
    running: Heap  # by the time the pod ends
    pool: I64  # [P] pods that no node can take until something changes
    barren: (
        I64  # [C] until which change every node refuses the class, -1 unknown: see `legality.still_barren`
    )
    clock: F64  # [1]
    used: F64  # [X] in use now: each resource column, milli-GPU, fragmentation
    integral: F64  # [X] the same, summed over time
    peak: F64  # [X] the most that was ever in use
    price: F64  # [N] dollars an hour
    paid: F64  # [2] the price now of the nodes that hold pods; the same, summed over time
    arrived: F64  # [1] milli-GPU that has arrived
    presence: F64  # [1] pods in the system (waiting or running), summed over time
    samples: F64  # [SAMPLE_ROWS, SAMPLE_SUMS + X]
    heat: NDArray[np.float32]  # [SAMPLE_ROWS / HEAT_EVERY, N] share in use of each node's scarcest resource
    countdown: F64  # [P] ticked runtime: seconds until the container may start
    remaining: F64  # [P] ticked runtime: work left, NaN before the container starts
    counters: I64  # [COUNTERS]
    options: I64  # [5]
