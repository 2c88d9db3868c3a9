"""Bad usage and bad input: the exit code, and the sentence that says what is wrong."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("torch", reason="training needs the extra `learn`")
pytest.importorskip("cmaes", reason="training needs the extra `learn`")

from tests.cli.runner import Proreus, assert_refused
from tests.surface.pinning import assert_pinned
from tests.surface.run_folders import OLD_RUNS

VMS_RUN = str(OLD_RUNS / "vms-es" / "interrupted")
PODS_RUN = str(OLD_RUNS / "pods-es" / "interrupted")
REFUSALS: tuple[str, ...] = (
    "simlate",
    "simulate",
    "simulate podds",
    "simulate pods --scenario smal",
    "simulate pods --policy kubee",
    "simulate pods --scenario openb",
    "simulate pods --scenario gpu@0",
    "simulate pods --explain nobody",
    "simulate pods --format openb",
    "simulate pods --nodes n.csv",
    "simulate pods --seed -1",
    "simulate pods --colour red",
    "simulate vms --scenario recoverng",
    "simulate vms --scenario huawei/waiting",
    "simulate vms --policy first_fitt",
    "simulate vms --split some",
    "simulate vms --watch -1",
    "simulate vms --servers 5",
    "simulate vms --trace no.csv",
    "simulate rebalance --scenario windows/seriell",
    "simulate rebalance --policy search",
    "simulate rebalance --watch -1",
    "simulate rebalance --scenario snapshot --requests x",
    "simulate rebalance --scenario bytedance",
    "compare pods --seeds 0",
    "compare pods --processes -1",
    "compare vms --scenarios ,",
    "compare rebalance --scenarios snapshot-small,windows/serial",
    "train podds",
    "train pods --algo sarsa",
    "train pods --resume nowhere",
    "train vms --algo ppo --lanes 0",
    "train rebalance --generations 0",
    "curve nowhere",
    "serve rest",
    "serve rest --state_dim 6 --action_dim 8 --deterministic --stochastic",
    "serve rest --state_dim 6 --action_dim 8 --port 70000",
    "bench podds",
    "models forget --store .",
    "models list --store nowhere",
    "data clena",
    "data clean no.csv --out cleaned",
)
OF_OLD_RUNS: tuple[tuple[str, ...], ...] = (
    ("simulate", "pods", "--policy", VMS_RUN),
    ("simulate", "vms", "--policy", PODS_RUN),
    ("simulate", "rebalance", "--policy", VMS_RUN),
    ("train", "pods", "--resume", VMS_RUN),
    ("train", "vms", "--resume", PODS_RUN),
    ("train", "vms", "--algo", "qmix", "--resume", VMS_RUN),
    ("train", "rebalance", "--resume", PODS_RUN),
)


def test_a_bad_command_is_told_what_is_wrong(proreus: Proreus) -> None:
    commands = {line: tuple(line.split()) for line in REFUSALS}
    # Old runs by the name of their folder's parent: where they lie is no part of the sentence.
    commands |= {" ".join((*words[:-1], Path(words[-1]).parent.name)): words for words in OF_OLD_RUNS}
    messages = {}
    for name, words in commands.items():
        ended = proreus(*words)
        assert_refused(ended, 2)
        assert ended.out == "", name
        messages[name] = _told(ended.err)
    assert_pinned("errors", messages)


def _told(err: str) -> dict[str, Any]:
    """The sentence, without the frame of the parser and its hints; names that are known may become more."""
    sentence = " ".join(err.replace(str(OLD_RUNS), "OLD_RUNS").split()).removeprefix("proreus: ")
    framed = re.split(r" ?-{5,} ?", sentence)
    sentence = re.sub(r" \(see proreus [^()]*\)$", "", framed[1] if len(framed) > 1 else sentence)
    says, _, known = sentence.partition(" (known: ")
    names = known.removesuffix(")").partition(" and ")[0].split(", ") if known else []
    return {"says": says, "known": dict.fromkeys(names, "known")}
