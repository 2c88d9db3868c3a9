"""An application as the document has it: one cluster, its scaling manager, its scheduler, its start state."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np

from proreus.model.errors import UsageError, unknown_name
from proreus.worlds.inference.datasets.cluster_file import MAX_TOTAL_INSTANCES
from proreus.worlds.inference.datasets.timings import timings_of
from proreus.worlds.inference.model.cluster import ROLES, InstanceKind, Role
from proreus.worlds.inference.model.requests import RequestTrace
from proreus.worlds.inference.scenarios import InferenceScenario
from proreus.worlds.inference.simulation import columns as c
from proreus.worlds.inference.simulation.cluster import InferenceCluster, Timings
from proreus.worlds.inference.simulation.collector import Collector
from proreus.worlds.inference.simulation.options import ControlOptions
from proreus.worlds.inference.simulation.scaling_manager import Instance, ScalingManager
from proreus.worlds.inference.state.observation import InferenceObservation

Say = Callable[[str], None]


class StartStateManager:
    """What instances of a pool are like: as those that the run began with."""

    def __init__(self, cluster: InferenceCluster) -> None:
        self._kinds = {kind.name: kind for kind in cluster.spec.kinds}
        self._first = {group.role: group.kind for group in reversed(cluster.spec.groups)}

    def _kind(self, tag: Role) -> InstanceKind:
        if tag not in ROLES:
            raise unknown_name("pool", tag, ROLES)
        return self._kinds[self._first.get(tag, next(iter(self._kinds)))]

    def get_instance_config(self, tag: Role) -> str:
        """The name of the kind."""
        return self._kind(tag).name

    def get_parallelism(self, tag: Role) -> int:
        """GPUs of an instance."""
        return self._kind(tag).gpus


class Scheduler:
    """The instances of an application, pool by pool; starting and draining ones are listed too."""

    def __init__(self, cluster: InferenceCluster) -> None:
        self._cluster = cluster

    @property
    def instances(self) -> list[Instance]:
        """All that have a server."""
        status = self._cluster.run.fleet[:, c.STATUS]
        numbers = self._cluster.run.fleet[:, c.NUMBER]
        rows = np.flatnonzero((status != c.ABSENT) & (status != c.STOPPED))
        return [Instance(self._cluster, int(row), int(numbers[row])) for row in rows]

    def of(self, tag: Role) -> list[Instance]:
        """Those of one pool."""
        return [instance for instance in self.instances if instance.tag == tag]

    @property
    def prompt_instances(self) -> list[Instance]:
        """Those that compute prompts."""
        return self.of("prompt")

    @property
    def token_instances(self) -> list[Instance]:
        """Those that generate tokens."""
        return self.of("token")

    @property
    def mixed_instances(self) -> list[Instance]:
        """Those that do both."""
        return self.of("mixed")


class Application:
    """What the decision loop needs to know of a served cluster."""

    def __init__(
        self, cluster: InferenceCluster, timings: Timings, options: ControlOptions, say: Say | None = None
    ) -> None:
        self.cluster, self.timings, self.options = cluster, timings, options
        self.scaling_manager = ScalingManager(cluster, options.limits, options.start, say)
        self.scheduler = Scheduler(cluster)
        self.start_state_manager = StartStateManager(cluster)
        self._collector: Collector | None = None
        self._seen: InferenceObservation | None = None

    def active(self, tag: Role) -> Sequence[Instance]:
        """Instances of a pool that serve."""
        return self.scaling_manager.get_active_instances(self.scheduler.of(tag))

    def control(self, options: ControlOptions) -> None:
        """From now on within these limits, and seen so often."""
        rows = len(self.cluster.run.fleet)
        if options.limits.most_in_total > rows:
            raise UsageError(
                f"max_total_instances: {options.limits.most_in_total} is above the {rows} that the cluster"
                " has room for: say it in the cluster file, before the cluster is made"
            )
        self.options, self.scaling_manager.limits = options, options.limits
        self._collector = self._seen = None

    def observation(self) -> InferenceObservation:
        """The cluster now, as controllers of the world see it; the same until time passes."""
        if self._collector is None:
            self._collector = Collector(self.cluster, self.options)
        if self._seen is None or self._seen.now != self.cluster.now:
            self._seen = self._collector.look()
        return self._seen


def applications_of(
    scenario: InferenceScenario, trace: RequestTrace, seed: int = 0, say: Say | None = None
) -> tuple[InferenceCluster, dict[int, Application]]:
    """The cluster of a scenario with its applications by number; `say` hears what is done, line by line."""
    spec = scenario.machines.spec()
    timings = timings_of(spec, scenario.table)
    most = max(scenario.control.limits.most_in_total, MAX_TOTAL_INSTANCES)
    cluster = InferenceCluster(spec, trace, timings, seed, most)
    return cluster, {0: Application(cluster, timings, scenario.control, say)}


def twin_of(application: Application) -> Application:
    """The same application before anything has come to it: another run over the same requests."""
    cluster = application.cluster
    fresh = InferenceCluster(
        cluster.spec, cluster.trace, application.timings, cluster.seed, len(cluster.run.fleet)
    )
    twin = Application(fresh, application.timings, application.options)
    twin.scaling_manager.start = application.scaling_manager.start
    return twin
