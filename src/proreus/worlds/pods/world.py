"""The world of pods as comparisons see it; its scenarios are in `scenario`."""

from __future__ import annotations

from proreus.contract.heat import heat_map
from proreus.contract.world import Picture, Played, Quantity, Recording, World
from proreus.policies.protocol import Policy
from proreus.worlds.pods.play import load_kernels, simulate
from proreus.worlds.pods.simulation.outcome import MEASURES, Outcome
from proreus.worlds.pods.simulation.world import PodsOptions
from proreus.worlds.pods.state.compile import Compiled

PODS = World(
    name="pods",
    measures=MEASURES,
    quantities=(
        Quantity("gpu-allocation", "GPU allocation", "%", "allocation"),
        Quantity(
            "fragmentation", "Fragmentation: GPU share that typical pods cannot use", "%", "fragmentation"
        ),
        Quantity("waiting", "Waiting pods", "pods", "waiting"),
        Quantity("cpu-allocation", "CPU allocation", "%", "cpu-allocation"),
        Quantity("running", "Running pods", "pods"),
        Quantity("memory-allocation", "Memory allocation", "%"),
    ),
    load_kernels=load_kernels,
    does={
        "gpu_allocation_peak": "allocates {} of the GPUs",
        "jct_mean": "completes a pod in {} on average",
        "wait_mean": "lets a pod wait {} on average",
        "failures": "leaves {} without a place",
        "cpu_allocation": "keeps {} of the CPUs allocated on average",
    },
    unplaced={"jct_mean": "failures", "wait_mean": "failures"},
    load_title="GPU demand that has arrived, % of capacity",
    caution="Times count only pods that started or finished.",
)

# Where nobody leaves, room is what counts; elsewhere time is.
DECIDES_WITHOUT_QUEUE = ("gpu_allocation_peak", "failures", "cpu_allocation")
DECIDES_WITH_QUEUE = ("jct_mean", "wait_mean", "cpu_allocation")

TELLING_WITHOUT_QUEUE = (
    "gpu_allocation_peak",
    "gpu_allocation",
    "fragmentation_end",
    "fragmentation",
    "cpu_allocation",
    "memory_allocation",
    "failures",
    "decisions_per_s",
)
TELLING_WITH_QUEUE = (
    "jct_mean",
    "wait_mean",
    "wait_p99",
    "makespan",
    "gpu_allocation",
    "cpu_allocation",
    "preemptions",
    "failures",
    "decisions_per_s",
)


def play(compiled: Compiled, policy: Policy, options: PodsOptions, *, with_picture: bool) -> Played:
    """A run of the policy over the compiled workload."""
    outcome = simulate(compiled, policy, options)
    measures = {measure: float(value) for measure, value in outcome.measures.items()}
    return Played(measures, _picture(compiled, outcome, options) if with_picture else None)


def _picture(compiled: Compiled, outcome: Outcome, options: PodsOptions) -> Picture:
    curves = outcome.curves
    series = {f"{resource}-allocation": values for resource, values in curves.allocation.items()}
    series |= {
        "fragmentation": curves.fragmentation,
        "waiting": curves.waiting,
        "running": curves.running,
    }
    # Where nobody leaves, the load that has arrived says more than the time.
    by_load = options.drop_failures and curves.arrived.size > 0 and curves.arrived[-1] > 0
    return Picture(
        Recording(curves.time, series, curves.arrived if by_load else None),
        heat_map(outcome.heat, outcome.heat_times),
        (f"{len(compiled.workload.nodes):,} nodes", f"{len(compiled.workload.pods):,} pods"),
    )
