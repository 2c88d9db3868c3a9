"""Features that look at GPUs, of a block of nodes: `device.fragments` and the GPU part of `device.features`.

BN nodes of the block, GP devices of a node, rounded up; those that there are not hold nothing.
"""

from __future__ import annotations

import triton
import triton.language as tl

from proreus.model.pod import GPU_WHOLE
from proreus.worlds.pods.encoding import pair as p

GPU_FEATURES = (
    p.FRAGMENT_DROP,
    p.FGD_SCORE,
    p.DROP_CPU,
    p.DROP_DEVICES,
    p.DROP_ROOM,
    p.USABLE_CHANGE,
    p.STRANDED_CHANGE,
    p.GPU_LEFT,
    p.GPU_LEFT_SHARE,
    p.CPU_GPU_IMBALANCE,
    p.GPU_COUNT,
    p.MODEL_SCARCITY,
    p.OPENS_DEVICES,
    p.DEVICE_LEFT,
    p.EXACT_FIT,
    p.FREE_DEVICES,
)
"""Places of what `gpu_features` returns."""
_GPU_WHOLE = tl.constexpr(GPU_WHOLE)


@triton.jit
def gpu_features(w, s, e, c, n):
    """(features float64[BN], in the order of their places; devices taken, bit masks; fragmentation now).

    All mean nothing on nodes without GPUs.
    """
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
    untouched = tl.sum(((left_after == _GPU_WHOLE) & real).to(tl.int64), 1)
    opened = tl.sum((chosen & (left == _GPU_WHOLE)).to(tl.int64), 1)
    drop = (before - after) / 1000.0
    by = tl.where(ratio > 0.0, ratio, 1.0)
    stranded_after = tl.maximum(idle_after.to(tl.float64) - cpu_after.to(tl.float64) / by, 0.0)
    stranded_before = tl.maximum(idle_before.to(tl.float64) - cpu_before.to(tl.float64) / by, 0.0)
    share = idle_after.to(tl.float64) / (1000.0 * tl.maximum(count, 1).to(tl.float64))
    all_cpu = tl.load(w.of.allocatable + at_node * s.resources, is_node, other=1)
    cpu_share = cpu_after.to(tl.float64) / tl.maximum(all_cpu, 1).to(tl.float64)
    features = (
        drop,
        tl.floor(100.0 / (1.0 + tl.exp(-(before - after) / 1000.0))) / 100.0,
        (cpu_then - cpu_now) / 1000.0,
        (devices_then - devices_now) / 1000.0,
        (room_then - room_now) / 1000.0,
        ((idle_after - after) - (idle_before - before)) / 1000.0,
        tl.where(ratio > 0.0, (stranded_after - stranded_before) / 1000.0, 0.0),
        idle_after.to(tl.float64) / largest,
        share,
        tl.abs(cpu_share - share),
        1000.0 * count.to(tl.float64) / largest,
        tl.load(w.typical.scarcity + model),
        opened.to(tl.float64) / tl.maximum(num, 1).to(tl.float64),
        device_left.to(tl.float64) / 1000.0,
        tl.where((num > 0) & (device_left == 0), 1.0, drop * 0.0),
        1000.0 * untouched.to(tl.float64) / largest,
    )
    weight = tl.full((s.wide_gpus,), 1, tl.int64) << d
    devices = tl.sum(chosen.to(tl.int64) * weight[None, :], 1)
    return features, devices, tl.where(count > 0, before, 0.0)


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
    if (num == 1) & (milli < _GPU_WHOLE):
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
