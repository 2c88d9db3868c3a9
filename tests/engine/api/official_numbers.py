"""Writes `numbers.txt` from the generated.proto files of kubernetes/api and kubernetes/apimachinery.

python tests/engine/api/official_numbers.py FOLDER_OF_PROTOS > src/proreus/engine/api/wire/numbers.txt
"""

from __future__ import annotations

import re
import sys
from collections.abc import Iterator
from pathlib import Path

from proreus.engine.objects.fields import definitions

_FIELD = re.compile(r"^  (optional |repeated )?(map<[^>]+>|[\w.]+) (\w+) = (\d+)")
_BESIDE = (
    *(
        "SelfSubjectAccessReview",
        "SelfSubjectAccessReviewSpec",
        "ResourceAttributes",
        "NonResourceAttributes",
    ),
    *("SelfSubjectRulesReview", "SelfSubjectRulesReviewSpec", "SelfSubjectReview"),
    *("Eviction", "DeleteOptions", "Preconditions", "Binding", "Scale", "ScaleSpec"),
)
_INLINED = ("VolumeSource", "ProbeHandler", "EphemeralContainerCommon")
_SCALARS = {"string": "string", "bool": "bool", "int32": "int32", "int64": "int64"}
_HEAD = """\
# The numbers of the fields of Kubernetes' messages, from their public generated.proto, v1.37.
# A definition, then name=number; * before a name: its fields stand among those of the definition itself.
# What is no definition of an object's kind has its types, too: name=number:type.
"""


def messages(folder: Path) -> Iterator[tuple[str, str, list[tuple[str, str, int]]]]:
    """Package, name, and type, name and number of each field."""
    for path in sorted(folder.glob("*.proto")):
        package, name = path.stem, ""
        fields: list[tuple[str, str, int]] = []
        for line in path.read_text().splitlines():
            if line.startswith("message "):
                name, fields = line.split()[1], []
            elif line == "}" and name:
                yield package, name, fields
                name = ""
            elif found := _FIELD.match(line):
                word = found[2].rpartition(".")[2]
                fields.append((f"[{word}]" if found[1] == "repeated " else word, found[3], int(found[4])))


def main(folder: Path) -> None:
    """Print the table."""
    known = definitions()
    lines = [_HEAD.rstrip()]
    for package, name, fields in messages(folder):
        group = package.partition("_")[0]
        if name in known and f".{group}." in known[name].package + ".":
            of = known[name].fields
            stated = []
            for type_, field, number in fields:
                if field in of:
                    stated.append(f"{field}={number}")
                elif type_ in known or type_ in _INLINED:
                    stated.append(f"*{type_}={number}")
            lines.append(" ".join((name, *stated)))
        elif name in _INLINED:
            lines.append(" ".join((name, *(f"{field}={number}" for _, field, number in fields))))
        elif name in _BESIDE and name not in known:
            stated = [
                f"{field}={number}:{_SCALARS.get(type_, type_)}"
                for type_, field, number in fields
                if type_.strip("[]") in _SCALARS or type_ in known or type_ in _BESIDE
            ]
            lines.append(" ".join((name, *stated)))
    sys.stdout.write("\n".join(lines) + "\n")


if __name__ == "__main__":
    main(Path(sys.argv[1]))
