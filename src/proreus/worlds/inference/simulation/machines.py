"""The instances that a scenario begins with, as flags, presets and files of clusters name them."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass, fields, replace
from typing import Any, Literal

from proreus.model.errors import UsageError
from proreus.worlds.inference.datasets.cluster_file import ClusterEntry
from proreus.worlds.inference.model.cluster import (
    ROLES,
    ClusterSpec,
    Engine,
    Group,
    InstanceKind,
    Role,
    Scheduler,
)
from proreus.worlds.inference.model.hardware import Gpu, gpu
from proreus.worlds.inference.model.llm import language_model
from proreus.worlds.inference.simulation.cluster import TWO_POOLS

TimedBy = Literal["roofline", "table", "profile"]


@dataclass(frozen=True)
class Further:
    """Instances of another kind: other GPUs for the same model, or another model."""

    model: str
    gpu: str
    gpus: int
    prompt: int = 0
    token: int = 0
    mixed: int = 0
    engine: Engine = "chunked"
    batch_limit: int = 256
    token_limit: int = 2_048
    share: float = 1.0
    """Of requests that are for its model, where that is another one; the first model has 1."""


@dataclass(frozen=True)
class InitialInstances:
    """The instances that a run begins with."""

    model: str = "llama3-70b"
    gpu: str = "h100-80gb"
    gpus: int = 4
    engine: Engine = "chunked"
    scheduler: Scheduler = "mixed_pool"
    prompt: int = 3
    token: int = 3
    mixed: int = 0
    batch_limit: int = 256
    token_limit: int = 2_048
    prefix_cache: bool = False
    """Whether instances keep blocks of prompts for prompts that begin alike."""
    timing: TimedBy = "roofline"
    """How long iterations take: reckoned from a data sheet, by the published table, or as measured layer by
    layer; then batches are composed an iteration ahead and prompts let in whole, as the vLLM does that was
    measured (0.19)."""
    link_microseconds: float | None = None
    """Of a hop between the GPUs of an instance; None: as the card has it."""
    link_gigabytes: float | None = None
    """A second that a GPU sends to the next one; None: as the card has it."""
    drain_check_seconds: float = 0.0
    """Between two looks at a draining instance; 0: it stops as soon as it is empty."""
    further: tuple[Further, ...] = ()

    def _all(self) -> Iterator[Further | InitialInstances]:
        yield self
        yield from self.further

    def shares(self) -> dict[str, float]:
        """Of requests, by model, in the order of their numbers."""
        shares = {self.model: 1.0}
        for one in self.further:
            shares.setdefault(one.model, one.share)
        return shares

    def spec(self) -> ClusterSpec:
        """The cluster of them."""
        kinds = _told_apart([self._kind(one) for one in self._all()])
        roles: tuple[Role, ...] = ("prompt", "token") if self.scheduler in TWO_POOLS else ("mixed",)
        groups = [
            Group(kind.name, role, getattr(one, role))
            for kind, one in zip(kinds, self._all(), strict=True)
            for role in roles
            if getattr(one, role) > 0
        ]
        for model in self.shares():
            kind = next(kind for kind in kinds if kind.model.name == model)
            named = [known.name for known in kinds if known.model.name == model]
            there = {group.role for group in groups if group.kind in named}
            groups += [Group(kind.name, role, 0) for role in ROLES if role in roles and role not in there]
        unique = {kind.name: kind for kind in kinds}
        return ClusterSpec(
            tuple(unique.values()),
            tuple(groups),
            self.scheduler,
            drain_check_seconds=self.drain_check_seconds,
        )

    def _linked(self, card: Gpu) -> Gpu:
        hop, bandwidth = self.link_microseconds, self.link_gigabytes
        for name, value in (("microseconds", hop), ("gigabytes", bandwidth)):
            if (value is not None and not 0.0 <= value < math.inf) or (name == "gigabytes" and value == 0.0):
                raise UsageError(f"--link-{name} {value:g}: no link is like that")
        link = replace(
            card.link,
            hop_seconds=card.link.hop_seconds if hop is None else hop * 1e-6,
            bandwidth=card.link.bandwidth if bandwidth is None else bandwidth * 1e9,
            wires=card.link.wires if bandwidth is None else 1,
        )
        return replace(card, link=link)

    def _kind(self, one: Further | InitialInstances) -> InstanceKind:
        reckoned = f"{one.model}-{one.gpus}x{one.gpu}"
        kind = InstanceKind(
            name=reckoned,
            model=language_model(one.model),
            gpu=self._linked(gpu(one.gpu)),
            timing=reckoned if self.timing != "table" else f"{one.model}/{one.gpu}/{one.gpus}",
            gpus=one.gpus,
            engine=one.engine,
            batch_limit=one.batch_limit,
            token_limit=one.token_limit,
            memory_share=0.9,
            prefix_cache=self.prefix_cache,
            plans_ahead=self.timing == "profile",
            reserves_prompt=self.timing == "profile",
        )
        if kind.capacity <= kind.weights:
            raise UsageError(f"{one.model} does not fit on {one.gpus} {one.gpu}")
        return kind


def _told_apart(kinds: list[InstanceKind]) -> list[InstanceKind]:
    """Kinds that are not the same have names that are not."""
    instance_kinds: list[InstanceKind] = []
    for place, kind in enumerate(kinds):
        taken = [
            instance_kind
            for instance_kind in instance_kinds
            if instance_kind.name == kind.name and instance_kind != kind
        ]
        instance_kinds.append(replace(kind, name=f"{kind.name}-{place}") if taken else kind)
    return instance_kinds


def machines_of(entry: ClusterEntry, usual: InitialInstances) -> InitialInstances:
    """The machines of a file; what it leaves out is as the usual ones have it."""
    found: dict[tuple[object, ...], Further] = {}
    for application in entry.applications:
        for pool in application.pools:
            one = Further(
                model=application.model or usual.model,
                gpu=pool.gpu or usual.gpu,
                gpus=pool.gpus or usual.gpus,
                engine=pool.engine or usual.engine,
                batch_limit=pool.batch_limit or usual.batch_limit,
                token_limit=pool.token_limit or usual.token_limit,
                share=application.share / entry.applications[0].share,
            )
            key = (one.model, one.gpu, one.gpus, one.engine, one.batch_limit, one.token_limit)
            before = found.get(key, one)
            found[key] = replace(before, **{pool.role: getattr(before, pool.role) + pool.count})
    said: dict[str, Any] = {
        "scheduler": entry.scheduler or usual.scheduler,
        "drain_check_seconds": entry.drain_check_interval,
    }
    if not found:
        return replace(usual, model=entry.applications[0].model or usual.model, **said)
    first, *others = found.values()
    own = {part.name: getattr(first, part.name) for part in fields(first) if part.name != "share"}
    return replace(usual, **own, **said, further=tuple(others))
