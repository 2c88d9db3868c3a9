"""Scenarios of the world `inference` by name: a cluster, how it may be scaled, and the requests that come."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import Any, ClassVar, Literal

from proreus.contract.scenario import Headings, Part, seed_of
from proreus.model.errors import InputError, UsageError, unknown_name
from proreus.reading.catalogue import data_dir, files_of, folder_for
from proreus.worlds.inference.model.cluster import ClusterSpec, Engine, Group, InstanceKind, Scheduler
from proreus.worlds.inference.model.hardware import gpu
from proreus.worlds.inference.model.life import Limits, StartUp
from proreus.worlds.inference.model.llm import language_model
from proreus.worlds.inference.model.objectives import Objectives
from proreus.worlds.inference.model.requests import RequestTrace
from proreus.worlds.inference.model.roofline import roofline
from proreus.worlds.inference.model.service import ServiceClass
from proreus.worlds.inference.simulation.cluster import TWO_POOLS
from proreus.worlds.inference.simulation.options import ControlOptions
from proreus.worlds.inference.simulation.world import InferenceRun
from proreus.worlds.inference.traces.datasets import DATASETS
from proreus.worlds.inference.traces.generate import Lengths, Load, generate
from proreus.worlds.inference.traces.recorded import recorded

Source = Literal["generated", "azure", "mooncake", "servegen", "file"]
SEEDS_APART = 1_000_000


@dataclass(frozen=True)
class Machines:
    """The instances that a run begins with, all alike but for their pools."""

    model: str = "llama3-70b"
    gpu: str = "h100-80gb"
    gpus: int = 4
    engine: Engine = "chunked"
    scheduler: Scheduler = "mixed_pool"
    prompt: int = 3
    token: int = 3
    mixed: int = 0
    batch_limit: int = 256
    token_limit: int = 2_048

    def spec(self) -> ClusterSpec:
        """The cluster of them."""
        kind = InstanceKind(
            name=f"{self.model}-{self.gpus}x{self.gpu}",
            model=language_model(self.model),
            gpu=gpu(self.gpu),
            timing="roofline",
            gpus=self.gpus,
            engine=self.engine,
            batch_limit=self.batch_limit,
            token_limit=self.token_limit,
            memory_share=0.9,
        )
        if kind.capacity <= kind.model.weights:
            raise UsageError(f"{self.model} does not fit on {self.gpus} {self.gpu}")
        groups = [Group(kind.name, "prompt", self.prompt), Group(kind.name, "token", self.token)]
        if self.scheduler not in TWO_POOLS:
            groups = [Group(kind.name, "mixed", self.mixed)]
        return ClusterSpec((kind,), tuple(groups), self.scheduler)


@dataclass(frozen=True)
class InferenceScenario:
    """Requests for a cluster that is scaled."""

    name: str
    load_: Load = field(default_factory=Load)
    machines: Machines = field(default_factory=Machines)
    control: ControlOptions = field(default_factory=ControlOptions)
    source: Source = "generated"
    place: Path | None = None
    """The file or folder of recorded requests."""
    part: Part = "test"

    world: ClassVar[str] = "inference"
    headings: ClassVar[Headings] = Headings(
        ("weighed_gpu_hours",),
        ("weighed_gpu_hours", "slo_attainment", "gpu_hours", "ttft_p90", "tbt_p90", "oscillation"),
        ("requests keep coming for the whole run; what is under way at its end is served to the end",),
    )

    def load(self, seed: int) -> RequestTrace:
        """The requests of that seed."""
        if self.source == "generated":
            return generate(self.name, self.load_, seed_of(self.part, seed, SEEDS_APART))
        assert self.place is not None
        return recorded(self.source, self.place, self.load_, self.part, seed)

    def start(self, work: RequestTrace, seed: int) -> InferenceRun:
        """A run over the requests."""
        spec = self.machines.spec()
        kind = spec.kinds[0]
        timings = {"roofline": roofline(kind.model, kind.gpu, kind.gpus)}
        return InferenceRun(work, spec, timings, self.control, seed)

    def of_part(self, part: Part) -> InferenceScenario:
        """Other seeds of a generator, other hours or days of a recording."""
        return replace(self, part=part)

    def caution(self, seeds: Sequence[int]) -> str:
        """Recorded hours and days come again."""
        if self.source in ("generated", "servegen"):
            return ""
        return f"{self.name}: seeds begin at different moments of one recording" if len(seeds) > 1 else ""

    def yardstick(self) -> tuple[str, tuple[str, ...]]:
        """The strongest rules."""
        return "weighed_gpu_hours", ("predictive", "tokenscale", "chiron")

    def to_json(self) -> dict[str, Any]:
        """All fields."""
        found = asdict(self)
        return {**found, "place": None if self.place is None else str(self.place.resolve())}


_LIMITS = Limits(least=1, most_in_total=24)
_DELAYED = StartUp(provision_seconds=40.0, storage_gigabytes=2.35, warm_up_seconds=20.0)
"""Two minutes until a 70-billion-parameter model serves."""

PRESETS: dict[str, InferenceScenario] = {
    one.name: one
    for one in (
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
            Machines(scheduler="jsq", mixed=4),
            ControlOptions(start=_DELAYED, limits=_LIMITS),
        ),
        InferenceScenario(
            "spot",
            Load(rate=20.0, seconds=1_200.0, unrest=0.2),
            control=ControlOptions(start=_DELAYED, limits=_LIMITS, spot_seconds=900.0),
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
    if name not in DATASETS:
        raise unknown_name("scenario", name, [*PRESETS, *DATASETS])
    folder = folder_for(name, data_dir(data))
    base = PRESETS["day" if name == "servegen" else "surge"]
    if name == "servegen":
        place = folder / "llm" / "servegen" / "m-large"
        if not place.is_dir():
            raise InputError("there is no such folder", file=place)
    else:
        place = files_of(DATASETS, name, folder)[0]
    source: Source = "servegen" if name == "servegen" else "azure" if name == "azure" else "mooncake"
    return replace(base, name=name, source=source, place=place)


def from_json(entry: Mapping[str, Any], data: Path | None) -> InferenceScenario:
    """Back from `to_json`."""
    try:
        load, control = entry["load_"], entry["control"]
        servers = tuple((str(kind), int(count)) for kind, count in control["limits"]["servers"])
        limits, start = Limits(**{**control["limits"], "servers": servers}), StartUp(**control["start"])
        classes = tuple(ServiceClass(**one) for one in control["classes"])
        objectives = Objectives(**control["objectives"])
        made = {"limits": limits, "start": start, "classes": classes, "objectives": objectives}
        return InferenceScenario(
            **{
                **entry,
                "load_": Load(**{**load, "lengths": Lengths(**load["lengths"])}),
                "machines": Machines(**entry["machines"]),
                "control": ControlOptions(**{**control, **made}),
                "place": None if entry["place"] is None else Path(entry["place"]),
            }
        )
    except (KeyError, TypeError, AttributeError) as error:
        raise ValueError(f"not a scenario: {error}") from error
