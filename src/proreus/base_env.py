"""What every Gymnasium environment of a world has: masks, rewards of one's own, ways to be seen, copies.

A world's environment says how an episode begins, what an action does and how the moment reads as text; what
stands here is the same for all of them. A copy (`copy.deepcopy`, `pickle`) goes on by itself, so that a
search may try actions on copies.
"""

from __future__ import annotations

import sys
from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from typing import Any, TypeAlias

import gymnasium
import numpy as np
from numpy.typing import NDArray

from proreus.kernels.arrays import Bool
from proreus.model.errors import IllegalDecision, unknown_name

Stepped: TypeAlias = tuple[Any, float, bool, bool, dict[str, Any]]
OwnReward = Callable[[Any, float, dict[str, Any]], float]
"""From the environment after a step, what the step was worth by itself, and `info`, to the reward."""
RENDER_MODES = ("ansi", "human", "rgb_array")
RAISE = "raise"
_DOTS_PER_INCH, _POINTS = 100, 9
_LEAST_COLUMNS = 60


class WorldEnv(gymnasium.Env[Any, np.int64], ABC):
    """One decision a step. `info` has the `action_mask` as `action_space.sample` takes it."""

    metadata = {"render_modes": list(RENDER_MODES), "render_fps": 2}  # noqa: RUF012  # as Gymnasium has it

    def __init__(
        self, *, seed: int | None, render_mode: str | None, illegal: tuple[str, str], reward: OwnReward | None
    ) -> None:
        """`illegal`: what an illegal action does, and what it does where it does not raise."""
        chosen, otherwise = illegal
        if chosen not in (RAISE, otherwise):
            raise unknown_name("illegal", str(chosen), (RAISE, otherwise))
        if render_mode is not None and render_mode not in RENDER_MODES:
            raise unknown_name("render_mode", str(render_mode), RENDER_MODES)
        self.render_mode = render_mode
        self._raises, self._otherwise, self._own_reward = chosen == RAISE, otherwise, reward
        self._first_seed, self._has_begun = seed, False
        self._frame: tuple[int, int] | None = None

    @abstractmethod
    def action_masks(self) -> Bool:
        """The legal actions now, under the name that sb3-contrib looks for; never none at all."""

    @abstractmethod
    def _begin(self, options: dict[str, Any]) -> None:
        """Start an episode that `np_random` determines."""

    @abstractmethod
    def _act(self, action: int) -> float:
        """Carry out a legal action, or what stands in for an illegal one; what it was worth."""

    @abstractmethod
    def _now(self) -> tuple[Any, bool, bool, dict[str, Any]]:
        """The observation, whether the episode is over or cut short, and `info` without the mask."""

    @abstractmethod
    def _lines(self) -> Sequence[str]:
        """The moment as text."""

    def reset(
        self, *, seed: int | None = None, options: dict[str, Any] | None = None
    ) -> tuple[Any, dict[str, Any]]:
        """Start an episode; the seed determines it and, through the generator of this env, those after it."""
        if seed is None and not self._has_begun:
            seed = self._first_seed
        super().reset(seed=seed)
        self._begin(options or {})
        self._has_begun = True
        observation, _, _, info = self._now()
        if self.render_mode == "human":
            self._print()
        return observation, {"action_mask": self._mask(), **info}

    def step(self, action: np.int64 | int) -> Stepped:
        return self._stepped(self._act(int(action)))

    def render(self) -> Any:
        """The moment as text ("ansi") or as a picture of it ("rgb_array"); "human" prints each by itself."""
        match self.render_mode:
            case "ansi":
                return "\n".join(self._lines())
            case "rgb_array":
                return self._picture()
            case _:
                return None

    def _stepped(self, worth: float) -> Stepped:
        """What a step came to."""
        observation, terminated, truncated, extra = self._now()
        info = {"action_mask": self._mask(), **extra}
        if self._own_reward is not None:
            info["worth"] = worth
            worth = float(self._own_reward(self, worth, info))
        if self.render_mode == "human":
            self._print()
        return observation, worth, terminated, truncated, info

    def _refuse(self, what: str) -> None:
        """Of an illegal action: raise, unless something else is to stand in for it."""
        if self._raises:
            raise IllegalDecision(f"{what}; with illegal={self._otherwise!r} it counts as {self._otherwise}")

    def _mask(self) -> NDArray[np.int8]:
        return self.action_masks().astype(np.int8)

    def _print(self) -> None:
        sys.stdout.write("\n".join(self._lines()) + "\n\n")

    def _picture(self) -> NDArray[np.uint8]:
        """The text as pixels, [height, width, 3]; every frame is as large as the first."""
        from matplotlib.backends.backend_agg import FigureCanvasAgg
        from matplotlib.figure import Figure

        lines = list(self._lines())
        if self._frame is None:
            self._frame = (len(lines) + 1, max(_LEAST_COLUMNS, *map(len, lines)) + 2)
        rows, columns = self._frame
        inch = _POINTS / 72
        figure = Figure(figsize=(0.68 * columns * inch, 1.5 * rows * inch), dpi=_DOTS_PER_INCH)
        canvas: Any = FigureCanvasAgg(figure)
        text = "\n".join(line[:columns] for line in lines[:rows])
        figure.text(0.01, 0.98, text, family="monospace", fontsize=_POINTS, va="top", parse_math=False)
        canvas.draw()
        return np.asarray(canvas.buffer_rgba())[:, :, :3].copy()


def own_reward(settings: dict[str, Any]) -> OwnReward | None:
    """Takes a `reward` that is a function out of the settings; names of rewards stay there."""
    return settings.pop("reward") if callable(settings.get("reward")) else None
