"""`proreus VERB ...`: finds the verb, runs it, and turns errors into exit codes.

0 done; 1 the work failed; 2 bad usage or bad input. Errors are one line on stderr, never a traceback.
"""

from __future__ import annotations

import contextlib
import importlib
import sys
from collections.abc import Sequence

from proreus.cli.signals import interrupted_at_last
from proreus.cli.stdout_encoding import print_in_any_encoding
from proreus.model.errors import InputError, ProreusError, UsageError, unknown_name
from proreus.version import __version__

# verb -> (module with `run(words)`, what it does, an example)
VERBS: dict[str, tuple[str, str, str]] = {
    "simulate": (
        "proreus.cli.simulate",
        "run one policy over one workload",
        "proreus simulate pods --scenario small --policy kube",
    ),
    "compare": (
        "proreus.cli.compare",
        "compare policies over seeds, with intervals and a report",
        "proreus compare pods --scenario gpu --policies kube,fgd,best_fit --seeds 10",
    ),
    "train": (
        "proreus.cli.train",
        "learn a policy, judged on held-out seeds",
        "proreus train pods --algo es --scenarios gpu --out runs/x",
    ),
    "tune": (
        "proreus.cli.tune",
        "train a policy for your own work, and say whether it is worth having",
        "proreus tune pods --from jobs.csv --nodes nodes.csv --minutes 10",
    ),
    "combine": (
        "proreus.cli.combine",
        "make one policy of specialists, which adapts to the demand",
        "proreus combine pods runs/x runs/y --out runs/z",
    ),
    "curve": (
        "proreus.cli.curve",
        "draw the learning curves of runs",
        "proreus curve runs/x --out curve.png",
    ),
    "serve": (
        "proreus.cli.serve",
        "answer decisions over REST and gRPC, and learn from what comes of them",
        "proreus serve rest --state_dim 14 --action_dim 16",
    ),
    "dashboard": (
        "proreus.cli.dashboard",
        "look at training runs, comparisons and models, and play with policies, in a browser",
        "proreus dashboard runs",
    ),
    "bench": (
        "proreus.cli.bench",
        "print the speed claims beside their peers",
        "proreus bench pods",
    ),
    "models": (
        "proreus.cli.models",
        "list, promote, roll back, train and judge the service's models",
        "proreus models list --store models",
    ),
    "records": (
        "proreus.cli.records",
        "list, verify, export and prune what a service or a cluster has recorded",
        "proreus records list runs/models",
    ),
    "data": (
        "proreus.cli.data",
        "list datasets, fetch public ones, clean raw logs",
        "proreus data fetch openb/default",
    ),
    "demo": ("proreus.cli.demo", "compare the strongest rules and open the way to a report", "proreus demo"),
    "up": (
        "proreus.cli.up",
        "run a cluster here: API, agents, this machine or simulated nodes, a dashboard",
        "proreus up",
    ),
    "down": ("proreus.cli.down", "end the cluster that runs here, and its containers", "proreus down"),
    "agent": (
        "proreus.cli.agent",
        "join this machine to a cluster that shares a store",
        "proreus agent --store etcd://10.0.0.5:2379",
    ),
    "apply": (
        "proreus.cli.apply",
        "create objects of a cluster, or change them, from files",
        "proreus apply -f examples/engine/web.yaml",
    ),
    "get": ("proreus.cli.get", "show objects of a cluster", "proreus get pods -o wide"),
    "describe": (
        "proreus.cli.describe",
        "tell of an object, its events, and why a pod went where it went",
        "proreus describe pod web-6d4c9-x2x1z",
    ),
    "top": ("proreus.cli.top", "show what nodes and pods of a cluster use", "proreus top nodes"),
    "logs": ("proreus.cli.logs", "print what a pod has printed", "proreus logs deployment/web --tail 20"),
    "exec": ("proreus.cli.exec", "run a command in a pod", "proreus exec deployment/web -- echo hello"),
    "images": (
        "proreus.cli.images",
        "pack, import, list and remove the images that containers are made of",
        "proreus images import busybox.tar --name busybox",
    ),
    "delete": ("proreus.cli.delete", "take objects out of a cluster", "proreus delete deployment web"),
    "drain": ("proreus.cli.drain", "have the pods of a node leave it", "proreus drain node-1"),
    "cordon": ("proreus.cli.cordon", "give a node no new pods", "proreus cordon node-1"),
    "kube": (
        "proreus.cli.kube",
        "work in a Kubernetes cluster that is there already",
        "proreus kube extender --policy learned",
    ),
    "uncordon": ("proreus.cli.uncordon", "give a node new pods again", "proreus uncordon node-1"),
}


_ASKS_STRANGERS = frozenset(("simulate", "compare"))
"""In the process of the command, with nothing to save when it is interrupted."""
_FIRST_OF_CLUSTERS = "up"
"""From here on the verbs are about a cluster that runs."""


def main(words: Sequence[str] | None = None) -> int:
    """Run a command line; returns the exit code."""
    words = list(sys.argv[1:] if words is None else words)
    print_in_any_encoding()
    try:
        return _dispatch(words)
    except (UsageError, InputError) as error:
        _complain(str(error))
        return 2
    except ProreusError as error:
        _complain(str(error))
        return 1
    except KeyboardInterrupt as interrupt:
        _complain(str(interrupt) or "interrupted")
        return 130
    except BrokenPipeError:
        sys.stderr.close()  # the reader of our output has left: nothing to say to anyone
        return 1
    except OSError as error:
        _complain(f"{error.filename or 'output'}: {error.strerror}")
        return 1


def _complain(message: str) -> None:
    """One line on stderr, whatever the message holds."""
    print("proreus:", " ".join(message.split()), file=sys.stderr)


def _dispatch(words: Sequence[str]) -> int:
    if not words or words[0] in ("-h", "--help", "help"):
        _print_help()
        return 0
    if words[0] in ("-V", "--version", "version"):
        print(f"proreus {__version__}")
        return 0
    if words[0] == "--completion":
        made = importlib.import_module("proreus.cli.completion").completion
        print(made(words[1] if len(words) > 1 else "", VERBS, _dispatch), end="")
        return 0
    verb, *rest = words
    if verb not in VERBS:
        raise unknown_name("verb", verb, VERBS)
    try:
        with interrupted_at_last() if verb in _ASKS_STRANGERS else contextlib.nullcontext():
            code: int = importlib.import_module(VERBS[verb][0]).run(rest)
    except SystemExit as end:  # --help of a verb
        return int(end.code or 0)
    return code


def _print_help() -> None:
    print("usage: proreus VERB [WORLD] [--flags]\n")
    print("Scheduling policies for clusters: simulated, explained and compared on real and generated work.\n")
    width = max(map(len, VERBS))
    for verb, (_, does, example) in VERBS.items():
        if verb == _FIRST_OF_CLUSTERS:
            print("\nA cluster that runs:\n")
        print(f"  {verb:<{width}}  {does}\n  {'':<{width}}    {example}")
    worlds = importlib.import_module("proreus.worlds").registered()
    print(f"\nWorlds: {', '.join(worlds)}. What one has: proreus simulate WORLD --help.")
    print(
        "Every verb: --help, --json FILE (-: stdout), --quiet, --log-level, --log-json; where something is\n"
        "drawn: --seed. Flags accept - and _ alike. Completion: proreus --completion bash|zsh."
    )


if __name__ == "__main__":
    sys.exit(main())
