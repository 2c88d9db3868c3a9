"""The manifests are valid Kubernetes, ask for no more than they need, and Helm's say the same as kustomize's.

Helm is no package of Debian or PyPI: its templates are rendered here by a stand-in that knows what they use,
values, `if`, `end` and `quote`. What is not one of these fails.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import Any

import kubernetes_validate
import pytest
import yaml

from proreus.cli.kube import ACTIONS

Object = dict[str, Any]
DEPLOY = Path(__file__).parents[2] / "deploy"
OVERLAYS = ("shadow", "scheduler", "extender", "scaler", "rebalance")
_VERSIONS = ("1.34", "1.36")
_NAMESPACE = "proreus"
_NOT_HERE = frozenset({"scheduler"}) - ACTIONS.keys()


def objects_of(overlay: str) -> list[Object]:
    """What `kubectl kustomize` prints: the overlays are lists of files, without patches."""
    return list(_resources(DEPLOY / "kustomize" / "overlays" / overlay))


def _resources(folder: Path) -> Iterator[Object]:
    listed = yaml.safe_load((folder / "kustomization.yaml").read_text())
    assert listed.keys() == {"apiVersion", "kind", "resources"}, "this reader knows no patches"
    for name in listed["resources"]:
        place = folder / name
        if place.is_dir():
            yield from _resources(place.resolve())
        else:
            yield from filter(None, yaml.safe_load_all(place.read_text()))


@cache
def _values() -> Object:
    values: Object = yaml.safe_load((DEPLOY / "helm" / "proreus" / "values.yaml").read_text())
    return values


def _rendered(template: str, values: Object) -> list[Object]:
    """As Helm would, for the few words that our templates use."""
    text = re.sub(r"\{\{- if \.Values\.(\w+)\.enabled \}\}\n", "", template)
    text = re.sub(r"\{\{- end \}\}\n", "", text)

    def look_up(match: re.Match[str]) -> str:
        path, _, quoted = match[1].strip().partition("|")
        names = path.strip().split(".")[1:]
        if names == ["Release", "Namespace"]:
            return _NAMESPACE
        assert names[0] == "Values", match[0]
        value: Any = values
        for name in names[1:]:
            value = value[name]
        assert quoted.strip() in ("", "quote"), match[0]
        return f'"{value}"' if quoted else str(value)

    text = re.sub(r"\{\{(?!-)(.*?)\}\}", look_up, text)
    assert "{{" not in text and "}}" not in text, "a word of Helm that this stand-in does not know"
    return [obj for obj in yaml.safe_load_all(text) if obj]


@pytest.mark.parametrize("overlay", OVERLAYS)
@pytest.mark.parametrize("version", _VERSIONS)
def test_every_object_is_valid(overlay: str, version: str) -> None:
    for obj in objects_of(overlay):
        kubernetes_validate.validate(obj, version, strict=True)


@pytest.mark.parametrize("overlay", OVERLAYS)
def test_pods_are_locked_down(overlay: str) -> None:
    for obj in objects_of(overlay):
        spec = obj.get("spec", {})
        template = spec.get("template") or spec.get("jobTemplate", {}).get("spec", {}).get("template")
        if template is None:
            continue
        pod = template["spec"]
        assert pod["securityContext"]["runAsNonRoot"] and pod["securityContext"]["runAsUser"] > 1000
        assert pod["securityContext"]["seccompProfile"] == {"type": "RuntimeDefault"}
        (container,) = pod["containers"]
        assert container["securityContext"] == {
            "allowPrivilegeEscalation": False,
            "readOnlyRootFilesystem": True,
            "capabilities": {"drop": ["ALL"]},
        }
        assert {mount["mountPath"] for mount in container["volumeMounts"]} >= {"/cache", "/tmp"}
        if obj["kind"] == "Deployment":
            assert container["livenessProbe"] and container["readinessProbe"] and container["startupProbe"]


@pytest.mark.parametrize("overlay", OVERLAYS)
def test_no_role_asks_for_everything(overlay: str) -> None:
    for obj in objects_of(overlay):
        for rule in obj.get("rules", ()):
            assert "*" not in (*rule["verbs"], *rule["resources"], *rule["apiGroups"])
            assert "secrets" not in rule["resources"]
            if obj["kind"] == "ClusterRole" and overlay in ("shadow", "extender"):
                assert set(rule["verbs"]) <= {"get", "list", "watch"}, "these two write nothing"


@pytest.mark.parametrize("overlay", OVERLAYS)
def test_helm_says_the_same(overlay: str) -> None:
    templates = DEPLOY / "helm" / "proreus" / "templates"
    values = {**_values(), overlay: {**_values()[overlay], "enabled": True}}
    ours = [*_rendered((templates / "follow.yaml").read_text(), values)]
    ours += _rendered((templates / f"{overlay}.yaml").read_text(), values)
    theirs = [obj for obj in objects_of(overlay) if obj["kind"] != "Namespace"]  # a release has its own
    key = lambda obj: (obj["kind"], obj["metadata"]["name"])  # noqa: E731
    assert sorted(ours, key=key) == sorted(theirs, key=key)
    text = (templates / f"{overlay}.yaml").read_text()
    assert text.startswith(f"{{{{- if .Values.{overlay}.enabled }}}}\n") and text.endswith("{{- end }}\n")


@pytest.mark.parametrize("overlay", OVERLAYS)
def test_the_command_line_is_one_that_there_is(overlay: str, capsys: pytest.CaptureFixture[str]) -> None:
    """Every flag of the manifests stands in the help of its action."""
    from proreus.cli.main import main

    for obj in objects_of(overlay):
        spec = obj.get("spec", {})
        template = spec.get("template") or spec.get("jobTemplate", {}).get("spec", {}).get("template")
        if template is None:
            continue
        verb, action, *flags = template["spec"]["containers"][0]["args"]
        assert verb == "kube"
        if action in _NOT_HERE:
            continue
        assert main(["kube", action, "--help"]) == 0
        says = capsys.readouterr().out
        for flag in flags:
            assert flag.partition("=")[0] in says, flag


def test_the_image_is_nobodys_and_holds_no_more_than_it_needs() -> None:
    lines = (DEPLOY / "Containerfile").read_text()
    assert re.search(r"^USER 65532:65532$", lines, re.MULTILINE)
    assert "XDG_CACHE_HOME=/cache" in lines and 'ENTRYPOINT ["proreus"]' in lines
