"""Writes `numbers.txt` from the generated.proto and types.go files of kubernetes/api and apimachinery.

They lie in one folder under the names of their groups, core_v1.proto and core_v1.go.

python tests/engine/api/official_numbers.py FOLDER_OF_PROTOS > src/proreus/engine/api/k8s/protobuf/numbers.txt
"""

from __future__ import annotations

import re
import sys
from collections.abc import Iterator
from pathlib import Path

from proreus.engine.objects.schema.fields import definitions

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
_GO_FIELD = re.compile(r'^\t\w+ +(?:bool|int32|int64) +`json:"(\w+),omitempty')
_HEAD = """\
# The numbers of the fields of Kubernetes' messages, from their public generated.proto, v1.37.
# A definition, then name=number; * before a name: its fields stand among those of the definition itself.
# A ? behind the number: left out where it is 0 or false, as in JSON (no pointer, and omitempty, in Go).
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
            elif match := _FIELD.match(line):
                word = match[2].rpartition(".")[2]
                fields.append((f"[{word}]" if match[1] == "repeated " else word, match[3], int(match[4])))


def omitted(folder: Path) -> set[tuple[str, str, str]]:
    """Package, structure and name of each field that JSON leaves out where it is 0 or false."""
    found = set()
    for path in sorted(folder.glob("*.go")):
        name = ""
        for line in path.read_text().splitlines():
            if line.startswith("type "):
                name = line.split()[1]
            elif field := _GO_FIELD.match(line):
                found.add((path.stem, name, field[1]))
    return found


def main(folder: Path) -> None:
    """Print the table."""
    known, empty = definitions(), omitted(folder)
    lines = [_HEAD.rstrip()]
    for package, name, fields in messages(folder):
        group = package.partition("_")[0]
        marks = {field: "?" * ((package, name, field) in empty) for _, field, _ in fields}
        if name in known and f".{group}." in known[name].package + ".":
            of = known[name].fields
            stated = []
            for type_, field, number in fields:
                if field in of:
                    stated.append(f"{field}={number}{marks[field]}")
                elif type_ in known or type_ in _INLINED:
                    stated.append(f"*{type_}={number}")
            lines.append(" ".join((name, *stated)))
        elif name in _INLINED:
            lines.append(
                " ".join((name, *(f"{field}={number}{marks[field]}" for _, field, number in fields)))
            )
        elif name in _BESIDE and name not in known:
            stated = [
                f"{field}={number}{marks[field]}:{_SCALARS.get(type_, type_)}"
                for type_, field, number in fields
                if type_.strip("[]") in _SCALARS or type_ in known or type_ in _BESIDE
            ]
            lines.append(" ".join((name, *stated)))
    sys.stdout.write("\n".join(lines) + "\n")


if __name__ == "__main__":
    main(Path(sys.argv[1]))
