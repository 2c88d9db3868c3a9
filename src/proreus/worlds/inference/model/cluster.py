"""Kinds of instances, and the cluster that a run begins with."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Literal

from proreus.model.errors import UsageError
from proreus.worlds.inference.model.hardware import Gpu
from proreus.worlds.inference.model.llm import LanguageModel

Role = Literal["prompt", "token", "mixed"]
ROLES: tuple[Role, ...] = ("prompt", "token", "mixed")
Engine = Literal["orca", "splitwise", "chunked"]
Scheduler = Literal[
    "random",
    "round_robin",
    "jsq",
    "token_jsq",
    "kv_round_robin",
    "kv_jsq",
    "overlap_kv_jsq",
    "kv_token_jsq",
    "overlap_kv_token_jsq",
    "mixed_pool",
    "cache_aware",
    "kv_cache_aware",
]
UNLIMITED = 1 << 60
PAGE_TOKENS = 16
"""Of a page of KV memory, as vLLM has it."""


@dataclass(frozen=True)
class InstanceKind:
    """What an instance is: a model on so many GPUs of a server, and how it batches."""

    name: str
    model: LanguageModel
    gpu: Gpu
    timing: str
    """The name of what says how long its iterations take."""
    gpus: int = 8
    """Tensor parallelism."""
    engine: Engine = "splitwise"
    batch_limit: int = 512
    """Requests in a batch."""
    token_limit: int = 2048
    """Tokens of an iteration: a prompt counts its length, decoding one."""
    preemption_limit: int = 4
    """Starts of batches that may pass over a request before it goes first."""
    block: int = PAGE_TOKENS
    """Tokens of a page of KV memory, where memory is paged."""
    memory_share: float = 1.0
    """Of the GPUs' memory that weights and KV may take."""

    plans_ahead: bool = False
    """A batch is composed while the one before it runs, so that who comes, or a place that becomes free,
    waits for one iteration more; only where `chunked`."""
    reserves_prompt: bool = False
    """A request is let in where there are pages for its whole prompt, not for the first chunk alone, as vLLM
    0.19 does (`scheduler_reserve_full_isl`); only where `chunked`."""
    prefix_cache: bool = False
    """Blocks of prompts stay while there is room, for prompts that begin alike; only where `chunked`."""
    in_step: int = 1
    """Instances that share the experts of a layer, and so iterate together; only where `chunked`."""

    def __post_init__(self) -> None:
        if self.in_step < 1 or (self.in_step > 1 and self.engine != "chunked"):
            raise UsageError("only instances of the engine 'chunked' iterate in step, one or more of them")
        if self.prefix_cache and self.engine != "chunked":
            raise UsageError("only instances of the engine 'chunked' have a prefix cache")

    @property
    def capacity(self) -> int:
        """Bytes for weights and KV."""
        return int(self.gpus * self.gpu.memory * self.memory_share)

    @property
    def weights(self) -> int:
        """Bytes that one instance has of the model: of the experts only its part."""
        model = self.model
        return model.weights - model.expert_bytes * (model.experts - model.experts // self.in_step)


@dataclass(frozen=True)
class Group:
    """Instances of one kind and role that are active when a run begins."""

    kind: str
    role: Role
    count: int


@dataclass(frozen=True)
class Compatibility:
    """Where a run is to do as splitwise-sim does; by default it does what it should."""

    kv_of_all_heads: bool = False
    """KV memory ignores that heads share keys and values."""
    memory_in_parts: bool = False
    """The tokens' KV is taken when they start, not with the prompt's; a cluster can then lock up."""
    retry_seconds: float = 0.0
    """A transfer that finds no room tries again so much later; 0: it goes when there is room."""
    kv_token_jsq_counts_nothing: bool = False
    """Pending tokens are taken off and never put on, so that one instance gets everything."""

    private_links: bool = False
    """Every transfer has a link of its own; else those from or to one instance share its link."""
    lent_until_empty: bool = False
    """`mixed_pool` gets a lent instance back when it has no work at all, which under load it never has; else
    when it has none left of the kind that it was lent for."""


SPLITWISE_SIM = Compatibility(True, True, 1.0, True, True, True)


@dataclass(frozen=True)
class ClusterSpec:
    """The cluster that a run begins with.

    Several models and several kinds of GPUs are several kinds of instances. Models are numbered as they come
    first among `kinds`, which is what `RequestTrace.model` says of each request; a pool holds instances of
    any kind, and a request goes to those of its model::

        small, large = language_model("llama3-8b"), language_model("llama3-70b")
        kinds = (
            InstanceKind("small-l40s", small, gpu("l40s"), "small-l40s", gpus=1, engine="chunked"),
            InstanceKind("large-h100", large, gpu("h100-80gb"), "large-h100", gpus=4, engine="chunked"),
            InstanceKind("large-a100", large, gpu("a100-80gb"), "large-a100", gpus=4, engine="chunked"),
        )
        groups = tuple(Group(kind.name, "mixed", 2) for kind in kinds)
        timings = {kind.timing: roofline(kind.model, kind.gpu, kind.gpus) for kind in kinds}
        cluster = Cluster(ClusterSpec(kinds, groups, "token_jsq"), trace, timings)
        ScalingManager(cluster, limits, start).scale_up_full("large-a100", tag="mixed")
    """

    kinds: tuple[InstanceKind, ...]
    groups: tuple[Group, ...]
    scheduler: Scheduler = "mixed_pool"
    link_gigabytes: float = 200.0
    """GiB a second of the link of an instance, each way."""
    prompt_queue_limit: int = 8192
    """Pending tokens above which `mixed_pool` looks for another instance."""
    router_limit: int = UNLIMITED
    """Requests that may wait at the router while there is no instance."""
    most_losses: int = 3
    """Times that a request begins again because its instance was lost, before it is lost too."""
    drain_check_seconds: float = 0.0
    """Between two looks at a draining instance; 0: it stops as soon as it is empty."""
    compatibility: Compatibility = field(default_factory=Compatibility)
