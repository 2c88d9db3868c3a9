"""The world of pods as one value."""

from __future__ import annotations

from proreus.contract.user_scenarios import playing
from proreus.contract.world import Quantity, Words, World
from proreus.worlds.pods.datasets.catalogue import DATASETS
from proreus.worlds.pods.flags import PodsFlags
from proreus.worlds.pods.play import play, warm_up
from proreus.worlds.pods.policies.catalogue import POLICIES
from proreus.worlds.pods.scenarios import PodScenario, scenario_from_json
from proreus.worlds.pods.simulation.outcome import MEASURES

WORLD = World(
    name="pods",
    what="pods on the nodes of a Kubernetes cluster: queues, preemption, GPUs",
    flags=PodsFlags,
    scenario=scenario_from_json,
    presets=("small", "medium", "large", "gpu"),
    policies=lambda scenario: POLICIES,
    play=playing(PodScenario, play),
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
    words=Words(
        noun="pods",
        place="node",
        subject="pod",
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
    ),
    warm_up=warm_up,
    datasets=DATASETS,
    learners={
        "es": "proreus.worlds.pods.training.learners:ES",
        "ppo": "proreus.worlds.pods.training.learners:PPO",
        "ddqn": "proreus.worlds.pods.training.torch_learners:DDQN",
        "imitate": "proreus.worlds.pods.training.imitation:IMITATE",
    },
    trains_on=("gpu",),
    combine="proreus.worlds.pods.training.combine:combine",
    specialist="proreus.worlds.pods.training.specialist:SPECIALIST",
    tunes_from="a file of pods (manifests, or a format that --format names), a folder with one and a file of "
    "nodes, with --format engine a cluster's folder or store, or a scenario by name. Of files and stores, "
    "the first three fifths train and the last fifth judges.",
    bench="proreus.worlds.pods.bench:bench_pods",
    examples={
        "simulate": "proreus simulate pods --scenario small --policy kube --explain app-003-4",
        "compare": "proreus compare pods --scenario gpu --policies kube,fgd,best_fit --seeds 10 --tie random",
        "tune": "proreus tune pods --from jobs.csv --nodes nodes.csv --minutes 10",
    },
)
