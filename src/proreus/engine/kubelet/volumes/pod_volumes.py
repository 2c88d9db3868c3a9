"""The volumes of a pod: made on the machine's disk once, then mounted into its containers."""

from __future__ import annotations

import contextlib
import logging
import os
import posixpath
import shutil
import stat
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path, PurePosixPath
from typing import Any

from proreus.engine.kubelet.container_env import expanded, field_value, resource_value
from proreus.engine.kubelet.volumes.atomic_writer import Given, publish
from proreus.engine.kubelet.volumes.empty_dir import stand_empty_dir
from proreus.engine.kubelet.volumes.subpath import SubpathMounts, open_host_path, open_part
from proreus.engine.objects.kinds import CONFIG_MAP, SECRET
from proreus.engine.runtimes.backend import LaunchRefused, Mount
from proreus.engine.runtimes.config_refs import UNRESOLVED, References, contents
from proreus.engine.runtimes.container_events import mount_failed
from proreus.engine.runtimes.folder_removal import MOUNTS
from proreus.engine.runtimes.protocol import Pod
from proreus.engine.runtimes.safe_path import by_descriptor

_FILE_MODE = 0o644
_FOLDER = os.O_PATH | os.O_DIRECTORY | os.O_CLOEXEC
_log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class _Standing:
    """A volume that is to be mounted from."""

    fd: int
    """Names it, whatever becomes of its path."""
    place: Path | None = None
    """Where it stands among the pod's own; None for one of the machine's."""
    given: bool = False
    """Whether the pod was given its content, and is not to write."""

    def close(self) -> None:
        """It is mounted."""
        os.close(self.fd)


