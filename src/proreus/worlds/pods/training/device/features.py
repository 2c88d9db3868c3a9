"""Rows and contexts of the choices at hand: `encoding.pair` and `encoding.context` over tensors."""

from __future__ import annotations

import torch
from torch import Tensor

from proreus.model.pod import GPU_WHOLE
from proreus.model.resources import COL_DISK, COL_NETWORK
from proreus.worlds.pods.encoding import pair as p
from proreus.worlds.pods.encoding.context import (
    ALL_CPU,
    ALL_GPU,
    ALL_MEMORY,
    CONTEXT_FEATURES,
    CPU_IN_USE,
    FRAGMENTED,
    GPU_IN_USE,
    LEGAL_NODES,
    MEMORY_IN_USE,
    NO_GPUS,
    PREEMPTING,
    WAITING,
)
from proreus.worlds.pods.training.device.columns import LaneState
from proreus.worlds.pods.training.device.filters import has_devices, tightest_devices
from proreus.worlds.pods.training.device.fragments import Fragments, fragments, fragments_by_device
from proreus.worlds.pods.training.device.tables import STATIC_CONTEXT, Tables


def pair_features(tables: Tables, work: LaneState, c: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    """(float32[E, N, F], device masks [E, N], fragmentation now float64[E]) of class c, [E], on all nodes."""
    columns, devices, fragmented = pair_columns(tables, work, c)
    return torch.stack(columns, 2).float(), devices, fragmented


def pair_columns(tables: Tables, work: LaneState, c: Tensor) -> tuple[list[Tensor], Tensor, Tensor]:
    """The same with the features in double precision: [F] of float64[E, N]."""
    nodes, classes, lanes = work.nodes, tables.classes, tables.lanes
    allocatable, request = lanes.allocatable, classes.request[c][:, None]
    after = nodes.free - request
    largest, _, _ = lanes.scale.unbind(1)
    whole = allocatable[:, :, :2].clamp(min=1).double()
    share = after[:, :, :2].double() / whole
    cpu, memory = share.unbind(2)
    unscored = (allocatable[:, :, :2] - nodes.scored - classes.scoring[c][:, None]).double() / whole
    bandwidth = torch.ones_like(cpu)
    for r in (COL_NETWORK, COL_DISK):
        asked = (request[:, :, r] > 0) & (allocatable[:, :, r] > 0)
        rest = after[:, :, r].double() / allocatable[:, :, r].clamp(min=1).double()
        bandwidth = torch.where(asked, torch.minimum(bandwidth, rest), bandwidth)
    out: list[Tensor] = [torch.zeros_like(cpu)] * len(p.PAIR_FEATURES)
    out[p.CPU_LEFT] = after[:, :, 0].double() / largest[:, None]
    out[p.CPU_LEFT_SHARE] = cpu
    out[p.MEMORY_LEFT_SHARE] = memory
    out[p.CPU_MEMORY_IMBALANCE] = (cpu - memory).abs()
    out[p.CPU_CAPACITY] = allocatable[:, :, 0].double() / largest[:, None]
    out[p.EMPTY_NODE] = (nodes.pods == 0).double()
    out[p.LOT] = tables.lot.expand_as(cpu)
    out[p.ORDER] = lanes.order
    out[p.LEAST_ALLOCATED] = 0.5 * (unscored[:, :, 0] + unscored[:, :, 1])
    out[p.BANDWIDTH_LEFT] = bandwidth
    out[p.MEASURED_LOAD] = (nodes.load + classes.load_guess[c][:, None]) / whole[:, :, 0]
    out[p.SPEED] = lanes.pace[:, :, 0]
    out[p.FGD_SCORE] = torch.full_like(cpu, 0.5)
    devices, fragmented = torch.zeros_like(nodes.pods), torch.zeros_like(largest)
    if tables.gpus:
        devices, fragmented = _gpu_features(tables, work, c, out)
    return out, devices, fragmented


def _gpu_features(tables: Tables, work: LaneState, c: Tensor, out: list[Tensor]) -> tuple[Tensor, Tensor]:
    """The features that look at GPUs; zero on nodes without any, as they stand in `out`."""
    nodes, lanes, typical = work.nodes, tables.lanes, tables.typical
    num, milli = tables.classes.gpu_num[c][:, None], tables.classes.gpu_milli[c][:, None]  # [E, 1]
    left, model, count = nodes.left, lanes.model, lanes.gpu_count
    _, largest, ratio = (column[:, None] for column in lanes.scale.unbind(1))
    cpu_before = nodes.free[:, :, 0]
    cpu_after = cpu_before - tables.classes.request[c][:, None, 0]
    idle_before = left.sum(-1)
    idle_after = idle_before - num * milli
    chosen = _devices_for(tables, work, c, cpu_after)
    left_after = left - chosen * milli[..., None]
    device_left = (left_after * chosen).sum(-1)
    states = torch.stack([cpu_before, cpu_after]), torch.stack([left, left_after])
    both = fragments(typical, model.expand_as(states[0]), *states)
    before, after = (Fragments(*(column[k] for column in both)) for k in range(2))
    real = torch.arange(tables.gpus, device=c.device) < count[..., None]
    untouched = ((left_after == GPU_WHOLE) & real).sum(-1)
    opened = (chosen & (left == GPU_WHOLE)).sum(-1)
    drop = (before.whole - after.whole) / 1000.0
    stranded = [
        (idle - cpu / torch.where(ratio > 0.0, ratio, 1.0)).clamp(min=0.0)
        for idle, cpu in ((idle_after, cpu_after), (idle_before, cpu_before))
    ]
    share = idle_after / (1000.0 * count.clamp(min=1).double())
    there = {
        p.FRAGMENT_DROP: drop,
        p.FGD_SCORE: torch.floor(100.0 / (1.0 + torch.exp(-(before.whole - after.whole) / 1000.0))) / 100.0,
        p.DROP_CPU: (before.for_cpu - after.for_cpu) / 1000.0,
        p.DROP_DEVICES: (before.for_devices - after.for_devices) / 1000.0,
        p.DROP_ROOM: (before.for_room - after.for_room) / 1000.0,
        p.USABLE_CHANGE: ((idle_after - after.whole) - (idle_before - before.whole)) / 1000.0,
        p.STRANDED_CHANGE: torch.where(ratio > 0.0, (stranded[0] - stranded[1]) / 1000.0, 0.0),
        p.GPU_LEFT: idle_after / largest,
        p.GPU_LEFT_SHARE: share,
        p.CPU_GPU_IMBALANCE: (out[p.CPU_LEFT_SHARE] - share).abs(),
        p.GPU_COUNT: 1000.0 * count.double() / largest,
        p.MODEL_SCARCITY: typical.scarcity[model],
        p.OPENS_DEVICES: opened / num.clamp(min=1).double(),
        p.DEVICE_LEFT: device_left.double() / 1000.0,
        p.EXACT_FIT: ((num > 0) & (device_left == 0)).double(),
        p.FREE_DEVICES: 1000.0 * untouched.double() / largest,
    }
    for place, feature in there.items():
        out[place] = torch.where(count > 0, feature.double(), out[place])
    weights = 1 << torch.arange(tables.gpus, device=c.device)
    return (chosen * weights).sum(-1), torch.where(count > 0, before.whole, 0.0).sum(1)


def _devices_for(tables: Tables, work: LaneState, c: Tensor, cpu_after: Tensor) -> Tensor:
    """bool[E, N, G]: for a share the least fragmenting device, else the tightest; none where room lacks."""
    left = work.nodes.left
    num, milli = tables.classes.gpu_num[c][:, None], tables.classes.gpu_milli[c][:, None]
    fits = (left >= milli.clamp(min=1)[..., None]) & (num > 0)[..., None]
    shares = (num == 1) & (milli < GPU_WHOLE)
    whole = fragments_by_device(
        tables.typical, tables.lanes.model, cpu_after, left, milli.expand(left.shape[:2])
    )
    least = torch.full_like(whole[..., 0], torch.inf)
    best = torch.full_like(cpu_after, -1)
    for d in range(tables.gpus):
        better = fits[..., d] & (whole[..., d] < least - 1e-9)
        least = torch.where(better, whole[..., d], least)
        best = torch.where(better, d, best)
    places = torch.arange(tables.gpus, device=c.device)
    of_share = places == best[..., None]
    chosen = torch.where(shares[..., None], of_share, tightest_devices(left, num, milli))
    return chosen & (has_devices(tables, left, c[:, None]) & (num > 0))[..., None]


def context_features(
    tables: Tables, work: LaneState, c: Tensor, fragmented: Tensor, rows: tuple[Tensor, Tensor]
) -> Tensor:
    """float32[E, G]; rows: how many there are to choose from, [E], and whether they preempt."""
    scale, nodes = tables.lanes.context_scale, tables.lanes.nodes
    free = work.nodes.free[:, :, :2].sum(1).double()
    gpu = work.nodes.left.sum((1, 2)).double()
    count, preempts = rows
    moving: list[Tensor] = [torch.zeros_like(fragmented)] * (len(CONTEXT_FEATURES) - STATIC_CONTEXT)
    moving[CPU_IN_USE - STATIC_CONTEXT] = 1.0 - free[:, 0] / scale[:, ALL_CPU]
    moving[MEMORY_IN_USE - STATIC_CONTEXT] = 1.0 - free[:, 1] / scale[:, ALL_MEMORY]
    moving[GPU_IN_USE - STATIC_CONTEXT] = torch.where(
        scale[:, NO_GPUS] == 0.0, 1.0 - gpu / scale[:, ALL_GPU], 0.0
    )
    moving[FRAGMENTED - STATIC_CONTEXT] = fragmented / scale[:, ALL_GPU]
    moving[WAITING - STATIC_CONTEXT] = torch.log1p(work.lanes.waiting / nodes.double())
    moving[LEGAL_NODES - STATIC_CONTEXT] = count / nodes.double()
    moving[PREEMPTING - STATIC_CONTEXT] = preempts.double()
    return torch.cat([tables.classes.context[c], torch.stack(moving, 1).float()], 1)
