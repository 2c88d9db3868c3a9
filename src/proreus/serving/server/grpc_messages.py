"""Bytes of gRPC messages to values of the core, and back.

The handlers get bytes: what cannot be parsed is refused here, with a message, and not by the library, which
would call it an internal error. States come straight out of the bytes: a packed field of doubles already
lies there as an array.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeVar

import numpy as np
from google.protobuf.message import DecodeError, Message

from proreus.kernels.arrays import F64, Bool
from proreus.serving.decision_service import BatchDecided, Question, StateBatch
from proreus.serving.messages import (
    DecidedBy,
    PredictAnswer,
    Refusal,
    Refused,
    UpdateAnswer,
    UpdateRequest,
    invalid,
)
from proreus.serving.online.feedback import MOST_STEPS
from proreus.serving.protos import decision_pb2 as decision
from proreus.serving.protos import scheduler_pb2 as scheduler
from proreus.serving.server.protobuf_fields import field_count
from proreus.serving.validation import Dimensions, as_block, as_mask, as_masks

Parsed = TypeVar("Parsed", bound=Message)
_PACKED_FIRST_FIELD = 0x0A
_SMALL = 64 * 1024
"""Bytes of a message whose parts need not be counted."""
_SOME = 8_192
_FEW = 16
"""Fields of a message that are no list."""
_DECIDED_BY = {"model": decision.DECIDED_BY_MODEL, "rule": decision.DECIDED_BY_RULE}


def parse(kind: Callable[[bytes], Parsed], data: bytes) -> Parsed:
    """`data` as a message."""
    try:
        return kind(data)
    except DecodeError:
        raise invalid("request", "these bytes are not the message of this call") from None


def lone_doubles(data: bytes) -> F64 | None:
    """The doubles of a message that has nothing but a packed first field; None where it is another one."""
    if len(data) < 2 or data[0] != _PACKED_FIRST_FIELD:
        return None
    length, at, shift = 0, 1, 0
    while True:  # the length, seven bits a byte
        byte = data[at]
        length |= (byte & 0x7F) << shift
        at, shift = at + 1, shift + 7
        if byte < 0x80:
            break
        if at >= len(data) or shift > 28:
            return None
    if at + length != len(data) or length % 8:
        return None
    # A copy: it is aligned and may be written to, so kernels are compiled for one kind of array only.
    return np.frombuffer(data, dtype="<f8", offset=at).astype(np.float64)


def read_state(data: bytes) -> F64:
    """The state of a scheduler.StateRequest."""
    state = lone_doubles(data)
    if state is None:
        state = np.array(parse(scheduler.StateRequest.FromString, data).state, dtype=np.float64)
    return state


def read_question(data: bytes, dimensions: Dimensions, seconds_left: float, client: str) -> Question:
    """A PredictRequest."""
    state = lone_doubles(data)
    if state is not None:
        return Question(state, seconds_left=seconds_left, client=client)
    asked = parse(decision.PredictRequest.FromString, data)
    return Question(
        np.array(asked.state, dtype=np.float64),
        as_mask(asked.mask, dimensions) if asked.mask else None,
        asked.deterministic if asked.HasField("deterministic") else None,
        asked.top_k or None,
        seconds_left,
        client,
    )


def warm_up() -> None:
    """Compile before the first long message comes."""
    field_count(np.frombuffer(bytes(2), dtype=np.uint8), 1)


def _check_parts(data: bytes, most: int, field: str) -> None:
    """Refuse a message of too many parts before it is parsed: parts of two bytes take fifty times that."""
    if len(data) > _SMALL:
        found = field_count(np.frombuffer(data, dtype=np.uint8), most)
        if found < 0:
            raise invalid("request", "these bytes are not the message of this call")
        if found > most:
            raise Refused(Refusal.TOO_LARGE, f"the message has more than {most} parts", field)


def read_batch(data: bytes, dimensions: Dimensions) -> StateBatch:
    # Every state takes eight bytes a number, and every mask a byte an action.
    shortest = min(8 * dimensions.lengths[0], dimensions.actions)
    _check_parts(data, _FEW + len(data) // shortest, "states")
    asked = parse(decision.BatchRequest.FromString, data)
    if asked.packed and asked.states:
        raise invalid("packed", "comes with states; send one of the two")
    if asked.packed:
        states = _unpacked(asked.packed, asked.state_length or dimensions.state)
    else:
        states = as_block([list(state.state) for state in asked.states], dimensions)
    masks: Bool | None = None
    if asked.masks:
        masks = as_masks([list(mask.mask) for mask in asked.masks], len(states), dimensions)
    return StateBatch(states, masks, asked.deterministic if asked.HasField("deterministic") else None)


def _unpacked(packed: bytes, length: int) -> F64:
    if length < 1:
        raise invalid("state_length", f"{length} is not a number above 0")
    if len(packed) % (8 * length):
        raise invalid("packed", f"has {len(packed)} bytes, which is not a multiple of {8 * length}")
    return np.frombuffer(packed, dtype="<f8").reshape(-1, length).astype(np.float64)


def read_update(data: bytes) -> UpdateRequest:
    _check_parts(data, _FEW + 5 * MOST_STEPS, "states")
    asked = parse(decision.UpdateRequest.FromString, data)
    return UpdateRequest(
        [list(state.state) for state in asked.states],
        list(asked.actions),
        list(asked.rewards),
        list(asked.dones),
        list(asked.log_probs) or None,
        asked.model_version if asked.HasField("model_version") else None,
    )


def action_bytes(answer: PredictAnswer) -> bytes:
    """The ActionResponse of the k8s simulator."""
    return scheduler.ActionResponse(action=answer.action).SerializeToString()


def answer_bytes(answer: PredictAnswer) -> bytes:
    """A PredictResponse."""
    top = answer.top or ()
    return decision.PredictResponse(
        action=answer.action,
        model_version=answer.model_version,
        log_prob=answer.log_prob,
        decided_by=_decided_by(answer.decided_by),
        deterministic=answer.deterministic,
        top=[decision.Choice(action=choice.action, probability=choice.probability) for choice in top],
    ).SerializeToString()


def refusal_bytes(refused: Refused) -> bytes:
    """A PredictResponse without an answer, for a stream that goes on."""
    return decision.PredictResponse(error=str(refused)).SerializeToString()


def batch_bytes(decided: BatchDecided) -> bytes:
    answer = decision.BatchResponse(
        model_version=decided.version,
        decided_by=_decided_by(decided.decided_by),
        deterministic=decided.deterministic,
    )
    # Some at a time: all at once would hold up every other thread.
    for start in range(0, len(decided.actions), _SOME):
        answer.actions.extend(decided.actions[start : start + _SOME].tolist())
        answer.log_probs.extend(decided.log_probs[start : start + _SOME].tolist())
    return answer.SerializeToString()


def update_bytes(answer: UpdateAnswer) -> bytes:
    return decision.UpdateResponse(
        status=answer.status,
        logged=answer.logged,
        learnable=answer.learnable,
        buffered=answer.buffered,
        model_version=answer.model_version,
    ).SerializeToString()


def _decided_by(decided_by: DecidedBy) -> decision.DecidedBy:
    return _DECIDED_BY[decided_by]
