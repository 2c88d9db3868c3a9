"""Double dueling DQN with prioritised and n-step replay, over any number of rows.

    for update in ddqn(DDQNConfig(steps=20_000), lanes):
        print(update.figures["steps"], update.figures["return"])
    network = network_of(update.tensors())

`lanes` play one episode at a time; `learning.env_lanes` shows a Gymnasium environment so.

The learner keeps the seed and the actions of the current episode and not the state of the lanes, so a
captured learner continues bit for bit wherever the episode can be played again.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from proreus.contract.lanes import Arrays, Choices, Lanes
from proreus.learning.learner_state import (
    first_network,
    moments_of,
    part_of,
    set_moments,
    set_weights,
    under,
    values_of,
    weights_of,
    with_values,
)
from proreus.learning.optimiser import linear_decay
from proreus.learning.replay import NStepWindow, Observation, PrioritisedReplay, Transition, TransitionBatch
from proreus.learning.returns import Returns
from proreus.learning.step import StepRate, Update
from proreus.model.errors import InputError, UsageError, WorkError
from proreus.policies.networks.q_network import QNetwork, best_legal
from proreus.policies.networks.torch_threads import few_torch_threads

_RETURNS_REMEMBERED = 20


@dataclass(frozen=True)
class DDQNConfig:
    """Everything that a training run depends on, beside the environment."""

    steps: int = 50_000
    """Decisions to learn from, in all."""
    seed: int = 0
    """Determines weights, exploration, sampling and the seeds of the episodes."""
    hidden: int = 64
    """Width of the network's layers."""
    learning_rate: float = 5e-4
    """Of Adam."""
    discount: float = 0.99
    """What a reward counts one decision later."""
    n_step: int = 3
    """Rewards that are summed before the network's own estimate takes over."""
    batch_size: int = 64
    """Transitions per update."""
    capacity: int = 20_000
    """Transitions that are remembered; each holds two observations (20 nodes: 5 kB)."""
    warm_up: int = 500
    """Decisions before the first update."""
    update_every: int = 2
    """Decisions per update."""
    target_every: int = 250
    """Updates after which the target network is made equal to the learning one."""
    priority_exponent: float = 0.6
    """How much large errors are preferred in replay: 0 not at all, 1 in proportion (alpha)."""
    correction_start: float = 0.4
    """How far importance weights undo that preference at first (beta); it rises to 1 at the end."""
    epsilon_points: tuple[float, ...] = (0.0, 0.25, 0.9, 1.0)
    """Shares of the training at which the chance of a random action is given."""
    epsilon_values: tuple[float, ...] = (0.9, 0.3, 0.02, 0.02)
    """The chance of a random action at those points, linear in between."""
    max_gradient: float = 10.0
    """Gradients of a larger norm are scaled down to it."""
    report_every: int = 1_000
    """Decisions between two reports."""
    device: str = "cpu"
    """Where the network computes: cpu or cuda."""

    def __post_init__(self) -> None:
        for name in (
            "steps",
            "hidden",
            "n_step",
            "batch_size",
            "update_every",
            "target_every",
            "report_every",
        ):
            if getattr(self, name) < 1:
                raise UsageError(f"ddqn: {name} {getattr(self, name)} is not above 0")
        if self.capacity < self.batch_size:
            raise UsageError(f"ddqn: capacity {self.capacity} is below the batch size {self.batch_size}")
        if not 0 <= self.discount <= 1:
            raise UsageError(f"ddqn: discount {self.discount} is not between 0 and 1")
        if not self.learning_rate > 0:
            raise UsageError(f"ddqn: learning_rate {self.learning_rate} is not above 0")
        try:
            linear_decay(0.0, self.epsilon_points, self.epsilon_values)
        except ValueError as error:
            raise UsageError(f"ddqn: epsilon_points and epsilon_values: {error}") from error


