"""Checkpoints: weights as safetensors and a JSON card that says what they are.

A checkpoint is a folder with `weights.safetensors` and `card.json`. Loading executes nothing: both are
plain data, and the card's checksum must match the weights. A checkpoint whose encoding is not ours is
refused: its features would mean something else.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass, field, fields
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from safetensors import SafetensorError
from safetensors.numpy import load as read_tensors
from safetensors.numpy import save as write_tensors

from proreus.model.errors import InputError
from proreus.model.files import make_folder, read_object, read_regular, write_together

WEIGHTS, CARD = "weights.safetensors", "card.json"


@dataclass(frozen=True)
class Card:
    """Where a checkpoint comes from and how good it is."""

    world: str
    kind: str
    """Which policy the weights are for: "linear", "adaptive", "scorer", "q", "vector-scorer" or "vector-mlp";
    in the world `vms` "linear", or "agents" (QMIX), "actor" (PPO) or "q" (DQN) over servers."""
    algorithm: str
    encoding: str
    """The version of the features that it sees."""
    config: Mapping[str, Any] = field(default_factory=dict)
    seed: int = 0
    commit: str = ""
    """The version of the code that trained it."""
    trained_on: tuple[str, ...] = ()
    scores: Mapping[str, float] = field(default_factory=dict)
    """Held-out results, by scenario."""
    steps: int = 0
    created: str = ""
    seconds: float = 0.0
    checksum: str = ""
    """SHA-256 of the weights file; filled in when it is written."""


@dataclass(frozen=True, eq=False)
class Checkpoint:
    """A card and its tensors."""

    card: Card
    tensors: dict[str, NDArray[Any]]


def is_checkpoint(path: Path) -> bool:
    """Whether there is a checkpoint at `path`."""
    return (path / CARD).is_file()


def save_checkpoint(folder: Path, checkpoint: Checkpoint, *, private: bool = False) -> None:
    """Write the weights and the card that vouches for them; what was there stays until both are written."""
    make_folder(folder, private=private)
    contiguous = {name: np.ascontiguousarray(tensor) for name, tensor in checkpoint.tensors.items()}
    weights = write_tensors(contiguous)
    card = {**asdict(checkpoint.card), "checksum": hashlib.sha256(weights).hexdigest()}
    written = {folder / WEIGHTS: weights, folder / CARD: (json.dumps(card, indent=2) + "\n").encode()}
    write_together(written, private=private)


def load_checkpoint(folder: Path, encoding: str) -> Checkpoint:
    """The checkpoint in `folder`, made for that encoding; an InputError says which file is wrong and how."""
    card = read_card(folder / CARD)
    path = folder / WEIGHTS
    try:
        content = read_regular(path)
        tensors = read_tensors(content)
    except OSError as error:
        raise InputError(f"cannot be read: {error.strerror}", file=path) from error
    except SafetensorError as error:
        raise InputError(f"not a safetensors file: {error}", file=path) from error
    if hashlib.sha256(content).hexdigest() != card.checksum:
        raise InputError(
            "does not match the checksum on its card: it is damaged or from another run", file=path
        )
    if card.encoding != encoding:
        raise InputError(
            f"made for encoding {card.encoding!r}, this is {encoding!r}: train it again or use that version",
            file=folder / CARD,
            field="encoding",
        )
    return Checkpoint(card, tensors)


def read_card(path: Path) -> Card:
    """The card in that file, whatever policy it is of."""
    entries = read_object(path, "a checkpoint's card")
    known = {item.name: item for item in fields(Card)}
    for name in ("world", "kind", "algorithm", "encoding", "checksum"):
        if not isinstance(entries.get(name), str):
            raise InputError("missing or not a text", file=path, field=name)
    for name, (what, is_sound) in _OPTIONAL.items():
        if name in entries and not is_sound(entries[name]):
            raise InputError(f"not {what}", file=path, field=name)
    chosen = {name: value for name, value in entries.items() if name in known}
    chosen["trained_on"] = tuple(chosen.get("trained_on", ()))
    return Card(**chosen)


def _is_number(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)


def _is_count(value: Any) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and abs(value) < 1 << 62


_OPTIONAL: Mapping[str, tuple[str, Callable[[Any], bool]]] = {
    "config": ("an object", lambda value: isinstance(value, dict)),
    "seed": ("a number without fraction", _is_count),
    "commit": ("a text", lambda value: isinstance(value, str)),
    "trained_on": (
        "a list of texts",
        lambda value: isinstance(value, list) and all(isinstance(entry, str) for entry in value),
    ),
    "scores": (
        "an object of numbers",
        lambda value: isinstance(value, dict) and all(map(_is_number, value.values())),
    ),
    "steps": ("a number without fraction", _is_count),
    "created": ("a text", lambda value: isinstance(value, str)),
    "seconds": ("a number", _is_number),
}
"""What else a card may say: in words, and whether a value is that."""
