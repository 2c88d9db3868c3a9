"""The flags that say which requests come to which cluster, shared by the verbs of the world `inference`."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Annotated, Any, Literal

from proreus.contract.flags import metavar, names_files
from proreus.contract.world import PLAYING
from proreus.data.catalogue import data_dir
from proreus.model.errors import UsageError
from proreus.worlds.inference.datasets.cluster_file import read_cluster
from proreus.worlds.inference.datasets.recorded import Playback, play_back
from proreus.worlds.inference.datasets.timings import checked_profiles, profiles_in, table_in
from proreus.worlds.inference.model.cluster import Engine, Scheduler
from proreus.worlds.inference.model.start_up import starting_within
from proreus.worlds.inference.scenarios import InferenceScenario, in_cluster, parse
from proreus.worlds.inference.simulation.cluster import TWO_POOLS
from proreus.worlds.inference.simulation.machines import TimedBy


@dataclass(frozen=True)
class InferenceFlags:
    """Requests, the cluster they come to, and how it may be scaled."""

    scenario: str = "steady"
    """steady, surge, colocated, conversations, spot, hetero, two-models, day; azure, mooncake, servegen
    (datasets); drawn-swing, -ramps, -steps, -flash, -regimes, -quiet, -clients, -mixed, -sawtooth, -square,
    -spikes: a load of that family, another for every seed."""
    data: Annotated[Path | None, metavar("DIR")] = None
    """The folder of datasets; or set PROREUS_DATA."""
    trace: Annotated[Path | None, metavar("FILE")] = field(default=None, metadata=PLAYING)
    """Your own requests, played as they are: a table arrival,prompt,output (seconds, tokens, tokens), or what
    Azure 2023 (csv), Mooncake (jsonl) and splitwise-sim (csv) have."""
    trace_part: Literal["whole", "train", "valid", "test"] | None = field(default=None, metadata=PLAYING)
    """Of --trace: the first half (train), the next fifth (valid), the rest (test), or the whole file."""
    warp: float | None = field(default=None, metadata=PLAYING)
    """How many times as fast as recorded the requests of --trace come (default: 1)."""
    cluster: Annotated[Path | None, metavar("FILE")] = None
    """Your own cluster: YAML with applications, their pools and scaling managers, and rl steps and limits."""
    rate: float | None = None
    """Requests a second, mean (default: as the scenario has it, as recorded in --trace). A trace is laid over
    itself, or thinned out, to have it."""
    seconds: float | None = field(default=None, metadata=PLAYING)
    """How long requests come (default: as the scenario has it)."""
    model: str | None = None
    """The language model: llama3-70b, llama3-8b, qwen3-32b, ... (default: as the scenario has it)."""
    gpu: str | None = None
    """a100-80gb, h100-80gb, h200, b200, l4, l40s, rtx-4090, mi300x, ... (default: as the scenario has it)."""
    gpus: int | None = None
    """GPUs of an instance: tensor parallelism."""
    timing: TimedBy | None = None
    """How long iterations take: a roofline of the GPU's data sheet, the published table (a dataset), or the
    profile of its layers as it was measured (a dataset, or --profiles)."""
    profiles: Annotated[Path | None, metavar("DIR")] = None
    """Measured profiles, CARD/ORGANISATION/MODEL/bf16/tpN, for --timing profile."""
    link_microseconds: float | None = None
    """Of a hop between the GPUs of an instance (default: as the card has it)."""
    link_gigabytes: float | None = None
    """A second that one GPU of an instance sends to the next (default: as the card has it)."""
    engine: Engine | None = None
    """How instances batch: chunked as vLLM, splitwise or orca with whole prompts."""
    scheduler: Scheduler | None = None
    """How requests find their instances."""
    prefix_cache: Literal["on", "off"] | None = None
    """Whether instances keep KV memory for prompts that begin alike (conversations, mooncake)."""
    prompt: int | None = None
    """Prompt instances at the beginning."""
    token: int | None = None
    """Token instances at the beginning."""
    mixed: int | None = None
    """Instances at the beginning, for schedulers of one pool."""
    interval: float | None = None
    """Seconds between two decisions."""
    start_seconds: float | None = None
    """From the order of an instance to its first request (default: by the size of the model)."""
    most_instances: int | None = None
    """In total, whatever they do."""
    least_instances: int | None = None
    """Of each pool."""
    spot_seconds: float | None = None
    """Mean life of instances that the provider takes away; 0: none is."""

    def drawing(self, given: str) -> InferenceScenario:
        """Work that is another for every seed: a trace of one's own by parts, or a scenario by its name."""
        if names_files(given, self.scenario, InferenceFlags.scenario):
            own = replace(self, trace=Path(given)).chosen()
            assert own.playback is not None
            trace = play_back(Path(given), own.playback, 0).trace
            span = max(float(trace.arrival[-1]), 1e-9)
            load = replace(own.load_, rate=self.rate or len(trace) / span, seconds=span)
            return replace(own, load_=load).of_part("test")
        return self.chosen(given)

    def chosen(self, name: str | None = None) -> InferenceScenario:
        """The scenario that the flags describe; `name` in place of --scenario."""
        cluster = parse(name or self.scenario, self.data)
        if self.trace is not None:
            playback = Playback(
                self.trace_part or "whole", self.rate, 1.0 if self.warp is None else self.warp, self.seconds
            )
            name = f"{cluster.name}:{self.trace.name}"
            cluster = replace(cluster, name=name, source="file", place=self.trace, playback=playback)
        elif self.trace_part is not None or self.warp is not None:
            flag = "trace-part" if self.trace_part is not None else "warp"
            raise UsageError(f"--{flag} says how --trace is played, which is missing")
        if self.cluster is not None:
            cluster = in_cluster(cluster, read_cluster(self.cluster))
        if self.profiles is not None and self.timing != "profile":
            raise UsageError("--profiles is for --timing profile")
        if self.timing is not None:
            table = self._timed_by(self.timing)
            cluster = replace(cluster, table=table, machines=replace(cluster.machines, timing=self.timing))
        self._check_pools(self.scheduler or cluster.machines.scheduler)
        limits = _changed(
            cluster.control.limits, most_in_total=self.most_instances, least=self.least_instances
        )
        start = None if self.start_seconds is None else starting_within(self.start_seconds)
        return replace(
            cluster,
            load_=_changed(cluster.load_, rate=self.rate, seconds=self.seconds),
            machines=_changed(
                cluster.machines,
                **{
                    part: getattr(self, part)
                    for part in (
                        *("model", "gpu", "gpus", "engine", "scheduler", "prompt", "token", "mixed"),
                        *("link_microseconds", "link_gigabytes"),
                    )
                },
                prefix_cache=None if self.prefix_cache is None else self.prefix_cache == "on",
            ),
            control=_changed(
                cluster.control,
                limits=limits,
                start=start,
                interval=self.interval,
                spot_seconds=self.spot_seconds,
            ),
        )

    def _timed_by(self, timing: TimedBy) -> Path | None:
        match timing:
            case "roofline":
                return None
            case "table":
                return table_in(data_dir(self.data))
            case "profile":
                own = self.profiles
                return profiles_in(data_dir(self.data)) if own is None else checked_profiles(own)

    def _check_pools(self, scheduler: Scheduler) -> None:
        """Instances are named for pools that there are."""
        two = scheduler in TWO_POOLS
        for flag, count, there in (
            ("prompt", self.prompt, two),
            ("token", self.token, two),
            ("mixed", self.mixed, not two),
        ):
            if count is not None and not there:
                pools = "prompts and tokens" if two else "one pool"
                raise UsageError(f"--{flag}: the scheduler {scheduler} is of {pools}")
            if count is not None and count < 0:
                raise UsageError(f"--{flag}: {count} is below 0")


def _changed(value: Any, **parts: Any) -> Any:
    return replace(value, **{name: part for name, part in parts.items() if part is not None})
