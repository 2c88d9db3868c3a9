"""Requests for the fuzzer: mostly about objects that stand, of every kind, with bodies that were right until
something in them was changed."""

from __future__ import annotations

import copy
import json
import random
from collections.abc import Callable
from dataclasses import replace
from typing import Any
from urllib.parse import quote

import httpx

from proreus.engine.objects.kinds import DEPLOYMENT, KINDS, NAMESPACE, NODE, POD, REPLICA_SET, Kind
from tests.engine.api.bodies import NAMES, Bodies
from tests.engine.api.known import JsonObject, Known, Request
from tests.engine.api.shallow import Shallow

NAMESPACES = ("default", "fuzz", "fuzz-2")
_JSON, _YAML = "application/json", "application/yaml"
_JSON_PATCH, _MERGE = "application/json-patch+json", "application/merge-patch+json"
_STRATEGIC, _APPLY = "application/strategic-merge-patch+json", "application/apply-patch+yaml"
_ACCEPTED = (
    *("*/*",) * 16,
    "application/json;as=Table;v=v1;g=meta.k8s.io,application/json",
    "application/json;as=PartialObjectMetadata;v=v1;g=meta.k8s.io",
    "application/json;as=PartialObjectMetadataList;v=v1;g=meta.k8s.io",
    "application/vnd.kubernetes.protobuf",
)
_SELECTORS = ("app=a", "app in (a,b)", "!app", "app notin (a),tier", "app=a,tier!=b", "n>3", "app in (a")
_WEBSOCKET = {
    "connection": "Upgrade",
    "upgrade": "websocket",
    "sec-websocket-version": "13",
    "sec-websocket-key": "AAAAAAAAAAAAAAAAAAAAAA==",
    "sec-websocket-protocol": "v5.channel.k8s.io",
}


