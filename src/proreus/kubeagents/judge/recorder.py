"""A live cluster as it is seen: once, or followed for a while, so that pods that end in between are known."""

from __future__ import annotations

import time
from collections.abc import Callable

from proreus.kubeagents.cluster_view import FOLLOWED
from proreus.kubeagents.follower import Follower, MakeClient
from proreus.kubeagents.judge.pod_lives import SeenCluster
from proreus.kubeclient.reflector import Change
from proreus.kubeclient.resources import PERSISTENT_VOLUME_CLAIMS, PRIORITY_CLASSES

_TOLD_SECONDS = 5.0


def record(
    make_client: MakeClient,
    seen: SeenCluster,
    seconds: float,
    ended: Callable[[float], bool],
    tell: Callable[[str], None],
) -> None:
    """Everything that is there now; then what happens for so long, or until `ended` (which waits) says so."""

    def hear(change: Change) -> None:
        if change.object["kind"] != "Pod":
            if change.type != "DELETED":
                seen.note(change.object)
        elif change.type == "DELETED":
            seen.gone(change.object, time.time())
        else:
            seen.see(change.object)

    resources = (*FOLLOWED, PRIORITY_CLASSES, PERSISTENT_VOLUME_CLAIMS)
    follower = Follower(make_client, hear, resources)
    follower.start()
    try:
        follower.wait_synced()
        began = time.monotonic()
        while (left := seconds - (time.monotonic() - began)) > 0:
            tell(f"following: {len(seen.pods):,} pods so far, {left:,.0f} s left")
            if ended(min(left, _TOLD_SECONDS)):
                break
    finally:
        follower.stop()
    seen.last = max(seen.last, time.time())
