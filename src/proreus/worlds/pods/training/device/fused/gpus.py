"""Features that look at GPUs, of a block of nodes: `device.fragments` and the GPU part of `device.features`.

BN nodes of the block, GP devices of a node, rounded up; those that there are not hold nothing.
"""

from __future__ import annotations

import triton
import triton.language as tl

from proreus.worlds.pods.encoding import pair as p

_FRAGMENT_DROP, _FGD_SCORE = tl.constexpr(p.FRAGMENT_DROP), tl.constexpr(p.FGD_SCORE)
_DROP_CPU, _DROP_DEVICES = tl.constexpr(p.DROP_CPU), tl.constexpr(p.DROP_DEVICES)
_DROP_ROOM, _USABLE_CHANGE = tl.constexpr(p.DROP_ROOM), tl.constexpr(p.USABLE_CHANGE)
_STRANDED_CHANGE, _GPU_LEFT = tl.constexpr(p.STRANDED_CHANGE), tl.constexpr(p.GPU_LEFT)
_GPU_LEFT_SHARE = tl.constexpr(p.GPU_LEFT_SHARE)
_CPU_GPU_IMBALANCE = tl.constexpr(p.CPU_GPU_IMBALANCE)
_GPU_COUNT, _MODEL_SCARCITY = tl.constexpr(p.GPU_COUNT), tl.constexpr(p.MODEL_SCARCITY)
_OPENS_DEVICES, _DEVICE_LEFT = tl.constexpr(p.OPENS_DEVICES), tl.constexpr(p.DEVICE_LEFT)
_EXACT_FIT, _FREE_DEVICES = tl.constexpr(p.EXACT_FIT), tl.constexpr(p.FREE_DEVICES)


@triton.jit
def gpu_features(w, seen, s, e, c, n, legal):
    """Fill the features and the devices of a block; how fragmented its nodes are now, their sum."""
    is_node = n < s.nodes
    at_node = e * s.nodes + n
    d = tl.arange(0, s.wide_gpus)
    at_device = at_node[:, None] * s.gpus + d[None, :]
    left = tl.load(w.nodes.left + at_device, is_node[:, None] & (d[None, :] < s.gpus), other=0)  # [BN, GP]
    num, milli = tl.load(w.classes.gpu_num + c), tl.load(w.classes.gpu_milli + c)
    model = tl.load(w.of.model + at_node, is_node, other=0)
    count = tl.load(w.of.gpu_count + at_node, is_node, other=0)
    largest, ratio = tl.load(w.of.scale + e * 3 + 1), tl.load(w.of.scale + e * 3 + 2)
    cpu_before = tl.load(w.nodes.free + at_node * s.resources, is_node, other=0)
    cpu_after = cpu_before - tl.load(w.classes.request + c * s.resources)
    chosen = _devices_for(w, s, c, left, model, cpu_after)
    left_after = left - chosen.to(tl.int64) * milli
    idle_before = tl.sum(left, 1)
    idle_after = idle_before - num * milli
    before, cpu_then, devices_then, room_then = _fragments(w, s, model, cpu_before, left)
    after, cpu_now, devices_now, room_now = _fragments(w, s, model, cpu_after, left_after)
    device_left = tl.sum(left_after * chosen.to(tl.int64), 1)
    real = d[None, :] < count[:, None]
    untouched = tl.sum(((left_after == 1000) & real).to(tl.int64), 1)
    opened = tl.sum((chosen & (left == 1000)).to(tl.int64), 1)
    drop = (before - after) / 1000.0
    score = tl.floor(100.0 / (1.0 + tl.exp(-(before - after) / 1000.0))) / 100.0
    by = tl.where(ratio > 0.0, ratio, 1.0)
    stranded_after = tl.maximum(idle_after.to(tl.float64) - cpu_after.to(tl.float64) / by, 0.0)
    stranded_before = tl.maximum(idle_before.to(tl.float64) - cpu_before.to(tl.float64) / by, 0.0)
    stranded = tl.where(ratio > 0.0, (stranded_after - stranded_before) / 1000.0, 0.0)
    usable = ((idle_after - after) - (idle_before - before)) / 1000.0
    share = idle_after.to(tl.float64) / (1000.0 * tl.maximum(count, 1).to(tl.float64))
    all_cpu = tl.load(w.of.allocatable + at_node * s.resources, is_node, other=1)
    cpu_share = cpu_after.to(tl.float64) / tl.maximum(all_cpu, 1).to(tl.float64)
    scarcity = tl.load(w.typical.scarcity + model)
    exact = tl.where((num > 0) & (device_left == 0), 1.0, drop * 0.0)
    has = legal & (count > 0)
    at_row = (e * s.nodes + n) * s.features
    _put(seen, at_row, _FRAGMENT_DROP, drop, has)
    _put(seen, at_row, _FGD_SCORE, score, has)
    _put(seen, at_row, _DROP_CPU, (cpu_then - cpu_now) / 1000.0, has)
    _put(seen, at_row, _DROP_DEVICES, (devices_then - devices_now) / 1000.0, has)
    _put(seen, at_row, _DROP_ROOM, (room_then - room_now) / 1000.0, has)
    _put(seen, at_row, _USABLE_CHANGE, usable, has)
    _put(seen, at_row, _STRANDED_CHANGE, stranded, has)
    _put(seen, at_row, _GPU_LEFT, idle_after / largest, has)
    _put(seen, at_row, _GPU_LEFT_SHARE, share, has)
    _put(seen, at_row, _CPU_GPU_IMBALANCE, tl.abs(cpu_share - share), has)
    _put(seen, at_row, _GPU_COUNT, 1000.0 * count.to(tl.float64) / largest, has)
    _put(seen, at_row, _MODEL_SCARCITY, scarcity, has)
    _put(seen, at_row, _OPENS_DEVICES, opened.to(tl.float64) / tl.maximum(num, 1).to(tl.float64), has)
    _put(seen, at_row, _DEVICE_LEFT, device_left.to(tl.float64) / 1000.0, has)
    _put(seen, at_row, _EXACT_FIT, exact, has)
    _put(seen, at_row, _FREE_DEVICES, 1000.0 * untouched.to(tl.float64) / largest, has)
    weight = tl.full((s.wide_gpus,), 1, tl.int64) << d
    tl.store(seen.devices + at_node, tl.sum(chosen.to(tl.int64) * weight[None, :], 1), is_node)
    return tl.sum(tl.where(count > 0, before, 0.0), 0)


