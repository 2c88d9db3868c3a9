"""The decision service itself: values in, values out. REST and gRPC are two doors to one of these.

The live model is one immutable pair of version and model. A request reads it once, so its answer belongs to
exactly one version however often versions change meanwhile. Sampling needs no random state: the draw is a
hash of seed, version and state, so the same state gets the same action over either door, but for nodes that
have refused the client that asks, and for clients that ask once for every node and are named several.

Whoever decides, the model or (when it fails or is too slow) the rule, the answer says so.
"""

from __future__ import annotations

import logging
import math
import time
from collections.abc import Callable
from dataclasses import dataclass, field, replace

import numpy as np

from proreus.kernels.arrays import F64, I64, Bool
from proreus.policies.deadline import Guard, TooSlow
from proreus.serving.messages import Choice, DecidedBy, Health, PredictAnswer, invalid
from proreus.serving.metrics import Measurements
from proreus.serving.pending_decisions import PendingDecision, RecentDecisions
from proreus.serving.validation import Dimensions, check_block, check_state, check_top_k
from proreus.worlds.pods.policies.vector.model import VectorModel, draw_of, draws_of, fullest_with_room
from proreus.worlds.pods.policies.vector.refusals import warm_up_refusals
from proreus.worlds.pods.policies.vector.service_answers import VectorAnswer, VectorService

_log = logging.getLogger(__name__)
_REMEMBERED_BYTES = 1 << 26
"""Memory for decisions that wait for their outcome, at most: a mask is as long as the cluster is large."""

_SHARE_OF_WAIT = 0.8
"""Of the time that a client waits, for the model; the rest is for the way back."""


@dataclass(frozen=True)
class ServiceOptions:
    """How a service decides."""

    dimensions: Dimensions
    deterministic: bool = False
    """Take the best action where a request does not say; decisions taken so teach the policy nothing."""
    seed: int = 0
    """Of the draws."""
    deadline_seconds: float = 0.1
    """How long the model may take over one decision before the rule decides."""
    remembered: int = 65_536
    """Decisions whose probability is remembered until their outcome is reported."""
    mind_refusals: bool = True
    """Do not name nodes that refused such a task; see `policies.vector.service_answers`."""


@dataclass(frozen=True)
class Question:
    """One state to decide on."""

    state: F64
    mask: Bool | None = None
    deterministic: bool | None = None
    top_k: int | None = None
    seconds_left: float = math.inf
    """Until whoever asks stops waiting."""
    client: str = ""
    """Who asks, by whatever the door knows of it."""


@dataclass(frozen=True)
class StateBatch:
    """Many states to decide on at once, by one version."""

    states: F64
    """[B, S]"""
    masks: Bool | None = None
    """[B, A]"""
    deterministic: bool | None = None


@dataclass(frozen=True)
class BatchDecided:
    """The actions of a batch."""

    actions: I64
    log_probs: F64
    version: int
    decided_by: DecidedBy
    deterministic: bool


@dataclass(frozen=True, eq=False)
class Live:
    """The version that decides now."""

    version: int
    model: VectorModel
    guard: Guard = field(default_factory=Guard)
    telling: Guard = field(default_factory=lambda: Guard(inline=False))
    """For what is told beside a decision that is made already: never in the way of the answer."""


@dataclass(frozen=True, eq=False)
class _Deciding:
    """One version about to decide on one state."""

    service: DecisionService
    live: Live
    state: F64
    draw: float
    seconds: float

    @property
    def key(self) -> object:
        """The version, and the draw: see `service_answers.VectorDecider`."""
        return self.live, self.draw

    def decide(self, mask: Bool | None) -> VectorAnswer:
        return self.service.decided(self, mask)

    def bids(self, mask: Bool | None) -> F64 | None:
        return self.service.bids(self, mask)


