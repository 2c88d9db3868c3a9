"""Scenarios of the world `inference` by name: a cluster, how it may be scaled, and the requests that come."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import Any, ClassVar, Literal

import numpy as np

from proreus.contract.scenario import Headings, Part, seed_of
from proreus.contract.variation import Variation
from proreus.data.catalogue import data_dir, files_of, folder_for
from proreus.model.errors import InputError, UsageError, unknown_name
from proreus.worlds.inference.datasets.catalogue import DATASETS
from proreus.worlds.inference.datasets.cluster_file import ClusterEntry
from proreus.worlds.inference.datasets.generator import Lengths, Load, generate
from proreus.worlds.inference.datasets.load_shapes import FAMILIES, Family, load_shape
from proreus.worlds.inference.datasets.recorded import Playback, play_back, recorded
from proreus.worlds.inference.datasets.sessions import Conversations, generate_sessions
from proreus.worlds.inference.datasets.timings import timings_of
from proreus.worlds.inference.model.cluster import PAGE_TOKENS
from proreus.worlds.inference.model.objectives import Objectives
from proreus.worlds.inference.model.prefixes import own_blocks
from proreus.worlds.inference.model.requests import RequestTrace
from proreus.worlds.inference.model.service import BATCH, INTERACTIVE, ServiceClass
from proreus.worlds.inference.model.start_up import Limits, StartUp, starting_within
from proreus.worlds.inference.simulation.feasibility import busy_instances, hopeless
from proreus.worlds.inference.simulation.machines import Further, InitialInstances, machines_of
from proreus.worlds.inference.simulation.options import ControlOptions
from proreus.worlds.inference.simulation.world import InferenceRun

Source = Literal["generated", "azure", "mooncake", "servegen", "file"]
SEEDS_APART = 1_000_000
_WORTH_A_WORD = 0.005
"""Share of requests that cannot be served as promised, from which it is told."""
_BEYOND = 1.15
"""How many times what there may be is surely too much: instances do a little more than their ability says."""
_LONGEST_LOOK = 3.0 * 3_600.0
"""Seconds of a run, of requests that are drawn, which are looked through beforehand."""


@dataclass(frozen=True)
class InferenceScenario:
    """Requests for a cluster that is scaled."""

    name: str
    load_: Load = field(default_factory=Load)
    machines: InitialInstances = field(default_factory=InitialInstances)
    control: ControlOptions = field(default_factory=ControlOptions)
    source: Source = "generated"
    place: Path | None = None
    """The file or folder of recorded requests."""
    part: Part = "test"
    table: Path | None = None
    """The published table of times, where machines are timed by it."""
    playback: Playback | None = None
    """How a file of one's own is played; None: by parts, at the rate of the load, as datasets are."""
    sessions: Conversations | None = None
    """What generated requests have in common; None: they are strangers to each other."""
    family: Family | None = None
    """Of load shapes: every seed draws one; None: the load is as it says."""

    world: ClassVar[str] = "inference"
    headings: ClassVar[Headings] = Headings(
        ("weighed_gpu_hours",),
        (
            *("weighed_gpu_hours", "slo_attainment", "gpu_hours", "ttft_p90", "tbt_p90", "oscillation"),
            "prefix_hits",
        ),
        ("requests keep coming for the whole run; what is under way at its end is served to the end",),
    )

    def load(self, seed: int) -> RequestTrace:
        """The requests of that seed."""
        drawn = seed_of(self.part, seed, SEEDS_APART)
        if self.playback is not None:
            assert self.place is not None
            request_trace = play_back(self.place, self.playback, seed).trace
        elif self.source != "generated":
            assert self.place is not None
            request_trace = recorded(self.source, self.place, self.load_, self.part, seed)
        elif self.sessions is not None:
            request_trace = generate_sessions(self.name, self.load_, self.sessions, drawn)
        else:
            request_trace = generate(self.name, self._drawn_load(drawn), drawn)
        if self.machines.prefix_cache and request_trace.prefix is None:
            request_trace = replace(request_trace, prefix=own_blocks(request_trace.prompt, PAGE_TOKENS))
        return self._of_models(request_trace, drawn)

    def _drawn_load(self, seed: int) -> Load:
        """The load with the shape that a seed draws, where there is a family of them."""
        if self.family is None:
            return self.load_
        draw = np.random.default_rng([seed, FAMILIES.index(self.family)])
        start = self.control.start.seconds(self.machines.spec().kinds[0])
        profile = load_shape(self.family, self.load_.seconds, start, draw)
        return replace(self.load_, profile=tuple(profile.tolist()))

    def _of_models(self, request_trace: RequestTrace, seed: int) -> RequestTrace:
        """Every request is for one of the models, by their shares."""
        shares = np.array(list(self.machines.shares().values()))
        if shares.size == 1:
            return request_trace
        drawn = np.random.default_rng([seed, len(request_trace)]).choice(
            shares.size, len(request_trace), p=shares / shares.sum()
        )
        return replace(request_trace, model=drawn.astype(np.int32))

    def start(self, work: RequestTrace, seed: int) -> InferenceRun:
        """A run over the requests."""
        spec = self.machines.spec()
        return InferenceRun(work, spec, timings_of(spec, self.table), self.control, seed)

    def varied(self, variation: Variation) -> InferenceScenario:
        """With more requests a second; instances come and go by themselves, none can be taken away."""
        if variation.without:
            raise UsageError(f"{self.name}: instances come and go by themselves: none can be taken away")
        return replace(self, load_=replace(self.load_, rate=self.load_.rate * variation.load))

    def of_part(self, part: Part) -> InferenceScenario:
        """Other seeds of a generator, other hours or days of a recording; of a file the first half is for
        training, the next fifth for validation, the rest for tests."""
        return replace(self, part=part, playback=None)

    def caution(self, seeds: Sequence[int]) -> str:
        """Recorded hours and days come again; and what no controller could serve as promised."""
        told = [self._comes_again(seeds)]
        whole_days = self.source in ("generated", "servegen") and self.load_.seconds > _LONGEST_LOOK
        if not whole_days:
            seed = min(seeds, default=0)
            trace = self.load(seed)
            told += [self._hopeless(trace), self._too_few(trace, seed)]
        return "; ".join(filter(None, told))

    def _hopeless(self, trace: RequestTrace) -> str:
        if self.source in ("generated", "servegen"):  # prompts of at most 8,192 tokens
            return ""
        spec = self.machines.spec()
        late = hopeless(trace, spec, timings_of(spec, self.table), self.control)
        if late.mean() < _WORTH_A_WORD:
            return ""
        return (
            f"{self.name}: {100.0 * late.mean():.1f} % of the requests would be late on an idle instance, so "
            f"no controller serves more than {100.0 * (1.0 - late.mean()):.1f} % as promised"
        )

    def _too_few(self, trace: RequestTrace, seed: int) -> str:
        """Where all instances that there may be are fewer than the requests keep busy. Of several models
        and of prompts that begin alike it is not known."""
        caches = any(kind.prefix_cache for kind in self.machines.spec().kinds)
        if caches or len(self.machines.shares()) > 1:
            return ""
        seen = self.start(trace, seed).next_decision()
        if seen is None:
            return ""
        busy, limits = busy_instances(trace, seen.abilities[0], seen.abilities[-1]), self.control.limits
        most = min(limits.most_in_total, limits.most * len(seen.pools))
        if busy.mean > _BEYOND * most:
            told = f"{busy.mean:.1f} instances busy on average"
        elif busy.most > _BEYOND * most:
            told = f"{busy.most:.1f} instances busy in their busiest five minutes"
        else:
            return ""
        return f"{self.name}: requests keep {told}, and there may be {most}: no controller keeps up with them"

    def _comes_again(self, seeds: Sequence[int]) -> str:
        if self.playback is not None:
            assert self.place is not None
            message = f"{self.name}: {play_back(self.place, self.playback, min(seeds, default=0)).told}"
            again = len(seeds) > 1 and self.playback.rate is None
            return f"{message}; every seed plays the same requests" if again else message
        if self.source in ("generated", "servegen"):
            return ""
        return f"{self.name}: seeds begin at different moments of one recording" if len(seeds) > 1 else ""

    def yardstick(self) -> tuple[str, tuple[str, ...]]:
        """The strongest rules."""
        return "weighed_gpu_hours", ("predictive", "tokenscale", "chiron")

    def to_json(self) -> dict[str, Any]:
        """All fields."""
        found = asdict(self)
        paths = {name: getattr(self, name) for name in ("place", "table")}
        return {
            **found,
            **{name: None if path is None else str(path.resolve()) for name, path in paths.items()},
        }


