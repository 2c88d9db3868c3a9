"""What the metadata of a trigger mean: who scales which pool, from which metrics, within which rails."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Literal
from urllib.parse import urlsplit

from proreus.model.errors import ProreusError
from proreus.serving.messages import invalid
from proreus.worlds.inference.model.cluster import ROLES, Role
from proreus.worlds.inference.model.service import ServiceClass
from proreus.worlds.inference.model.start_up import Limits
from proreus.worlds.inference.state.live_collector import LiveOptions
from proreus.worlds.inference.state.observation import Ability

Profile = Callable[[str, str, int], Ability]
"""From a language model, a GPU and their number to what a replica can do; handed in, since it simulates."""
Shadow = Literal["off", "rule", "current"]
MOST_URLS = 512
_MOST_REPLICAS = 10_000
_LONGEST = 64 * 1024
"""Characters of all metadata."""
_BY_NUMBERS = ("promptTokensPerSecond", "outputTokensPerSecond", "kvTokens")
_BY_PROFILE = ("languageModel", "gpu", "gpus")


@dataclass(frozen=True)
class Direct:
    """Every replica is asked for its metrics; a name may stand for the addresses of many."""

    urls: tuple[str, ...]


@dataclass(frozen=True)
class ThroughPrometheus:
    """A Prometheus server that scrapes the replicas is asked."""

    server: str
    selector: str
    """Matchers of labels, as `namespace="llm",job="vllm"`; "": all that vLLM exposes."""


Source = Direct | ThroughPrometheus


@dataclass(frozen=True)
class Rails:
    """What no decision leaves."""

    least: int
    most: int
    most_step: int
    cooldown: float
    """Seconds without any change before there may be fewer."""


@dataclass(frozen=True)
class ScalerOptions:
    """One controller: of one pool, or of the two pools of a disaggregated service."""

    sources: Mapping[Role, Source]
    rails: Rails
    live: LiveOptions
    policy: str
    fallback: str
    model_name: str
    """Of vLLM's label; "": whatever the replicas serve."""
    stale_seconds: float
    frozen_seconds: float
    """That a replica with requests under way may say the same; 0: for ever."""
    deadline_seconds: float
    """For one decision."""
    shadow: Shadow
    router_query: str
    """PromQL for the requests that wait before any replica has them; "": nobody says."""
    gpus: int = 1
    """Of a replica; 1 where its ability is given in numbers."""


@dataclass(frozen=True)
class ScaledObjectSpec:
    """A scaled object: which role of which controller it is."""

    role: Role
    metric: str
    options: ScalerOptions
    shared: tuple[tuple[str, str], ...]
    """What two objects have in common that are the two pools of one controller."""


class _Fields:
    """The metadata, each field read once, so that unknown ones are found."""

    def __init__(self, metadata: Mapping[str, str]) -> None:
        if sum(len(name) + len(value) for name, value in metadata.items()) > _LONGEST:
            raise invalid("scalerMetadata", f"is longer than {_LONGEST} characters")
        self._left = {name: value for name, value in metadata.items() if value.strip()}

    def has(self, name: str) -> bool:
        return name in self._left

    def text(self, name: str, default: str = "") -> str:
        return self._left.pop(name, default).strip()

    def number(self, name: str, default: float, between: tuple[float, float]) -> float:
        text = self._left.pop(name, "").strip()
        if not text:
            return default
        try:
            value = float(text)
        except ValueError:
            raise invalid(name, f"{text!r} is no number") from None
        least, most = between
        if not (math.isfinite(value) and least <= value <= most):
            raise invalid(name, f"{text} is outside {least:g}..{most:g}")
        return value

    def whole(self, name: str, default: int, between: tuple[int, int]) -> int:
        value = self.number(name, default, between)
        if value != int(value):
            raise invalid(name, f"{value:g} is no whole number")
        return int(value)

    def one_of(self, name: str, default: str, words: tuple[str, ...]) -> str:
        value = self.text(name, default).lower()
        if value not in words:
            raise invalid(name, f"{value!r} is none of {', '.join(words)}")
        return value

    def end(self) -> None:
        for name in self._left:
            raise invalid(name, "there is no such field")


def read_metadata(metadata: Mapping[str, str], profile: Profile) -> ScaledObjectSpec:
    """What they mean; what cannot be meant is refused by the name of its field."""
    fields = _Fields(metadata)
    fields.text("scalerAddress")
    role: Role = ROLES[ROLES.index(fields.one_of("role", "mixed", ROLES))]
    roles: tuple[Role, ...] = ("mixed",) if role == "mixed" else ("prompt", "token")
    metric = fields.text("metricName", "proreus-replicas")
    if not metric or not all(letter.isalnum() or letter in "-_." for letter in metric):
        raise invalid("metricName", f"{metric!r} is no name of a metric")
    rails = _rails(fields)
    options = ScalerOptions(
        sources=_sources(fields, roles),
        rails=rails,
        live=_live(fields, roles, rails, profile),
        policy=fields.text("policy", "learned"),
        fallback=fields.text("fallback", "predictive"),
        model_name=fields.text("modelName"),
        stale_seconds=fields.number("staleSeconds", 60.0, (1.0, 86_400.0)),
        frozen_seconds=fields.number("frozenSeconds", 20.0, (0.0, 86_400.0)),
        deadline_seconds=fields.number("deadlineMs", 1_000.0, (1.0, 60_000.0)) / 1e3,
        shadow=_shadow(fields),
        router_query=fields.text("routerQuery"),
        gpus=int(float(metadata.get("gpus", "").strip() or 1)),  # it was read with the ability
    )
    fields.end()
    prometheus = any(isinstance(source, ThroughPrometheus) for source in options.sources.values())
    if options.router_query and not prometheus:
        raise invalid("routerQuery", "needs `prometheus`, which is asked it")
    if rails.least == 0 and not options.router_query:
        raise invalid("least", "0 needs `routerQuery`: without a replica nobody else tells of requests")
    apart = {"role", "scalerAddress", "metricName"}
    shared = tuple(sorted((name, value) for name, value in metadata.items() if name not in apart))
    return ScaledObjectSpec(role, metric, options, shared)