@triton.jit
def _put(seen, at_row, place: tl.constexpr, feature, has):
    tl.store(seen.rows + at_row + place, feature.to(tl.float32), has)


@triton.jit
def _passed(w, s, cpu):
    """int[BN]: how many of the thresholds so much CPU is enough for."""
    low = tl.zeros_like(cpu)
    high = low + s.thresholds
    for _ in tl.static_range(s.halvings):
        open_ = low < high
        middle = (low + high) // 2
        enough = tl.load(w.typical.threshold + middle, open_, other=0) <= cpu
        low = tl.where(open_ & enough, middle + 1, low)
        high = tl.where(open_ & ~enough, middle, high)
    return low


@triton.jit
def _fragments(w, s, model, cpu, left):
    """(whole, for lack of CPU, of enough devices, of room on each): float64[BN] each; left: [BN, GP]."""
    idle = tl.sum(left, 1)
    passed = _passed(w, s, cpu)
    is_device = tl.arange(0, s.wide_gpus)[None, :] < s.gpus
    hosted = tl.zeros_like(cpu).to(tl.float64)
    for_cpu, for_room, for_devices = hosted, hosted, hosted
    for q in range(0, s.groups):
        group = model * s.groups + q
        num, milli = tl.load(w.typical.num + group), tl.load(w.typical.milli + group)
        whole = tl.load(w.typical.whole + group)
        mass = tl.load(w.typical.mass + group * (s.thresholds + 1) + passed)
        small = (left < milli[:, None]) & is_device
        fits = s.gpus - tl.sum(small.to(tl.int64), 1) >= num
        too_small = tl.sum(tl.where(small, left, 0), 1)
        hosted += tl.where(fits, mass, 0.0)
        for_cpu += tl.where(fits, (whole - mass) * idle, 0.0)
        for_room += tl.where(fits, mass * too_small, 0.0)
        for_devices += tl.where(fits, 0.0, whole * idle)
    return idle * (1.0 - hosted) + for_room, for_cpu, for_devices, for_room


@triton.jit
def _fragments_by_device(w, s, model, cpu, left, milli):
    """float64[BN, GP]: the whole if `milli` were taken of that device."""
    idle = (tl.sum(left, 1) - milli)[:, None]
    rest = left - milli
    passed = _passed(w, s, cpu)
    is_device = tl.arange(0, s.wide_gpus)[None, :] < s.gpus
    hosted = tl.zeros_like(left).to(tl.float64)
    unusable = hosted
    for q in range(0, s.groups):
        group = model * s.groups + q
        num, need = tl.load(w.typical.num + group)[:, None], tl.load(w.typical.milli + group)[:, None]
        mass = tl.load(w.typical.mass + group * (s.thresholds + 1) + passed)[:, None]
        small = (left < need) & is_device
        small_after = rest < need
        held = tl.where(small, left, 0)
        # All devices but this one, and this one as it would be.
        others = s.gpus - tl.sum(small.to(tl.int64), 1)[:, None]
        fitting = others + small.to(tl.int64) - small_after.to(tl.int64)
        too_small = tl.sum(held, 1)[:, None] - held + tl.where(small_after, rest, 0)
        hosting = tl.where(fitting >= num, mass, 0.0)
        hosted += hosting
        unusable += hosting * too_small
    return tl.where(idle == 0, 0.0, idle * (1.0 - hosted) + unusable)


@triton.jit
def _devices_for(w, s, c, left, model, cpu_after):
    """bool[BN, GP]: for a share the least fragmenting device, else the tightest; none where room lacks."""
    num, milli = tl.load(w.classes.gpu_num + c), tl.load(w.classes.gpu_milli + c)
    d = tl.arange(0, s.wide_gpus)[None, :]
    fits = (left >= tl.maximum(milli, 1)) & (d < s.gpus)
    has_room = (tl.sum(fits.to(tl.int64), 1) >= num) & (num > 0)
    key = tl.where(fits, left * s.gpus + d, 1 << 40)
    before = tl.zeros_like(left)
    for other in tl.static_range(s.gpus):
        of_other = tl.sum(tl.where(d == other, key, 0), 1)[:, None]
        before += (of_other < key).to(tl.int64)
    chosen = fits & (before < num)
    if (num == 1) & (milli < 1000):
        whole = _fragments_by_device(w, s, model, cpu_after, left, milli)
        least = tl.full((s.node_block,), float("inf"), tl.float64)
        best = tl.zeros_like(cpu_after) - 1
        for device in tl.static_range(s.gpus):
            here = d == device
            of_device = tl.sum(tl.where(here, whole, 0.0), 1)
            better = (tl.sum((fits & here).to(tl.int32), 1) > 0) & (of_device < least - 1e-9)
            least = tl.where(better, of_device, least)
            best = tl.where(better, device, best)
        chosen = d == best[:, None]
    return chosen & has_room[:, None]