def in_cluster(scenario: InferenceScenario, entry: ClusterEntry) -> InferenceScenario:
    """The scenario on a cluster that a file describes."""
    control, limits = scenario.control, scenario.control.limits
    said: dict[str, Any] = {
        "interval": entry.decision_interval,
        "scale_step": entry.action_scale_step,
        "migrate_step": entry.action_mig_step,
        "limits": replace(
            limits,
            least=limits.least if entry.min_instances_per_pool is None else entry.min_instances_per_pool,
            most_in_total=entry.max_total_instances,
        ),
        "start": starting_within(entry.scale_up_delay),
    }
    return replace(
        scenario,
        machines=machines_of(entry, scenario.machines),
        control=replace(control, **{name: part for name, part in said.items() if part is not None}),
    )


_LIMITS = Limits(least=1, most_in_total=24)
_DELAYED = StartUp(provision_seconds=40.0, storage_gigabytes=2.35, warm_up_seconds=20.0)
"""Two minutes until a 70-billion-parameter model serves."""

_WEIGHED = (replace(INTERACTIVE, weight=4.0), BATCH)
"""A person who waits counts as much as four requests that run overnight."""

DRAWN = "drawn-"
"""Before the name of a family of load shapes."""

_MOONCAKE_RATE = 3.4
"""Requests a second, as recorded."""

