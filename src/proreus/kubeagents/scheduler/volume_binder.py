"""Has the claims of a pod given volumes where the pod goes, as kube-scheduler does before it binds.

A volume that is free is claimed, or the node is written on the claim for whoever provisions; then the
controllers of the cluster are waited for. Where whoever provisions gives up, it takes the node off the claim
again, and the pod is decided about anew.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Sequence

from proreus.engine.scheduler.instructions import VolumeAction
from proreus.engine.scheduler.volumes import BIND_COMPLETED, SELECTED_NODE
from proreus.kubeclient.client import KubeClient, Object
from proreus.kubeclient.errors import NotFound, ServerFault, Unreachable
from proreus.kubeclient.resources import PERSISTENT_VOLUME_CLAIMS, PERSISTENT_VOLUMES
from proreus.model.errors import WorkError

BIND_SECONDS = 600.0
_LOOK_SECONDS = 0.5
_BOUND_BY = "pv.kubernetes.io/bound-by-controller"
_log = logging.getLogger(__name__)


class VolumeBinder:
    """See the module."""

    def __init__(self, client: KubeClient, seconds: float = BIND_SECONDS) -> None:
        self._client, self._seconds = client, seconds

    async def prepare(self, actions: Sequence[VolumeAction], node: str, check: Callable[[], None]) -> None:
        """Until all claims are bound; a WorkError where they cannot be. check: raises where we must stop."""
        for action in actions:
            check()
            await self._write(action, node)
        try:
            async with asyncio.timeout(self._seconds):
                for action in actions:
                    while not await self._bound(action, node):
                        await asyncio.sleep(_LOOK_SECONDS)
                        check()
        except TimeoutError:
            raise WorkError(f"binding volumes: timed out waiting for {self._seconds:g} s") from None

    async def _write(self, action: VolumeAction, node: str) -> None:
        if not action.volume:
            where = (action.namespace, action.claim)
            noted = {"metadata": {"uid": action.uid, "annotations": {SELECTED_NODE: node}}}
            await self._client.patch(PERSISTENT_VOLUME_CLAIMS, where, noted)
            return
        volume = await self._client.get(PERSISTENT_VOLUMES, action.volume)
        owner = volume["spec"].get("claimRef") or {}
        if owner and (owner.get("namespace"), owner.get("name")) != (action.namespace, action.claim):
            raise WorkError(f"persistentvolume {action.volume!r} was claimed by another")
        reference = {
            "apiVersion": "v1",
            "kind": "PersistentVolumeClaim",
            "namespace": action.namespace,
            "name": action.claim,
            "uid": action.uid,
        }
        annotations = {**(volume["metadata"].get("annotations") or {}), _BOUND_BY: "yes"}
        claimed: Object = {
            **volume,
            "metadata": {**volume["metadata"], "annotations": annotations},
            "spec": {**volume["spec"], "claimRef": reference},
        }
        # With its resourceVersion: who was faster has it.
        await self._client.replace(PERSISTENT_VOLUMES, claimed)

    async def _bound(self, action: VolumeAction, node: str) -> bool:
        try:
            claim = await self._client.get(PERSISTENT_VOLUME_CLAIMS, action.claim, action.namespace)
        except NotFound:
            raise WorkError(f"persistentvolumeclaim {action.claim!r} is gone") from None
        except (Unreachable, ServerFault) as error:
            _log.info("%s/%s: %s", action.namespace, action.claim, error)
            return False
        annotations = claim["metadata"].get("annotations") or {}
        if claim["spec"].get("volumeName") and BIND_COMPLETED in annotations:
            return True
        if not action.volume and annotations.get(SELECTED_NODE) != node:
            raise WorkError(f"no volume could be provisioned for {action.claim!r} on {node}: deciding again")
        return False
