"""How the trace stands in the store: segments, each a compressed list of what became of some pods and nodes.

An entry of a pod has everything that is known of it then, so that the last one of a pod says it all and one
that is told twice changes nothing. A segment brings the specs that its pods refer to: older ones may be gone.
"""

from __future__ import annotations

import math
import zlib
from collections.abc import Iterable
from hashlib import blake2b

import msgspec

from proreus.engine.store.log.store_log import segments_of
from proreus.model.cluster_trace import ClusterTrace, End, NodeTrace, PodTrace, PodUsed
from proreus.model.errors import InputError
from proreus.model.node import Node
from proreus.model.pod import PodSpec

ROOT = "/trace/"
"""Of the log in the store."""
PREFIX = segments_of(ROOT)
VERSION = 1
_MOST_BYTES = 64 << 20
"""Of a segment when it is unpacked: far more than one ever has."""
_DIGEST_BYTES = 8


class PodEntry(msgspec.Struct, array_like=True):
    """What is known of a pod so far; moments are seconds since 1970, 0: not yet."""

    uid: str
    name: str
    spec: str
    """The digest of its spec; "": its wishes could not be understood."""
    created: float
    scheduler: str = ""
    owner: str = ""
    bound: float = 0.0
    node: str = ""
    policy: str = ""
    fallback: str = ""
    running: float = 0.0
    ended: float = 0.0
    end: End = ""
    looks: int = 0
    """How often it was seen what it uses."""
    cpu: float = 0.0
    """Thousandths of a core, on average."""
    cpu_squares: float = 0.0
    """The sum of the squared distances from that."""
    memory: int = 0
    """Bytes at most."""


class NodeEntry(msgspec.Struct, array_like=True, frozen=True):
    """A node from a moment on; None: it left."""

    name: str
    at: float
    node: Node | None


class Segment(msgspec.Struct):
    """One part of the trace."""

    through: int
    """Everything up to this revision of the store is in this segment or in those before it."""
    at: float
    """When it was written."""
    pods: list[PodEntry]
    nodes: list[NodeEntry]
    specs: dict[str, PodSpec]
    version: int = VERSION


_encoder = msgspec.json.Encoder()
_decoder = msgspec.json.Decoder(Segment)


def encode(segment: Segment) -> bytes:
    """As it stands in the store."""
    return zlib.compress(_encoder.encode(segment), 1)


def decode(value: bytes) -> Segment:
    """Back from `encode`; ValueError where it is damaged."""
    try:
        unpacking = zlib.decompressobj()
        text = unpacking.decompress(value, _MOST_BYTES)
        segment = _decoder.decode(text)
    except (zlib.error, msgspec.DecodeError) as error:
        raise ValueError(f"a damaged part of the trace: {error}") from error
    if not unpacking.eof or segment.version != VERSION:
        raise ValueError(f"a part of the trace of version {segment.version}, which is not known here")
    return segment


def decode_all(values: Iterable[bytes]) -> tuple[list[Segment], int]:
    """Those that can be read, and how many cannot: a damaged part costs what it had."""
    segments: list[Segment] = []
    damaged = 0
    for value in values:
        try:
            segments.append(decode(value))
        except ValueError:
            damaged += 1
    return segments, damaged


def digest(spec: PodSpec) -> str:
    """The name of a spec within segments."""
    return blake2b(_encoder.encode(spec), digest_size=_DIGEST_BYTES).hexdigest()


def merged(segments: Iterable[Segment]) -> Segment:
    """One segment that says what these say; of a pod the last entry counts."""
    segment = Segment(0, 0.0, [], [], {})
    pods: dict[str, PodEntry] = {}
    for other in segments:
        segment.through, segment.at = max(segment.through, other.through), max(segment.at, other.at)
        pods.update((entry.uid, entry) for entry in other.pods)
        segment.nodes += other.nodes
        segment.specs |= other.specs
    segment.pods = list(pods.values())
    used = {entry.spec for entry in segment.pods}
    segment.specs = {name: spec for name, spec in segment.specs.items() if name in used}
    return segment


def trace_of(segments: Iterable[Segment], unread: int = 0) -> ClusterTrace:
    """What segments say, as a world replays it; an InputError where they say nothing."""
    segment = merged(segments)
    if not segment.nodes:
        raise InputError("nothing has been recorded: no node was ever seen")
    pods = [_pod(entry, segment.specs[entry.spec]) for entry in segment.pods if entry.spec in segment.specs]
    nodes = [NodeTrace(entry.name, entry.at, entry.node) for entry in segment.nodes]
    return ClusterTrace(
        tuple(sorted(pods, key=lambda pod: (pod.created, pod.uid))),
        tuple(sorted(set(nodes), key=lambda node: (node.at, node.name, node.node is None))),
        segment.at,
        unread + len(segment.pods) - len(pods),
    )


def _pod(entry: PodEntry, spec: PodSpec) -> PodTrace:
    return PodTrace(
        entry.uid,
        entry.name,
        spec,
        entry.created,
        entry.scheduler,
        entry.owner,
        entry.bound or None,
        entry.node,
        entry.policy,
        entry.fallback,
        entry.running or None,
        entry.ended or None,
        entry.end,
        _use(entry) if entry.looks else None,
    )


def _use(entry: PodEntry) -> PodUsed:
    return PodUsed(entry.cpu, math.sqrt(entry.cpu_squares / entry.looks), entry.memory)
