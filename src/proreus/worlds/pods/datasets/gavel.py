"""Gavel's traces of training jobs (OSDI'20, derived from Microsoft's Philly) and its measured throughputs.

A trace has one job per line, tab separated, without a header. The columns were inferred from the rows and
from Gavel's own parser, they are documented nowhere:

- 7 cells (`msr_*`): job_type, command, steps_arg, needs_data_dir, total_steps, arrival_time, scale_factor
- 10 cells (`physical_cluster`): job_type, command, work_dir, steps_arg, needs_data_dir, total_steps,
  scale_factor, priority_weight (always 1), SLO (always -1), arrival_time

A job becomes one pod of `scale_factor` whole GPUs that runs total_steps / throughput seconds, at the
throughput measured for a job of that type and scale that has its GPUs of the chosen type to itself. The
trace says nothing of CPU and memory, so pods ask for none; nor do they ask for a GPU model, so give them
nodes of the type their durations were computed for. `catalogue` calls this.
"""

from __future__ import annotations

import math
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from enum import Enum
from pathlib import Path

from proreus.data.json_tree import load_json
from proreus.data.table import TableRow, read_headless
from proreus.model.errors import InputError, unknown_name
from proreus.model.node import Node
from proreus.model.pod import GPU_WHOLE, GpuRequest, Pod, PodSpec
from proreus.model.resources import GIB, Resources

DEFAULT_GPU = "v100"

_COLUMNS = {
    7: ["job_type", "command", "steps_arg", "needs_data_dir", "total_steps", "arrival_time", "scale_factor"],
    10: [
        "job_type",
        "command",
        "work_dir",
        "steps_arg",
        "needs_data_dir",
        "total_steps",
        "scale_factor",
        "priority_weight",
        "SLO",
        "arrival_time",
    ],
}
_JOB_KEY = re.compile(r"\('(.*)', ([0-9]+)\)")
_ALONE = "null"  # the neighbour of a job that shares its GPUs with nobody


class Unmeasured(Enum):
    """What to do with a job whose type was never measured at its scale."""

    REFUSE = "refuse"
    LEAVE_OUT = "leave out"


@dataclass(frozen=True)
class Throughputs:
    """Steps per second of jobs that run alone on GPUs of one type."""

    gpu: str
    steps_per_second: Mapping[tuple[str, int], float]
    """By job type and number of GPUs."""


def read_throughputs(path: Path, gpu: str = DEFAULT_GPU) -> Throughputs:
    """The measurements for one GPU type; those of jobs that share a GPU are not read."""
    measured = load_json(path)
    if not isinstance(measured, dict) or not all(isinstance(jobs, dict) for jobs in measured.values()):
        raise InputError("throughputs are an object of GPU types, each an object of job types", file=path)
    if gpu not in measured:
        raise unknown_name("GPU type", gpu, measured)
    speeds: dict[tuple[str, int], float] = {}
    for key, neighbours in measured[gpu].items():
        job = _JOB_KEY.fullmatch(key)
        if job is None:
            raise InputError("a job type reads ('name', scale)", file=path, field=f"{gpu}.{key}")
        speed = neighbours.get(_ALONE) if isinstance(neighbours, dict) else None
        if isinstance(speed, bool) or not isinstance(speed, int | float) or not 0 <= speed < math.inf:
            message = f"{speed!r} is not a number of steps per second"
            raise InputError(message, file=path, field=f"{gpu}.{key}.{_ALONE}")
        speeds[job[1], int(job[2])] = float(speed)
    return Throughputs(gpu, speeds)


def read_jobs(
    path: Path, throughputs: Throughputs, unmeasured: Unmeasured = Unmeasured.REFUSE
) -> tuple[Pod, ...]:
    """The jobs of a trace as pods, by arrival."""
    pods = []
    for row in read_headless(path, _COLUMNS, delimiter="\t"):
        job_type, scale = row.text("job_type"), row.integer("scale_factor", minimum=1, maximum=10**6)
        steps, arrival = row.integer("total_steps"), row.number("arrival_time")
        # A throughput of 0 means that the job does not fit into such a GPU's memory.
        speed = throughputs.steps_per_second.get((job_type, scale), 0.0)
        if speed > 0:
            spec = PodSpec(Resources(), GpuRequest(scale, GPU_WHOLE))
            pods.append(Pod(f"job-{row.line:05d}", spec, arrival, steps / speed, job=job_type))
        elif unmeasured is Unmeasured.REFUSE:
            raise _unmeasured(row, throughputs.gpu)
    return tuple(sorted(pods, key=lambda pod: pod.arrival))


def gavel_nodes(count: int, gpus_per_node: int = 8, model: str = DEFAULT_GPU) -> tuple[Node, ...]:
    """`count` nodes alike; with each GPU come 8 cores and 61 GiB, as in the cloud machines of the paper."""
    return tuple(
        Node(
            name=f"gpu-node-{index:04d}",
            allocatable=Resources(cpu=8_000 * gpus_per_node, memory=61 * GIB * gpus_per_node, pods=110),
            gpu_count=gpus_per_node,
            gpu_model=model,
        )
        for index in range(count)
    )


def nodes_for(pods: Sequence[Pod], load: float = 0.9) -> tuple[Node, ...]:
    """8-GPU nodes, as many as the jobs fill to `load` on average between time 0 and the last arrival.

    The traces name no cluster. A span shorter than the longest job is taken to be that long, so that
    jobs which all arrive at 0 get a cluster that is busy for about that time.
    """
    work = sum(pod.spec.gpu.count * pod.duration for pod in pods)
    span = max((max(pod.arrival, pod.duration) for pod in pods), default=0.0)
    busy = work / span if span > 0 else 0.0
    return gavel_nodes(max(1, math.ceil(busy / (8 * load))))


def _unmeasured(row: TableRow, gpu: str) -> InputError:
    job_type, scale = row.text("job_type"), row.text("scale_factor")
    return row.fail("job_type", f"no throughput of {job_type!r} on {scale} GPUs of type {gpu}")
