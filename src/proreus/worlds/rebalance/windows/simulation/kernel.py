"""One window after the other: what pods will ask for, their moves, and what the requests then meet.

Serial: a pod serves its requests one after the other, so at step k a node carries request k of each of its
pods, and nothing for pods that had fewer. Parallel: the requests of a pod come in groups, and what a group
asks for is added to what the groups before it hold. Either way all of it is given back when the window ends.
"""

from __future__ import annotations

import numpy as np

from proreus.kernels.arrays import F64, I64
from proreus.kernels.jit import compiled
from proreus.worlds.rebalance.windows.simulation import columns as c
from proreus.worlds.rebalance.windows.simulation.columns import RequestStream, WindowsColumns
from proreus.worlds.rebalance.windows.state import (
    BUDGET,
    DAY,
    LAST,
    LEFT,
    MEAN,
    PEAK,
    TREND,
    move_pod,
    new_window,
    share,
    smallest_first,
)

HOUR, DAILY, HALF = 12, 288, 3
_ROUNDING = 1e-9


@compiled
def fill_demand(first: I64, amount: F64, standing: F64, cumulative: bool, demand: F64) -> None:
    """Fill `demand` [W, P, 2]: beside the standing request, the mean request of the window or, where they add
    up, their sum."""
    windows, pods = demand.shape[0], demand.shape[1]
    for window in range(windows):
        for pod in range(pods):
            begin, end = first[window * pods + pod], first[window * pods + pod + 1]
            for resource in range(2):
                total = 0.0
                for request in range(begin, end):
                    total += amount[request, resource]
                if not cumulative and end > begin:
                    total /= end - begin
                demand[window, pod, resource] = standing[pod, resource] + total


@compiled
def begin_run(stream: RequestStream, run: WindowsColumns, first: int) -> None:
    """Every pod where it stood at first, before window `first`."""
    hosting = run.hosting
    run.clock[c.NOW] = first
    hosting.pods[:] = 0
    for pod in range(stream.start.size):
        hosting.where[pod] = stream.start[pod]
        hosting.pods[stream.start[pod]] += 1
    run.outcome[:] = 0.0
    foresee(stream, run)
    new_window(hosting)


@compiled
def foresee(stream: RequestStream, run: WindowsColumns) -> None:
    """The forecasts for the window that is next, from the windows before it alone."""
    now, forecast = run.clock[c.NOW], run.hosting.forecast
    for pod in range(stream.start.size):
        for resource in range(2):
            if now == 0:
                # Nothing is known yet but what pods ask for at rest.
                for kind in range(forecast.shape[0]):
                    forecast[kind, pod, resource] = stream.standing[pod, resource]
                continue
            forecast[LAST, pod, resource] = stream.demand[now - 1, pod, resource]
            forecast[MEAN, pod, resource] = _mean(stream.total, max(0, now - HOUR), now, pod, resource)
            forecast[DAY, pod, resource] = _mean(stream.total, max(0, now - DAILY), now, pod, resource)
            peak = 0.0
            for window in range(max(0, now - HOUR), now):
                peak = max(peak, stream.demand[window, pod, resource])
            forecast[PEAK, pod, resource] = peak
            middle = max(0, now - HALF)
            recent = _mean(stream.total, middle, now, pod, resource)
            before = recent
            if middle > 0:
                before = _mean(stream.total, max(0, middle - HALF), middle, pod, resource)
            forecast[TREND, pod, resource] = max(0.0, 2.0 * recent - before)


@compiled
def _mean(total: F64, begin: int, end: int, pod: int, resource: int) -> float:
    return (total[end, pod, resource] - total[begin, pod, resource]) / (end - begin)


@compiled
def migrate(run: WindowsColumns, pod: int, node: int) -> float:
    """A move that is allowed; its reward, which is minus its cost."""
    hosting, source = run.hosting, run.hosting.where[pod]
    asked = 0.0  # in percent of the node, so that the units of cpu and mem do not matter
    for resource in range(2):
        asked += 100.0 * hosting.forecast[LAST, pod, resource] / hosting.capacity[source, resource]
    if hosting.tally[LEFT] == hosting.tally[BUDGET]:
        run.outcome[:] = 0.0  # the first move of a window opens its account
    move_pod(hosting, pod, node)
    run.outcome[c.MOVES] += 1.0
    run.outcome[c.MIGRATED] += asked
    return -run.level[c.W_MIGRATED] * asked


