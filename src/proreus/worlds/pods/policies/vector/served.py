"""A vector model as the k8s simulator meets it: through its plugin, as the service answers by default.

What comes over the wire is the same, so this is how the service's models are compared with policies that see
the whole cluster.
"""

from __future__ import annotations

from pathlib import Path

from proreus.kernels.arrays import F64
from proreus.model.decision import Decision, action_count
from proreus.policies.protocol import Explanation
from proreus.worlds.pods.policies.vector.model import (
    SHIPPED,
    VectorModel,
    draw_of,
    load_vector_model,
    shipped_for,
)
from proreus.worlds.pods.policies.vector.plugin import VolcanoPlugin
from proreus.worlds.pods.policies.vector.refusals import Refusals
from proreus.worlds.pods.state.observation import PodObservation

_SEED, _VERSION = 0, 1  # of a service that has just been started


class ServedVector:
    """The plugin, asking a model in memory."""

    def __init__(self, name: str, model: str) -> None:
        self.name = name
        self._model = model
        """A shipped one, or the folder of a checkpoint; "": the one that is served by default."""
        self._bound: tuple[int, VolcanoPlugin] | None = None

    def fresh(self, seed: int) -> ServedVector:
        """The same model, which has not met any node."""
        return ServedVector(self.name, self._model)

    def decide(self, observation: PodObservation) -> Decision:
        """What the simulator does after the model's answer."""
        return self._plugin(observation).decide(observation)

    def explain(self, observation: PodObservation) -> Explanation:
        """The answer, and the scores that come of it."""
        return self._plugin(observation).explain(observation)

    def _plugin(self, observation: PodObservation) -> VolcanoPlugin:
        nodes = len(observation.compiled.workload.nodes)
        if self._bound is None or self._bound[0] != nodes:
            chosen = self._model or shipped_for(nodes)
            model = load_vector_model(SHIPPED.get(chosen, Path(chosen)))
            self._bound = (nodes, VolcanoPlugin(self.name, _Answers(model, nodes)))
        return self._bound[1]


class _Answers:
    """As `serving.core` answers one client."""

    def __init__(self, model: VectorModel, nodes: int) -> None:
        self._model, self._actions = model, action_count(nodes)
        self._refusals = Refusals(nodes)

    def __call__(self, state: F64) -> int:
        draw = draw_of(_SEED, _VERSION, state)
        action, _ = self._model.decide(state, self._actions, self._refusals.welcome("", state), draw)
        self._refusals.answered("", state, action)
        return action
