"""Every flag of every command is still there, takes what it took and has the default that it had."""

from __future__ import annotations

from itertools import product

import pytest

pytest.importorskip("torch", reason="training needs the extra `learn`")
pytest.importorskip("cmaes", reason="training needs the extra `learn`")

from tests.cli.runner import Proreus
from tests.surface.help_text import promises
from tests.surface.pinning import assert_pinned

LEARNING = (
    *("simulate", "compare", "train", "tune", "combine", "curve", "serve", "bench", "models", "records"),
    *("data", "demo"),
)
RUNNING = ("up", "down", "agent")
ASKING = (
    *("apply", "get", "describe", "top", "logs", "exec", "images", "delete", "drain", "cordon"),
    "uncordon",
)
VERBS = (*LEARNING, *RUNNING, *ASKING)
WORLDS = ("pods", "vms", "rebalance", "workflows", "functions", "inference")
LEARNERS = {
    "pods": ("es", "ppo", "ddqn", "imitate"),
    "vms": ("es", "qmix", "ppo", "ddqn"),
    "rebalance": ("es", "qmix", "ppo", "ddqn", "dqn"),
    "workflows": ("es", "ppo"),
    "functions": ("es", "ppo"),
    "inference": ("es", "ppo", "reserve", "finetune"),
}
COMMANDS: tuple[tuple[str, ...], ...] = (
    *((verb,) for verb in VERBS),
    *product(("simulate", "compare", "train"), WORLDS),
    *(("train", world, "--algo", name) for world, names in LEARNERS.items() for name in names),
    *product(("bench",), ("pods", "serve", "train", "gpu", "vms", "clean", "rebalance", "live", *WORLDS[3:])),
    *product(("tune",), WORLDS),
    *product(("models",), ("list", "show", "promote", "rollback", "gc", "train", "judge")),
    *product(("serve",), ("rest", "grpc", "all", "scaler", "shadow-report")),
    *product(("records",), ("list", "verify", "export", "prune")),
    *product(("data",), ("list", "fetch", "clean")),
    *product(("images",), ("import", "list", "remove")),
    *product(("kube",), ("extender", "import", "explain", "report", "rebalance", "scaler")),
    *product(("kube",), ("scheduler", "shadow-report")),
    *product(("bench",), ("extender", "kube")),
)


@pytest.mark.parametrize("words", COMMANDS, ids=" ".join)
def test_a_command_keeps_its_flags(words: tuple[str, ...], proreus: Proreus) -> None:
    ended = proreus(*words, "--help")
    assert (ended.code, ended.err) == (0, "")
    flags = promises(ended.out)
    assert "-h" in flags, ended.out
    name = "-".join(word for word in words if word != "--algo")
    assert_pinned(f"help/{name}", {"usage": _usage(ended.out), "flags": flags})


def _usage(text: str) -> str:
    line = next(line for line in text.splitlines() if line.startswith("usage: "))
    return line.removeprefix("usage: ").strip()


def test_the_help_of_all_names_every_verb(proreus: Proreus) -> None:
    ended = proreus("--help")
    assert ended.code == 0
    named = [line.split()[0] for line in ended.out.splitlines() if line.startswith("  ") and line[2] != " "]
    assert set(VERBS) <= set(named)
    for word in ("--version", "-V", "version"):
        assert proreus(word).out.startswith("proreus ")
