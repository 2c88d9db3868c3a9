"""Finds single samples in another unit than the rest of their pod, by their magnitude.

A pod is judged by the median of its first samples. CPU use really does leap by a thousand (an idle pod
wakes up), so a sample counts as millicores only where it would also be a whole lot of cores; memory use
does not, so a factor near a power of 1024 is a unit.
"""

from __future__ import annotations

from itertools import pairwise

import numpy as np
import numpy.typing as npt

from proreus.data.cleaning.rows import Rows

SAMPLES = 16
"""A pod is judged once it has so many samples, or at the end of the file."""
FEWEST = 4
"""Fewer samples than this judge nothing."""
MILLI = 1000.0
MOST_CORES = 64.0
"""A pod whose median is above this counts in millicores altogether."""
LEAST_MILLICORES = 4.0
"""A sample below so many cores is never taken for millicores."""
CPU_BAND = 8.0
"""A corrected CPU lies within this factor of the median."""
MEM_BAND = 4.0
"""A corrected memory lies within this factor of the median."""
MEM_POWERS = (1, 2, 3)
LEAST_BYTES = 2.0**20
"""A median below this is no memory in bytes: nothing is judged by it."""

Amounts = npt.NDArray[np.float64]


class UnitJudge:
    """Knows the usual cpu and mem of each pod."""

    def __init__(self, cpu: bool, mem: bool) -> None:
        self.needed = SAMPLES if cpu or mem else 0
        """Samples of a pod that must be known before any of them is judged."""
        self._judges_cpu, self._judges_mem = cpu, mem
        self._cpu: Amounts = np.zeros(0)
        self._mem: Amounts = np.zeros(0)

    def learn(self, rows: Rows, names: int) -> None:
        """Take the medians of pods that are not known yet; rows are those of these pods."""
        self._cpu = np.concatenate([self._cpu, np.full(names - len(self._cpu), np.nan)])
        self._mem = np.concatenate([self._mem, np.full(names - len(self._mem), np.nan)])
        order = np.lexsort((rows.line, rows.name))
        name = rows.name[order]
        borders = [0, *(np.flatnonzero(name[1:] != name[:-1]) + 1).tolist(), len(name)]
        for start, end in pairwise(borders):
            sample = order[start : min(end, start + SAMPLES)]
            if len(sample) >= FEWEST:
                self._cpu[name[start]] = np.median(rows.cpu[sample])
                self._mem[name[start]] = np.median(rows.mem[sample])

    def mend_cpu(self, rows: Rows) -> tuple[Amounts, npt.NDArray[np.bool_]]:
        """(cpu in cores, which rows were in millicores)."""
        if not self._judges_cpu:
            return rows.cpu, np.zeros(len(rows.cpu), np.bool_)
        usual = self._cpu[rows.name]
        whole_pod = usual > MOST_CORES
        with np.errstate(divide="ignore", invalid="ignore"):
            ratio = rows.cpu / MILLI / usual
            leap = (ratio >= 1 / CPU_BAND) & (ratio <= CPU_BAND) & (rows.cpu >= LEAST_MILLICORES)
        # In a pod that counts in millicores a sample below one millicore's worth of cores stays ambiguous;
        # it is read like the rest of its pod.
        milli = whole_pod | leap
        return np.where(milli, rows.cpu / MILLI, rows.cpu), milli & (rows.cpu > 0)

    def mend_mem(self, rows: Rows) -> tuple[Amounts, npt.NDArray[np.bool_]]:
        """(mem in bytes, which rows were in KiB, MiB or GiB)."""
        none = np.zeros(len(rows.mem), np.bool_)
        if not self._judges_mem:
            return rows.mem, none
        usual = self._mem[rows.name]
        mended, hit = rows.mem.copy(), none
        for power in MEM_POWERS:
            factor = 1024.0**power
            with np.errstate(divide="ignore", invalid="ignore"):
                ratio = rows.mem * factor / usual
                smaller = (usual >= LEAST_BYTES) & (ratio >= 1 / MEM_BAND) & (ratio <= MEM_BAND)
            # MiB read as GiB and the like cannot both fit: the bands of two powers do not touch.
            mended[smaller] = rows.mem[smaller] * factor
            hit = hit | smaller
        return mended, hit
