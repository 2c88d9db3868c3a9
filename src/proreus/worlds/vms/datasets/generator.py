"""Virtual machines for those who have no trace: flavours, bursts and lifetimes calibrated on Huawei-East-1.

Machines come in batches of one flavour, as customers order them; how long they stay depends on the flavour.
The figures are the published counts and quantiles of the real month; nothing else of it is in here.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from proreus.kernels.arrays import F64
from proreus.worlds.vms.model import VmTrace, events_of

_LEVELS = (0.0, 0.10, 0.25, 0.50, 0.75, 0.90, 0.99, 1.0)
"""The quantiles that `Flavour.lifetime` lists."""


class Flavour(NamedTuple):
    """One size of machine."""

    cpu: int
    mem: int
    machines: int
    """Machines of this size in the real month."""
    lifetime: tuple[int, ...]
    """Seconds, at `_LEVELS`."""


FLAVOURS = (
    Flavour(1, 2, 53_934, (1, 1_382, 2_930, 4_969, 13_226, 29_266, 142_880, 2_500_000)),
    Flavour(1, 1, 25_447, (1, 67, 70, 216, 1_197, 4_019, 690_301, 2_500_000)),
    Flavour(2, 4, 14_918, (1, 31, 112, 1_230, 4_249, 11_453, 516_486, 2_500_000)),
    Flavour(4, 8, 9_360, (1, 29, 58, 773, 3_433, 8_003, 676_337, 2_500_000)),
    Flavour(1, 4, 3_339, (1, 27, 30, 60, 599, 2_444, 7_321, 1_200_000)),
    Flavour(2, 8, 2_273, (1, 27, 29, 59, 1_207, 9_454, 526_273, 2_000_000)),
    Flavour(8, 16, 2_029, (1, 29, 30, 58, 488, 2_829, 470_089, 2_000_000)),
    Flavour(4, 16, 1_962, (1, 29, 58, 376, 4_931, 5_031, 242_582, 1_500_000)),
    Flavour(8, 32, 1_023, (1, 29, 31, 58, 202, 633, 238_804, 1_500_000)),
    Flavour(16, 32, 1_002, (1, 31, 32, 59, 514, 32_490, 502_370, 1_500_000)),
    Flavour(12, 24, 638, (1, 29, 31, 33, 58, 60, 68, 200_000)),
    Flavour(64, 128, 252, (1, 13_471, 18_122, 40_398, 51_086, 106_349, 337_267, 600_000)),
    Flavour(32, 64, 131, (1, 277, 293, 1_010, 45_730, 373_158, 1_114_017, 1_200_000)),
    Flavour(24, 48, 3, (100_000, 321_873, 633_774, 1_153_609, 1_156_399, 1_158_073, 1_159_077, 1_160_000)),
    Flavour(48, 96, 2, (400, 52_667, 131_028, 261_631, 392_233, 470_595, 517_611, 520_000)),
)
MONTH = 2_678_188.0
"""Seconds that the real trace spans."""
_MACHINES = sum(flavour.machines for flavour in FLAVOURS)
_SAME_AGAIN = 0.5
"""How often the next machine belongs to the batch of the one before."""
_DAY = 86_400.0
_DAILY_SWING = 0.5


def generate_vms(machines: int, seed: int, *, density: float = 1.0) -> VmTrace:
    """So many machines; `density` 2.0 brings them twice as fast as in the real month."""
    draw = np.random.default_rng(seed)
    opens = np.ones(machines, dtype=np.bool_)
    opens[1:] = draw.random(machines - 1) >= _SAME_AGAIN
    batch = np.cumsum(opens) - 1
    batches = int(batch[-1]) + 1
    counts = np.array([flavour.machines for flavour in FLAVOURS], dtype=np.float64)
    flavour = draw.choice(len(FLAVOURS), size=batches, p=counts / counts.sum())[batch]
    arrival = _moments(draw, batches, machines, density)[batch]
    # Machines of a batch live alike: one draw for the batch, a little of each machine's own.
    level = np.abs(draw.random(batches)[batch] + draw.normal(0.0, 0.05, machines))
    level = 1.0 - np.abs(1.0 - level)  # what falls out at an end comes back in, so that levels stay even
    lifetime = np.zeros(machines)
    for place, kind in enumerate(FLAVOURS):
        chosen = flavour == place
        logs = np.interp(level[chosen], _LEVELS, np.log(kind.lifetime))
        lifetime[chosen] = np.maximum(np.rint(np.exp(logs)), 1.0)
    cpu = np.array([kind.cpu for kind in FLAVOURS], dtype=np.float64)[flavour]
    mem = np.array([kind.mem for kind in FLAVOURS], dtype=np.float64)[flavour]
    return VmTrace(f"generated-{seed}", cpu, mem, arrival, lifetime, events_of(arrival, lifetime))


def _moments(draw: np.random.Generator, batches: int, machines: int, density: float) -> F64:
    """When each batch comes: whole seconds, more by day than by night."""
    mean_gap = MONTH / _MACHINES / density * machines / batches
    even = np.cumsum(draw.exponential(mean_gap, batches))
    # Time runs faster where more arrives: the even moments are moved to where the daily wave has them.
    turn = 2 * np.pi / _DAY
    waved = even + _DAILY_SWING / turn * np.sin(turn * even)
    moments: F64 = np.floor(waved - waved[0])
    return moments
