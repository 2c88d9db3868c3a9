"""`proreus drain NODE`: cordon a node and have its pods leave it, as fast as disruption budgets allow."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Annotated, Any

import tyro
from rich.console import Console

from proreus.cli.arguments import parse, prepare
from proreus.cli.cluster.messages import ApiRefused, Body
from proreus.cli.cluster.resource_names import path_of
from proreus.cli.cluster.state_dir import Where
from proreus.cli.cordon import set_unschedulable
from proreus.cli.output import Output, new_console, waiting, write_json
from proreus.cli.program_name import program_name
from proreus.engine.objects.kinds import POD
from proreus.model.errors import UsageError, WorkError

if TYPE_CHECKING:
    from proreus.cli.cluster.client import Client

_DESCRIPTION = """Cordon a node and evict its pods. Disruption budgets are kept; what may not go yet waits.

Example: proreus drain node-1 --timeout 300"""
_NOT_FOUND, _TOO_MANY = 404, 429
_POLL_SECONDS, _SAY_SECONDS = 0.5, 5.0
_MIRROR = "kubernetes.io/config.mirror"
Pod = dict[str, Any]


@dataclass(frozen=True)
class DrainArguments:
    """Flags of `proreus drain`."""

    node: Annotated[tyro.conf.Positional[str], tyro.conf.arg(metavar="NODE")] = ""
    """Which node."""
    force: bool = False
    """Also pods that nothing will bring back elsewhere."""
    grace_period: Annotated[int | None, tyro.conf.arg(metavar="SECONDS")] = None
    """How long pods may take to end; by default what each pod says."""
    timeout: Annotated[float, tyro.conf.arg(metavar="SECONDS")] = 0.0
    """How long to try; 0: until it is done."""
    where: Where = field(default_factory=Where)
    common: Output = field(default_factory=Output)

    def __post_init__(self) -> None:
        if not self.node:
            raise UsageError("name a node: proreus drain node-1")
        if self.grace_period is not None and self.grace_period < 0:
            raise UsageError(f"--grace-period {self.grace_period} is negative")
        if not self.timeout >= 0:
            raise UsageError(f"--timeout {self.timeout} is not a number from 0 on")


def run(words: Sequence[str]) -> int:
    arguments = parse(DrainArguments, "proreus drain", words, _DESCRIPTION)
    prepare(arguments.common)
    console = new_console(arguments.common)
    with arguments.where.open() as client:
        new = set_unschedulable(client, arguments.node, True)
        console.print(
            f"node/{arguments.node} {'' if new else 'already '}cordoned", highlight=False, soft_wrap=True
        )
        pods = [pod for pod in _pods_on(client, arguments.node) if _MIRROR not in _annotations(pod)]
        staying = [pod for pod in pods if _owner(pod) == "DaemonSet"]
        alone = [_full_name(pod) for pod in pods if not _owner(pod) and not _ended(pod)]
        if alone and not arguments.force:
            raise WorkError(
                f"nothing would bring these pods back elsewhere: {', '.join(alone)}; --force evicts them"
            )
        leaving = [pod for pod in pods if pod not in staying]
        with _still_cordoned(arguments):
            evicted = _Draining(client, arguments, console).run(leaving)
    console.print(f"node/{arguments.node} drained", highlight=False, soft_wrap=True)
    left = [_full_name(pod) for pod in staying]
    write_json(arguments.common, {"node": arguments.node, "evicted": evicted, "left": left})
    return 0


@contextmanager
def _still_cordoned(arguments: DrainArguments) -> Iterator[None]:
    """A drain that is broken off says in what state it leaves the node."""
    where = "" if arguments.where.dir is None else f" --dir {arguments.where.dir}"
    hint = f"{arguments.node} is still cordoned: {program_name()} uncordon {arguments.node}{where}"
    try:
        yield
    except KeyboardInterrupt:
        raise KeyboardInterrupt(f"interrupted; {hint}") from None
    except NotDrained as error:
        raise NotDrained(f"{error}; {hint}") from None


class NotDrained(WorkError):
    """The time is up."""


class _Draining:
    """Evicts pods until all are gone."""

    def __init__(self, client: Client, arguments: DrainArguments, console: Console) -> None:
        self._client, self._arguments, self._console = client, arguments, console
        self._deadline = time.monotonic() + (arguments.timeout or float("inf"))
        self._said = time.monotonic()
        """When a line was last printed of what is waited for."""

    def run(self, pods: list[Pod]) -> list[str]:
        """The names of those that went."""
        asked: list[Pod] = []
        with waiting(self._console, "evicting") as show:
            held = pods
            while held:
                refusals = {_full_name(pod): self._evict(pod) for pod in held}
                asked += [pod for pod in held if not refusals[_full_name(pod)]]
                held = [pod for pod in held if refusals[_full_name(pod)]]
                if held:
                    first = _full_name(held[0])
                    self._pause(f"{first} may not be evicted yet: {refusals[first]}", show)
            for pod in asked:
                while self._stands(pod):
                    self._pause(f"{_full_name(pod)} has not ended", show)
        return [_full_name(pod) for pod in asked]

    def _evict(self, pod: Pod) -> str:
        """ "" where it was told to go, else why it may not yet."""
        metadata = pod["metadata"]
        options: dict[str, Any] = {"preconditions": {"uid": metadata["uid"]}}
        if self._arguments.grace_period is not None:
            options["gracePeriodSeconds"] = self._arguments.grace_period
        eviction = {
            "apiVersion": "policy/v1",
            "kind": "Eviction",
            "metadata": {"name": metadata["name"], "namespace": metadata["namespace"]},
            "deleteOptions": options,
        }
        path = path_of(POD, metadata["namespace"], metadata["name"], "eviction")
        try:
            self._client.ask("POST", path, body=Body.of(eviction))
        except ApiRefused as refused:
            if refused.code == _TOO_MANY:
                return str(refused)
            if refused.code != _NOT_FOUND:
                raise
        else:
            self._console.print(f"pod/{metadata['name']} evicted", highlight=False, soft_wrap=True)
        return ""

    def _stands(self, pod: Pod) -> bool:
        metadata = pod["metadata"]
        try:
            current = self._client.get(path_of(POD, metadata["namespace"], metadata["name"]))
        except ApiRefused as refused:
            if refused.code != _NOT_FOUND:
                raise
            return False
        return bool(current["metadata"]["uid"] == metadata["uid"])

    def _pause(self, why: str, show: Callable[[str], None]) -> None:
        """Wait a moment, and tell what for: on a terminal at once, elsewhere by a line every few seconds."""
        now = time.monotonic()
        if now >= self._deadline:
            raise NotDrained(f"not drained within {self._arguments.timeout:g} s: {why}")
        show(why)
        if not self._console.is_terminal and now - self._said >= _SAY_SECONDS:
            self._said = now
            self._console.print(f"waiting: {why}", highlight=False, soft_wrap=True)
        time.sleep(_POLL_SECONDS)


def _pods_on(client: Client, node: str) -> list[Pod]:
    pods: list[Pod] = client.get(path_of(POD), {"fieldSelector": f"spec.nodeName={node}"})["items"]
    return pods


def _annotations(pod: Pod) -> dict[str, str]:
    return pod["metadata"].get("annotations") or {}


def _owner(pod: Pod) -> str:
    """The kind of what would bring it back; "": nothing."""
    owners = pod["metadata"].get("ownerReferences") or ()
    return next((owner["kind"] for owner in owners if owner.get("controller")), "")


def _ended(pod: Pod) -> bool:
    return (pod.get("status") or {}).get("phase") in ("Succeeded", "Failed")


def _full_name(pod: Pod) -> str:
    return f"{pod['metadata']['namespace']}/{pod['metadata']['name']}"
