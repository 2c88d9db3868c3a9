"""Whatever is sent, the registry stores it or refuses it: nothing else is ever raised."""

from __future__ import annotations

import copy
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from proreus.engine.objects.errors import StatusError
from proreus.engine.objects.kinds import KINDS, Kind
from proreus.engine.objects.registry import PatchType, Registry
from proreus.engine.objects.schema.fields import Type, definitions
from proreus.engine.objects.schema.structure import shaped
from proreus.engine.objects.tables import table
from tests.engine.objects.test_rules import ONE_OF_EACH
from tests.engine.objects.worlds import NOW, with_registry

DRAWN = settings(max_examples=25, deadline=None, suppress_health_check=list(HealthCheck))
ODD: st.SearchStrategy[Any] = st.sampled_from(
    [
        None,
        True,
        0,
        -1,
        2**31,
        2**70,
        1.5,
        "",
        "a",
        "A b",
        "x" * 300,
        "1Gi",
        "-1",
        "50%",
        "%",
        [],
        {},
        [None],
        [{}],
        {"a": None},
        [[]],
        "2026-01-01T00:00:00Z",
    ]
)
SAMPLES = dict(ONE_OF_EACH)


def _values(type_: Type, depth: int) -> st.SearchStrategy[Any]:
    """Values of the right structure and any content, or odd ones now and then."""
    if type_.of is not None:
        inner = _values(type_.of, depth)
        if type_.word == "[]":
            return st.lists(inner, max_size=2)
        return st.dictionaries(st.sampled_from(["a", "cpu", "b/c", "-"]), inner, max_size=2)
    if type_.definition:
        if depth == 0:
            return st.just({})
        fields = definitions()[type_.definition].fields
        if not fields:
            return st.just({})
        return st.sets(st.sampled_from(sorted(fields)), max_size=4).flatmap(
            lambda chosen: st.fixed_dictionaries(
                {name: _values(fields[name].type, depth - 1) for name in chosen}
            )
        )
    scalars: dict[str, st.SearchStrategy[Any]] = {
        "bool": st.booleans(),
        "int32": st.integers(-2, 5),
        "int64": st.integers(-2, 5),
        "number": st.floats(0, 1),
        "quantity": st.sampled_from(["1", "100m", "1Gi", "x", 2]),
        "int-or-string": st.sampled_from([1, -1, "25%", "x"]),
        "time": st.just("2026-01-01T00:00:00Z"),
        "microtime": st.just("2026-01-01T00:00:00.5Z"),
        "any": st.just({}),
    }
    return scalars.get(type_.word, st.sampled_from(["", "a", "A", "Always", "In", "NoExecute", "a/b"]))


@pytest.mark.parametrize("kind", KINDS, ids=[kind.kind for kind in KINDS])
@DRAWN
@given(st.data())
def test_any_object(kind: Kind, data: st.DataObject) -> None:
    sample = copy.deepcopy(SAMPLES[kind])
    fields = {
        name: field
        for name, field in definitions()[kind.kind].fields.items()
        if name not in ("apiVersion", "kind")
    }
    name = data.draw(st.sampled_from(sorted(fields)))
    drawn = data.draw(st.one_of(ODD, _values(fields[name].type, 5)))
    both = isinstance(drawn, dict) and isinstance(sample.get(name), dict)
    patch = {name: drawn}

    async def scenario(registry: Registry) -> None:
        created = {**sample, name: {**sample[name], **drawn} if both else drawn}
        for obj in (created, sample):
            try:
                table(kind, [await registry.create(kind, obj)], NOW)
            except StatusError:
                continue
        namespace = "default" if kind.namespaced else ""
        identity = kind, namespace, sample["metadata"]["name"]
        for how in (PatchType.MERGE, PatchType.STRATEGIC):
            for subresource in ("", "status"):
                try:
                    table(kind, [await registry.patch(*identity, patch, how, subresource=subresource)], NOW)
                except StatusError:
                    continue
        try:
            await registry.apply(*identity, shaped(kind, patch), manager="any", force=True)
        except StatusError:
            return

    with_registry(scenario)
