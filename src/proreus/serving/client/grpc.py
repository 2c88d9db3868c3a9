"""A client of the gRPC door, blocking and asyncio, with the calls of `rest`.

with GrpcClient("127.0.0.1:50051") as client:
    answer = client.predict(state)
"""

from __future__ import annotations

import time
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from types import TracebackType
from typing import Any

import grpc
import numpy as np
from numpy.typing import ArrayLike

from proreus.serving.client.rest import (
    BatchPrediction,
    ClientOptions,
    Columns,
    ServiceError,
    predict_request,
    update_request,
)
from proreus.serving.messages import Choice, PredictAnswer, UpdateAnswer
from proreus.serving.protos import decision_pb2 as decision
from proreus.serving.protos import scheduler_pb2 as scheduler

_DECISION = "/proreus.decision.v1.Decision"
_DECIDED_BY: dict[int, Any] = {decision.DECIDED_BY_MODEL: "model", decision.DECIDED_BY_RULE: "rule"}
_UNREACHABLE = grpc.StatusCode.UNAVAILABLE


class GrpcClient:
    """Blocking calls over one channel; threads may share it."""

    def __init__(self, address: str, options: ClientOptions | None = None) -> None:
        self.options = options or ClientOptions()
        self._channel = _channel(grpc, address, self.options)
        self._act = self._channel.unary_unary("/scheduler.Scheduler/Predict")
        self._predict = self._channel.unary_unary(f"{_DECISION}/Predict")
        self._batch = self._channel.unary_unary(f"{_DECISION}/PredictBatch")
        self._update = self._channel.unary_unary(f"{_DECISION}/Update")
        self._stream = self._channel.stream_stream(f"{_DECISION}/PredictStream")

    def __enter__(self) -> GrpcClient:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def close(self) -> None:
        """End the channel."""
        self._channel.close()

    def act(self, state: ArrayLike) -> int:
        """The k8s simulator's call: a state in, an action out."""
        request = scheduler.StateRequest(state=np.asarray(state, dtype=np.float64).tolist())
        return int(scheduler.ActionResponse.FromString(self._ask(self._act, request)).action)

    def predict(self, state: ArrayLike, **asked: Any) -> PredictAnswer:
        """What to do in this state; `asked`: deterministic, mask, top_k."""
        return _answer(self._ask(self._predict, _question(state, asked)))

    def predict_batch(self, states: ArrayLike) -> BatchPrediction:
        """What to do in each state, decided by one version."""
        return _decided(self._ask(self._batch, _block(states)))

    def predict_stream(self, states: Iterable[ArrayLike], **asked: Any) -> Iterator[PredictAnswer]:
        """An answer per state, in order, over one call that lasts as long as the states do."""
        requests = (_question(state, asked).SerializeToString() for state in states)
        try:
            for data in self._stream(requests, metadata=_metadata(self.options)):
                yield _answer(data)
        except grpc.RpcError as error:
            raise _error(error) from error

    def update(self, states: Sequence[ArrayLike], columns: Columns, **asked: Any) -> UpdateAnswer:
        """Report experience, columns: actions, rewards, dones; `asked`: log_probs, model_version."""
        return _updated(self._ask(self._update, _report(states, columns, asked), repeatable=False))

    def _ask(self, call: Any, request: Any, *, repeatable: bool = True) -> bytes:
        data = request.SerializeToString()
        for attempt in range(self.options.retries + 1):
            try:
                answer: bytes = call(
                    data, timeout=self.options.timeout, metadata=_metadata(self.options), wait_for_ready=False
                )
                return answer
            except grpc.RpcError as error:
                again = repeatable and error.code() is _UNREACHABLE and attempt < self.options.retries
                if not again:
                    raise _error(error) from error
                time.sleep(self.options.pause * 2**attempt)
        raise AssertionError("the last attempt returns or raises")


