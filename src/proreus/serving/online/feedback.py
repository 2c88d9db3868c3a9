"""Experience that clients report: checked, completed from memory, and durable before it is acknowledged.

What a client of the k8s simulator sends is states, actions, rewards and ends of episodes. What learning needs
besides (with which probability, under which mask and by which version an action was chosen) the service
remembers from when it decided. Steps that it does not remember and that come without a log-probability are
logged all the same; the policy does not learn from them. Numbers that cannot be meant are refused.
"""

from __future__ import annotations

import hashlib
import math
import threading
from collections.abc import Callable
from dataclasses import dataclass
from itertools import groupby

import numpy as np

from proreus.kernels.arrays import F64, Bool
from proreus.log.protocol import PartTooLarge
from proreus.model.errors import WorkError
from proreus.model.experience import Experience
from proreus.serving.decision_service import DecisionService
from proreus.serving.messages import Refusal, Refused, UpdateAnswer, UpdateRequest, invalid
from proreus.serving.online.experience_log import ExperienceLog
from proreus.serving.online.learner import LearnerStatus
from proreus.serving.online.report_limits import MOST_REWARD
from proreus.serving.pending_decisions import PendingDecision
from proreus.serving.validation import check_actions, check_numbers, check_states

MOST_STEPS = 100_000
"""Of one report."""
LEAST_LOG_PROB = -30.0
"""No action with a smaller chance is ever drawn."""


@dataclass(frozen=True, eq=False)
class _Step:
    """One step with all that learning needs to know."""

    state: F64
    action: int
    reward: float
    done: bool
    log_prob: float
    greedy: bool
    version: int
    mask: Bool | None

    @property
    def learnable(self) -> bool:
        return math.isfinite(self.log_prob) and not self.greedy


class Feedback:
    """Takes reports."""

    def __init__(
        self,
        service: DecisionService,
        log: ExperienceLog,
        learner: Callable[[], LearnerStatus] | None,
        knows: Callable[[int], bool],
    ) -> None:
        """learner: how learning stands, None where nothing learns. knows: whether a version exists."""
        self._service, self._log, self._learner, self._knows = service, log, learner, knows
        self._lock = threading.Lock()
        self._rounds_told = 0

    @property
    def learning(self) -> bool:
        """Whether anything learns from what is reported."""
        return self._learner is not None

    @property
    def trouble(self) -> str:
        """Why no experience can be logged now; "" where it can."""
        return self._log.trouble

    def take(self, request: UpdateRequest, client: str = "") -> UpdateAnswer:
        """Check a report, log it, and say how learning stands; returns when it is durable.

        client: who reports, by whatever the door knows of it; what one says counts as one's part.
        """
        steps = self._steps(request, client)
        records = _records(steps, self._service.options.dimensions.actions, reporter_of(client))
        try:
            self._log.append(*records)
        except PartTooLarge as error:
            raise invalid("states", f"the report is too large: {error}") from error
        except WorkError as error:
            raise Refused(Refusal.UNAVAILABLE, f"experience cannot be logged now: {error}") from error
        learnable = sum(step.learnable for step in steps)
        count = self._service.measurements.count
        count("proreus_experience", learnable, use="policy")
        count("proreus_experience", len(steps) - learnable, use="log only")
        status = LearnerStatus() if self._learner is None else self._learner()
        with self._lock:
            updated = status.rounds > self._rounds_told
            self._rounds_told = max(status.rounds, self._rounds_told)
        return UpdateAnswer(
            status="updated" if updated else "buffering",
            logged=len(steps),
            learnable=learnable,
            buffered=status.queue,
            model_version=self._service.version,
        )

    def _steps(self, request: UpdateRequest, client: str) -> list[_Step]:
        count = len(request.states)
        if not 1 <= count <= MOST_STEPS:
            raise invalid("states", f"has {count} steps; between 1 and {MOST_STEPS} are possible")
        for field in ("actions", "rewards", "dones", "log_probs"):
            column = getattr(request, field)
            if column is not None and len(column) != count:
                raise invalid(field, f"has {len(column)} entries for {count} states")
        dimensions = self._service.options.dimensions
        states = check_states(request.states, dimensions)
        actions = check_actions(request.actions, dimensions).tolist()
        rewards = check_numbers(request.rewards, "rewards", (-MOST_REWARD, MOST_REWARD)).tolist()
        given = None
        if request.log_probs is not None:
            given = check_numbers(request.log_probs, "log_probs", (LEAST_LOG_PROB, 0.0)).tolist()
        if request.model_version is not None and not self._knows(request.model_version):
            raise invalid("model_version", f"there is no version {request.model_version}")
        steps = []
        for index, state in enumerate(states):
            decided = self._service.recent.find(state, actions[index], client)
            steps.append(
                _Step(
                    state=state,
                    action=actions[index],
                    reward=rewards[index],
                    done=request.dones[index],
                    log_prob=_log_prob(None if given is None else given[index], decided),
                    greedy=decided is not None and not decided.drawn,
                    version=_version(request.model_version, decided),
                    mask=None if decided is None else decided.mask,
                )
            )
        return steps


def _log_prob(given: float | None, decided: PendingDecision | None) -> float:
    if given is not None:
        return given
    return math.nan if decided is None else decided.log_prob


def _version(given: int | None, decided: PendingDecision | None) -> int:
    if given is not None:
        return given
    return 0 if decided is None else decided.version


def reporter_of(client: str) -> int:
    """What a client is known by in the log: nobody can read from it who it was."""
    if not client:
        return 0
    return int.from_bytes(hashlib.blake2b(client.encode(), digest_size=8).digest(), "little")


def _records(steps: list[_Step], actions: int, reporter: int) -> list[Experience]:
    """Steps in their order; a record has states of one length, decided by one version."""
    numbers = np.array([step.action for step in steps], dtype=np.int64)
    rewards, log_probs = (np.array([getattr(s, name) for s in steps]) for name in ("reward", "log_prob"))
    dones = np.array([step.done for step in steps], dtype=np.bool_)
    greedy = np.array([step.greedy for step in steps], dtype=np.bool_)
    experiences, start = [], 0
    for (_, version), group in groupby(steps, key=lambda step: (len(step.state), step.version)):
        run = list(group)
        masks = None
        if any(step.mask is not None for step in run):
            everything = np.ones(actions, dtype=np.bool_)
            masks = np.stack([everything if step.mask is None else step.mask for step in run])
        those = slice(start, start + len(run))
        start += len(run)
        experiences.append(
            Experience(
                states=np.stack([step.state for step in run]),
                actions=numbers[those],
                rewards=rewards[those],
                dones=dones[those],
                log_probs=log_probs[those],
                greedy=greedy[those],
                model_version=version,
                actions_dim=actions,
                masks=masks,
                reporter=reporter,
            )
        )
    return experiences
