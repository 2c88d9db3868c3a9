"""The world of workflows as one value."""

from __future__ import annotations

from proreus.contract.user_scenarios import playing
from proreus.contract.world import Quantity, Words, World
from proreus.worlds.workflows.datasets.catalogue import DATASETS
from proreus.worlds.workflows.flags import WorkflowsFlags
from proreus.worlds.workflows.play import play
from proreus.worlds.workflows.policies.catalogue import POLICIES
from proreus.worlds.workflows.scenarios import SCENARIOS, WorkflowsScenario, scenario_from_json
from proreus.worlds.workflows.simulation.outcome import MEASURES


def warm_up() -> None:
    """Compile what the runs of rules need, or load it from the cache."""
    for name in ("calm", "static"):
        scenario = WorkflowsScenario(name, SCENARIOS[name].terms, SCENARIOS[name].load_share, count=1)
        play(scenario, scenario.load(0), POLICIES.make("heft"), 0)


WORLD = World(
    name="workflows",
    what="workflows, graphs of tasks, on machines that are rented: deadlines, transfers, rent",
    flags=WorkflowsFlags,
    scenario=scenario_from_json,
    presets=("busy", "calm", "rush", "static"),
    policies=lambda scenario: POLICIES,
    play=playing(WorkflowsScenario, play),
    measures=MEASURES,
    quantities=(
        Quantity("rented", "Machines rented", "machines", "rented"),
        Quantity("busy", "Machines that work", "machines", "busy"),
        Quantity("workflows", "Workflows that are not over", "workflows", "workflows"),
        Quantity("cost", "Rent and penalties so far", "$", "cost"),
        Quantity("ready", "Tasks that are ready", "tasks"),
    ),
    words=Words(
        noun="tasks",
        place="machine",
        subject="task",
        does={
            "cost": "pays {} of rent and penalties",
            "slr": "takes {} times as long as no schedule can be shorter than",
        },
        caution="Runtimes are known before a task runs, as in the papers that are compared with.",
    ),
    warm_up=warm_up,
    datasets=DATASETS,
    learners={
        "es": "proreus.worlds.workflows.training.learners:ES",
        "ppo": "proreus.worlds.workflows.training.torch_learners:PPO",
    },
    specialist="proreus.worlds.workflows.training.specialist:SPECIALIST",
    tunes_from="a folder of workflows (WfFormat .json, Pegasus .xml or .dax), which arrive as --scenario and "
    "--load say; or a scenario by name, as traces/busy. Of every ten files five train and three "
    "judge.",
    trains_on=("busy",),
    bench="proreus.worlds.workflows.bench:bench_workflows",
    examples={
        "simulate": "proreus simulate workflows --scenario busy --policy deadline --watch 10",
        "compare": "proreus compare workflows --scenarios calm,busy,rush --policies deadline,greedy,heft",
        "tune": "proreus tune workflows --from workflows/ --scenario busy --minutes 10",
    },
)
