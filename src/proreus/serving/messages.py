"""What goes into the service core and what comes out: the same values behind REST and gRPC.

The structs are also the wire format of REST (msgspec reads and writes them, and the OpenAPI document
is made of them), so that a field is described once.
"""

from __future__ import annotations

from enum import Enum
from typing import Annotated, Literal

import msgspec
import numpy as np
from msgspec import Meta, Struct

from proreus.serving.model_version import VersionAnswer

DecidedBy = Literal["model", "rule"]
LARGEST_VERSION = 2**62
"""That a path may name."""
DECIDED_RECORD = np.dtype([("action", "<i8"), ("log_prob", "<f8")])
"""One decision of a batch that is answered in bytes."""


class Refusal(Enum):
    """Why a request is refused; each door has one status code for each."""

    INVALID = "invalid"
    UNAUTHENTICATED = "unauthenticated"
    FORBIDDEN = "forbidden"
    NOT_FOUND = "not_found"
    WRONG_METHOD = "wrong_method"
    TOO_SLOW = "too_slow"
    CONFLICT = "conflict"
    TOO_LARGE = "too_large"
    WRONG_TYPE = "wrong_type"
    EXHAUSTED = "exhausted"
    UNAVAILABLE = "unavailable"


MARK = "x-proreus-request"
"""A header that a web page cannot send elsewhere without being allowed to, which nobody allows."""
LONGEST_ECHO = 200
"""Characters of a request that are said back to it or written to the log."""


def shortened(text: str) -> str:
    """`text`, or its beginning and its length where it is too long to be said back."""
    if len(text) <= LONGEST_ECHO:
        return text
    return f"{text[:LONGEST_ECHO]}... ({len(text)} characters)"


class Refused(Exception):
    """A request that gets no answer, by its own fault or for now; the message names the field."""

    def __init__(self, refusal: Refusal, message: str, field: str = "") -> None:
        message, field = shortened(message), shortened(field)
        super().__init__(f"{field}: {message}" if field else message)
        self.refusal, self.field = refusal, field


def invalid(field: str, message: str) -> Refused:
    """The refusal of a value that cannot be meant."""
    return Refused(Refusal.INVALID, message, field)


class PredictRequest(Struct, frozen=True, forbid_unknown_fields=True, gc=False):
    """One state, and how to decide on it."""

    state: Annotated[
        list[float],
        Meta(
            description="Per node the used share of CPU and of memory (2n numbers), then, optionally, the "
            "CPU of the task in thousandths of a core / 100,000 and its memory in GiB (2n + 2 numbers)."
        ),
    ]
    deterministic: Annotated[
        bool | None,
        Meta(
            description="true: the best action; false: one drawn from the policy; null: as the service runs."
        ),
    ] = None
    mask: Annotated[
        list[bool] | None, Meta(description="Per action, whether it is allowed; null: all are.")
    ] = None
    top_k: Annotated[int | None, Meta(description="Also answer with the so many most probable actions.")] = (
        None
    )


class Choice(Struct, frozen=True, gc=False):
    """An action and how probable the policy holds it."""

    action: int
    probability: float


class PredictAnswer(Struct, frozen=True, omit_defaults=True, gc=False):
    """What to do: 0..n-1 place on that node, n..2n-1 preempt there, 2n delay, 2n+1 reject."""

    action: int
    model_version: Annotated[int, Meta(description="The version that was live when this was decided.")]
    log_prob: Annotated[
        float,
        Meta(description="Natural logarithm of the probability with which the policy takes the action."),
    ]
    decided_by: Annotated[DecidedBy, Meta(description="The model, or the rule that stands in for it.")]
    deterministic: Annotated[bool, Meta(description="Whether the best action was taken, and none drawn.")]
    top: list[Choice] | None = None


class BatchRequest(Struct, frozen=True, forbid_unknown_fields=True):
    """Many states, all of one length, decided by one version."""

    states: Annotated[
        list[list[float]], Meta(description="As `state` of a single prediction, all of one length.")
    ]
    deterministic: bool | None = None
    masks: Annotated[list[list[bool]] | None, Meta(description="Per state, as `mask`.")] = None


class BatchAnswer(Struct, frozen=True):
    """The actions, in the order of the states."""

    actions: list[int]
    log_probs: list[float]
    model_version: int
    decided_by: DecidedBy
    deterministic: bool


class UpdateRequest(Struct, frozen=True, forbid_unknown_fields=True):
    """Experience: what was seen, done and gained, step by step in order of time."""

    states: list[list[float]]
    actions: list[int]
    rewards: list[float]
    dones: Annotated[list[bool], Meta(description="Whether the episode ended with the step.")]
    log_probs: Annotated[
        list[float] | None,
        Meta(
            description="The `log_prob` of each decision; without them the service looks up what it recorded "
            "when it decided."
        ),
    ] = None
    model_version: Annotated[
        int | None, Meta(description="The version that decided; null: as recorded, else unknown.")
    ] = None


class UpdateAnswer(Struct, frozen=True):
    """That the experience is safe on disk, and how learning stands."""

    status: Annotated[
        Literal["buffering", "updated"],
        Meta(description="updated: a round of learning ended since the report before this one."),
    ]
    logged: Annotated[int, Meta(description="Steps of this report that are on the disk.")]
    learnable: Annotated[int, Meta(description="Of these, steps that the policy can learn from.")]
    buffered: Annotated[int, Meta(description="Steps that wait to be learned from.")]
    model_version: Annotated[int, Meta(description="The version that decides now.")]


class ModelsAnswer(Struct, frozen=True):
    """All versions of the model that is served."""

    name: str
    live: int
    versions: list[VersionAnswer]


class SwapAnswer(Struct, frozen=True):
    """Which version decides now, and which did before."""

    live: int
    before: int


class Health(Struct, frozen=True):
    """That the service answers, and with what."""

    status: Annotated[
        Literal["ok", "draining", "degraded"],
        Meta(
            description="degraded: it decides, and cannot log what is reported, or a rule decides for the "
            "policy of /v1/decide; `trouble` says why."
        ),
    ]
    model_version: int
    state_dim: int
    action_dim: int
    deterministic: bool
    learning: bool
    uptime_seconds: float
    trouble: str = ""


class ErrorAnswer(Struct, frozen=True):
    """Why a request was refused."""

    error: Annotated[str, Meta(description="One line; begins with the field where there is one.")]
    code: str
    field: str
    request_id: str


ENCODER = msgspec.json.Encoder()
