"""Writes, or with `--check` compares, the table of the attributes that ONNX's operators have in each version.

usage: attributes.py FILE [--check]
"""

import pathlib
import sys

from onnx.defs import get_all_schemas_with_history


def attribute(name, versions):
    """Returns `name`, `name:since..`, `name:..until` or `name:since..until`."""
    order = sorted(versions)
    having = [version for version in order if name in versions[version].attributes]
    later = [version for version in order if version > having[-1]]
    if [version for version in order if having[0] <= version <= having[-1]] != having:
        sys.exit(f"the attribute {name} went and came back: the table cannot tell that")
    since = having[0] if having[0] != order[0] else ""
    until = later[0] if later else ""
    return f"{name}:{since}..{until}" if since or until else name


def table():
    operators = {}
    for schema in get_all_schemas_with_history():
        versions = operators.setdefault((schema.domain, schema.name), {})
        versions[schema.since_version] = schema
    lines = []
    for (domain, operator), versions in sorted(operators.items()):
        names = sorted({name for schema in versions.values() for name in schema.attributes})
        words = [f"{domain}:{operator}", *(attribute(name, versions) for name in names)]
        lines.append(" ".join(words) + "\n")
    return "".join(lines)


def main():
    file = pathlib.Path(sys.argv[1])
    if sys.argv[2:] != ["--check"]:
        file.write_text(table(), encoding="utf-8")
    elif file.read_text(encoding="utf-8") != table():
        sys.exit(f"{file} is not what the schemas say: run {sys.argv[0]} {file}")


main()