class AsyncGrpcClient:
    """The same for asyncio."""

    def __init__(self, address: str, options: ClientOptions | None = None) -> None:
        self.options = options or ClientOptions()
        self._channel = _channel(grpc.aio, address, self.options)
        self._predict = self._channel.unary_unary(f"{_DECISION}/Predict")
        self._batch = self._channel.unary_unary(f"{_DECISION}/PredictBatch")
        self._update = self._channel.unary_unary(f"{_DECISION}/Update")

    async def __aenter__(self) -> AsyncGrpcClient:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self._channel.close()

    async def predict(self, state: ArrayLike, **asked: Any) -> PredictAnswer:
        """What to do in this state; `asked`: deterministic, mask, top_k."""
        return _answer(await self._ask(self._predict, _question(state, asked)))

    async def predict_batch(self, states: ArrayLike) -> BatchPrediction:
        """What to do in each state, decided by one version."""
        return _decided(await self._ask(self._batch, _block(states)))

    async def update(self, states: Sequence[ArrayLike], columns: Columns, **asked: Any) -> UpdateAnswer:
        """Report experience, columns: actions, rewards, dones; `asked`: log_probs, model_version."""
        return _updated(await self._ask(self._update, _report(states, columns, asked)))

    async def _ask(self, call: Any, request: Any) -> bytes:
        try:
            answer: bytes = await call(
                request.SerializeToString(),
                timeout=self.options.timeout,
                metadata=_metadata(self.options),
            )
            return answer
        except grpc.RpcError as error:
            raise _error(error) from error


def _channel(library: Any, address: str, options: ClientOptions) -> Any:
    limits = (("grpc.max_receive_message_length", -1), ("grpc.max_send_message_length", -1))
    if not options.certificate:
        return library.insecure_channel(address, options=limits)
    trusted = grpc.ssl_channel_credentials(Path(options.certificate).read_bytes())
    return library.secure_channel(address, trusted, options=limits)


def _metadata(options: ClientOptions) -> tuple[tuple[str, str], ...]:
    return (("authorization", f"Bearer {options.token}"),) if options.token else ()


def _question(state: ArrayLike, asked: dict[str, Any]) -> Any:
    request = predict_request(state, asked)
    return decision.PredictRequest(
        state=request.state,
        mask=request.mask or (),
        deterministic=request.deterministic,
        top_k=request.top_k or 0,
    )


def _block(states: ArrayLike) -> Any:
    block = np.ascontiguousarray(states, dtype="<f8")
    return decision.BatchRequest(packed=block.tobytes(), state_length=block.shape[1])


def _report(states: Sequence[ArrayLike], columns: Columns, asked: dict[str, Any]) -> Any:
    request = update_request(states, columns, asked)
    return decision.UpdateRequest(
        states=[decision.State(state=state) for state in request.states],
        actions=request.actions,
        rewards=request.rewards,
        dones=request.dones,
        log_probs=request.log_probs or (),
        model_version=request.model_version,
    )


def _answer(data: bytes) -> PredictAnswer:
    said = decision.PredictResponse.FromString(data)
    if said.error:
        raise ServiceError(said.error, "invalid", said.error.partition(":")[0])
    top = [Choice(choice.action, choice.probability) for choice in said.top]
    return PredictAnswer(
        said.action,
        said.model_version,
        said.log_prob,
        _DECIDED_BY[said.decided_by],
        said.deterministic,
        top or None,
    )


def _decided(data: bytes) -> BatchPrediction:
    said = decision.BatchResponse.FromString(data)
    return BatchPrediction(
        np.array(said.actions, dtype=np.int64), np.array(said.log_probs, dtype=np.float64), said.model_version
    )


def _updated(data: bytes) -> UpdateAnswer:
    said = decision.UpdateResponse.FromString(data)
    return UpdateAnswer(said.status, said.logged, said.learnable, said.buffered, said.model_version)


def _error(error: Any) -> ServiceError:
    details = error.details() or error.code().name
    code = "unreachable" if error.code() is _UNREACHABLE else error.code().name.lower()
    return ServiceError(details, code, details.partition(":")[0] if ":" in details else "")