PRESETS: dict[str, InferenceScenario] = {
    inference_scenario.name: inference_scenario
    for inference_scenario in (
        InferenceScenario(
            "steady",
            Load(rate=10.0, seconds=600.0, unrest=0.3),
            control=ControlOptions(start=_DELAYED, limits=_LIMITS),
        ),
        InferenceScenario(
            "surge",
            Load(rate=40.0, seconds=1_800.0, daily=0.7, unrest=0.2, day_seconds=1_800.0, variation=1.5),
            control=ControlOptions(start=_DELAYED, limits=_LIMITS),
        ),
        InferenceScenario(
            "colocated",
            Load(rate=40.0, seconds=1_200.0, daily=0.6, unrest=0.2, day_seconds=1_200.0, urgent=0.7),
            InitialInstances(scheduler="jsq", mixed=4),
            ControlOptions(start=_DELAYED, limits=_LIMITS),
        ),
        InferenceScenario(
            "conversations",
            Load(rate=8.0, seconds=1_200.0, daily=0.5, unrest=0.2, day_seconds=1_200.0),
            InitialInstances(scheduler="cache_aware", mixed=6, prefix_cache=True),
            ControlOptions(start=_DELAYED, limits=_LIMITS),
            sessions=Conversations(),
        ),
        InferenceScenario(
            "spot",
            Load(rate=20.0, seconds=1_200.0, unrest=0.2),
            control=ControlOptions(start=_DELAYED, limits=_LIMITS, spot_seconds=900.0),
        ),
        InferenceScenario(
            "hetero",
            Load(rate=20.0, seconds=1_200.0, daily=0.6, unrest=0.2, day_seconds=1_200.0, urgent=0.8),
            InitialInstances(prompt=2, token=0, further=(Further("llama3-70b", "a100-80gb", 4, token=2),)),
            ControlOptions(start=_DELAYED, limits=_LIMITS, classes=_WEIGHED),
        ),
        InferenceScenario(
            "two-models",
            Load(rate=20.0, seconds=1_200.0, daily=0.6, unrest=0.2, day_seconds=1_200.0),
            InitialInstances(
                prompt=2, token=2, further=(Further("llama3-8b", "a100-80gb", 1, 1, 1, share=2.0),)
            ),
            ControlOptions(start=_DELAYED, limits=_LIMITS),
        ),
        InferenceScenario(
            "day",
            Load(rate=40.0, seconds=86_400.0, daily=0.7, unrest=0.25),
            control=ControlOptions(start=_DELAYED, limits=_LIMITS),
        ),
    )
}


def parse(name: str, data: Path | None) -> InferenceScenario:
    """The scenario of that name."""
    if name in PRESETS:
        return PRESETS[name]
    if name.startswith(DRAWN) and name.removeprefix(DRAWN) in FAMILIES:
        family = FAMILIES[FAMILIES.index(name.removeprefix(DRAWN))]
        load = Load(rate=30.0, seconds=1_800.0, variation=1.2)
        return replace(PRESETS["surge"], name=name, load_=load, family=family)
    if name not in DATASETS:
        raise unknown_name(
            "scenario", name, [*PRESETS, *DATASETS, *(f"{DRAWN}{family}" for family in FAMILIES)]
        )
    folder = folder_for(name, data_dir(data))
    base = PRESETS["day" if name == "servegen" else "surge"]
    if name == "servegen":
        place = folder / "llm" / "servegen" / "m-large"
        if not place.is_dir():
            raise InputError("there is no such folder", file=place)
    else:
        place = files_of(DATASETS, name, folder)[0]
    source: Source = "servegen" if name == "servegen" else "azure" if name == "azure" else "mooncake"
    if name == "mooncake":  # prompts of 12,000 tokens: as many as were recorded are all that fits
        base = replace(base, load_=replace(base.load_, rate=_MOONCAKE_RATE))
    return replace(base, name=name, source=source, place=place)


def from_json(entry: Mapping[str, Any], data: Path | None) -> InferenceScenario:
    """Back from `to_json`."""
    try:
        load, control, machines = entry["load_"], entry["control"], entry["machines"]
        servers = tuple((str(kind), int(count)) for kind, count in control["limits"]["servers"])
        limits, start = Limits(**{**control["limits"], "servers": servers}), StartUp(**control["start"])
        classes = tuple(ServiceClass(**class_) for class_ in control["classes"])
        objectives = Objectives(**control["objectives"])
        made = {"limits": limits, "start": start, "classes": classes, "objectives": objectives}
        return InferenceScenario(
            **{
                **entry,
                "load_": Load(
                    **{
                        **load,
                        "lengths": Lengths(**load["lengths"]),
                        "profile": tuple(load.get("profile", ())),
                    }
                ),
                "machines": InitialInstances(
                    **{**machines, "further": tuple(Further(**one) for one in machines["further"])}
                ),
                "control": ControlOptions(**{**control, **made}),
                "playback": None if entry.get("playback") is None else Playback(**entry["playback"]),
                "sessions": None if entry.get("sessions") is None else Conversations(**entry["sessions"]),
                **{name: None if entry[name] is None else Path(entry[name]) for name in ("place", "table")},
            }
        )
    except (KeyError, TypeError, AttributeError) as error:
        raise ValueError(f"not a scenario: {error}") from error
