"""Measures while a run goes on: sums over time, and a curve that never outgrows its buffer."""

from __future__ import annotations

from proreus.kernels.jit import compiled
from proreus.worlds.pods.simulation import columns as cols
from proreus.worlds.pods.simulation.columns import Run
from proreus.worlds.pods.state.columns import Cluster, State


@compiled
def move_clock(run: Run, time: float) -> None:
    """Advance to `time` and add what was in use meanwhile to the integrals."""
    passed = time - run.clock[0]
    if passed > 0.0:
        for x in range(run.used.shape[0]):
            run.integral[x] += run.used[x] * passed
        run.paid[1] += run.paid[0] * passed
        waiting = run.active.size[0] + run.backoff.size[0] + run.counters[cols.POOL_SIZE]
        run.presence[0] += (waiting + run.counters[cols.ALIVE]) * passed
        run.clock[0] = time


@compiled
def count_use(cluster: Cluster, run: Run, c: int, sign: int, fragment_change: float) -> None:
    """Add (or subtract) one pod of class c, and the change in fragmentation, to what is in use."""
    columns = run.used.shape[0] - 2
    for r in range(columns):
        run.used[r] += sign * cluster.classes.request[c, r]
    run.used[columns] += sign * cluster.classes.gpu_num[c] * cluster.classes.gpu_milli[c]
    run.used[columns + 1] += fragment_change
    run.counters[cols.ALIVE] += sign
    for x in range(run.used.shape[0]):
        run.peak[x] = max(run.peak[x], run.used[x])


@compiled
def record(cluster: Cluster, state: State, run: Run, waiting: int) -> None:
    """Sample the curve every STRIDE events; a full buffer keeps every other row and doubles the stride."""
    events = run.counters[cols.EVENTS]
    run.counters[cols.EVENTS] += 1
    if events % run.counters[cols.STRIDE] != 0:
        return
    row = run.counters[cols.SAMPLES]
    if row == cols.SAMPLE_ROWS:
        for i in range(cols.SAMPLE_ROWS // 2):
            run.samples[i] = run.samples[2 * i]
        for i in range(cols.SAMPLE_ROWS // cols.HEAT_EVERY // 2):
            run.heat[i] = run.heat[2 * i]
        row = cols.SAMPLE_ROWS // 2
        run.counters[cols.STRIDE] *= 2
        if events % run.counters[cols.STRIDE] != 0:
            run.counters[cols.SAMPLES] = row
            return
    write_sample(cluster, state, run, row, waiting)
    run.counters[cols.SAMPLES] = row + 1


@compiled
def write_sample(cluster: Cluster, state: State, run: Run, row: int, waiting: int) -> None:
    """Fill one row of the curve, and of the heat map where one is due."""
    sample = run.samples[row]
    sample[cols.SAMPLE_TIME] = run.clock[0]
    sample[cols.SAMPLE_ARRIVED] = run.arrived[0]
    sample[cols.SAMPLE_WAITING] = waiting
    sample[cols.SAMPLE_RUNNING] = run.counters[cols.ALIVE]
    for x in range(run.used.shape[0]):
        sample[cols.SAMPLE_SUMS + x] = run.used[x]
    if row % cols.HEAT_EVERY == 0:
        for n in range(state.free.shape[0]):
            run.heat[row // cols.HEAT_EVERY, n] = _scarcest(cluster, state, n)


@compiled
def _scarcest(cluster: Cluster, state: State, n: int) -> float:
    """Share in use of the resource (or of the GPUs) that node n has least of."""
    most = 0.0
    for r in range(2):  # cpu and memory; the other columns are seldom what a node runs out of
        total = cluster.nodes.allocatable[n, r]
        if total > 0:
            most = max(most, 1.0 - state.free[n, r] / total)
    count = cluster.nodes.gpu_count[n]
    if count > 0:
        left = 0
        for d in range(count):
            left += state.gpu_left[n, d]
        most = max(most, 1.0 - left / (1000.0 * count))
    return most
