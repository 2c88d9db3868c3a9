"""A cluster as a YAML file: applications with start states and scaling managers, and how it is controlled.

    applications:
      - application_id: 0
        model: llama3-70b
        scheduler: mixed_pool
        scaling_manager: {drain_check_interval: 1.0}
        start_state:
          prompt: {num_instances: 3, server_sku: h100-80gb, parallelism: {tensor_parallelism: 4}}
          token: {num_instances: 3, server_sku: a100-80gb, parallelism: {tensor_parallelism: 4}}
    scaling_manager: {scale_up_delay: 120.0}       # here for all applications, or in each of them
    rl: {decision_interval: 10, action_scale_step: 5, action_mig_step: 3,
         min_instances_per_pool: 1, max_total_instances: 100}

Left out, a start takes 10 s, draining instances are looked at every second, and there are at most 100; what
else is left out is as the scenario has it. An error names the file, the line and the field.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TypeVar, cast, get_args

from proreus.data.cursor import Entry
from proreus.data.yaml_tree import read_documents
from proreus.model.errors import UsageError
from proreus.worlds.inference.model.cluster import ROLES, Engine, Role, Scheduler
from proreus.worlds.inference.model.hardware import gpu
from proreus.worlds.inference.model.llm import language_model

_ENGINES: Mapping[str, Engine] = {"orca": "orca", "splitwise": "splitwise", "chunked": "chunked"}
Value = TypeVar("Value")
_TOP = ("applications", "scaling_manager", "rl")
_APPLICATION = ("application_id", "model", "scheduler", "scaling_manager", "start_state", "share")
_MANAGER = ("scale_up_delay", "drain_check_interval")
_POOL = (
    *("num_instances", "server_sku", "instance_type", "parallelism"),
    *("max_batch_size", "max_batch_tokens"),
)
_RL = (
    *("decision_interval", "action_scale_step", "action_mig_step"),
    *("min_instances_per_pool", "max_total_instances"),
)


SCALE_UP_DELAY, DRAIN_CHECK_INTERVAL, MAX_TOTAL_INSTANCES = 10.0, 1.0, 100
"""What holds where a file does not say it: seconds, seconds, instances."""


@dataclass(frozen=True)
class PoolEntry:
    """Instances of a pool at the beginning; None: as the scenario has it."""

    role: Role
    count: int
    gpu: str | None
    gpus: int | None
    engine: Engine | None
    batch_limit: int | None
    token_limit: int | None


@dataclass(frozen=True)
class ApplicationEntry:
    """One model that is served."""

    number: int
    model: str | None
    share: float
    """Of the requests, in what all applications have."""
    pools: tuple[PoolEntry, ...]


@dataclass(frozen=True)
class ClusterEntry:
    """What a file says; None: as the scenario has it."""

    applications: tuple[ApplicationEntry, ...]
    scheduler: Scheduler | None = None
    scale_up_delay: float = SCALE_UP_DELAY
    drain_check_interval: float = DRAIN_CHECK_INTERVAL
    decision_interval: float | None = None
    action_scale_step: int | None = None
    action_mig_step: int | None = None
    min_instances_per_pool: int | None = None
    max_total_instances: int = MAX_TOTAL_INSTANCES


def read_cluster(path: Path) -> ClusterEntry:
    """The cluster of a file."""
    documents = read_documents(path)
    top = documents[0]
    _only(top, _TOP)
    entries = top.children("applications")
    if not entries:
        raise top.fail("applications: at least one is needed")
    applications = tuple(_application(entry) for entry in entries)
    numbers = [application_entry.number for application_entry in applications]
    for place, (entry, number) in enumerate(zip(entries, numbers, strict=True)):
        if number in numbers[:place]:
            raise entry.fail(f"application_id {number} is there more than once")
    rl, manager = top.get("rl"), top.get("scaling_manager")
    if rl is not None:
        _only(rl, _RL)
    if manager is not None:
        _only(manager, _MANAGER)
    managers = (*entries, top)
    delay = _alike(managers, "scaling_manager.scale_up_delay", Entry.number)
    check = _alike(managers, "scaling_manager.drain_check_interval", Entry.number)
    interval = top.find("rl.decision_interval")
    return ClusterEntry(
        applications,
        _alike(entries, "scheduler", _scheduler),
        SCALE_UP_DELAY if delay is None else delay,
        DRAIN_CHECK_INTERVAL if check is None else check,
        None if interval is None else interval.number(minimum=1e-3),
        _whole(top, "rl.action_scale_step", 0, 50),
        _whole(top, "rl.action_mig_step", 0, 50),
        _whole(top, "rl.min_instances_per_pool", 0, 10_000),
        _whole(top, "rl.max_total_instances", 1, 10_000) or MAX_TOTAL_INSTANCES,
    )


def _application(entry: Entry) -> ApplicationEntry:
    _only(entry, _APPLICATION)
    manager, state, model = entry.get("scaling_manager"), entry.get("start_state"), entry.get("model")
    if manager is not None:
        _only(manager, _MANAGER)
    if state is not None:
        _only(state, ROLES)
    share = entry.get("share")
    return ApplicationEntry(
        entry.integer_at("application_id", 0),
        None if model is None else _known(model, lambda name: language_model(name).name),
        1.0 if share is None else share.number(minimum=1e-6),
        tuple(
            _pool(role, pool) for role in ROLES if state is not None and (pool := state.get(role)) is not None
        ),
    )


def _pool(role: Role, entry: Entry) -> PoolEntry:
    _only(entry, _POOL)
    parallelism = entry.get("parallelism")
    if parallelism is not None:
        _only(parallelism, ("tensor_parallelism", "pipeline_parallelism"))
        if parallelism.integer_at("pipeline_parallelism", 1, minimum=1) != 1:
            raise parallelism.require("pipeline_parallelism").fail("pipelines over servers are not simulated")
    sku, kind = entry.get("server_sku"), entry.get("instance_type")
    return PoolEntry(
        role,
        entry.require("num_instances").integer(maximum=10_000),
        None if sku is None else _known(sku, lambda name: gpu(name).name),
        _whole(entry, "parallelism.tensor_parallelism", 1, 64),
        None if kind is None else _engine(kind),
        _whole(entry, "max_batch_size", 1, 4_096),
        _whole(entry, "max_batch_tokens", 1, 1 << 20),
    )


def _only(entry: Entry, known: tuple[str, ...]) -> None:
    for key, value in entry.entries():
        if key not in known:
            raise value.fail(f"unknown field; known are {', '.join(known)}")


def _whole(entry: Entry, path: str, minimum: int, maximum: int) -> int | None:
    found = entry.find(path)
    return None if found is None else found.integer(minimum=minimum, maximum=maximum)


def _known(entry: Entry, find: Callable[[str], str]) -> str:
    try:
        return find(entry.text())
    except UsageError as error:
        raise entry.fail(str(error)) from None


def _engine(entry: Entry) -> Engine:
    name = entry.text().lower()
    if name not in _ENGINES:
        raise entry.fail(f"instance_type {entry.text()!r} is none of {', '.join(_ENGINES)}")
    return _ENGINES[name]


def _scheduler(entry: Entry) -> Scheduler:
    if entry.text() not in get_args(Scheduler):
        raise entry.fail(f"{entry.text()!r} is none of {', '.join(get_args(Scheduler))}")
    return cast(Scheduler, entry.text())


def _alike(entries: tuple[Entry, ...], path: str, read: Callable[[Entry], Value]) -> Value | None:
    """What applications say under a path, which has to be the same for all; None: nothing."""
    found = [entry for one in entries if (entry := one.find(path)) is not None]
    values = [read(entry) for entry in found]
    for entry, value in zip(found, values, strict=True):
        if value != values[0]:
            raise entry.fail("all applications of a cluster have the same one")
    return values[0] if values else None
