"""How much a pod may write: limits of its `emptyDir` volumes, and of its containers' own files and output."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path

from proreus.engine.kubelet.usage.disk import folder_bytes
from proreus.engine.objects.resource_amounts import read_amounts
from proreus.engine.runtimes.protocol import Pod
from proreus.model.resources import EPHEMERAL, parse_quantity

_SUFFIXES = ("", "Ki", "Mi", "Gi", "Ti")


def is_bounded(pod: Pod) -> bool:
    """Whether there is anything to look at."""
    return bool(_limits(pod)) or any(True for _ in _bounded_empty_dirs(pod))


def overfull(pod: Pod, volumes: Path, written: Mapping[str, int]) -> str:
    """Which limit the pod is beyond, in a kubelet's words; "" where it is within all. Blocks.

    written: bytes by container, as of the last look at them.
    """
    for name, limit in _bounded_empty_dirs(pod):
        most = parse_quantity(limit)
        if most and (folder_bytes(volumes / name) or 0) > most:
            return f'Usage of EmptyDir volume "{name}" exceeds the limit "{limit}". '
    limits = _limits(pod)
    if not limits:
        return ""
    total = sum(parse_quantity(limit) for limit in limits.values())
    on_disk = sum(folder_bytes(volumes / name) or 0 for name in _on_disk(pod))
    if on_disk + sum(written.values()) > total:
        shown = next(iter(limits.values())) if len(limits) == 1 else _quantity(total)
        return f"Pod ephemeral local storage usage exceeds the total limit of containers {shown}. "
    for name, limit in limits.items():
        if written.get(name, 0) > parse_quantity(limit):
            return f'Container {name} exceeded its local ephemeral storage limit "{limit}". '
    return ""


def _limits(pod: Pod) -> dict[str, str]:
    """Of containers that have one, as it is written."""
    limits_by_name = {}
    for container in pod["spec"]["containers"]:
        limits = (container.get("resources") or {}).get("limits") or {}
        if read_amounts(limits).get(EPHEMERAL):
            limits_by_name[str(container["name"])] = str(limits[EPHEMERAL])
    return limits_by_name


def _bounded_empty_dirs(pod: Pod) -> Iterator[tuple[str, str]]:
    """The names and limits of those that may not hold everything."""
    for volume in pod["spec"].get("volumes") or ():
        limit = (volume.get("emptyDir") or {}).get("sizeLimit")
        if limit:
            yield str(volume["name"]), str(limit)


def _on_disk(pod: Pod) -> Iterator[str]:
    for volume in pod["spec"].get("volumes") or ():
        if "emptyDir" in volume and (volume["emptyDir"] or {}).get("medium") != "Memory":
            yield str(volume["name"])


def _quantity(amount: int) -> str:
    """As Kubernetes writes a sum.

    >>> _quantity(3 * 1024 * 1024), _quantity(1500)
    ('3Mi', '1500')
    """
    power = 0
    while power < len(_SUFFIXES) - 1 and amount and amount % 1024 == 0:
        amount, power = amount // 1024, power + 1
    return f"{amount}{_SUFFIXES[power]}"
