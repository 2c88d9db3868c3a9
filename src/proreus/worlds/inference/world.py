"""The world of LLM serving clusters as one value."""

from __future__ import annotations

from proreus.contract.timeline import Layer, Strip
from proreus.contract.user_scenarios import playing
from proreus.contract.world import Quantity, TradeOff, Words, World
from proreus.worlds.inference.datasets.catalogue import DATASETS
from proreus.worlds.inference.datasets.generator import Load
from proreus.worlds.inference.flags import InferenceFlags
from proreus.worlds.inference.play import play
from proreus.worlds.inference.policies.catalogue import POLICIES
from proreus.worlds.inference.scenarios import PRESETS, InferenceScenario, from_json
from proreus.worlds.inference.simulation.outcome import MEASURES


def warm_up() -> None:
    """Compile what runs need, or load it from the cache."""
    scenario = InferenceScenario("warm-up", Load(rate=2.0, seconds=15.0))
    play(scenario, scenario.load(0), POLICIES.make("threshold"), 0)


WORLD = World(
    name="inference",
    what="LLM serving clusters: prompt and token pools, and how many instances they have",
    flags=InferenceFlags,
    scenario=from_json,
    presets=tuple(PRESETS),
    policies=lambda scenario: POLICIES,
    play=playing(InferenceScenario, play),
    measures=MEASURES,
    quantities=(
        Quantity("load", "Requests that come", "requests/s", "load"),
        Quantity("instances", "Active instances", "instances", "instances"),
        Quantity("missed", "Requests not served as promised", "%", "missed"),
        Quantity("waiting", "Requests that wait", "requests", "waiting"),
    ),
    words=Words(
        noun="instances",
        place="instance",
        subject="decision",
        does={"weighed_gpu_hours": "needs {} of GPUs, weighed by what it misses"},
    ),
    trade_off=TradeOff("gpu_hours", "slo_attainment"),
    timeline=(
        Strip("Requests that come", "requests/s", (Layer("load", "requests that come", 6),)),
        Strip(
            "Instances",
            "",
            (
                Layer("prompt active", "prompt, active", 0),
                Layer("prompt starting", "prompt, starting", 0, faint=True),
                Layer("token active", "token, active", 2),
                Layer("token starting", "token, starting", 2, faint=True),
                Layer("mixed active", "mixed, active", 3),
                Layer("mixed starting", "mixed, starting", 3, faint=True),
                Layer("draining", "draining", 4),
            ),
        ),
        Strip("Requests not served as promised", "%", (Layer("missed", "missed", 1),)),
    ),
    warm_up=warm_up,
    datasets=DATASETS,
    learners={
        "es": "proreus.worlds.inference.training.learners:ES",
        "ppo": "proreus.worlds.inference.training.torch_learners:PPO",
        "reserve": "proreus.worlds.inference.training.reserve_learner:RESERVE",
        "finetune": "proreus.worlds.inference.training.reserve_learner:FINETUNE",
    },
    specialist="proreus.worlds.inference.training.reserve_learner:SPECIALIST",
    tunes_from="a trace of requests (arrival,prompt,output, or as Azure 2023, Mooncake and splitwise-sim "
    "have them), or the name of a scenario; the cluster is that of --scenario",
    bench="proreus.worlds.inference.bench:bench_inference",
    examples={
        "simulate": (
            "proreus simulate inference --scenario surge --policy apa --explain 12;"
            " proreus simulate inference --trace requests.csv --gpu l40s --gpus 1 --model llama3-8b"
        ),
        "tune": "proreus tune inference --from requests.csv --gpu l40s --model llama3-8b --minutes 10",
        "compare": "proreus compare inference --scenarios surge,colocated --policies kpa,apa,oracle",
    },
)