def ddqn(
    config: DDQNConfig,
    lanes: Lanes,
    saved: Arrays | None = None,
    initial: Arrays | None = None,
    *,
    double: bool = True,
) -> Iterator[Update]:
    """Train; yields every `report_every` decisions and at the end. `saved`: the state to go on from;
    `initial`: weights to begin with, else they are drawn. `double`: as `DDQNLearner` has it."""
    learner = DDQNLearner(config, lanes, double=double)
    if initial is not None:
        learner.begin_with(initial)
    if saved is not None:
        learner.restore(saved)
    pace = StepRate(learner.step)
    while learner.step < config.steps:
        learner.advance()
        if learner.step % config.report_every == 0 or learner.step == config.steps:
            yield Update(
                number=-(-learner.step // config.report_every),
                total=-(-config.steps // config.report_every),
                figures={
                    "steps": float(learner.step),
                    "steps_per_second": pace.rate(learner.step),
                    **learner.figures(),
                },
                tensors=partial(weights_of, learner.network),
                state=learner.capture,
            )


class DDQNLearner:
    """Acts in one lane and learns from what it remembers.

    `double`: the learning network names the action that the target network values; else the target network
    does both, which is DQN.
    """

    def __init__(self, config: DDQNConfig, lanes: Lanes, *, double: bool = True) -> None:
        if len(lanes) != 1:
            raise UsageError(f"ddqn: plays one episode at a time, and there are {len(lanes)} lanes")
        self.config = config
        self.step = 0
        self._lanes, self._double = lanes, double
        self._random = np.random.default_rng(config.seed)
        self._updates = 0
        self._returns = Returns(1, _RETURNS_REMEMBERED)
        self._losses: list[tuple[float, float]] = []
        self._begin_episode(self._draw_seed())
        sizes = (self._seen["nodes"].shape[1], self._seen["context"].shape[0])
        self.network = first_network(QNetwork, config, sizes).to(config.device)
        self._target = first_network(QNetwork, config, sizes).to(config.device)
        self._optimiser = torch.optim.Adam(self.network.parameters(), lr=config.learning_rate, fused=True)
        self._replay = PrioritisedReplay(config.capacity, config.priority_exponent, self._seen)

    def begin_with(self, weights: Arrays) -> None:
        """Take these weights before anything is learned."""
        set_weights(self.network, weights)
        set_weights(self._target, weights)

    @few_torch_threads()
    def advance(self) -> None:
        """One decision and, every `update_every` decisions, one update."""
        for transition in self._play(self._choose()):
            self._replay.add(transition)
        self.step += 1
        ready = self.step >= self.config.warm_up and len(self._replay) >= self.config.batch_size
        if ready and self.step % self.config.update_every == 0:
            self._update()

    def figures(self) -> dict[str, float]:
        """How training stands: return in the world's own terms; means since the last time start anew.

        `value`, the mean Q of the actions in replay, should stay in the range of the returns.
        """
        losses = np.array(self._losses) if self._losses else np.full((1, 2), math.nan)
        self._losses = []
        return {
            "return": self._returns.mean,
            "loss": float(losses[:, 0].mean()),
            "value": float(losses[:, 1].mean()),
            "epsilon": self._epsilon(),
        }

    # Acting

    def _draw_seed(self) -> int:
        return int(self._random.integers(2**31))

    def _begin_episode(self, seed: int) -> None:
        self._episode_seed = seed
        self._episode_actions: list[int] = []
        self._returns.running[:] = 0.0
        self._window = NStepWindow(self.config.n_step, self.config.discount)
        self._seen: Observation = _kept(self._lanes.reset(seed))

    def _epsilon(self) -> float:
        share = self.step / self.config.steps
        return linear_decay(share, self.config.epsilon_points, self.config.epsilon_values)

    def _choose(self) -> int:
        """A legal action: at random with chance epsilon, else the most valued."""
        if self._random.random() < self._epsilon():
            return int(self._random.choice(np.flatnonzero(self._seen["action_mask"])))
        single = {name: array[np.newaxis] for name, array in self._seen.items()}
        with torch.inference_mode():
            nodes, context, mask = self._tensors(single)
            return int(best_legal(self.network(nodes, context, mask), mask))

    def _play(self, action: int) -> list[Transition]:
        """Take the action; the transitions that this completes."""
        steps = self._lanes.step(np.array([action]))
        following, ended = _kept(steps.choices), bool(steps.ended[0])
        truncated = ended and steps.truncated is not None and bool(steps.truncated[0])
        self._episode_actions.append(action)
        self._returns.add(steps.own, steps.ended)
        ends = (ended and not truncated, truncated)
        made = self._window.push(self._seen, action, float(steps.rewards[0]), following, ends)
        self._seen = following
        if ended:
            # What is seen now may be another episode's; the next one is that of a seed of our own.
            self._begin_episode(self._draw_seed())
        return made

    # Learning

    def _tensors(self, observation: Observation) -> tuple[Tensor, Tensor, Tensor]:
        nodes, context, mask = (
            torch.from_numpy(observation[name]).to(self.config.device)
            for name in ("nodes", "context", "action_mask")
        )
        return nodes, context, mask.bool()

    def _update(self) -> None:
        """One step of gradient descent on replayed transitions."""
        config = self.config
        correction = linear_decay(self.step, (0, config.steps), (config.correction_start, 1.0))
        batch = self._replay.sample(config.batch_size, correction, self._random)
        action = torch.from_numpy(batch.action).to(config.device).unsqueeze(1)
        value = self.network(*self._tensors(batch.observation)).gather(1, action).squeeze(1)
        error = value - self._targets(batch)
        weights = torch.from_numpy(batch.weights).to(config.device)
        loss = (weights * nn.functional.huber_loss(error, torch.zeros_like(error), reduction="none")).mean()
        if not math.isfinite(loss.item()):
            raise WorkError(
                f"ddqn: the loss is {loss.item()} after {self.step} decisions and {self._updates} updates; "
                "a lower learning rate or smaller rewards may help"
            )
        self._optimiser.zero_grad()
        loss.backward()  # type: ignore[no-untyped-call]  # torch leaves it untyped
        nn.utils.clip_grad_norm_(self.network.parameters(), config.max_gradient)
        self._optimiser.step()
        self._replay.set_priorities(batch.places, error.detach().cpu().double().numpy())
        self._losses.append((loss.item(), value.mean().item()))
        self._updates += 1
        if self._updates % config.target_every == 0:
            self._target.load_state_dict(self.network.state_dict())

    @torch.no_grad()
    def _targets(self, batch: TransitionBatch) -> Tensor:
        """Double Q: the learning network names the best legal action, the target network values it."""
        nodes, context, mask = self._tensors(batch.following)
        names = self.network if self._double else self._target
        best = best_legal(names(nodes, context, mask), mask).unsqueeze(1)
        onward = self._target(nodes, context, mask).gather(1, best).squeeze(1)
        reward = torch.from_numpy(batch.reward).to(self.config.device)
        targets: Tensor = reward + torch.from_numpy(batch.discount).to(self.config.device) * onward
        return targets

    # Stopping and going on

    def capture(self) -> Arrays:
        """The whole learner, copied; take it at a report."""
        arrays = {
            **under("replay", self._replay.capture()),
            **under("network", weights_of(self.network)),
            **under("target", weights_of(self._target)),
            **under("adam", moments_of(self._optimiser)),
        }
        return with_values(
            arrays,
            {
                "step": self.step,
                "episodes": self._returns.episodes,
                "updates": self._updates,
                "returns": self._returns.latest,
                "losses": [list(pair) for pair in self._losses],
                "random": self._random.bit_generator.state,
                "episode_seed": self._episode_seed,
                "episode_actions": list(self._episode_actions),
            },
        )

    def restore(self, state: Mapping[str, Any]) -> None:
        """Become the captured learner; the current episode is played again up to where it was."""
        self._replay.restore(_unpadded(part_of(state, "replay"), self._seen["action_mask"].size))
        set_weights(self.network, part_of(state, "network"))
        set_weights(self._target, part_of(state, "target"))
        set_moments(self._optimiser, part_of(state, "adam"))
        values = values_of(state)
        self._begin_episode(values["episode_seed"])
        for action in values["episode_actions"]:
            self._play(action)  # what these steps taught is in the replay already
        if self._episode_seed != values["episode_seed"]:
            raise InputError(
                "ddqn: the episode to resume ends earlier than it did: this is another environment"
            )
        self.step, self._updates = values["step"], values["updates"]
        self._returns.latest, self._returns.episodes = list(values["returns"]), values["episodes"]
        self._losses = [(loss, value) for loss, value in values["losses"]]
        self._random.bit_generator.state = values["random"]


def _kept(choices: Choices) -> dict[str, Any]:
    """What is remembered of a choice, copied, under the names that saved states have."""
    return {
        "nodes": choices.rows[0].copy(),
        "context": choices.context[0].copy(),
        "action_mask": choices.legal[0].copy(),
    }


def _unpadded(replay: Arrays, actions: int) -> Arrays:
    """A saved memory with masks of so many actions: older runs kept some more that were never legal."""
    masks = ("observation.action_mask", "following.action_mask")
    if any(replay[name][:, actions:].any() for name in masks):
        raise InputError("ddqn: the saved memory has actions that do not exist: this is another environment")
    return {name: array[:, :actions] if name in masks else array for name, array in replay.items()}