class Grammar:
    """See the module."""

    def __init__(self, seed: int, known: Known) -> None:
        self._random, self._known = random.Random(seed), known
        self._shallow = Shallow(self._random)
        self._bodies = Bodies(self._random, known, self._shallow)
        verbs: tuple[tuple[int, Callable[[], Request]], ...] = (
            (18, self._create),
            (10, self._replace),
            (22, self._patch),
            (6, self._apply),
            (6, self._delete),
            (1, self._delete_all),
            (8, self._read),
            (8, self._list),
            (5, self._watch),
            (5, self._part_of_a_pod),
            (3, self._scale),
            (3, self._stream_of_a_pod),
            (4, self._plain),
            (2, self._elsewhere),
            (8, self._anything),
        )
        self._weights, self._verbs = zip(*verbs, strict=True)

    def request(self) -> Request:
        """The next."""
        verb: Callable[[], Request] = self._random.choices(self._verbs, self._weights)[0]
        return verb()

    def _chance(self, share: float) -> bool:
        return self._random.random() < share

    def _kind(self) -> Kind:
        return self._random.choice(KINDS)

    def _standing(self, *kinds: Kind) -> tuple[Kind, JsonObject] | None:
        there = [kind for kind in (kinds or KINDS) if self._known.of(kind)]
        if not there:
            return None
        kind = self._random.choice(there)
        standing = self._known.of(kind)
        return (kind, self._random.choice(standing)) if standing else None

    def _create(self) -> Request:
        kind, namespace = self._kind(), self._random.choice(NAMESPACES)
        names = ("fuzz", "fuzz-2", *NAMES) if kind is NAMESPACE else NAMES
        obj = self._bodies.valid(kind, self._random.choice(names), namespace)
        body = self._bodies.mutated(obj) if self._chance(0.45) else obj
        return self._sent("POST", self._collection(kind, namespace), body, _JSON, dry=0.1)

    def _replace(self) -> Request:
        there = self._standing()
        if there is None:
            return self._create()
        kind, obj = there
        body = copy.deepcopy(obj)
        match self._random.randrange(4):
            case 0:
                body["metadata"].pop("resourceVersion", None)
            case 1:
                body["metadata"]["resourceVersion"] = self._random.choice(list(self._known.versions))
            case _:
                pass
        if self._chance(0.6):
            body = self._bodies.mutated(body)
        part = "/status" if kind.status and self._chance(0.3) else ""
        return self._sent("PUT", self._path(kind, obj) + part, body, _JSON, dry=0.1)

    def _patch(self) -> Request:
        there = self._standing()
        if there is None:
            return self._create()
        kind, obj = there
        part = "/status" if kind.status and self._chance(0.25) else ""
        path = self._path(kind, obj) + part
        if self._chance(0.35):
            operations = [self._bodies.operation(obj) for _ in range(self._random.randrange(1, 6))]
            return self._sent("PATCH", path, operations, _JSON_PATCH, dry=0.1)
        fresh = self._bodies.valid(
            kind, obj["metadata"].get("name", "x"), obj["metadata"].get("namespace", "")
        )
        fresh["metadata"].pop("generateName", None)
        if self._chance(0.5):
            fresh["metadata"] = {"labels": {"app": self._random.choice(("a", "b", None))}}
        body = self._bodies.mutated(fresh) if self._chance(0.5) else fresh
        if self._chance(0.15):
            body["$patch"] = self._random.choice(("replace", "delete", "merge", "x"))
        return self._sent("PATCH", path, body, self._random.choice((_MERGE, _STRATEGIC, _STRATEGIC)), dry=0.1)

    def _apply(self) -> Request:
        kind, namespace = self._kind(), self._random.choice(NAMESPACES)
        obj = self._bodies.valid(kind, self._random.choice(NAMES), namespace)
        obj["metadata"] |= {"name": obj["metadata"].get("name", "f0")}
        obj["metadata"].pop("generateName", None)
        path = self._path(kind, obj)
        body = self._bodies.mutated(obj) if self._chance(0.4) else obj
        query = {
            "fieldManager": self._random.choice(("me", "you")),
            "force": self._random.choice(("true", "false")),
        }
        return self._sent("PATCH", path, body, _APPLY, dry=0.1, query=query)

    def _delete(self) -> Request:
        there = self._standing()
        if there is None:
            return self._create()
        kind, obj = there
        self._known.forget(kind, obj)
        options: JsonObject = {
            "gracePeriodSeconds": self._random.choice((0, 0, 1, None, -1)),
            "propagationPolicy": self._random.choice(("Background", "Foreground", "Orphan")),
        }
        if self._chance(0.2):
            options["preconditions"] = {"uid": obj["metadata"].get("uid", "x")}
        body = self._bodies.mutated(options) if self._chance(0.2) else options
        return self._sent("DELETE", self._path(kind, obj), body, _JSON, dry=0.05)

    def _delete_all(self) -> Request:
        kind = self._random.choice([kind for kind in KINDS if kind not in (NODE, NAMESPACE)])
        query = {} if self._chance(0.5) else {"labelSelector": self._random.choice(_SELECTORS)}
        path = self._collection(kind, self._random.choice(NAMESPACES))
        return self._sent("DELETE", path, {"gracePeriodSeconds": 0}, _JSON, query=query)

    def _read(self) -> Request:
        there = self._standing()
        if there is None:
            return self._list()
        kind, obj = there
        parts = ("", "", "/status") if kind.status else ("",)
        return self._sent("GET", self._path(kind, obj) + self._random.choice(parts))

    def _list(self) -> Request:
        kind = self._kind()
        path = self._collection(kind, self._random.choice((*NAMESPACES, "")))
        query: dict[str, str] = {}
        if self._chance(0.3):
            query["limit"] = self._random.choice(("1", "2", "500"))
        if self._chance(0.3):
            query["labelSelector"] = self._random.choice(_SELECTORS)
        if self._chance(0.1):
            query["fieldSelector"] = self._random.choice(("metadata.name=f1", "metadata.namespace!=default"))
        if self._chance(0.2) and self._known.continues:
            path, query["continue"] = self._random.choice(list(self._known.continues))
            query["limit"] = "2"
        elif self._chance(0.2):
            query["resourceVersion"] = self._random.choice(list(self._known.versions))
            query["resourceVersionMatch"] = self._random.choice(("Exact", "NotOlderThan"))
        if self._chance(0.1):
            query["includeObject"] = self._random.choice(("None", "Metadata", "Object"))
        return self._sent("GET", path, query=query)

    def _watch(self) -> Request:
        query = {"watch": "1", "allowWatchBookmarks": self._random.choice(("true", "false"))}
        match self._random.randrange(4):
            case 0:
                query |= {"sendInitialEvents": "true", "resourceVersionMatch": "NotOlderThan"}
            case 1:
                query["resourceVersion"] = self._random.choice(("0", "1"))
            case _:
                query["resourceVersion"] = self._random.choice(list(self._known.versions))
        if self._chance(0.3):
            query["labelSelector"] = self._random.choice(_SELECTORS)
        query["timeoutSeconds"] = self._random.choice(("1", "30"))
        path = self._collection(self._kind(), self._random.choice((*NAMESPACES, "")))
        return _streamed(self._sent("GET", path, query=query))

    def _part_of_a_pod(self) -> Request:
        there = self._standing(POD)
        if there is None:
            return self._create()
        kind, obj = there
        path = self._path(kind, obj)
        metadata = {
            "name": obj["metadata"].get("name", "x"),
            "namespace": obj["metadata"].get("namespace", ""),
        }
        if self._chance(0.5):
            body: JsonObject = {"apiVersion": "v1", "kind": "Binding", "metadata": metadata}
            body["target"] = {
                "kind": "Node",
                "name": self._random.choice(("node-0", "node-1", "f0", "nowhere")),
            }
            path += "/binding"
        else:
            body = {"apiVersion": "policy/v1", "kind": "Eviction", "metadata": metadata}
            body["deleteOptions"] = {"gracePeriodSeconds": self._random.choice((0, 1, None))}
            path += "/eviction"
        return self._sent("POST", path, self._bodies.mutated(body) if self._chance(0.3) else body, _JSON)

    def _scale(self) -> Request:
        there = self._standing(DEPLOYMENT, REPLICA_SET)
        if there is None:
            return self._create()
        kind, obj = there
        path, replicas = f"{self._path(kind, obj)}/scale", self._random.choice((0, 1, 2, 3, -1, "1", None))
        if self._chance(0.2):
            return self._sent("GET", path)
        if self._chance(0.3):
            operations = [{"op": "replace", "path": "/spec/replicas", "value": replicas}]
            return self._sent("PATCH", path, operations, _JSON_PATCH)
        if self._chance(0.5):
            return self._sent("PATCH", path, {"spec": {"replicas": replicas}}, _MERGE)
        metadata = {key: obj["metadata"].get(key) for key in ("name", "namespace", "resourceVersion")}
        scale = {
            "apiVersion": "autoscaling/v1",
            "kind": "Scale",
            "metadata": metadata,
            "spec": {"replicas": replicas},
        }
        return self._sent("PUT", path, self._bodies.mutated(scale) if self._chance(0.3) else scale, _JSON)

    def _stream_of_a_pod(self) -> Request:
        there = self._standing(POD)
        if there is None:
            return self._create()
        path = self._path(*there)
        if self._chance(0.6):
            query = {
                "follow": self._random.choice(("true", "false")),
                "container": self._random.choice(("", "c", "x")),
            }
            query |= self._random.choice(
                ({}, {"tailLines": "3"}, {"timestamps": "true"}, {"previous": "true"})
            )
            return _streamed(self._sent("GET", f"{path}/log", query=query))
        part = self._random.choice(("exec", "attach", "portforward"))
        query = {"command": "true", "stdout": "true", "container": "c", "ports": "80"}
        asked = self._sent("GET", f"{path}/{part}", query=query)
        upgrade = _WEBSOCKET if self._chance(0.8) else {"connection": "Upgrade", "upgrade": "SPDY/3.1"}
        return Request("GET", asked.url, b"", {**asked.headers, **upgrade}, stream=True)

    def _plain(self) -> Request:
        choose = self._random.choice
        if self._chance(0.25):
            choice: JsonObject = {
                "policy": choose(("kube", "random", "least", "nothing", "/tmp/x.py:X", "os:system"))
            }
            body = self._bodies.mutated(choice) if self._chance(0.3) else choice
            return self._sent(
                choose(("PUT", "PUT", "DELETE", "GET")), "/v1/schedulers/fuzz", body, _JSON, dry=0.3
            )
        if self._chance(0.15) and (there := self._standing(POD)) is not None:
            path = f"{self._path(*there).removeprefix('/api')}/exec"
            body = {"command": ["true"], "container": "c"}
            return self._sent("POST", path, self._bodies.mutated(body) if self._chance(0.5) else body, _JSON)
        paths = (
            "schedulers",
            "policies",
            "decisions",
            "metrics",
            "use/nodes",
            "use/pods",
            "openapi.json",
            "images",
        )
        query = choose(
            ({}, {"limit": choose(("1", "0", "x"))}, {"labelSelector": choose(_SELECTORS)}, {"sort": "cpu"})
        )
        if self._chance(0.15):
            return _streamed(self._sent("GET", "/v1/events"))
        return self._sent("GET", f"/v1/{choose(paths)}", query=query)

    def _elsewhere(self) -> Request:
        if self._chance(0.4):
            attributes = {"verb": "get", "resource": "pods", "namespace": "default"}
            review = {"spec": {"resourceAttributes": attributes}, "kind": "SelfSubjectAccessReview"}
            body = self._bodies.mutated(review) if self._chance(0.5) else review
            return self._sent("POST", "/apis/authorization.k8s.io/v1/selfsubjectaccessreviews", body, _JSON)
        paths = (
            "/api",
            "/apis",
            "/api/v1",
            "/apis/apps/v1",
            "/openapi/v2",
            "/openapi/v3",
            "/openapi/v3/apis/apps/v1",
        )
        more = (
            "/version",
            "/readyz?verbose=1",
            "/apis/metrics.k8s.io/v1beta1/nodes",
            "/apis/metrics.k8s.io/v1beta1/pods",
        )
        return self._sent("GET", self._random.choice((*paths, *more)))

    def _anything(self) -> Request:
        method, url, body, headers = self._shallow.request()
        return Request(method, url, body, headers, stream="watch=" in url or "follow=" in url)

    def _collection(self, kind: Kind, namespace: str) -> str:
        base = f"/apis/{kind.group}/{kind.version}" if kind.group else f"/api/{kind.version}"
        within = f"/namespaces/{quote(namespace, safe='')}" if kind.namespaced and namespace else ""
        return f"{base}{within}/{kind.plural}"

    def _path(self, kind: Kind, obj: JsonObject) -> str:
        metadata = obj["metadata"]
        name = quote(str(metadata.get("name") or "x"), safe="")
        return f"{self._collection(kind, str(metadata.get('namespace') or 'default'))}/{name}"

    def _sent(
        self,
        method: str,
        path: str,
        document: Any = None,
        media_type: str = "",
        *,
        query: dict[str, str] | None = None,
        dry: float = 0.0,
    ) -> Request:
        asked = dict(query or {})
        if self._chance(dry):
            asked["dryRun"] = "All"
        if method != "GET" and self._chance(0.1):
            asked["fieldValidation"] = self._random.choice(("Strict", "Warn", "Ignore"))
        headers = {"accept": self._random.choice(_ACCEPTED)}
        body = b""
        if document is not None:
            body = json.dumps(document).encode()
            headers["content-type"] = (
                media_type if self._chance(0.97) else self._random.choice((_JSON, _YAML, _MERGE))
            )
            if self._chance(0.02):
                body = body[: self._random.randrange(len(body) + 1)]
        return Request(method, str(httpx.URL(path, params=asked)) if asked else path, body, headers)


def _streamed(request: Request) -> Request:
    return replace(request, stream=True)