def _shadow(fields: _Fields) -> Shadow:
    match fields.one_of("shadow", "false", ("false", "true", "rule", "current")):
        case "false":
            return "off"
        case "current":
            return "current"
        case _:
            return "rule"


def _rails(fields: _Fields) -> Rails:
    least = fields.whole("least", 1, (0, _MOST_REPLICAS))
    most = fields.whole("most", 16, (1, _MOST_REPLICAS))
    if least > most:
        raise invalid("least", f"{least} is above `most`, which is {most}")
    return Rails(
        least,
        most,
        fields.whole("maxStep", 5, (1, 100)),
        fields.number("cooldownSeconds", 60.0, (0.0, 86_400.0)),
    )


def _live(fields: _Fields, roles: tuple[Role, ...], rails: Rails, profile: Profile) -> LiveOptions:
    # Until a new replica is even asked for: the autoscaler looks every few seconds, and so does KEDA where
    # there is none yet.
    delay = fields.number("hpaSyncSeconds", 15.0, (0.0, 3_600.0))
    polling = fields.number("pollingInterval", 30.0, (0.0, 3_600.0))
    delay += polling if rails.least == 0 else 0.0
    ability = _ability(fields, profile)
    return LiveOptions(
        abilities=dict.fromkeys(roles, ability),
        limits=Limits(max(rails.least, 0), rails.most, rails.most * len(roles)),
        interval=fields.number("interval", 10.0, (0.1, 3_600.0)),
        scale_step=rails.most_step,
        start_seconds=delay + fields.number("startSeconds", 120.0, (0.0, 86_400.0)),
        promised=ServiceClass(
            "promised",
            fields.number("ttftSeconds", 2.0, (1e-3, 3_600.0)),
            fields.number("tbtSeconds", 0.1, (1e-4, 3_600.0)),
        ),
    )


def _ability(fields: _Fields, profile: Profile) -> Ability:
    """Given in numbers, or known from a model and its GPUs."""
    if any(fields.has(name) for name in _BY_NUMBERS):
        for name in _BY_NUMBERS:
            if not fields.has(name):
                raise invalid(name, f"is missing; {', '.join(_BY_NUMBERS)} come together")
        for name in _BY_PROFILE:
            if fields.has(name):
                raise invalid(name, f"is in vain where {_BY_NUMBERS[0]} and the others are given")
        return Ability(*(fields.number(name, 0.0, (1e-6, 1e12)) for name in _BY_NUMBERS))
    model, gpu = fields.text("languageModel"), fields.text("gpu")
    if not model:
        says = (
            f"is missing; with `gpu` and `gpus` it says what a replica can do, or give {_BY_NUMBERS[0]}, ..."
        )
        raise invalid("languageModel", says)
    if not gpu:
        raise invalid("gpu", "is missing")
    try:
        return profile(model, gpu, fields.whole("gpus", 1, (1, 64)))
    except ProreusError as error:
        raise invalid("gpu" if "GPU" in str(error) else "languageModel", str(error)) from error


def _sources(fields: _Fields, roles: tuple[Role, ...]) -> dict[Role, Source]:
    """`metrics` or `selector` of one pool; `promptMetrics` and `tokenMetrics`, or selectors, of two."""
    server = fields.text("prometheus")
    sources: dict[Role, Source] = {}
    for role in roles:
        direct = "metrics" if role == "mixed" else f"{role}Metrics"
        if server:
            selector = fields.text("selector" if role == "mixed" else f"{role}Selector")
            if any(letter in selector for letter in "{}\n"):
                raise invalid("selector", "is a list of matchers, without braces")
            if len(roles) > 1 and not selector:
                raise invalid(f"{role}Selector", "is missing: it tells the two pools apart")
            sources[role] = ThroughPrometheus(_url("prometheus", server).rstrip("/"), selector)
            continue
        urls = tuple(_url(direct, url.strip()) for url in fields.text(direct).split(",") if url.strip())
        if not urls:
            raise invalid(direct, "is missing: addresses of replicas' metrics, or `prometheus` a server's")
        if len(urls) > MOST_URLS:
            raise invalid(direct, f"has more than {MOST_URLS} addresses")
        sources[role] = Direct(urls)
    return sources


def _url(field: str, text: str) -> str:
    try:
        parts = urlsplit(text)
        port = parts.port
    except ValueError as error:
        raise invalid(field, f"{text!r}: {error}") from None
    if parts.scheme not in ("http", "https") or not parts.hostname or port == 0:
        raise invalid(field, f"{text!r} is no http:// or https:// address")
    if parts.username is not None or parts.fragment or not text.isascii() or not text.isprintable():
        raise invalid(field, f"{text!r} has parts that an address of metrics has not")
    return text