@compiled
def close_window(stream: RequestStream, run: WindowsColumns) -> float:
    """Serve the requests of the window, give back what they held; the reward without that of the moves."""
    hosting, outcome = run.hosting, run.outcome
    if hosting.tally[LEFT] == hosting.tally[BUDGET]:
        outcome[:] = 0.0
    for node in range(hosting.pods.size):
        count = 0
        for pod in range(hosting.where.size):
            if hosting.where[pod] == node:
                run.members[count] = pod
                count += 1
        if count:
            _serve(stream, run, node, count)
    run.clock[c.NOW] += 1
    foresee(stream, run)
    new_window(hosting)
    return -(
        run.level[c.W_OVER] * outcome[c.OVER]
        + run.level[c.W_UNDER] * outcome[c.UNDER]
        + run.level[c.W_UNMET] * outcome[c.UNMET]
    )


@compiled
def _serve(stream: RequestStream, run: WindowsColumns, node: int, count: int) -> None:
    """The window on one node, step by step; its pods are the first `count` members."""
    pods, now, group = stream.start.size, run.clock[c.NOW], run.option[c.GROUP]
    longest = 0
    for k in range(count):
        place = now * pods + run.members[k]
        longest = max(longest, stream.first[place + 1] - stream.first[place])
        for resource in range(2):
            run.held[k, resource] = stream.standing[run.members[k], resource]
    for step in range((longest + group - 1) // group):
        requests = 0
        for k in range(count):
            place = now * pods + run.members[k]
            begin = stream.first[place] + step * group
            end = min(begin + group, stream.first[place + 1])
            for resource in range(2):
                asked = 0.0
                for request in range(begin, end):
                    asked += stream.amount[request, resource]
                if run.option[c.CUMULATIVE]:
                    run.held[k, resource] += asked
                else:
                    run.held[k, resource] = stream.standing[run.members[k], resource] + asked
            requests += max(0, end - begin)
        _judge(stream, run, node, count, (step, requests))


@compiled
def _judge(stream: RequestStream, run: WindowsColumns, node: int, count: int, at: tuple[int, int]) -> None:
    """One step of a node: at = (step, requests that it brings)."""
    capacity, outcome = run.hosting.capacity[node], run.outcome
    cpu, mem = 0.0, 0.0
    for k in range(count):
        cpu += run.held[k, 0]
        mem += run.held[k, 1]
    threshold = run.hosting.threshold[0] * (1.0 + _ROUNDING)
    outcome[c.STEPS] += 1.0
    outcome[c.REQUESTS] += at[1]
    if cpu > threshold * capacity[0] or mem > threshold * capacity[1]:
        outcome[c.OVER] += 1.0
        outcome[c.OVER_REQUESTS] += at[1]
    if cpu < run.level[c.LOW] * capacity[0] and mem < run.level[c.LOW] * capacity[1]:
        outcome[c.UNDER] += 1.0
    if cpu <= capacity[0] * (1.0 + _ROUNDING) and mem <= capacity[1] * (1.0 + _ROUNDING):
        return
    share(run.held[:count], capacity, run.option[c.SHARING], run.assigned[:count], run.order[:count])
    for k in range(count):
        for resource in range(2):
            if run.assigned[k, resource] < run.held[k, resource] * (1.0 - _ROUNDING):
                outcome[c.UNMET] += 1.0
    outcome[c.HIT] += _hit(stream, run, node, count, at[0])


@compiled
def _hit(stream: RequestStream, run: WindowsColumns, node: int, count: int, step: int) -> int:
    """Requests of this step that do not get all they ask for, the smallest being satisfied first."""
    pods, now, group = stream.start.size, run.clock[c.NOW], run.option[c.GROUP]
    capacity = run.hosting.capacity[node]
    asked = np.empty((count * group, 2))
    fresh, cpu, mem = 0, capacity[0], capacity[1]
    for k in range(count):
        cpu -= run.held[k, 0]
        mem -= run.held[k, 1]
        place = now * pods + run.members[k]
        begin = stream.first[place] + step * group
        for request in range(begin, min(begin + group, stream.first[place + 1])):
            asked[fresh] = stream.amount[request]
            # What pods hold counts this step's requests already: they compete for what is left without them.
            cpu += asked[fresh, 0]
            mem += asked[fresh, 1]
            fresh += 1
    cpu, mem = max(cpu, 0.0), max(mem, 0.0)
    order = np.empty(fresh, dtype=np.int64)
    smallest_first(asked[:fresh], capacity, order)
    short = 0
    for place in range(fresh):
        k = order[place]
        got_cpu, got_mem = min(asked[k, 0], cpu), min(asked[k, 1], mem)
        cpu -= got_cpu
        mem -= got_mem
        if got_cpu < asked[k, 0] * (1.0 - _ROUNDING) or got_mem < asked[k, 1] * (1.0 - _ROUNDING):
            short += 1
    return short
