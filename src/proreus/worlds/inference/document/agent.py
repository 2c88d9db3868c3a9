"""The agent of the document's loop: the PPO that learns in every world, from a rule on.

At every decision it keeps the offsets by which it holds more or fewer instances than the arbiter wants, or
changes them by one (`policies.steered_rule`); what comes of it is an action of three numbers. At first it
keeps them most often, and always where it plays its likeliest choices: it begins at the arbiter. It learns
from what it earns beyond the arbiter on the same requests, after several passes: those of one trace say
little.

    sim.run()                                   # learns
    sim.agent.save("agent.safetensors")
    agent = PPOAgent.load("agent.safetensors")  # goes on bit for bit
    TraceRLSimulator(..., agent=agent).run(learn=False)
"""

from __future__ import annotations

import zlib
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from safetensors import SafetensorError
from safetensors.numpy import load as read_tensors
from safetensors.numpy import save as write_tensors

from proreus.contract.lanes import Arrays, Choices, Steps
from proreus.kernels.arrays import F32, I64
from proreus.learning.initial_weights import preferring
from proreus.learning.learner_state import (
    part_of,
    set_weights,
    under,
    values_of,
    weights_of,
    with_values,
)
from proreus.learning.ppo import PPOConfig, PPOLearner, Rollout
from proreus.model.errors import InputError, UsageError
from proreus.model.files import write_atomically
from proreus.policies.networks.torch_threads import few_torch_threads
from proreus.worlds.inference.document.baselines import Buffer, action_of
from proreus.worlds.inference.document.config import RLConfig, config_of
from proreus.worlds.inference.document.state import FEATURES
from proreus.worlds.inference.encoding.residual import KEEPS, SIZES, OffsetChoices
from proreus.worlds.inference.policies.steered_rule import SteeredRule

if TYPE_CHECKING:
    from proreus.worlds.inference.document.simulator import TraceRLSimulator

ENCODING = "document-004/2"
_KEEP_LOGIT = 3.0
"""Offsets are kept in seven of ten decisions at first."""
_PASSES = 8


def usual_ppo(seed: int) -> PPOConfig:
    """Settings of the learner in this loop."""
    return PPOConfig(
        steps=60_000, hidden=32, minibatches=4, discount=0.97, entropy=0.002, learning_rate=1e-3, seed=seed
    )


@dataclass
class _Lived:
    """Decisions that are not learned from yet; a pass ends where `ends` says so."""

    seen: list[Choices] = field(default_factory=list)
    actions: list[int] = field(default_factory=list)
    logs: list[float] = field(default_factory=list)
    values: list[float] = field(default_factory=list)
    rewards: list[float] = field(default_factory=list)
    ends: list[bool] = field(default_factory=list)

    def rollout(self) -> Rollout:
        """One lane, pass after pass: nothing follows the end of one."""
        return Rollout(
            self.seen,
            [torch.tensor([action]) for action in self.actions],
            [torch.tensor([log], dtype=torch.float32) for log in self.logs],
            [np.array([value]) for value in (*self.values, 0.0)],
            np.array(self.rewards)[:, None],
            np.array(self.ends)[:, None],
        )

    def arrays(self) -> Arrays:
        """To save it."""
        if not self.seen:
            return {}
        rows, context, legal = (np.concatenate(parts) for parts in zip(*self.seen, strict=True))
        numbers = {
            name: np.array(getattr(self, name)) for name in ("actions", "logs", "values", "rewards", "ends")
        }
        return {"rows": rows, "context": context, "legal": legal, **numbers}

    @classmethod
    def of(cls, arrays: Mapping[str, Any]) -> _Lived:
        """Back from `arrays`."""
        if not arrays:
            return cls()
        parts = zip(arrays["rows"], arrays["context"], arrays["legal"], strict=True)
        seen = [Choices(rows[None], context[None], legal[None]) for rows, context, legal in parts]
        names = ("actions", "logs", "values", "rewards", "ends")
        return cls(seen, *(arrays[name].tolist() for name in names))


