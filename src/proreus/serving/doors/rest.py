"""The REST door: the k8s simulator's /predict, /update and /health, and the newer calls under /v1."""

from __future__ import annotations

import msgspec
import numpy as np
from prometheus_client import CONTENT_TYPE_LATEST

from proreus.serving.application import Application
from proreus.serving.checks import as_block, as_mask, as_masks
from proreus.serving.core import Batch, BatchDecided, Question
from proreus.serving.doors.http import BYTES, JSON, Reply, Request, Route
from proreus.serving.doors.json_body import decode
from proreus.serving.doors.openapi import openapi_document
from proreus.serving.named.decide import request_digest
from proreus.serving.named.wire import DecideRequest
from proreus.serving.values import (
    DECIDED_RECORD,
    ENCODER,
    BatchAnswer,
    BatchRequest,
    PredictRequest,
    Refusal,
    Refused,
    UpdateRequest,
    invalid,
)

DOOR = "rest"
_predict = msgspec.json.Decoder(PredictRequest)
_batch = msgspec.json.Decoder(BatchRequest)
_update = msgspec.json.Decoder(UpdateRequest)
_decide = msgspec.json.Decoder(DecideRequest)
_LARGEST_VERSION = 2**62


class RestApi:
    """The handlers, over one application."""

    def __init__(self, application: Application, body_bytes: int) -> None:
        """body_bytes: the largest body, for the description of the interface."""
        self._application, self.service = application, application.service
        self._described = ENCODER.encode(openapi_document(application.service.options.dimensions, body_bytes))

    def routes(self) -> dict[str, dict[str, Route]]:
        """Every path and method; `openapi` describes the same ones, and a test compares the two."""
        predict = Route(self.predict, (JSON,))
        update = Route(self.update, (JSON,), blocking=True)
        metrics = Route(self.metrics)
        return {
            "/predict": {"POST": predict},
            "/update": {"POST": update},
            "/health": {"GET": Route(self.health, open=True)},
            "/metrics": {"GET": metrics},
            "/openapi.json": {"GET": Route(self.describe)},
            "/v1/predict": {"POST": predict},
            "/v1/predict/batch": {"POST": Route(self.predict_batch, (JSON, BYTES), blocking=True)},
            "/v1/update": {"POST": update},
            "/v1/decide": {"POST": Route(self.decide, (JSON,), blocking=True)},
            "/v1/metrics": {"GET": metrics},
            "/v1/models": {"GET": Route(self.models, blocking=True)},
            "/v1/models/rollback": {"POST": Route(self.rollback, blocking=True)},
            "/v1/models/{}": {"GET": Route(self.model, blocking=True)},
            "/v1/models/{}/promote": {"POST": Route(self.promote, blocking=True)},
        }

    def predict(self, request: Request) -> Reply:
        """One state."""
        asked = decode(_predict, request.body)
        mask = None if asked.mask is None else as_mask(asked.mask, self.service.options.dimensions)
        question = Question(
            np.array(asked.state, dtype=np.float64),
            mask,
            asked.deterministic,
            asked.top_k,
            request.seconds_left,
        )
        return Reply(ENCODER.encode(self.service.predict(question, DOOR)))

    def predict_batch(self, request: Request) -> Reply:
        """Many states, as JSON or as a block of doubles."""
        if request.media_type == BYTES:
            return self._predict_bytes(request)
        asked = decode(_batch, request.body)
        dimensions = self.service.options.dimensions
        states = as_block(asked.states, dimensions)
        masks = as_masks(asked.masks, len(states), dimensions)
        decided = self.service.predict_batch(Batch(states, masks, asked.deterministic), DOOR)
        return Reply(ENCODER.encode(batch_answer(decided)))

    def _predict_bytes(self, request: Request) -> Reply:
        """A block of little-endian doubles, [B, state_dim]; answered with records of action and log_prob."""
        width = self.service.options.dimensions.state
        states, rest = divmod(len(request.body), 8 * width)
        if rest or not states:
            raise invalid("body", f"has {len(request.body)} bytes, which is not a multiple of {8 * width}")
        block = np.frombuffer(request.body, dtype="<f8").reshape(states, width).astype(np.float64)
        decided = self.service.predict_batch(Batch(block), DOOR)
        answer = np.empty(states, dtype=DECIDED_RECORD)
        answer["action"], answer["log_prob"] = decided.actions, decided.log_probs
        headers = (
            (b"content-type", b"application/octet-stream"),
            (b"x-model-version", str(decided.version).encode()),
            (b"x-decided-by", decided.decided_by.encode()),
        )
        return Reply(answer.tobytes(), headers=headers)

    def update(self, request: Request) -> Reply:
        """Experience; answered when it is on the disk."""
        return Reply(ENCODER.encode(self._application.feedback.take(decode(_update, request.body))))

    def decide(self, request: Request) -> Reply:
        """A pod and a cluster in named fields."""
        asked = decode(_decide, request.body)
        decided = self._application.named.decide(asked, request_digest(request.body), request.seconds_left)
        return Reply(ENCODER.encode(decided))

    def models(self, request: Request) -> Reply:
        """All versions."""
        del request
        return Reply(ENCODER.encode(self._application.versions.all()))

    def model(self, request: Request) -> Reply:
        """One version."""
        return Reply(ENCODER.encode(self._application.versions.one(_version(request.part))))

    def promote(self, request: Request) -> Reply:
        """Make a version live."""
        return Reply(ENCODER.encode(self._application.versions.promote(_version(request.part))))

    def rollback(self, request: Request) -> Reply:
        """Make the version before live again."""
        del request
        return Reply(ENCODER.encode(self._application.versions.rollback()))

    def describe(self, request: Request) -> Reply:
        """The description of this interface."""
        del request
        return Reply(self._described)

    def health(self, request: Request) -> Reply:
        """That the service answers."""
        del request
        return Reply(ENCODER.encode(self._application.health()))

    def metrics(self, request: Request) -> Reply:
        """What was counted, for Prometheus."""
        del request
        headers = ((b"content-type", CONTENT_TYPE_LATEST.encode()),)
        return Reply(self.service.measurements.exposition(), headers=headers)


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
    if not (part.isascii() and part.isdecimal()) or len(part) > 19 or int(part) > _LARGEST_VERSION:
        raise Refused(Refusal.NOT_FOUND, f"{part!r} is not the number of a version", "version")
    return int(part)
