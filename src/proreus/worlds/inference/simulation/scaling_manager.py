"""The scaling manager: starts and drains instances, one server each, and never breaks a limit."""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, TypedDict

import numpy as np

from proreus.kernels.arrays import I64
from proreus.worlds.inference.model.cluster import ROLES, Role
from proreus.worlds.inference.model.decision import Scale
from proreus.worlds.inference.model.start_up import Limits, StartUp
from proreus.worlds.inference.simulation import columns as c
from proreus.worlds.inference.simulation.cluster import InferenceCluster
from proreus.worlds.inference.simulation.instance_choice import kinds_like, least_needed_first
from proreus.worlds.inference.simulation.model_loads import coming

_LOG = logging.getLogger(__name__)
_STARTING = (c.PROVISIONING, c.LOADING, c.WARMING)
Say = Callable[[str], None]


class StatusSummary(TypedDict):
    """How many there are of what."""

    active_instances: int
    scaling_up_instances: int
    draining_instances: int
    total_servers: int
    total_instances: int


@dataclass(frozen=True)
class Server:
    """A server, which holds one instance."""

    server_id: int


@dataclass(frozen=True)
class Instance:
    """One instance of a run, as long as it lives."""

    cluster: InferenceCluster
    row: int
    instance_id: int

    @property
    def _fleet(self) -> I64:
        return self.cluster.run.fleet[self.row]

    @property
    def tag(self) -> Role:
        """The pool it belongs to."""
        return ROLES[int(self._fleet[c.TAG])]

    @property
    def status(self) -> int:
        """Where it is in its life; stopped where its place has gone to another one."""
        return int(self._fleet[c.STATUS]) if self._fleet[c.NUMBER] == self.instance_id else c.STOPPED

    @property
    def model(self) -> int:
        """The number of the model that it serves."""
        return int(self._fleet[c.OF_MODEL])

    @property
    def sched_pending_tokens(self) -> int:
        """Tokens that are planned for it and not computed yet."""
        return int(self._fleet[c.PLANNED_TOKENS])

    @property
    def sched_memory(self) -> int:
        """Bytes of weights and of the KV that is planned for it."""
        return int(self._fleet[c.PLANNED_MEMORY])


