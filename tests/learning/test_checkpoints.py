"""Checkpoints come back as they were saved, and wrong ones are refused with the file and the field named."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest

from proreus.model.errors import InputError, UsageError
from proreus.policies.checkpoint import CARD, WEIGHTS, Card, Checkpoint, load_checkpoint, save_checkpoint
from proreus.worlds.pods.encoding.pair import DEMAND_FIGURES, PAIR_FEATURES, POD_KINDS, VERSION
from proreus.worlds.pods.policies.catalogue import make_policy
from proreus.worlds.pods.policies.checkpoint_tensors import PRETRAINED, linear_tensors
from proreus.worlds.pods.policies.rules.policy import LinearScorer


def a_scorer() -> LinearScorer:
    """Weights that are all different."""
    shape = (len(POD_KINDS), len(PAIR_FEATURES))
    figures = len(DEMAND_FIGURES)
    rng = np.random.default_rng(0)
    return LinearScorer(rng.normal(size=shape), rng.normal(size=(figures, *shape)), rng.normal(size=figures))


def saved(folder: Path, **changes: str) -> Path:
    """A checkpoint on disk, its card changed afterwards."""
    card = Card(world="pods", kind="linear", algorithm="es", encoding=VERSION, trained_on=("gpu",), seed=3)
    save_checkpoint(folder, Checkpoint(card, dict(linear_tensors(a_scorer()))))
    entries = json.loads((folder / CARD).read_text())
    (folder / CARD).write_text(json.dumps({**entries, **changes}))
    return folder


def test_a_checkpoint_comes_back_bit_for_bit(tmp_path: Path) -> None:
    loaded = load_checkpoint(saved(tmp_path / "x"), VERSION)
    for name, tensor in linear_tensors(a_scorer()).items():
        assert loaded.tensors[name].tobytes() == tensor.tobytes()
    assert loaded.card.trained_on == ("gpu",) and loaded.card.seed == 3 and loaded.card.encoding == VERSION


def test_another_encoding_is_refused(tmp_path: Path) -> None:
    with pytest.raises(InputError, match=r"card\.json: encoding: made for encoding 'pods-0'"):
        load_checkpoint(saved(tmp_path, encoding="pods-0"), VERSION)


def test_damaged_weights_are_refused(tmp_path: Path) -> None:
    folder = saved(tmp_path)
    content = bytearray((folder / WEIGHTS).read_bytes())
    content[-3] ^= 1
    (folder / WEIGHTS).write_bytes(bytes(content))
    with pytest.raises(InputError, match="checksum"):
        load_checkpoint(folder, VERSION)
    (folder / WEIGHTS).write_bytes(b"\x80\x04\x95 not tensors")
    with pytest.raises(InputError, match=r"weights\.safetensors: not a safetensors file"):
        load_checkpoint(folder, VERSION)
    (folder / WEIGHTS).unlink()
    with pytest.raises(InputError, match="cannot be read"):
        load_checkpoint(folder, VERSION)


@pytest.mark.parametrize(("card", "says"), [("", "not JSON"), ("[]", "not a checkpoint"), ("{}", "world")])
def test_a_card_that_is_none_is_refused(card: str, says: str, tmp_path: Path) -> None:
    folder = saved(tmp_path)
    (folder / CARD).write_text(card)
    with pytest.raises(InputError, match=says):
        load_checkpoint(folder, VERSION)


def test_wrong_shapes_and_kinds_are_refused(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="'forest' policy"):
        make_policy(str(saved(tmp_path / "kind", kind="forest")))
    tensors = dict(linear_tensors(a_scorer()))
    tensors["weights"] = tensors["weights"][:, 1:]
    card = Card(world="pods", kind="linear", algorithm="es", encoding=VERSION)
    save_checkpoint(tmp_path / "shape", Checkpoint(card, dict(tensors)))
    with pytest.raises(InputError, match="weights: needs finite numbers"):
        make_policy(str(tmp_path / "shape"))
    tensors = {**linear_tensors(a_scorer()), "gaps": np.zeros(3)}
    save_checkpoint(tmp_path / "gaps", Checkpoint(card, tensors))
    with pytest.raises(InputError, match="gaps: needs finite numbers"):
        make_policy(str(tmp_path / "gaps"))


def test_a_path_that_is_no_checkpoint_is_an_unknown_policy(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="unknown policy"):
        make_policy(str(tmp_path))


def test_the_shipped_checkpoint_is_small_sound_and_says_where_it_comes_from() -> None:
    folder = PRETRAINED / "pods"
    assert sum(path.stat().st_size for path in folder.iterdir()) < 1_000_000
    card = load_checkpoint(folder, VERSION).card
    assert card.commit and card.trained_on and card.scores and card.created
    assert all(gain > 0 for gain in card.scores.values())
