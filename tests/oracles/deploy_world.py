"""The world of windows once more in plain Python: lists, no kernels, one window at a time."""

from __future__ import annotations

from collections.abc import Sequence

Amount = tuple[float, float]
_EPS = 1e-9


def smallest_first(requests: Sequence[Amount], capacity: Amount, left: Amount) -> list[Amount]:
    """What each request gets of `left`; sizes are shares of `capacity`."""
    order = sorted(
        range(len(requests)),
        key=lambda k: requests[k][0] / capacity[0] + requests[k][1] / capacity[1],
    )
    cpu, mem = left
    given: list[Amount] = [(0.0, 0.0)] * len(requests)
    for k in order:
        got = (min(requests[k][0], cpu), min(requests[k][1], mem))
        cpu, mem = cpu - got[0], mem - got[1]
        given[k] = got
    return given


def shared(requests: Sequence[Amount], capacity: Amount, sharing: str) -> list[Amount]:
    """What each pod of a node gets."""
    given = smallest_first(requests, capacity, capacity)
    if sharing == "smallest_first":
        return given
    asked = sum(cpu for cpu, _ in requests)
    return [
        (capacity[0] * request[0] / asked if asked else 0.0, got[1])
        for request, got in zip(requests, given, strict=True)
    ]


def short(given: float, asked: float) -> bool:
    """Whether less was given than asked."""
    return given < asked * (1 - _EPS)


def serve(
    pods: Sequence[tuple[Amount, Sequence[Amount]]],
    capacity: Amount,
    options: dict[str, float | str],
) -> dict[str, int]:
    """One window of one node; pods = (standing request, requests in order)."""
    parallel, group = options["service"] == "parallel", int(options["group"])
    size = group if parallel else 1
    steps = max((-(-len(requests) // size) for _, requests in pods), default=0)
    tally = dict.fromkeys(("steps", "over", "under", "requests", "over_requests", "hit", "unmet"), 0)
    threshold, low = float(options["threshold"]), float(options["low"])
    for step in range(steps):
        fresh = [request for _, requests in pods for request in requests[step * size : (step + 1) * size]]
        held = []
        for standing, requests in pods:
            counted = requests[: (step + 1) * size] if parallel else requests[step : step + 1]
            held.append((standing[0] + sum(r[0] for r in counted), standing[1] + sum(r[1] for r in counted)))
        total = (sum(h[0] for h in held), sum(h[1] for h in held))
        tally["steps"] += 1
        tally["requests"] += len(fresh)
        if any(total[k] > threshold * (1 + _EPS) * capacity[k] for k in range(2)):
            tally["over"] += 1
            tally["over_requests"] += len(fresh)
        tally["under"] += all(total[k] < low * capacity[k] for k in range(2))
        if all(total[k] <= capacity[k] * (1 + _EPS) for k in range(2)):
            continue
        for given, asked in zip(shared(held, capacity, str(options["sharing"])), held, strict=True):
            tally["unmet"] += sum(short(given[k], asked[k]) for k in range(2))
        without = [max(capacity[k] - total[k] + sum(r[k] for r in fresh), 0.0) for k in range(2)]
        for given, asked in zip(
            smallest_first(fresh, capacity, (without[0], without[1])), fresh, strict=True
        ):
            tally["hit"] += short(given[0], asked[0]) or short(given[1], asked[1])
    return tally
