"""Small kernels against the standard library: heap, random numbers, devices, fragmentation."""

from __future__ import annotations

import heapq
from collections import Counter

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from proreus.kernels.rng import next_below, seeded
from proreus.kernels.structs import pack
from proreus.model.pod import GpuRequest, Pod
from proreus.worlds.pods.simulation.columns import Heap
from proreus.worlds.pods.simulation.heap import heap_drop, heap_pop, heap_push
from proreus.worlds.pods.state.demand import demand_of
from proreus.worlds.pods.state.devices import devices_fit, tightest_devices
from proreus.worlds.pods.state.fragmentation import node_fragment, typical_demand
from tests.oracles.kube_builders import node, pod
from tests.oracles.packing import device_mask, fragmentation, tightest, typical_pods

USUAL = settings(max_examples=150)
SIZE = 12


def new_heap() -> Heap:
    """An empty heap for pods 0..SIZE-1."""
    return pack(
        Heap(
            first=np.zeros(SIZE),
            second=np.zeros(SIZE),
            tie=np.zeros(SIZE, dtype=np.int64),
            order=np.zeros(SIZE, dtype=np.int64),
            slot=np.full(SIZE, -1, dtype=np.int64),
            size=np.zeros(1, dtype=np.int64),
        )
    )


@USUAL
@given(
    st.lists(
        st.tuples(
            st.sampled_from(("push", "push", "pop", "drop")),
            st.integers(0, SIZE - 1),
            st.sampled_from((-1.0, 0.0, 2.5)),
            st.sampled_from((0.0, 1.0)),
        ),
        max_size=80,
    )
)
def test_the_heap_is_heapq(commands: list[tuple[str, int, float, float]]) -> None:
    heap = new_heap()
    entries: list[tuple[float, float, int, int]] = []
    for tie, (command, which, first, second) in enumerate(commands):
        inside = {entry[3] for entry in entries}
        if command == "push" and which not in inside:
            heap_push(heap, which, first, second, tie)
            heapq.heappush(entries, (first, second, tie, which))
        elif command == "pop" and entries:
            assert heap_pop(heap) == heapq.heappop(entries)[3]
        elif command == "drop":
            heap_drop(heap, which)
            entries = [entry for entry in entries if entry[3] != which]
            heapq.heapify(entries)
        assert int(heap.size[0]) == len(entries)
        slots = {p: int(slot) for p, slot in enumerate(heap.slot) if slot >= 0}
        assert set(slots) == {entry[3] for entry in entries}
        assert all(int(heap.order[slot]) == p for p, slot in slots.items())
    drained = [heap_pop(heap) for _ in range(len(entries))]
    assert drained == [heapq.heappop(entries)[3] for _ in range(len(entries))]


def splitmix64(seed: int, count: int) -> list[int]:
    """The first `count` numbers of the published generator."""
    numbers, state, mask = [], seed % 2**64, 2**64 - 1
    for _ in range(count):
        state = (state + 0x9E3779B97F4A7C15) & mask
        z = state
        z = ((z ^ (z >> 30)) * 0xBF58476D1CE4E5B9) & mask
        z = ((z ^ (z >> 27)) * 0x94D049BB133111EB) & mask
        numbers.append(z ^ (z >> 31))
    return numbers


def test_the_reference_generator_gives_the_published_numbers() -> None:
    """The test vector of the reference C code for seed 1234567."""
    assert splitmix64(1234567, 3) == [6457827717110365317, 3203168211198807973, 9817491932198370423]


@USUAL
@given(seed=st.integers(-(2**70), 2**70), bounds=st.lists(st.integers(1, 2**40), min_size=1, max_size=20))
def test_random_numbers_equal_the_reference(seed: int, bounds: list[int]) -> None:
    rng = seeded(seed)
    expected = [(z >> 1) % bound for z, bound in zip(splitmix64(seed, len(bounds)), bounds, strict=True)]
    assert [int(next_below(rng, bound)) for bound in bounds] == expected


def test_random_numbers_are_spread_evenly() -> None:
    rng = seeded(7)
    counts = Counter(int(next_below(rng, 5)) for _ in range(5000))
    assert set(counts) == set(range(5))
    assert all(abs(times - 1000) < 150 for times in counts.values())  # five standard deviations


shares = st.lists(st.sampled_from((0, 300, 500, 700, 1000)), min_size=1, max_size=8)
requests = st.tuples(st.integers(1, 4), st.sampled_from((300, 500, 1000)))


@USUAL
@given(left=shares, request=requests, hidden=st.integers(0, 3))
def test_devices_equal_the_obvious_choice(left: list[int], request: tuple[int, int], hidden: int) -> None:
    """Devices behind the node's count (the rows are padded) do not exist."""
    count, milli = request
    padded = np.array([*left, *[1000] * hidden], dtype=np.int64)
    fitting = sum(share >= milli for share in left)
    assert devices_fit(padded, len(left), count, milli) is (fitting >= count)
    if fitting >= count:
        expected = device_mask(tightest(left, GpuRequest(count, milli)))
        assert tightest_devices(padded, len(left), count, milli) == expected


def test_no_devices_asked_for_fit_everywhere() -> None:
    assert devices_fit(np.zeros(1, dtype=np.int64), 0, 0, 0)
    assert tightest_devices(np.zeros(1, dtype=np.int64), 0, 0, 0) == 0


menu = st.lists(
    st.builds(
        lambda cpu, gpu, models: pod(cpu=cpu, gpu=gpu, gpu_models=models if gpu[0] else ()),
        st.sampled_from((0, 500, 2000, 8000)),
        st.sampled_from(((0, 0), (1, 300), (1, 500), (1, 1000), (2, 1000), (2, 500))),
        st.sampled_from(((), ("A",), ("A", "B"), ("C",))),
    ),
    min_size=1,
    max_size=30,
)


@USUAL
@given(
    pods=menu, left=shares, cpu_free=st.sampled_from((0, 499, 500, 2000, 9000)), model=st.sampled_from("AB")
)
def test_fragmentation_equals_the_sum_over_typical_pods(
    pods: list[Pod], left: list[int], cpu_free: int, model: str
) -> None:
    typical = pack(typical_demand(demand_of(Counter(each.spec for each in pods).items()), ["A", "B"]))
    machine = node("n", gpus=len(left), gpu_model=model)
    fragment = node_fragment(typical, "AB".index(model), cpu_free, np.array([*left, 1000]), len(left))
    expected = float(fragmentation(machine, cpu_free, left, typical_pods(pods)))
    assert fragment == pytest.approx(expected, rel=1e-12, abs=1e-9)
