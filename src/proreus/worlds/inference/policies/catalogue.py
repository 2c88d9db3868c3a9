"""The controllers of the world `inference` by name."""

from __future__ import annotations

from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Literal

from proreus.model.errors import InputError
from proreus.policies.catalogue import PLANNER, Catalogue, CheckpointKind, Rule
from proreus.policies.checkpoint import WEIGHTS, Checkpoint, load_checkpoint
from proreus.policies.experts import check_wishes, read_wishes
from proreus.policies.networks.bidder import bidder_of
from proreus.policies.planner import Effort
from proreus.worlds.inference.encoding.load_history import VERSION as LOADS
from proreus.worlds.inference.encoding.pools import VERSION as POOLS
from proreus.worlds.inference.encoding.residual import SIZES
from proreus.worlds.inference.encoding.residual import VERSION as OFFSETS
from proreus.worlds.inference.policies.knobs import first_knobs, knobs_of
from proreus.worlds.inference.policies.learned import Learned
from proreus.worlds.inference.policies.learned_forecast import learned_quantiles
from proreus.worlds.inference.policies.planner import FUTURES, Planner
from proreus.worlds.inference.policies.reserve import ReserveNet
from proreus.worlds.inference.policies.reserve_controller import OBJECTIVES, Leaning, Reserve, leaning_of
from proreus.worlds.inference.policies.reserve_weights import net_of
from proreus.worlds.inference.policies.rules.aibrix import Apa
from proreus.worlds.inference.policies.rules.chiron import Chiron
from proreus.worlds.inference.policies.rules.controller import Controller
from proreus.worlds.inference.policies.rules.dynamo import Dynamo
from proreus.worlds.inference.policies.rules.heteroscale import HeteroScale
from proreus.worlds.inference.policies.rules.knative import Kpa
from proreus.worlds.inference.policies.rules.llm_d import Wva
from proreus.worlds.inference.policies.rules.oracle import Oracle
from proreus.worlds.inference.policies.rules.predictive import Predictive
from proreus.worlds.inference.policies.rules.sageserve import SageServe
from proreus.worlds.inference.policies.rules.threshold import Static, Threshold
from proreus.worlds.inference.policies.rules.tokenscale import TokenScale
from proreus.worlds.inference.policies.steered_rule import Residual, first_rule


def _rule(kind: type[Controller], what: str) -> Rule:
    return Rule(what, lambda name, options, seed: kind(name))


def _learned(name: str, checkpoint: Checkpoint, folder: Path, options: Any, seed: int) -> Learned:
    try:
        return Learned(name, knobs_of(checkpoint.tensors))
    except ValueError as error:
        raise InputError(str(error), file=folder / WEIGHTS) from error


def _actor(name: str, checkpoint: Checkpoint, folder: Path, options: Any, seed: int) -> Residual:
    try:
        return Residual(name, first_rule(), bidder_of("actor", checkpoint.tensors, SIZES))
    except ValueError as error:
        raise InputError(str(error), file=folder / WEIGHTS) from error


@dataclass(frozen=True)
class InferenceOptions:
    """Flags that policies read."""

    objective: str = ""
    """What `learned` weighs otherwise than it was searched for: gpu_hours, promises, stability, energy, as
    promises=4,stability=2."""
    futures: int = FUTURES
    """planner: how many futures each number of instances is played in."""
    forecast: Literal["trend", "quantiles"] = "trend"
    """predictive: what it expects of the load, damped trends or the quantiles that `learned` forecasts."""
    deadline: float = 0.0
    """planner: milliseconds a decision may take, best with what is known by then; 0: as long as the futures
    need, and the same seed gives the same result."""

    @property
    def effort(self) -> Effort:
        """Of a planner."""
        return Effort(self.futures, self.deadline)

    @property
    def leaning(self) -> Leaning:
        """Of `learned` and of a planner."""
        wishes = read_wishes(self.objective)
        check_wishes(wishes, OBJECTIVES)
        return leaning_of(wishes)

    def __post_init__(self) -> None:
        _ = self.effort


def _weighed(options: Any, objective: str) -> InferenceOptions:
    return replace(_options(options), objective=objective)


def _options(options: Any) -> InferenceOptions:
    """Those that were given; what knows none plays as usual."""
    return options if isinstance(options, InferenceOptions) else InferenceOptions()


def _reserve(name: str, checkpoint: Checkpoint, folder: Path, options: Any, seed: int) -> Reserve:
    try:
        return Reserve(name, net_of(checkpoint.tensors), _options(options).leaning)
    except ValueError as error:
        raise InputError(str(error), file=folder / WEIGHTS) from error


SHIPPED = Path(__file__).parents[1] / "pretrained" / "inference"


def _planner(name: str, options: Any, seed: int) -> Planner:
    chosen = _options(options)
    return Planner(name, _shipped_net(), chosen.leaning, chosen.effort, seed)


def _predictive(name: str, options: Any, seed: int) -> Predictive:
    match _options(options).forecast:
        case "trend":
            return Predictive(name)
        case "quantiles":
            return Predictive(name, learned_quantiles(_shipped_net()))


def _shipped_net() -> ReserveNet:
    return net_of(load_checkpoint(SHIPPED, LOADS).tensors)


POLICIES = Catalogue(
    world="inference",
    rules={
        "threshold": _rule(Threshold, "more instances above a use of 0.8, fewer below 0.3"),
        "kpa": _rule(Kpa, "Knative: concurrency over a minute, over seconds in panic"),
        "apa": _rule(Apa, "AIBrix: in proportion to use, slow to shrink"),
        "wva": _rule(Wva, "llm-d: one more where little KV memory or queue is spare"),
        "dynamo": _rule(Dynamo, "Dynamo's planner: a floor from forecasts, a loop over pass times above it"),
        "heteroscale": _rule(HeteroScale, "both pools in proportion to generated tokens, panic when late"),
        "tokenscale": _rule(TokenScale, "by the velocity of tokens; decoders compute prompts in bursts"),
        "chiron": _rule(Chiron, "at most six in ten instances busy with what cannot wait"),
        "sageserve": _rule(SageServe, "a plan from forecasts by an integer program, corrected by memory"),
        "predictive": Rule("forecast at the end of a start, with the margin that was needed", _predictive),
        "plan": Rule(
            "what learning starts from: a capacity plan for both pools together",
            lambda name, options, seed: Learned(name, knobs_of(first_knobs())),
        ),
        PLANNER: Rule("learned, overruled by futures that it plays in a fluid model", _planner),
        "static": _rule(Static, "the cluster as it begins"),
        "oracle": _rule(Oracle, "sees what will come: a bound, not a controller"),
    },
    main=(
        "predictive",
        "learned",
        "plan",
        "tokenscale",
        "chiron",
        "wva",
        "dynamo",
        "apa",
        "kpa",
        "static",
        "oracle",
    ),
    kinds={
        "knobs": CheckpointKind(POOLS, _learned),
        "actor": CheckpointKind(OFFSETS, _actor),
        "reserve": CheckpointKind(LOADS, _reserve, told=_weighed),
    },
    shipped=SHIPPED,
    options=InferenceOptions,
)
