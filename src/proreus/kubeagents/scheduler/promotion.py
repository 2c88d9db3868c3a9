"""A candidate on its way from the shadow to all pods of a cluster, by what the cluster's own record says.

The rules are the engine's (`controllers/promotion`); how far a candidate has come stands in a ConfigMap, so
that whoever leads next goes on from there, and people can read it.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

from proreus.engine.objects.promotions import Promotion, read_promotions, written
from proreus.engine.objects.scheduler_config import Chosen
from proreus.kubeagents.scheduler.recorder import ClusterRecorder
from proreus.kubeclient.client import KubeClient, Object
from proreus.kubeclient.errors import AlreadyExists, Conflict, NotFound
from proreus.kubeclient.reflector import Change
from proreus.kubeclient.resources import CONFIG_MAPS
from proreus.model.errors import WorkError


class ClusterRecords:
    """See `PromotionRecords`."""

    def __init__(
        self,
        client: KubeClient,
        name: tuple[str, str],
        chosen: tuple[str, Chosen],
        recorder: ClusterRecorder,
        leads: Callable[[], bool],
    ) -> None:
        """name: namespace and name of the ConfigMap; chosen: schedulerName, and who decides for it."""
        self._client, self._name, self._chosen = client, name, chosen
        self._recorder, self._leads = recorder, leads

    async def choices(self) -> Mapping[str, Chosen]:
        """As this process was told; nobody else's affair while it does not lead."""
        return dict([self._chosen]) if self._leads() else {}

    async def standing(self) -> dict[str, Promotion]:
        """Of the ConfigMap."""
        return read_promotions(await self._config_map())

    async def write(self, promotions: dict[str, Promotion]) -> None:
        """If nobody changed it meanwhile, and this process still leads."""
        if not self._leads():
            return
        namespace, name = self._name
        standing = await self._config_map()
        data = {**((standing or {}).get("data") or {}), **written(promotions)}
        metadata = {"namespace": namespace, "name": name}
        try:
            if standing is None:
                await self._client.create(CONFIG_MAPS, {"metadata": metadata, "data": data})
            else:
                await self._client.replace(CONFIG_MAPS, {**standing, "data": data})
        except (Conflict, AlreadyExists) as error:
            raise WorkError(f"ConfigMap {namespace}/{name}: {error}") from error

    async def segments(self) -> list[bytes]:
        """Of this replica's own record."""
        return await self._recorder.segments()

    async def _config_map(self) -> Object | None:
        try:
            return await self._client.get(CONFIG_MAPS, self._name[1], self._name[0])
        except NotFound:
            return None


def heard_promotions(change: Change) -> dict[str, Promotion]:
    """How far candidates have come, as a change of the ConfigMap tells it."""
    return read_promotions(None if change.type == "DELETED" else change.object)