@dataclass(frozen=True, slots=True)
class Volumes:
    """The volumes of one pod, below a folder of its own."""

    folder: Path
    pod: Pod
    references: References
    facts: Mapping[str, str]
    host_paths: Sequence[Path]
    """Only what lies below these may be mounted from the machine."""
    own_files: bool = True
    """See `SubpathMounts`."""

    async def mounts(self, container: Mapping[str, Any], variables: Mapping[str, str]) -> tuple[Mount, ...]:
        """What this container mounts; its volumes stand then. Raises `LaunchRefused`."""
        stated = {volume["name"]: volume for volume in self.pod["spec"].get("volumes") or ()}
        mounts = []
        for number, mount in enumerate(container.get("volumeMounts") or ()):
            volume = stated.get(mount["name"])
            if volume is None:
                raise LaunchRefused(UNRESOLVED, f"volume {mount['name']!r} is not among the pod's")
            if posixpath.normpath(f"/{mount['mountPath']}").strip("/") == "":
                taken = f"mountPath {mount['mountPath']} is the container's root, which no volume can take"
                raise LaunchRefused(UNRESOLVED, taken)
            sub = expanded(str(mount.get("subPathExpr") or ""), variables) or str(mount.get("subPath") or "")
            try:
                standing = await self._stand(volume)
            except LaunchRefused as error:
                notice = mount_failed(str(volume["name"]), str(error))
                raise type(error)("ContainerCreating", str(error), notice) from error
            read_only = bool(mount.get("readOnly")) or standing.given
            place = self.folder.with_name(MOUNTS) / str(container["name"]) / str(number)
            bound = SubpathMounts(place, read_only, self.own_files)
            with contextlib.closing(standing):
                source = self._source(standing, sub, bound, (str(volume["name"]), str(container["name"])))
            mounts.append(Mount(source, mount["mountPath"], read_only))
        return tuple(mounts)

    def _source(self, standing: _Standing, sub: str, bound: SubpathMounts, names: tuple[str, str]) -> Path:
        """Where it is mounted from: a place that only the node can change."""
        if not sub:
            return standing.place or bound.hold(standing.fd)
        try:
            part = open_part(standing.fd, sub, make=not standing.given)
        except LaunchRefused as error:
            message = "failed to prepare subPath for volumeMount {!r} of container {!r}".format(*names)
            raise LaunchRefused(UNRESOLVED, f"{message}: {error}") from error
        try:
            copies = bound.place.with_name(f"{bound.place.name}.copy")  # never a mount: it is emptied
            return _copied(part, copies) if standing.given else bound.hold(part)
        finally:
            os.close(part)

    async def _stand(self, volume: Mapping[str, Any]) -> _Standing:
        """Where it is; to be closed."""
        place = self.folder / str(volume["name"])
        if "hostPath" in volume:
            return _Standing(open_host_path(volume["hostPath"], tuple(self.host_paths)))
        if "emptyDir" in volume:
            try:
                stand_empty_dir(place, volume["emptyDir"] or {}, self.pod)
            except ValueError as error:
                raise LaunchRefused(UNRESOLVED, f"volume {volume['name']!r}: {error}") from error
            return _Standing(os.open(place, _FOLDER), place)
        kind = _given_kind(volume)
        if kind:
            publish(place, await self._given(kind, volume[kind]))
            return _Standing(os.open(place, _FOLDER), place, given=True)
        kinds = sorted(set(volume) - {"name"})
        raise LaunchRefused(
            UNRESOLVED, f"volume {volume['name']!r}: this node has no volumes of kind {kinds}"
        )

    async def follow(self, stands: Callable[[], bool]) -> None:
        """Volumes that stand hold what their objects hold now.

        What cannot be looked up, or is gone and may not be, leaves its volume as it is. stands: whether the
        pod is still to be followed; it may come to be removed while something is looked up.
        """
        for volume in self.pod["spec"].get("volumes") or ():
            kind, place = _given_kind(volume), self.folder / str(volume["name"])
            if not kind or not place.is_dir():
                continue
            try:
                files = await self._given(kind, volume[kind])
            except LaunchRefused as error:
                _log.info("volume %s of pod %s: %s", volume["name"], self.pod["metadata"]["name"], error)
                continue
            if not stands():
                return
            publish(place, files)

    async def _given(self, kind: str, source: Mapping[str, Any]) -> dict[str, Given]:
        """Content and mode by path."""
        usual = source.get("defaultMode")
        usual = _FILE_MODE if usual is None else int(usual)
        files = await self._files(kind, source)
        for name in files:
            if not _is_inside(name) or name.startswith(".."):
                raise LaunchRefused(UNRESOLVED, f"{name!r} is not a path in a volume")
        return {name: Given(content, usual if own is None else own) for name, (content, own) in files.items()}

    async def _files(self, kind: str, source: Mapping[str, Any]) -> dict[str, tuple[bytes, int | None]]:
        """Content and mode by path."""
        match kind:
            case "configMap" | "secret":
                namespace = str(self.pod["metadata"].get("namespace") or "default")
                referred = CONFIG_MAP if kind == "configMap" else SECRET
                keys = await contents(self.references, referred, namespace, source) or {}
                items = source.get("items")
                if not items:
                    return {key: (value, None) for key, value in keys.items()}
                missing = [item["key"] for item in items if item["key"] not in keys]
                if missing and not source.get("optional"):
                    raise LaunchRefused(UNRESOLVED, f"references non-existent config key: {missing[0]}")
                return {
                    item["path"]: (keys[item["key"]], item.get("mode"))
                    for item in items
                    if item["key"] in keys
                }
            case "downwardAPI":
                return {
                    item["path"]: (self._own(item), item.get("mode")) for item in source.get("items") or ()
                }
            case _:
                files: dict[str, tuple[bytes, int | None]] = {}
                for projected in source.get("sources") or ():
                    for part in ("configMap", "secret", "downwardAPI"):
                        if part in projected:
                            files |= await self._files(part, projected[part])
                return files

    def _own(self, item: Mapping[str, Any]) -> bytes:
        """What a pod is told of itself."""
        if "fieldRef" in item:
            return field_value(self.pod, str(item["fieldRef"]["fieldPath"]), self.facts).encode()
        wanted = item["resourceFieldRef"]
        return resource_value(self.pod, self.pod["spec"]["containers"][0], wanted, self.facts).encode()


def _given_kind(volume: Mapping[str, Any]) -> str:
    """Of a volume whose content its pod is given; "" of any other."""
    return next((kind for kind in ("configMap", "secret", "downwardAPI", "projected") if kind in volume), "")


def _is_inside(name: str) -> bool:
    parts = PurePosixPath(name).parts
    return bool(parts) and not name.startswith("/") and ".." not in parts


def _copied(part: int, folder: Path) -> Path:
    """A part of what a volume was given, as it is now: unlike the volume, it follows nothing."""
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True, mode=0o755)
    copy = folder / "part"
    if stat.S_ISDIR(os.fstat(part).st_mode):
        shutil.copytree(by_descriptor(part), copy)
    else:
        shutil.copy2(by_descriptor(part), copy)
    return copy