class ScalingManager:
    """Scales a cluster within limits; what it does, and what it refuses, it says in a line.

    Lines go to `logging`, and to `say` where somebody listens.
    """

    def __init__(
        self, cluster: InferenceCluster, limits: Limits, start: StartUp, say: Say | None = None
    ) -> None:
        self.cluster, self.limits, self.start = cluster, limits, start
        self._listener = say
        self._known = self._statuses()
        self.refused = 0
        """Starts for which the provider had no server."""

    def _say(self, line: str) -> None:
        _LOG.info(line)
        if self._listener is not None:
            self._listener(line)

    def scale_up_full(
        self,
        instance_cfg: str | Mapping[str, Any] | None = None,
        parallelism: int | Mapping[str, Any] | None = None,
        tag: Role = "prompt",
        server_sku: str | None = None,
    ) -> tuple[Server, Instance] | tuple[None, None]:
        """A new server with a new instance on it, as those of the pool that the run began with.

        Where the pool serves several models, the one whose instances have most to do gets it.
        `instance_cfg` names the kind of instance or describes it as a start state does; `parallelism` (GPUs)
        and `server_sku` (name of the GPU) choose among kinds of the same model. What no kind of the cluster
        is like is refused by name. (None, None): a limit, or the provider, has no room for it.
        """
        kinds = kinds_like(self.cluster, tag, instance_cfg, parallelism, server_sku)
        kind = next((name for name in kinds if self._has_server(name)), kinds[0])
        model = self.cluster.model_number(kind)
        if self.total() >= self.limits.most_in_total:
            self._say(f"[Action Blocked] Max cluster size reached ({self.limits.most_in_total})")
            return None, None
        if self.count(tag, model) >= self.limits.most:
            self._say(f"[Action Blocked] Cannot add {tag}, max limit reached")
            return None, None
        row = self.cluster.order(kind, tag, self.start) if self._has_server(kind) else None
        if row is None:
            self.refused += 1
            self._say(f"[Action Blocked] No capacity for {kind}")
            return None, None
        number = int(self.cluster.run.fleet[row, c.NUMBER])
        self._known[number] = (row, c.PROVISIONING)
        self._say(f"[ScalingManager] Full scale-up: server {number} + instance {number}")
        self._say(f"[Action] Added {tag} instance {number} on server {number}")
        return Server(number), Instance(self.cluster, row, number)

    def _has_server(self, kind: str) -> bool:
        names = [instance_kind.name for instance_kind in self.cluster.spec.kinds]
        fleet = self.cluster.run.fleet
        taken = (fleet[:, c.KIND] == names.index(kind)) & self._alive()
        return bool(taken.sum() < dict(self.limits.servers).get(kind, taken.sum() + 1))

    def scale_down_full(self, instance: Instance) -> bool:
        """Drain it, then remove it with its server; false: the pool would become too small."""
        if instance.status not in (*_STARTING, c.ACTIVE):
            return False
        if self.count(instance.tag, instance.model) <= self.limits.least:
            self._say(f"[Action Blocked] Cannot remove {instance.tag}, min limit reached")
            return False
        now = self.cluster.now
        self._say(f"[ScalingManager] Instance {instance.instance_id} draining started at {now:.2f}")
        self._say(f"[Action] Removed {instance.tag} instance {instance.instance_id}")
        self.cluster.drain(instance.row)
        return True

    def migrate(self, instance: Instance, tag: Role) -> bool:
        """To another pool, at once; false: a pool would become too small or too large."""
        if instance.status != c.ACTIVE or instance.tag == tag:
            return False
        model = instance.model
        if self.count(instance.tag, model) <= self.limits.least or self.count(tag, model) >= self.limits.most:
            self._say(f"[Action Blocked] Cannot migrate {instance.tag} to {tag}, limit reached")
            return False
        self._say(f"[Action] Migrated instance {instance.instance_id} from {instance.tag} to {tag}")
        self.cluster.migrate(instance.row, tag)
        return True

    def get_active_instances(self, instances: Sequence[Instance] | None = None) -> list[Instance]:
        """Those that serve: neither starting nor draining."""
        if instances is not None:
            return [instance for instance in instances if instance.status == c.ACTIVE]
        return self._instances(self.cluster.run.fleet[:, c.STATUS] == c.ACTIVE)

    def get_status_summary(self) -> StatusSummary:
        """How many there are of what."""
        status = self.cluster.run.fleet[:, c.STATUS]
        total = self.total()
        return {
            "active_instances": int((status == c.ACTIVE).sum()),
            "scaling_up_instances": int(np.isin(status, _STARTING).sum()),
            "draining_instances": int((status == c.DRAINING).sum()),
            "total_servers": total,
            "total_instances": total,
        }

    def count(self, role: Role, model: int | None = None) -> int:
        """Active and starting instances of a pool, of one model or of all."""
        fleet = self.cluster.run.fleet
        counted = coming(fleet, (role,))
        return int((counted if model is None else counted & (fleet[:, c.OF_MODEL] == model)).sum())

    def total(self) -> int:
        """Instances that take a server, whatever they do."""
        return int(self._alive().sum())

    def _alive(self) -> np.ndarray[tuple[int], np.dtype[np.bool_]]:
        status = self.cluster.run.fleet[:, c.STATUS]
        alive: np.ndarray[tuple[int], np.dtype[np.bool_]] = (status != c.ABSENT) & (status != c.STOPPED)
        return alive

    def victims(self, role: Role) -> list[Instance]:
        """Whom to drain first: who starts and is furthest from it, then who has least to do.

        Where the pool serves several models, one of the model that needs it least.
        """
        fleet, figure = self.cluster.run.fleet, self.cluster.run.figure
        mine = fleet[:, c.TAG] == ROLES.index(role)
        starting = self._instances(mine & np.isin(fleet[:, c.STATUS], _STARTING))
        starting.sort(key=lambda instance: (-figure[instance.row, c.ORDERED_AT], -instance.instance_id))
        active = self._instances(mine & (fleet[:, c.STATUS] == c.ACTIVE))
        kv = fleet[:, c.PLANNED_MEMORY] - fleet[:, c.WEIGHTS]
        load = fleet[:, c.PLANNED_TOKENS] if role == "prompt" else kv
        active.sort(key=lambda instance: (int(load[instance.row]), instance.instance_id))
        found = {instance.row: instance for instance in (*starting, *active)}
        return [found[row] for row in least_needed_first(self.cluster, role, list(found), self.limits.least)]

    def carry_out(self, change: Scale) -> None:
        """Migrations first, then drains, then starts."""
        source: Role = "prompt" if change.migrate > 0 else "token"
        target: Role = "token" if change.migrate > 0 else "prompt"
        if change.migrate:
            movable = [victim for victim in self.victims(source) if victim.status == c.ACTIVE]
            for instance in movable[: abs(change.migrate)]:
                self.migrate(instance, target)
        for role in ROLES:
            if change.of(role) < 0:
                for one in self.victims(role)[: -change.of(role)]:
                    self.scale_down_full(one)
        for role in ROLES:
            for _ in range(max(change.of(role), 0)):
                self.scale_up_full(tag=role)

    def notice(self) -> None:
        """Say what has become of instances since it was last called."""
        seen = self._statuses()
        for number, (row, before) in self._known.items():
            after = seen.get(number, (row, c.STOPPED))[1]
            if before in _STARTING and after in (c.ACTIVE, c.DRAINING):
                at = self.cluster.run.figure[row, c.ACTIVE_AT]
                self._say(f"[ScalingManager] Instance {number} scaled up at {at:.2f}")
            if before not in (c.STOPPED, c.ABSENT) and after == c.STOPPED:
                self._say(f"[ScalingManager] Auto scale-down server {number} after instance removal")
        self._known = seen

    def _statuses(self) -> dict[int, tuple[int, int]]:
        """By number: (row, status) of all that take a server."""
        fleet = self.cluster.run.fleet
        return {
            int(fleet[row, c.NUMBER]): (int(row), int(fleet[row, c.STATUS]))
            for row in np.flatnonzero((fleet[:, c.STATUS] != c.ABSENT) & (fleet[:, c.STATUS] != c.STOPPED))
        }

    def _instances(self, chosen: np.ndarray[tuple[int], np.dtype[np.bool_]]) -> list[Instance]:
        numbers = self.cluster.run.fleet[:, c.NUMBER]
        return [Instance(self.cluster, int(row), int(numbers[row])) for row in np.flatnonzero(chosen)]
