"""The REST door: the k8s simulator's /predict, /update and /health, and the newer calls under /v1."""

from __future__ import annotations

from typing import Any

import msgspec
import numpy as np
from prometheus_client import CONTENT_TYPE_LATEST

from proreus.serving.application import ServiceParts
from proreus.serving.cluster_api.changes import Change
from proreus.serving.cluster_api.decide import request_digest
from proreus.serving.cluster_api.request import DecideAnswer, DecideRequest
from proreus.serving.cluster_api.schema import MOST_NODES, MOST_PODS, NodeWire, PodWire
from proreus.serving.decision_service import BatchDecided, Question, StateBatch
from proreus.serving.messages import (
    DECIDED_RECORD,
    ENCODER,
    LARGEST_VERSION,
    BatchAnswer,
    BatchRequest,
    Health,
    ModelsAnswer,
    PredictAnswer,
    PredictRequest,
    Refusal,
    Refused,
    SwapAnswer,
    UpdateAnswer,
    UpdateRequest,
    invalid,
)
from proreus.serving.model_version import VersionAnswer
from proreus.serving.online.feedback import MOST_STEPS
from proreus.serving.server.json_body import Bulk, decode, warm_up
from proreus.serving.server.openapi import openapi_document
from proreus.serving.server.router import BYTES, JSON, HandlerReply, Request, ResponseSpec, Route, Routes
from proreus.serving.validation import as_block, as_mask, as_masks

DOOR = "rest"
MOST_STATES = 1_000_000
"""Of one batch."""
_LONGEST_DECIDE = 16 * 1024 * 1024
_LONGEST_LONE, _SHORT_LONE = 1024 * 1024, 16 * 1024
"""Bytes of a lone state that is taken at all, and answered at once; more for large clusters."""
_predict = msgspec.json.Decoder(PredictRequest)
_batch = msgspec.json.Decoder(BatchRequest)
_update = msgspec.json.Decoder(UpdateRequest)
_decide = msgspec.json.Decoder(DecideRequest)


def _column(name: str, kind: type[Any], most: int) -> Bulk:
    return Bulk(name, msgspec.json.Decoder(list[kind]), most)  # type: ignore[valid-type]


def _rows(name: str, kind: type[Any], most: int) -> Bulk:
    """A list of lists, kept as arrays: as lists a number would take four times the memory."""
    dtype = np.bool_ if kind is bool else np.float64
    decoder = msgspec.json.Decoder(list[list[kind]])  # type: ignore[valid-type]
    return Bulk(name, decoder, most, keep=lambda rows: [np.array(row, dtype=dtype) for row in rows])


_BATCH_BULKS = (_rows("states", float, MOST_STATES), _rows("masks", bool, MOST_STATES))
_UPDATE_BULKS = (
    _rows("states", float, MOST_STEPS),
    _column("actions", int, MOST_STEPS),
    _column("rewards", float, MOST_STEPS),
    _column("dones", bool, MOST_STEPS),
    _column("log_probs", float, MOST_STEPS),
)
_PODS = Bulk("pods", msgspec.json.Decoder(list[PodWire]), MOST_PODS)
_NODES = Bulk(
    "nodes",
    msgspec.json.Decoder(list[NodeWire]),
    MOST_NODES,
    within=(msgspec.json.Decoder(NodeWire), _PODS),
)
_CHANGES = Bulk("changes", msgspec.json.Decoder(list[Change]), MOST_PODS)


