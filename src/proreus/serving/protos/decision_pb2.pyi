from google.protobuf.internal import containers as _containers
from google.protobuf.internal import enum_type_wrapper as _enum_type_wrapper
from google.protobuf import descriptor as _descriptor
from google.protobuf import message as _message
from collections.abc import Iterable as _Iterable, Mapping as _Mapping
from typing import ClassVar as _ClassVar, Optional as _Optional, Union as _Union

DESCRIPTOR: _descriptor.FileDescriptor

class DecidedBy(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
    __slots__ = ()
    DECIDED_BY_UNSPECIFIED: _ClassVar[DecidedBy]
    DECIDED_BY_MODEL: _ClassVar[DecidedBy]
    DECIDED_BY_RULE: _ClassVar[DecidedBy]
DECIDED_BY_UNSPECIFIED: DecidedBy
DECIDED_BY_MODEL: DecidedBy
DECIDED_BY_RULE: DecidedBy

class PredictRequest(_message.Message):
    __slots__ = ("state", "mask", "deterministic", "top_k")
    STATE_FIELD_NUMBER: _ClassVar[int]
    MASK_FIELD_NUMBER: _ClassVar[int]
    DETERMINISTIC_FIELD_NUMBER: _ClassVar[int]
    TOP_K_FIELD_NUMBER: _ClassVar[int]
    state: _containers.RepeatedScalarFieldContainer[float]
    mask: _containers.RepeatedScalarFieldContainer[bool]
    deterministic: bool
    top_k: int
    def __init__(self, state: _Optional[_Iterable[float]] = ..., mask: _Optional[_Iterable[bool]] = ..., deterministic: _Optional[bool] = ..., top_k: _Optional[int] = ...) -> None: ...

class Choice(_message.Message):
    __slots__ = ("action", "probability")
    ACTION_FIELD_NUMBER: _ClassVar[int]
    PROBABILITY_FIELD_NUMBER: _ClassVar[int]
    action: int
    probability: float
    def __init__(self, action: _Optional[int] = ..., probability: _Optional[float] = ...) -> None: ...

class PredictResponse(_message.Message):
    __slots__ = ("action", "model_version", "log_prob", "decided_by", "deterministic", "top", "error")
    ACTION_FIELD_NUMBER: _ClassVar[int]
    MODEL_VERSION_FIELD_NUMBER: _ClassVar[int]
    LOG_PROB_FIELD_NUMBER: _ClassVar[int]
    DECIDED_BY_FIELD_NUMBER: _ClassVar[int]
    DETERMINISTIC_FIELD_NUMBER: _ClassVar[int]
    TOP_FIELD_NUMBER: _ClassVar[int]
    ERROR_FIELD_NUMBER: _ClassVar[int]
    action: int
    model_version: int
    log_prob: float
    decided_by: DecidedBy
    deterministic: bool
    top: _containers.RepeatedCompositeFieldContainer[Choice]
    error: str
    def __init__(self, action: _Optional[int] = ..., model_version: _Optional[int] = ..., log_prob: _Optional[float] = ..., decided_by: _Optional[_Union[DecidedBy, str]] = ..., deterministic: _Optional[bool] = ..., top: _Optional[_Iterable[_Union[Choice, _Mapping]]] = ..., error: _Optional[str] = ...) -> None: ...

class State(_message.Message):
    __slots__ = ("state",)
    STATE_FIELD_NUMBER: _ClassVar[int]
    state: _containers.RepeatedScalarFieldContainer[float]
    def __init__(self, state: _Optional[_Iterable[float]] = ...) -> None: ...

class Mask(_message.Message):
    __slots__ = ("mask",)
    MASK_FIELD_NUMBER: _ClassVar[int]
    mask: _containers.RepeatedScalarFieldContainer[bool]
    def __init__(self, mask: _Optional[_Iterable[bool]] = ...) -> None: ...

class BatchRequest(_message.Message):
    __slots__ = ("states", "packed", "state_length", "masks", "deterministic")
    STATES_FIELD_NUMBER: _ClassVar[int]
    PACKED_FIELD_NUMBER: _ClassVar[int]
    STATE_LENGTH_FIELD_NUMBER: _ClassVar[int]
    MASKS_FIELD_NUMBER: _ClassVar[int]
    DETERMINISTIC_FIELD_NUMBER: _ClassVar[int]
    states: _containers.RepeatedCompositeFieldContainer[State]
    packed: bytes
    state_length: int
    masks: _containers.RepeatedCompositeFieldContainer[Mask]
    deterministic: bool
    def __init__(self, states: _Optional[_Iterable[_Union[State, _Mapping]]] = ..., packed: _Optional[bytes] = ..., state_length: _Optional[int] = ..., masks: _Optional[_Iterable[_Union[Mask, _Mapping]]] = ..., deterministic: _Optional[bool] = ...) -> None: ...

class BatchResponse(_message.Message):
    __slots__ = ("actions", "log_probs", "model_version", "decided_by", "deterministic")
    ACTIONS_FIELD_NUMBER: _ClassVar[int]
    LOG_PROBS_FIELD_NUMBER: _ClassVar[int]
    MODEL_VERSION_FIELD_NUMBER: _ClassVar[int]
    DECIDED_BY_FIELD_NUMBER: _ClassVar[int]
    DETERMINISTIC_FIELD_NUMBER: _ClassVar[int]
    actions: _containers.RepeatedScalarFieldContainer[int]
    log_probs: _containers.RepeatedScalarFieldContainer[float]
    model_version: int
    decided_by: DecidedBy
    deterministic: bool
    def __init__(self, actions: _Optional[_Iterable[int]] = ..., log_probs: _Optional[_Iterable[float]] = ..., model_version: _Optional[int] = ..., decided_by: _Optional[_Union[DecidedBy, str]] = ..., deterministic: _Optional[bool] = ...) -> None: ...

class UpdateRequest(_message.Message):
    __slots__ = ("states", "actions", "rewards", "dones", "log_probs", "model_version")
    STATES_FIELD_NUMBER: _ClassVar[int]
    ACTIONS_FIELD_NUMBER: _ClassVar[int]
    REWARDS_FIELD_NUMBER: _ClassVar[int]
    DONES_FIELD_NUMBER: _ClassVar[int]
    LOG_PROBS_FIELD_NUMBER: _ClassVar[int]
    MODEL_VERSION_FIELD_NUMBER: _ClassVar[int]
    states: _containers.RepeatedCompositeFieldContainer[State]
    actions: _containers.RepeatedScalarFieldContainer[int]
    rewards: _containers.RepeatedScalarFieldContainer[float]
    dones: _containers.RepeatedScalarFieldContainer[bool]
    log_probs: _containers.RepeatedScalarFieldContainer[float]
    model_version: int
    def __init__(self, states: _Optional[_Iterable[_Union[State, _Mapping]]] = ..., actions: _Optional[_Iterable[int]] = ..., rewards: _Optional[_Iterable[float]] = ..., dones: _Optional[_Iterable[bool]] = ..., log_probs: _Optional[_Iterable[float]] = ..., model_version: _Optional[int] = ...) -> None: ...

class UpdateResponse(_message.Message):
    __slots__ = ("status", "logged", "learnable", "buffered", "model_version")
    STATUS_FIELD_NUMBER: _ClassVar[int]
    LOGGED_FIELD_NUMBER: _ClassVar[int]
    LEARNABLE_FIELD_NUMBER: _ClassVar[int]
    BUFFERED_FIELD_NUMBER: _ClassVar[int]
    MODEL_VERSION_FIELD_NUMBER: _ClassVar[int]
    status: str
    logged: int
    learnable: int
    buffered: int
    model_version: int
    def __init__(self, status: _Optional[str] = ..., logged: _Optional[int] = ..., learnable: _Optional[int] = ..., buffered: _Optional[int] = ..., model_version: _Optional[int] = ...) -> None: ...
