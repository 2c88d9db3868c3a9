"""The REST door: document 000's /predict, /update and /health, and the newer calls under /v1."""

from __future__ import annotations

import msgspec
import numpy as np
from prometheus_client import CONTENT_TYPE_LATEST

from proreus.serving.checks import as_block, as_mask, as_masks
from proreus.serving.core import Batch, BatchDecided, DecisionService, Question
from proreus.serving.http import BYTES, JSON, Reply, Request, Route, decode
from proreus.serving.values import ENCODER, BatchAnswer, BatchRequest, PredictRequest, invalid

DOOR = "rest"
DECIDED_RECORD = np.dtype([("action", "<i8"), ("log_prob", "<f8")])
"""One decision of a batch answered in bytes."""

_predict = msgspec.json.Decoder(PredictRequest)
_batch = msgspec.json.Decoder(BatchRequest)


class RestApi:
    """The handlers, over one service."""

    def __init__(self, service: DecisionService) -> None:
        self.service = service

    def routes(self) -> dict[str, dict[str, Route]]:
        """Every path and method, except the description of them all."""
        predict = Route(self.predict, (JSON,))
        metrics = Route(self.metrics)
        return {
            "/predict": {"POST": predict},
            "/health": {"GET": Route(self.health, open=True)},
            "/metrics": {"GET": metrics},
            "/v1/predict": {"POST": predict},
            "/v1/predict/batch": {"POST": Route(self.predict_batch, (JSON, BYTES), blocking=True)},
            "/v1/metrics": {"GET": metrics},
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
        """A block of little-endian doubles, [B, --state_dim]; answered with records of action and log_prob."""
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

    def health(self, request: Request) -> Reply:
        """That the service answers."""
        del request
        return Reply(ENCODER.encode(self.service.health()))

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
