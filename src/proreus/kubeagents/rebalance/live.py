"""The cluster that is rebalanced: followed, written to, and the switch that keeps one from writing."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from proreus.kubeagents.cluster_view import FOLLOWED, ClusterView
from proreus.kubeagents.follower import Follower, MakeClient
from proreus.kubeagents.rebalance.execution import MARK
from proreus.kubeagents.scheduler.kill_switch import KillSwitch
from proreus.kubeclient.client import DeleteOptions, KubeClient, Selected
from proreus.kubeclient.errors import Forbidden
from proreus.kubeclient.reflector import Change
from proreus.kubeclient.resources import CONFIG_MAPS, NODES
from proreus.model.errors import WorkError

_FIRST_V1 = (1, 22)
"""The Kubernetes that evicts by policy/v1; before, it is policy/v1beta1."""


class RebalanceCluster:
    """A `Writer`, over one API server."""

    def __init__(self, make_client: MakeClient, switch: tuple[str, str], file: Path | None) -> None:
        """switch: namespace and name of a ConfigMap; file: another switch."""
        self.view = ClusterView()
        self._switch = KillSwitch(switch, file)
        self._place = switch
        self._follower = Follower(make_client, self.view.hear, FOLLOWED)
        self._eviction = "policy/v1"
        self.minor = 0
        """Of the server's version 1.MINOR, once it has started."""

    def start(self) -> None:
        """List everything."""
        self._follower.start()
        self._follower.wait_synced()
        version = self._follower.call(lambda client: client.discovery.version())
        self.minor = version[1]
        if version < _FIRST_V1:
            self._eviction = "policy/v1beta1"

    def stop(self) -> None:
        """Follow no more."""
        self._follower.stop()

    @property
    def stopped(self) -> str:
        """Why nothing may be written; "": it may. Asked anew each time."""
        self._switch.look()
        namespace, name = self._place

        async def look(client: KubeClient) -> dict[str, Any] | None:
            listed = await client.list(CONFIG_MAPS, Selected(namespace, fields=f"metadata.name={name}"))
            return listed.items[0] if listed.items else None

        try:
            found = self._follower.call(look)
        except Forbidden as error:
            raise WorkError(f"the kill switch {namespace}/{name} may not be read: {error}") from error
        gone = {"metadata": {"namespace": namespace, "name": name}}
        self._switch.hear(Change("MODIFIED", found) if found is not None else Change("DELETED", gone))
        return self._switch.told

    def evict(self, namespace: str, name: str, uid: str) -> None:
        """Ask that this pod leaves."""
        version = self._eviction
        self._follower.call(
            lambda client: client.evict((namespace, name), DeleteOptions(uid=uid), api_version=version)
        )

    def cordon(self, node: str, since: str | None) -> None:
        """Close a node, or (None) open it again."""
        closed = True if since is not None else None
        change = {"metadata": {"annotations": {MARK: since}}, "spec": {"unschedulable": closed}}
        self._follower.call(lambda client: client.patch(NODES, ("", node), change))
