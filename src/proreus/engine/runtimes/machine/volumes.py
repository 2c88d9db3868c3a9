"""The volumes of a pod: made on the machine's disk once, then mounted into its containers."""

from __future__ import annotations

import logging
import os
import shutil
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path, PurePosixPath
from typing import Any

from proreus.engine.objects.kinds import CONFIG_MAP, SECRET
from proreus.engine.runtimes.machine.backend import LaunchRefused, Mount
from proreus.engine.runtimes.machine.empty_dirs import remove_mounts, stand_empty_dir
from proreus.engine.runtimes.machine.environment import expanded, field_value, resource_value
from proreus.engine.runtimes.machine.publishing import Given, publish
from proreus.engine.runtimes.machine.references import UNRESOLVED, References, contents
from proreus.engine.runtimes.notices import mount_failed
from proreus.engine.runtimes.protocol import Pod

_FILE_MODE = 0o644
_log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class Volumes:
    """The volumes of one pod, below a folder of its own."""

    folder: Path
    pod: Pod
    references: References
    facts: Mapping[str, str]
    host_paths: Sequence[Path]
    """Only what lies below these may be mounted from the machine."""

    async def mounts(self, container: Mapping[str, Any], variables: Mapping[str, str]) -> tuple[Mount, ...]:
        """What this container mounts; its volumes stand then. Raises `LaunchRefused`."""
        stated = {volume["name"]: volume for volume in self.pod["spec"].get("volumes") or ()}
        found = []
        for mount in container.get("volumeMounts") or ():
            volume = stated.get(mount["name"])
            if volume is None:
                raise LaunchRefused(UNRESOLVED, f"volume {mount['name']!r} is not among the pod's")
            try:
                source, given = await self._stand(volume)
            except LaunchRefused as error:
                told = mount_failed(str(volume["name"]), str(error))
                raise LaunchRefused("ContainerCreating", str(error), told) from error
            sub = expanded(str(mount.get("subPathExpr") or ""), variables) or mount.get("subPath") or ""
            if sub and given:
                source = self._copied(source, str(sub), (str(container["name"]), str(mount["mountPath"])))
            elif sub:
                source = _below(source, str(sub), folder=True)
            found.append(Mount(source, mount["mountPath"], bool(mount.get("readOnly")) or given))
        return tuple(found)

    async def _stand(self, volume: Mapping[str, Any]) -> tuple[Path, bool]:
        """Where it is, and whether the pod was given its content and is not to write."""
        place = self.folder / str(volume["name"])
        if "hostPath" in volume:
            return self._of_host(volume["hostPath"]), False
        if "emptyDir" in volume:
            try:
                stand_empty_dir(place, volume["emptyDir"] or {}, self.pod)
            except ValueError as error:
                raise LaunchRefused(UNRESOLVED, f"volume {volume['name']!r}: {error}") from error
            return place, False
        kind = _given_kind(volume)
        if kind:
            publish(place, await self._given(kind, volume[kind]))
            return place, True
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

    def _copied(self, source: Path, sub: str, mount: tuple[str, str]) -> Path:
        """A part of what a volume was given, as it is now: unlike the volume, it follows nothing."""
        found = _below(source, sub, folder=False)
        if not found.exists():
            told = f"failed to prepare subPath for volumeMount {source.name!r} of container {mount[0]!r}"
            raise LaunchRefused(UNRESOLVED, f"{told}: there is no {sub!r} in it")
        folder = self.folder.with_name("subpaths") / mount[0] / mount[1].strip("/").replace("/", "_")
        shutil.rmtree(folder, ignore_errors=True)
        folder.mkdir(parents=True)
        copy = folder / found.name
        if found.is_dir():
            shutil.copytree(found, copy)
        else:
            shutil.copy2(found, copy)
        return copy

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
                found: dict[str, tuple[bytes, int | None]] = {}
                for one in source.get("sources") or ():
                    for part in ("configMap", "secret", "downwardAPI"):
                        if part in one:
                            found |= await self._files(part, one[part])
                return found

    def _own(self, item: Mapping[str, Any]) -> bytes:
        """What a pod is told of itself."""
        if "fieldRef" in item:
            return field_value(self.pod, str(item["fieldRef"]["fieldPath"]), self.facts).encode()
        wanted = item["resourceFieldRef"]
        return resource_value(self.pod, self.pod["spec"]["containers"][0], wanted).encode()

    def _of_host(self, source: Mapping[str, Any]) -> Path:
        """A path of the machine, if it may be had: what links lead to counts, not what it is called."""
        path, kind = Path(str(source["path"])), str(source.get("type") or "")
        real = path.resolve()
        if not any(real.is_relative_to(allowed.resolve()) for allowed in self.host_paths):
            raise LaunchRefused(UNRESOLVED, f"hostPath {path} is not allowed on this node")
        if kind == "DirectoryOrCreate":
            real.mkdir(mode=0o755, parents=True, exist_ok=True)
        elif kind == "FileOrCreate" and not real.exists():
            real.touch(mode=0o644)
        right = {"Directory": real.is_dir, "File": real.is_file, "": real.exists}
        if not right.get(kind, real.exists)():
            raise LaunchRefused(UNRESOLVED, f"hostPath type check failed: {path} is not a {kind or 'path'}")
        return real


def _given_kind(volume: Mapping[str, Any]) -> str:
    """Of a volume whose content its pod is given; "" of any other."""
    return next((kind for kind in ("configMap", "secret", "downwardAPI", "projected") if kind in volume), "")


def _is_inside(name: str) -> bool:
    parts = PurePosixPath(name).parts
    return bool(parts) and not name.startswith("/") and ".." not in parts


def _below(place: Path, name: str, *, folder: bool) -> Path:
    """A path in a volume, which never leads out of it, not by links that the pod made either."""
    if not _is_inside(name):
        raise LaunchRefused(UNRESOLVED, f"{name!r} is not a path in a volume")
    found = place.joinpath(*PurePosixPath(name).parts)
    if folder:
        found.mkdir(parents=True, exist_ok=True)
    if not found.resolve().is_relative_to(place.resolve()):
        raise LaunchRefused(UNRESOLVED, f"{name!r} leads out of its volume")
    return found


def remove_tree(folder: Path) -> None:
    """A pod's folder, whatever modes it was left with."""

    def again(function: Any, path: str, error: Any) -> None:
        if isinstance(error[1], FileNotFoundError):
            return
        os.chmod(Path(path).parent, 0o700)  # noqa: PTH101 - the folder that did not let go
        function(path)

    if folder.exists():
        remove_mounts(folder)
        shutil.rmtree(folder, onerror=again)
