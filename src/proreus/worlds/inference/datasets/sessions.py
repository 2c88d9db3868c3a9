"""Generated conversations: every turn repeats what was said before it, behind instructions that many know."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from proreus.model.errors import UsageError
from proreus.worlds.inference.datasets.generator import Load, generate
from proreus.worlds.inference.model.prefixes import blocks_of
from proreus.worlds.inference.model.requests import RequestTrace


@dataclass(frozen=True)
class Conversations:
    """What requests have in common."""

    turns: float = 4.0
    """Requests of a conversation, mean."""
    pause_seconds: float = 30.0
    """From one turn to the next, mean; it does not wait for the answer."""
    instructions: int = 4
    """Different beginnings, each as likely."""
    instruction_tokens: int = 1_024
    most_prompt: int = 32_768
    """A conversation ends before its prompt would be longer."""
    block: int = 512
    """Tokens of a block that a prefix cache knows."""

    def __post_init__(self) -> None:
        if self.turns < 1 or self.pause_seconds <= 0 or min(self.instructions, self.block) < 1:
            raise UsageError("conversations have a turn, a pause, a beginning and blocks of a token at least")
        if not 0 <= self.instruction_tokens < self.most_prompt:
            raise UsageError("instructions leave room for a prompt")


def generate_sessions(name: str, load: Load, sessions: Conversations, seed: int) -> RequestTrace:
    """Conversations begin as often as the load allows for their turns; lengths are those of the load."""
    openings = generate(name, replace(load, rate=load.rate / sessions.turns), seed)
    draw = np.random.default_rng([seed, 1])
    shared = sessions.instruction_tokens // sessions.block
    fresh = sessions.instructions * shared
    """The next number that no block has."""
    found: list[tuple[float, int, int, int, list[int]]] = []
    for opening in range(len(openings)):
        moment, said = float(openings.arrival[opening]), sessions.instruction_tokens
        instruction = int(draw.integers(sessions.instructions))
        numbers = list(range(instruction * shared, (instruction + 1) * shared))
        for turn in range(int(draw.geometric(1.0 / sessions.turns))):
            other = opening if turn == 0 else int(draw.integers(len(openings)))
            prompt, output = said + int(openings.prompt[other]), int(openings.output[other])
            if moment >= load.seconds or (turn > 0 and prompt > sessions.most_prompt):
                break
            whole = prompt // sessions.block
            numbers += range(fresh, fresh + max(whole - len(numbers), 0))
            fresh = max(fresh, numbers[-1] + 1) if numbers else fresh
            found.append((moment, prompt, output, int(openings.service[opening]), numbers[:whole]))
            said, moment = prompt + output, moment + float(draw.exponential(sessions.pause_seconds))
    found.sort(key=lambda one: one[0])
    moments, prompts, outputs, services, blocks = zip(*found, strict=True)
    return RequestTrace(
        name,
        np.array(moments),
        np.array(prompts, dtype=np.int32),
        np.array(outputs, dtype=np.int32),
        np.zeros(len(found), dtype=np.int32),
        np.array(services, dtype=np.int32),
        blocks_of(list(blocks), sessions.block),
    )
