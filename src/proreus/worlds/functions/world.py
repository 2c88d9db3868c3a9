"""The world of functions as one value."""

from __future__ import annotations

from proreus.contract.user_scenarios import playing
from proreus.contract.world import Quantity, Words, World
from proreus.worlds.functions.datasets.catalogue import DATASETS
from proreus.worlds.functions.flags import FunctionsFlags
from proreus.worlds.functions.play import play
from proreus.worlds.functions.policies.catalogue import POLICIES
from proreus.worlds.functions.scenarios import FunctionsScenario, scenario_from_json
from proreus.worlds.functions.simulation.outcome import MEASURES


def warm_up() -> None:
    """Compile what the runs of rules need, or load it from the cache."""
    scenario = FunctionsScenario("busy", seconds=5.0, functions=3)
    play(scenario, scenario.load(0), POLICIES.make("warm_cost"), 0)


WORLD = World(
    name="functions",
    what="serverless functions: where instances start and how long they stay; response time and cost",
    flags=FunctionsFlags,
    scenario=scenario_from_json,
    presets=("busy", "calm", "rush"),
    policies=lambda scenario: POLICIES,
    play=playing(FunctionsScenario, play),
    measures=MEASURES,
    quantities=(
        Quantity("warm", "Warm instances", "instances", "warm"),
        Quantity("starting", "Instances that start", "instances", "starting"),
        Quantity("active", "Active nodes", "nodes", "active"),
        Quantity("cost", "Cost so far", "$", "cost"),
        Quantity("waiting", "Requests that wait", "requests"),
    ),
    words=Words(
        noun="instances",
        place="node",
        subject="function",
        does={"objective": "comes to {} of response time and cost"},
        unplaced={"rfrt": "dropped"},
        caution="A request's stretch is that of the moment at which it starts.",
    ),
    warm_up=warm_up,
    datasets=DATASETS,
    learners={
        "es": "proreus.worlds.functions.training.learners:ES",
        "ppo": "proreus.worlds.functions.training.torch_learners:PPO",
    },
    specialist="proreus.worlds.functions.training.specialist:SPECIALIST",
    tunes_from="a recording, which is a table arrival,function,duration, one of Azure 2021 or a folder as of "
    "2019; or a scenario by name, as azure2021/recorded@60. Of a recording the first half trains and the "
    "last quarter judges.",
    trains_on=("busy",),
    bench="proreus.worlds.functions.bench.claims:bench_functions",
    examples={
        "simulate": "proreus simulate functions --scenario busy --policy bpbf@histogram --watch 10",
        "compare": "proreus compare functions --scenarios calm,busy,rush --policies warm_cost,bpbf,ensure",
        "tune": "proreus tune functions --from requests.csv --scenario busy@300 --minutes 10",
    },
)
