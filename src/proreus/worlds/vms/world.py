"""The world of virtual machines as one value."""

from __future__ import annotations

from typing import Any

from proreus.contract.user_scenarios import playing
from proreus.contract.world import Quantity, Words, World
from proreus.worlds.vms.datasets.catalogue import DATASETS
from proreus.worlds.vms.flags import VmsFlags
from proreus.worlds.vms.play import play, play_runs
from proreus.worlds.vms.policies.catalogue import VM_POLICIES, make_vm_policy
from proreus.worlds.vms.scenarios import VmScenario, scenario_from_json
from proreus.worlds.vms.simulation.outcome import MEASURES
from proreus.worlds.vms.simulation.runs import VmRuns


def warm_up() -> None:
    """Compile what the runs of rules need, or load it from the cache."""
    runs = VmScenario("warm-up", starts=1, limit=2).load(0)
    play_runs(runs, make_vm_policy("first_fit"))


def _first_run(work: Any) -> Any:
    """What pictures and --watch show of several runs; of a stranger's own work all of it."""
    return work.first() if isinstance(work, VmRuns) else work


WORLD = World(
    name="vms",
    what="virtual machines on servers with two NUMA nodes: they come, wait, run and leave",
    flags=VmsFlags,
    scenario=scenario_from_json,
    presets=("recovering", "waiting", "rejecting", "fading", "expansion@20", "recovering-large"),
    policies=lambda scenario: VM_POLICIES,
    play=playing(VmScenario, play, shown=_first_run),
    measures=MEASURES,
    quantities=(
        Quantity("waiting", "Machines in line", "machines", "waiting"),
        Quantity("cpu-allocation", "CPU allocation", "%", "cpu-allocation"),
        Quantity("memory-allocation", "Memory allocation", "%", "memory-allocation"),
        Quantity("running", "Machines that run", "machines"),
        Quantity("servers", "Servers in use", "servers"),
    ),
    words=Words(
        noun="machines",
        place="server",
        subject="machine",
        does={
            "total_wait": "lets the machines of a run wait {} in all",
            "placements": "places {} before one fits nowhere",
            "rejected": "turns away {} of the machines",
        },
        caution="Runs wait from seconds to weeks: the total wait is a mean without the lowest and highest "
        "tenth.",
    ),
    warm_up=warm_up,
    datasets=DATASETS,
    learners={
        "es": "proreus.worlds.vms.training.learners:ES",
        "qmix": "proreus.worlds.vms.training.torch_learners:QMIX",
        "ppo": "proreus.worlds.vms.training.torch_learners:PPO",
        "ddqn": "proreus.worlds.vms.training.torch_learners:DDQN",
    },
    specialist="proreus.worlds.vms.training.specialist:SPECIALIST",
    tunes_from="a file of events (vmid,cpu,memory,time,type) or of lifetimes (vmid,cpu,mem,at,lt), for the "
    "cluster that --scenario names (and --servers, --double, --full); or a scenario by name, as "
    "huawei/waiting@5. Of a trace the first three fifths train and the last fifth judges.",
    combine="proreus.worlds.vms.training.combine:combine",
    trains_on=("waiting",),
    bench="proreus.worlds.vms.bench.claims:bench_vms",
    shown=_first_run,
    examples={
        "simulate": "proreus simulate vms --scenario waiting --policy balance_fit --starts 100",
        "compare": "proreus compare vms --scenarios waiting,recovering@20 "
        "--policies first_fit,balance_fit,learned",
        "tune": "proreus tune vms --from machines.csv --scenario waiting@20 --minutes 10",
    },
)