class RestApi:
    """The handlers, over one application."""

    def __init__(self, application: ServiceParts, body_bytes: int) -> None:
        """body_bytes: the largest body, for the description of the interface."""
        warm_up()
        self._application, self.service = application, application.service
        dimensions = application.service.options.dimensions
        self._described = ENCODER.encode(openapi_document(self.routes(), dimensions, body_bytes))

    def routes(self) -> Routes:
        """Every path and method, with what the published description says of it."""
        dimensions = self.service.options.dimensions
        predict = Route(
            self.predict,
            "Decide on one state.",
            _answer("The decision.", PredictAnswer),
            {JSON: PredictRequest},
            body_bytes=_LONGEST_LONE + 64 * (dimensions.state + dimensions.actions),
            inline_bytes=_SHORT_LONE + 32 * dimensions.state + 8 * dimensions.actions,
        )
        batch = Route(
            self.predict_batch,
            "Decide on many states at once, by one version.",
            ResponseSpec(
                "The decisions, in the form of the request; with bytes the version is in the header "
                "x-model-version.",
                {
                    JSON: BatchAnswer,
                    BYTES: _bytes("Per state a little-endian int64 (action) and double (log_prob)."),
                },
            ),
            {
                JSON: BatchRequest,
                BYTES: _bytes(
                    f"Little-endian doubles, {self.service.options.dimensions.state} for each state."
                ),
            },
            blocking=True,
        )
        update = Route(
            self.update,
            "Report experience to learn from.",
            _answer("The experience is on the disk.", UpdateAnswer),
            {JSON: UpdateRequest},
            own_refusals=(Refusal.UNAVAILABLE,),
            blocking=True,
            changes=True,
        )
        decide = Route(
            self.decide,
            "Decide about a pod in a cluster of any size, described in named fields.",
            _answer("The decision, with reasons.", DecideAnswer),
            {JSON: DecideRequest},
            own_refusals=(Refusal.NOT_FOUND, Refusal.CONFLICT),
            blocking=True,
            body_bytes=_LONGEST_DECIDE,
        )
        health = Route(self.health, "Whether the service answers.", _answer("It does.", Health), open=True)
        metrics = Route(
            self.metrics,
            "What was counted and measured.",
            ResponseSpec("Prometheus' text format.", {"text/plain": {"type": "string"}}),
        )
        describe = Route(
            self.describe, "This document.", ResponseSpec("OpenAPI 3.1.", {JSON: {"type": "object"}})
        )
        models = Route(
            self.models, "All versions of the model.", _answer("Oldest first.", ModelsAnswer), blocking=True
        )
        rollback = Route(
            self.rollback,
            "Make the version live again that was live before.",
            _answer("It is live.", SwapAnswer),
            own_refusals=(Refusal.CONFLICT,),
            blocking=True,
            changes=True,
        )
        model = Route(
            self.model,
            "One version.",
            _answer("What is known of it.", VersionAnswer),
            own_refusals=(Refusal.NOT_FOUND, Refusal.CONFLICT),
            blocking=True,
        )
        promote = Route(
            self.promote,
            "Make a version live.",
            _answer("It is live.", SwapAnswer),
            own_refusals=(Refusal.NOT_FOUND, Refusal.CONFLICT),
            blocking=True,
            changes=True,
        )
        return {
            "/predict": {"POST": predict},
            "/update": {"POST": update},
            "/health": {"GET": health},
            "/metrics": {"GET": metrics},
            "/openapi.json": {"GET": describe},
            "/v1/predict": {"POST": predict},
            "/v1/predict/batch": {"POST": batch},
            "/v1/update": {"POST": update},
            "/v1/decide": {"POST": decide},
            "/v1/metrics": {"GET": metrics},
            "/v1/models": {"GET": models},
            "/v1/models/rollback": {"POST": rollback},
            "/v1/models/{version}": {"GET": model},
            "/v1/models/{version}/promote": {"POST": promote},
        }

    def predict(self, request: Request) -> HandlerReply:
        """One state."""
        asked = decode(_predict, request.body)
        mask = None if asked.mask is None else as_mask(asked.mask, self.service.options.dimensions)
        question = Question(
            np.array(asked.state, dtype=np.float64),
            mask,
            asked.deterministic,
            asked.top_k,
            request.seconds_left,
            request.client,
        )
        return HandlerReply(ENCODER.encode(self.service.predict(question, DOOR)))

    def predict_batch(self, request: Request) -> HandlerReply:
        """Many states, as JSON or as a block of doubles."""
        if request.media_type == BYTES:
            return self._predict_bytes(request)
        asked = decode(_batch, request.body, *_BATCH_BULKS)
        dimensions = self.service.options.dimensions
        states = as_block(asked.states, dimensions)
        masks = as_masks(asked.masks, len(states), dimensions)
        decided = self.service.predict_batch(StateBatch(states, masks, asked.deterministic), DOOR)
        return HandlerReply(ENCODER.encode(batch_answer(decided)))

    def _predict_bytes(self, request: Request) -> HandlerReply:
        """A block of little-endian doubles, [B, state_dim]; answered with records of action and log_prob."""
        width = self.service.options.dimensions.state
        states, rest = divmod(len(request.body), 8 * width)
        if rest or not states:
            raise invalid("body", f"has {len(request.body)} bytes, which is not a multiple of {8 * width}")
        block = np.frombuffer(request.body, dtype="<f8").reshape(states, width).astype(np.float64)
        decided = self.service.predict_batch(StateBatch(block), DOOR)
        answer = np.empty(states, dtype=DECIDED_RECORD)
        answer["action"], answer["log_prob"] = decided.actions, decided.log_probs
        headers = (
            (b"content-type", b"application/octet-stream"),
            (b"x-model-version", str(decided.version).encode()),
            (b"x-decided-by", decided.decided_by.encode()),
        )
        return HandlerReply(answer.tobytes(), headers=headers)

    def update(self, request: Request) -> HandlerReply:
        """Experience; answered when it is on the disk."""
        return HandlerReply(
            ENCODER.encode(
                self._application.feedback.take(decode(_update, request.body, *_UPDATE_BULKS), request.client)
            )
        )

    def decide(self, request: Request) -> HandlerReply:
        """A pod and a cluster in named fields."""
        asked = decode(_decide, request.body, _NODES, _CHANGES)
        decided = self._application.named.decide(asked, request_digest(request.body), request.seconds_left)
        return HandlerReply(ENCODER.encode(decided))

    def models(self, request: Request) -> HandlerReply:
        """All versions."""
        del request
        return HandlerReply(ENCODER.encode(self._application.versions.all()))

    def model(self, request: Request) -> HandlerReply:
        """One version."""
        return HandlerReply(ENCODER.encode(self._application.versions.one(_version(request.part))))

    def promote(self, request: Request) -> HandlerReply:
        """Make a version live."""
        return HandlerReply(ENCODER.encode(self._application.versions.promote(_version(request.part))))

    def rollback(self, request: Request) -> HandlerReply:
        """Make the version before live again."""
        del request
        return HandlerReply(ENCODER.encode(self._application.versions.rollback()))

    def describe(self, request: Request) -> HandlerReply:
        """The description of this interface."""
        del request
        return HandlerReply(self._described)

    def health(self, request: Request) -> HandlerReply:
        """That the service answers."""
        del request
        return HandlerReply(ENCODER.encode(self._application.health()))

    def metrics(self, request: Request) -> HandlerReply:
        """What was counted, for Prometheus."""
        del request
        headers = ((b"content-type", CONTENT_TYPE_LATEST.encode()),)
        return HandlerReply(self.service.measurements.exposition(), headers=headers)


def _answer(says: str, kind: type[Any]) -> ResponseSpec:
    return ResponseSpec(says, {JSON: kind})


def _bytes(says: str) -> dict[str, Any]:
    return {"type": "string", "format": "binary", "description": says}


def batch_answer(decided: BatchDecided) -> BatchAnswer:
    """The decisions of a batch as a value for the wire."""
    return BatchAnswer(
        decided.actions.tolist(),
        decided.log_probs.tolist(),
        decided.version,
        decided.decided_by,
        decided.deterministic,
    )


def _version(part: str) -> int:
    """The version in a path."""
    if not (part.isascii() and part.isdecimal()) or len(part) > 19 or int(part) > LARGEST_VERSION:
        raise Refused(Refusal.NOT_FOUND, f"{part!r} is not the number of a version", "version")
    return int(part)
