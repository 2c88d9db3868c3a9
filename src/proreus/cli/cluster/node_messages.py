"""What `proreus up` and `proreus agent` say of their nodes."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

from proreus.cli.cluster.engine_process import say
from proreus.cli.cluster.lock import is_down_next
from proreus.cli.output import Output
from proreus.cli.program_name import program_name

if TYPE_CHECKING:
    from proreus.engine.cluster import Engine

_MOST_NAMES = 10
EXAMPLE = "examples/engine/web.yaml"


def nodes_told(engine: Engine) -> dict[str, Any]:
    """For programs."""
    names = engine.node_names
    summary: dict[str, Any] = {"nodes": len(names)}
    return (
        summary if engine.machine is None else {**summary, "node": names[0], "runtime": engine.machine.name}
    )


def nodes_in_words(engine: Engine) -> str:
    """For people."""
    names = engine.node_names
    if engine.machine is not None:
        return f"one node, this machine ({names[0]}); pods run by the runtime {engine.machine.name}"
    match names:
        case ():
            return "no nodes"
        case (name,):
            return f"1 simulated node ({name})"
        case _:
            return f"{len(names)} simulated nodes ({names[0]} to {names[-1]})"


def running_on(engine: Engine, folder: Path) -> str:
    """What Ctrl-C leaves running; "" also where `proreus down` stops it next, and tells of it itself."""
    count = 0 if engine.machine is None else engine.machine.running()
    if not count or is_down_next(folder):
        return ""
    subject = "1 container goes" if count == 1 else f"{count} containers go"
    return f"; {subject} on running (`{program_name()} down` stops them)"


def say_passed_over(output: Output, engine: Engine) -> None:
    """Why pods are run by a runtime that keeps less apart than another; called once the node is open."""
    machine = engine.machine
    if machine is not None and machine.passed_over:
        say(output, f"the runtime {machine.name} was taken, for {'; '.join(machine.passed_over)}")


def say_left_behind(output: Output, engine: Engine) -> None:
    """Nodes that the last start had and this one has not: nobody would wonder about them otherwise."""
    names = engine.left_behind
    if names:
        patience = engine.options.patience
        seconds = patience.grace + patience.toleration
        listed = ", ".join(names[:_MOST_NAMES]) + (" ..." if len(names) > _MOST_NAMES else "")
        subject, they = ("node is", "it") if len(names) == 1 else ("nodes are", "them")
        say(
            output,
            f"{len(names)} {subject} left behind, for nothing runs {they} now: {listed}; "
            f"pods there go elsewhere after {seconds:g} s, "
            f"`{program_name()} delete node NAME` forgets a node",
        )
