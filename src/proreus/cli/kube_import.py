"""`proreus kube import`: a cluster, or files of `kubectl get -o json`, as work to simulate and compare."""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Annotated, Any

import tyro

from proreus.cli.arguments import CommonArguments, parse, prepare
from proreus.cli.kube_arguments import ClusterArguments, client_maker
from proreus.cli.output import new_console, waiting, write_json
from proreus.cli.signals import told_to_end
from proreus.model.errors import InputError, UsageError
from proreus.model.files import read_regular

_MOST_BYTES = 4 << 30
_DESCRIPTION = """Makes a folder of a cluster's pods and nodes: who came when, asked for what, ran how long.

From the cluster itself, or from files: kubectl get nodes,pods,pdb,rs,svc,ns,pvc -A -o json > monday.json.
Several files of one cluster say more: a pod that is missing in a later one ended in between.

Example: proreus kube import --out runs/week --since 7d"""


@dataclass(frozen=True)
class ImportArguments:
    """Flags of `proreus kube import`."""

    out: Annotated[Path, tyro.conf.arg(metavar="DIR")] = Path("runs/cluster")
    """Where the folder goes: nodes.json and pods.json are manifests."""
    file: Annotated[tuple[Path, ...], tyro.conf.arg(name="file", metavar="FILE")] = ()
    """Files of kubectl get -o json, in place of a cluster; several: one after the other."""
    since: Annotated[str, tyro.conf.arg(metavar="WHEN")] = ""
    """From this moment on: 2026-11-16, 2026-11-16T08:00:00, or 7d, 24h, 90m ago."""
    until: Annotated[str, tyro.conf.arg(metavar="WHEN")] = ""
    """Up to this moment."""
    fresh: bool = False
    """Place pods that ran before anew, too, as if all had come when it began."""
    follow: Annotated[str, tyro.conf.arg(metavar="TIME")] = ""
    """Follow the cluster for so long (90m, 24h, 7d), so that pods that end are known; Ctrl-C ends it."""
    cluster: ClusterArguments = field(default_factory=ClusterArguments)
    common: CommonArguments = field(default_factory=CommonArguments)

    def __post_init__(self) -> None:
        if self.file and self.follow:
            raise UsageError("--follow follows a cluster: leave out --file")


def run(words: Sequence[str]) -> int:
    """Write the folder."""
    from proreus.kubeagents.judge.pod_lives import SeenCluster
    from proreus.kubeagents.judge.scenario_folder import Span, imported, write_folder
    from proreus.worlds.pods.datasets.engine_trace import moment_of

    arguments = parse(ImportArguments, "proreus kube import", words, _DESCRIPTION)
    prepare(arguments.common)
    console = new_console(arguments.common)
    now = time.time()
    follow = now - moment_of("--follow", arguments.follow, now) if arguments.follow else 0.0
    seen = SeenCluster()
    if arguments.file:
        with waiting(console, "reading") as tell:
            for path in arguments.file:
                tell(f"reading {path}")
                seen.look(_objects(path))
        now = seen.last
    else:
        with waiting(console, "listing the cluster") as tell:
            _look_at_cluster(arguments, seen, follow, tell)
        now = time.time()
    span = Span(
        moment_of("--since", arguments.since, now) if arguments.since else None,
        moment_of("--until", arguments.until, now) if arguments.until else None,
        arguments.fresh,
    )
    found = imported(seen, span, arguments.out.name)
    write_folder(found, arguments.out)
    console.print(found.about.told, soft_wrap=True)
    console.print(
        f"as recorded, nodes that held pods: ${found.about.recorded_cost:,.2f}",
        soft_wrap=True,
        highlight=False,
    )
    console.print(
        f"next: proreus kube report {arguments.out}, or proreus compare pods --format manifests "
        f"--nodes {arguments.out}/nodes.json --pods {arguments.out}/pods.json",
        soft_wrap=True,
        highlight=False,
    )
    write_json(arguments.common, {"folder": str(arguments.out), **asdict(found.about)})
    return 0


def _look_at_cluster(arguments: ImportArguments, seen: Any, follow: float, tell: Any) -> None:
    from proreus.kubeagents.judge.recorder import record

    with told_to_end() as ending:
        ending.loaded()
        record(
            client_maker(arguments.cluster, "import"),
            seen,
            follow,
            lambda seconds: ending.wait(seconds),
            tell,
        )


def _objects(path: Path) -> Iterator[dict[str, Any]]:
    """The objects of a file, those of Lists included."""
    import msgspec

    try:
        if path.stat().st_size > _MOST_BYTES:
            raise InputError("is larger than 4 GiB", file=path)
        document = msgspec.json.decode(read_regular(path))
    except OSError as error:
        raise InputError(f"cannot be read: {error.strerror}", file=path) from error
    except msgspec.DecodeError as error:
        raise InputError(
            f"is no JSON: {error}; kubectl get ... -o json writes such a file", file=path
        ) from error
    if not isinstance(document, dict):
        raise InputError("holds no Kubernetes object", file=path)
    kind = str(document.get("kind", ""))
    items = document.get("items") if kind.endswith("List") else [document]
    if not isinstance(items, list):
        raise InputError("a List without items", file=path, field="items")
    for place, item in enumerate(items):
        metadata = item.get("metadata") if isinstance(item, dict) else None
        if not isinstance(metadata, dict) or not isinstance(metadata.get("name"), str):
            raise InputError("is no Kubernetes object", file=path, field=f"items[{place}]")
        if kind != "List" and "kind" not in item:
            item["kind"] = kind.removesuffix("List")
        if item["kind"] in ("Pod", "Node") and not isinstance(item.get("spec"), dict):
            raise InputError("has no spec", file=path, field=f"items[{place}]")
        yield item
