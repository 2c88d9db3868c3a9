"""A vector model as the k8s simulator meets it: through its plugin, as the service answers by default.

What comes over the wire is the same, so this is how the service's models are compared with policies that see
the whole cluster.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from proreus.kernels.arrays import F64, Bool
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
from proreus.worlds.pods.policies.vector.service_answers import VectorAnswer, VectorService
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
            self._bound = (nodes, VolcanoPlugin(self.name, InMemoryService(model, nodes)))
        return self._bound[1]


class InMemoryService:
    """Answers as `serving.decision_service` gives them to one client."""

    def __init__(self, model: VectorModel, nodes: int) -> None:
        self._model, self._nodes = model, nodes
        self._answering = VectorService(nodes)

    def __call__(self, state: F64) -> int:
        return self._answering.answer(
            "", state, _Drawing(self._model, state, action_count(self._nodes))
        ).action


@dataclass(frozen=True, eq=False)
class _Drawing:
    """A model that draws, unguarded."""

    model: VectorModel
    state: F64
    actions: int
    key: object = None

    def decide(self, mask: Bool | None) -> VectorAnswer:
        draw = draw_of(_SEED, _VERSION, self.state)
        action, log_prob = self.model.decide(self.state, self.actions, mask, draw)
        return VectorAnswer(action, log_prob, by_model=True, own=True, mask=mask)

    def bids(self, mask: Bool | None) -> F64:
        return self.model.chances(self.state, self.actions, mask)