class PPOAgent:
    """Chooses actions, and learns from passes over traces."""

    def __init__(
        self,
        config: RLConfig | Mapping[str, Any] | None = None,
        ppo: PPOConfig | None = None,
        *,
        passes: int = _PASSES,
    ) -> None:
        """`passes`: of them there are that many before each update."""
        self.config = config_of(config)
        if passes < 1:
            raise UsageError("an agent learns from one pass at least")
        self.buffer, self.passes = Buffer(), passes
        self._ppo = ppo or usual_ppo(self.config.seed)
        sizes = (SIZES[0], SIZES[1] + FEATURES * self.config.stack_size)
        initial = preferring(self._ppo, sizes, KEEPS, _KEEP_LOGIT)
        self._learner = PPOLearner(self._ppo, _NoLanes(sizes), initial)
        self._lived = _Lived()
        self.draws = False
        """Whether it plays as it learns, by drawing from what it thinks of each choice, with the seed of its
        configuration; else it takes the likeliest. PPO improves the first."""
        self._baselines: dict[tuple[object, ...], list[float]] = {}
        self.figures: dict[str, float] = {}
        """What the last update came to: return, loss, entropy, KL."""

    @few_torch_threads()
    def play(self, simulator: TraceRLSimulator, *, learn: bool) -> None:
        """One pass. Learning, it tries things out, and is updated after enough passes."""
        if simulator.config.stack_size != self.config.stack_size:
            raise UsageError(
                f"stack_size: the agent has learned with {self.config.stack_size},"
                f" not {simulator.config.stack_size}"
            )
        usual = self._earned_by_arbiter(simulator) if learn else []
        steered, state = SteeredRule(simulator.arbiter()), simulator.observe()
        dice = np.random.default_rng(self.config.seed)
        for step in range(simulator.decisions):
            choices = _with_state(steered.look(simulator.application.observation()), state)
            number = self._drawn(choices) if learn else self._played(choices, dice)
            action = action_of(steered.take(number), simulator.action_executor)
            after, reward = simulator.step(action)
            self.buffer.add(state, action, reward)
            if learn:
                self._lived.rewards.append(reward - usual[step])
                self._lived.ends.append(step + 1 == simulator.decisions)
            state = after
        if learn and sum(self._lived.ends) >= self.passes:
            self._update()

    def _drawn(self, choices: Choices) -> int:
        action, log, value = self._learner.choose(choices)
        self._lived.seen.append(choices)
        self._lived.actions.append(int(action[0]))
        self._lived.logs.append(float(log[0]))
        self._lived.values.append(float(value[0]))
        return int(action[0])

    @torch.no_grad()
    def _played(self, choices: Choices, dice: np.random.Generator) -> int:
        rows, context, legal = (torch.from_numpy(part) for part in choices)
        logits = self._learner.network(rows, context, legal)[0].flatten().double()
        if not self.draws:
            return int(logits.argmax())
        return int(dice.choice(len(logits), p=torch.softmax(logits, 0).numpy()))

    def _update(self) -> None:
        returns = sum(self._lived.rewards) / sum(self._lived.ends)
        self.figures = {**self._learner.learn(self._lived.rollout()), "return": returns}
        self._lived = _Lived()

    def _earned_by_arbiter(self, simulator: TraceRLSimulator) -> list[float]:
        """What the arbiter alone earns in each interval of the same requests."""
        trace = simulator.cluster.trace
        key = (len(trace), zlib.crc32(trace.arrival.tobytes()), zlib.crc32(trace.prompt.tobytes()))
        asked = (*key, simulator.cluster.seed, simulator.end_time, simulator.config, simulator.arbiter().name)
        if asked not in self._baselines:
            twin = simulator.twin()
            twin.run(learn=False)
            self._baselines[asked] = twin.agent.buffer.rewards
        return self._baselines[asked]

    @property
    def weights(self) -> Arrays:
        """Of the network, copied."""
        return weights_of(self._learner.network)

    @weights.setter
    def weights(self, weights: Arrays) -> None:
        set_weights(self._learner.network, weights)

    def save(self, path: str | Path) -> None:
        """All of it but the buffer, in one file."""
        settings = {
            "encoding": ENCODING,
            "config": {**asdict(self.config)},
            "ppo": asdict(self._ppo),
            "passes": self.passes,
            "draws": self.draws,
        }
        arrays = {
            **under("learner", self._learner.capture()),
            **under("lived", self._lived.arrays()),
        }
        saved = with_values(arrays, settings)
        content = {name: np.ascontiguousarray(array) for name, array in saved.items()}
        write_atomically(Path(path), write_tensors(content))

    @classmethod
    def load(cls, path: str | Path) -> PPOAgent:
        """The agent that was saved; it goes on as if nothing had happened."""
        place = Path(path)
        try:
            saved = read_tensors(place.read_bytes())
            settings = values_of(saved)
            if settings["encoding"] != ENCODING:
                raise InputError(f"made for {settings['encoding']!r}, this is {ENCODING!r}", file=place)
            agent = cls(_config(settings["config"]), PPOConfig(**settings["ppo"]), passes=settings["passes"])
            agent._learner.restore(part_of(saved, "learner"))
            agent._lived = _Lived.of(part_of(saved, "lived"))
            agent.draws = bool(settings.get("draws", False))
        except (OSError, SafetensorError, KeyError, TypeError, RuntimeError) as error:
            raise InputError(f"not an agent: {error}", file=place) from error
        return agent


def _config(saved: Mapping[str, Any]) -> RLConfig:
    usual = RLConfig()
    return replace(usual, **{**saved, "objectives": replace(usual.objectives, **saved["objectives"])})


def _with_state(choices: OffsetChoices, state: F32) -> Choices:
    """One lane, the document's state beside what is known of the pools."""
    context = np.concatenate([choices.context, state])
    return Choices(choices.rows[None], context[None], choices.legal[None])


class _NoLanes:
    """The learner does not play by itself: passes come from simulators."""

    encoding = ENCODING

    def __init__(self, sizes: tuple[int, int]) -> None:
        rows, context = sizes
        self._none = Choices(
            np.zeros((1, 1, rows), np.float32), np.zeros((1, context), np.float32), np.ones((1, 1), np.bool_)
        )

    def __len__(self) -> int:
        return 1

    def reset(self, seed: int) -> Choices:
        return self._none

    def step(self, chosen: I64) -> Steps:
        raise UsageError("passes come from simulators")

    def capture(self) -> Arrays:
        return {}

    def restore(self, saved: Mapping[str, Any]) -> Choices:
        return self._none