class DecisionService:
    """Decides, remembers what it decided, and counts."""

    def __init__(
        self,
        options: ServiceOptions,
        version: int,
        model: VectorModel,
        clock: Callable[[], float] = time.perf_counter,
    ) -> None:
        self.options = options
        self.measurements = Measurements()
        most = _REMEMBERED_BYTES // (options.dimensions.actions + 256)
        self.recent = RecentDecisions(min(options.remembered, most))
        self.draining = False
        self._answering = VectorService(options.dimensions.nodes) if options.mind_refusals else None
        self._clock = clock
        self._began = clock()
        self._everything = np.ones(options.dimensions.actions, dtype=np.bool_)
        self._live = self._prepared(version, model)
        self.measurements.version(lambda: str(self._live.version))
        self.measurements.gauge(
            "proreus_decisions_remembered", "Decisions that wait for their outcome.", lambda: len(self.recent)
        )

    @property
    def version(self) -> int:
        """The version that decides now."""
        return self._live.version

    def swap(self, version: int, model: VectorModel) -> None:
        """Let another version decide from now on; requests under way end with the one they began with."""
        live = self._prepared(version, model)
        if self._live.version != version:
            self.measurements.count("proreus_swaps", result="live")
        self._live = live

    def _prepared(self, version: int, model: VectorModel) -> Live:
        """A version that has decided once, so that no request waits for its compilation."""
        dimensions = self.options.dimensions
        complaint = model.accepts(dimensions.state, dimensions.actions)
        if complaint:
            raise invalid("model", complaint)
        for length in dimensions.lengths:
            if model.accepts(length, dimensions.actions) is None:
                state = np.full(length, 0.5)
                model.decide(state, dimensions.actions, None, 0.5)
                model.decide(state, dimensions.actions, self._everything, -1.0)
                model.chances(state, dimensions.actions, None)
                model.decide_batch(state[None], dimensions.actions, None, draws_of(0, version, state[None]))
        state = np.full(dimensions.state, 0.5)
        fullest_with_room(state, self._everything)
        warm_up_refusals(state, dimensions.nodes)
        live = Live(version, model)
        live.guard.learn_pace(lambda: model.decide(state, dimensions.actions, None, 0.5))
        return live

    def predict(self, question: Question, door: str) -> PredictAnswer:
        """Decide on one state."""
        options, live, state = self.options, self._live, question.state
        check_state(state, options.dimensions)
        if question.top_k is not None:
            check_top_k(question.top_k, options.dimensions)
        deterministic = options.deterministic if question.deterministic is None else question.deterministic
        draw = -1.0 if deterministic else draw_of(options.seed, live.version, state)
        seconds = min(options.deadline_seconds, _SHARE_OF_WAIT * question.seconds_left)
        deciding = _Deciding(self, live, state, draw, seconds)
        begin = self._clock()
        if question.mask is None and self._answering is not None:
            answer = self._answering.answer(question.client, state, deciding)
            question = replace(question, mask=answer.mask)
        else:
            answer = deciding.decide(question.mask)  # a mask comes from who knows better
            if self._answering is not None:
                self._answering.told(question.client, state, answer.action)
        self.measurements.took(door, "model", self._clock() - begin)
        action, log_prob = answer.action, answer.log_prob
        decided_by: DecidedBy = "model" if answer.by_model else "rule"
        drawn = answer.by_model and answer.own and not deterministic
        decided = PendingDecision(log_prob, live.version, drawn, question.mask)
        self.recent.add(state, action, decided, question.client)
        top = None
        if question.top_k is not None:
            left = replace(deciding, seconds=seconds - (self._clock() - begin))
            top = self._top(left, question, answer)
        return PredictAnswer(action, live.version, log_prob, decided_by, deterministic, top)

    def decided(self, deciding: _Deciding, mask: Bool | None) -> VectorAnswer:
        """What the model says, or the rule where it fails or is too slow."""
        live, state = deciding.live, deciding.state
        actions = self.options.dimensions.actions
        try:
            action, log_prob = live.guard.run(
                lambda: live.model.decide(state, actions, mask, deciding.draw), deciding.seconds
            )
            self._check_sound(action, log_prob, mask)
        except Exception as error:  # noqa: BLE001 - whatever a model does, there is an answer
            self._fell_back(error, live)
            return VectorAnswer(self._by_rule(state, mask), 0.0, by_model=False, own=True, mask=mask)
        return VectorAnswer(action, log_prob, by_model=True, own=True, mask=mask)

    def bids(self, deciding: _Deciding, mask: Bool | None) -> F64 | None:
        """How likely the model is to take each action; None where it fails or is too slow."""
        return self._chances(deciding, mask, deciding.live.guard)

    def _chances(self, deciding: _Deciding, mask: Bool | None, guard: Guard) -> F64 | None:
        live, actions = deciding.live, self.options.dimensions.actions
        try:
            chances: F64 = guard.run(
                lambda: live.model.chances(deciding.state, actions, mask), deciding.seconds
            )
        except Exception as error:  # noqa: BLE001 - then the model's own choice is all there is
            self._fell_back(error, live)
            return None
        return chances

    def predict_batch(self, batch: StateBatch, door: str) -> BatchDecided:
        """Decide on many states. They are not remembered: the answer has their log-probabilities."""
        options, live = self.options, self._live
        check_block(batch.states, options.dimensions)
        deterministic = options.deterministic if batch.deterministic is None else batch.deterministic
        if deterministic:
            draws = np.full(len(batch.states), -1.0)
        else:
            draws = draws_of(options.seed, live.version, batch.states)
        begin = self._clock()
        decided_by: DecidedBy = "model"
        try:
            actions, log_probs = live.model.decide_batch(
                batch.states, options.dimensions.actions, batch.masks, draws
            )
        except Exception as error:  # noqa: BLE001 - whatever a model does, there is an answer
            self._fell_back(error, live)
            masks = batch.masks
            actions = np.array(
                [self._by_rule(s, None if masks is None else masks[i]) for i, s in enumerate(batch.states)],
                dtype=np.int64,
            )
            log_probs, decided_by = np.zeros(len(actions)), "rule"
        self.measurements.took(door, "model of a batch", self._clock() - begin)
        return BatchDecided(actions, log_probs, live.version, decided_by, deterministic)

    def health(self, learning: bool, trouble: str = "") -> Health:
        """That the service answers, and with what; trouble: what it cannot do."""
        return Health(
            status="draining" if self.draining else "degraded" if trouble else "ok",
            model_version=self._live.version,
            state_dim=self.options.dimensions.state,
            action_dim=self.options.dimensions.actions,
            deterministic=self.options.deterministic,
            learning=learning,
            uptime_seconds=round(self._clock() - self._began, 3),
            trouble=trouble,
        )

    def _check_sound(self, action: int, log_prob: float, mask: Bool | None) -> None:
        if not 0 <= action < self.options.dimensions.actions or not math.isfinite(log_prob):
            raise ValueError(f"the model chose {action} with log-probability {log_prob}")
        if mask is not None and not mask[action]:
            raise ValueError(f"the model chose {action}, which the mask forbids")

    def _by_rule(self, state: F64, mask: Bool | None) -> int:
        return int(fullest_with_room(state, self._everything if mask is None else mask))

    def _fell_back(self, error: Exception, live: Live) -> None:
        reason = "deadline" if isinstance(error, TooSlow) else "error"
        self.measurements.count("proreus_fallbacks", reason=reason)
        so_far = self.measurements.counted("proreus_fallbacks")
        if so_far & (so_far - 1) == 0:  # the 1st, 2nd, 4th, 8th: a model that stays broken fills no disk
            _log.warning("the rule decided for version %d (%d times so far): %s", live.version, so_far, error)

    def _top(self, deciding: _Deciding, question: Question, answer: VectorAnswer) -> list[Choice]:
        """The most probable actions, equal ones in order of their number; only the chosen one, where the rule
        chose it, or the model does not say in what is left of its time."""
        if not answer.by_model:
            return [Choice(answer.action, 1.0)]
        chances = self._chances(deciding, question.mask, deciding.live.telling)
        if chances is None:
            return [Choice(answer.action, math.exp(answer.log_prob))]
        best = np.argsort(-chances, kind="stable")[: question.top_k].tolist()
        return [Choice(index, float(chances[index])) for index in best if chances[index] > 0]
