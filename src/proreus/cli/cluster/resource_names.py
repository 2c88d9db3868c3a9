"""The words by which a user names kinds and objects: pods, po, deployment/web, deployments.apps, all."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any
from urllib.parse import quote

from proreus.engine.objects.kinds import BY_KIND, KINDS, POD, Kind
from proreus.model.errors import UsageError, WorkError, unknown_name


def _words(kind: Kind) -> Iterator[str]:
    yield kind.plural
    yield kind.kind.lower()
    yield kind.resource
    yield from kind.short


_BY_WORD = {word: kind for kind in KINDS for word in _words(kind)}
_CATEGORIES = {category for kind in KINDS for category in kind.categories}


@dataclass(frozen=True)
class ObjectTarget:
    """One object, or all of a kind."""

    kind: Kind
    name: str = ""

    @property
    def shown(self) -> str:
        """As kubectl prints it: "deployment.apps/web"."""
        return f"{singular(self.kind)}/{self.name}"


def singular(kind: Kind) -> str:
    """ "pod", "deployment.apps"."""
    return f"{kind.kind.lower()}.{kind.group}" if kind.group else kind.kind.lower()


def path_of(kind: Kind, namespace: str = "", name: str = "", subresource: str = "") -> str:
    """The path of an object, or of all in a namespace; "" means in all of them."""
    root = f"/apis/{kind.group}/{kind.version}" if kind.group else f"/api/{kind.version}"
    inside = f"/namespaces/{quote(namespace, safe='')}" if kind.namespaced and namespace else ""
    path = f"{root}{inside}/{kind.plural}"
    if name:
        path += f"/{quote(name, safe='')}"
    return f"{path}/{subresource}" if subresource else path


def kinds_of(word: str) -> tuple[Kind, ...]:
    """The kind of a word, or those of a category or of several words with commas between them."""
    kinds: list[Kind] = []
    for part in word.lower().split(","):
        if part in _CATEGORIES:
            kinds += [kind for kind in KINDS if part in kind.categories]
        elif part in _BY_WORD:
            kinds.append(_BY_WORD[part])
        else:
            raise unknown_name("kind", part, (*(kind.plural for kind in KINDS), *_CATEGORIES))
    return tuple(dict.fromkeys(kinds))


def kind_of(word: str) -> Kind:
    """The one kind of a word."""
    kinds = kinds_of(word)
    if len(kinds) != 1:
        raise UsageError(f"name one kind, not {word!r}")
    return kinds[0]


def targets(words: Sequence[str]) -> list[ObjectTarget]:
    """`pods`, `pods a b`, `pods,jobs`, `pod/a deploy/b`: without names, whole kinds."""
    if not words:
        raise UsageError(f"name a kind: {', '.join(kind.plural for kind in KINDS)}, or all")
    if any("/" in word for word in words):
        return [_slashed(word) for word in words]
    first, *names = words
    kinds = kinds_of(first)
    if names and len(kinds) > 1:
        raise UsageError(f"names follow one kind, not {first!r}: write pod/a deployment/b")
    return [ObjectTarget(kind, name) for kind in kinds for name in names or ("",)]


def _slashed(word: str) -> ObjectTarget:
    kind, slash, name = word.partition("/")
    if not slash or not name or "/" in name:
        raise UsageError(f"{word!r} is not KIND/NAME, as the other words are")
    return ObjectTarget(kind_of(kind), name)


def kind_of_object(api_version: str, kind: str) -> Kind | None:
    """The kind of an object by what it says of itself; None: the cluster does not keep such."""
    return BY_KIND.get((api_version, kind))


# Which pod is meant by a name.

if TYPE_CHECKING:
    from proreus.cli.cluster.client import Client


def pod_of(client: Client, word: str, namespace: str) -> str:
    """The name itself, `pod/NAME`, or the first pod of what KIND/NAME selects."""
    kind_word, slash, name = word.partition("/")
    if not slash:
        return word
    kind = kind_of(kind_word)
    if kind == POD:
        return name
    owner = client.get(path_of(kind, namespace, name))
    labels = ((owner.get("spec") or {}).get("selector") or {}).get("matchLabels")
    if not labels:
        raise WorkError(f"{word} selects no pods by labels")
    selector = ",".join(f"{key}={value}" for key, value in labels.items())
    pods: list[dict[str, Any]] = client.get(path_of(POD, namespace), {"labelSelector": selector})["items"]
    if not pods:
        raise WorkError(f"{word} has no pods")
    first: str = min(pods, key=_order)["metadata"]["name"]
    return first


def _order(pod: dict[str, Any]) -> tuple[bool, str]:
    """Running ones first, then by name."""
    return (pod.get("status") or {}).get("phase") != "Running", pod["metadata"]["name"]
