"""Writes `tests/data/import_trees.json`: import trees and the bytes that Apache TVM 0.27 serializes them to.

    python trees.py > ../data/import_trees.json     with apache-tvm==0.27.0.post1

A tree's modules are of kind `c` (they become a part of the library) or `const_loader` (they travel as bytes); module 0 is the root.
`blob` is what `__tvm_ffi__library_bin` would hold, in hexadecimal, or null where TVM refuses the tree.
"""

import json
import random
import struct

import tvm  # noqa: F401  (registers its functions)
from tvm_ffi import get_global_func

make_c = get_global_func("runtime.CSourceModuleCreate")
load_constants = get_global_func("ffi.Module.load_from_bytes.const_loader")
pack = get_global_func("runtime.ModulePackImportsToTensor")
import_module = get_global_func("ffi.ModuleImportModule")


def constants(name: str) -> bytes:
    """The payload of a `const_loader` module with one symbol and nothing else."""
    text = name.encode()
    symbol = struct.pack("<Q", 1) + struct.pack("<Q", len(text)) + text
    return struct.pack("<QQ", 0, 0) + symbol + struct.pack("<QQ", 1, 0)


def blob(kinds: list[str], imports: list[list[int]]) -> str | None:
    modules = []
    for number, kind in enumerate(kinds):
        if kind == "c":
            modules.append(make_c(f"int f{number};", "c", [f"f{number}"], []))
        else:
            modules.append(load_constants(constants(f"symbol{number}")))
    # From the leaves up: TVM walks the imports to find cycles.
    for importer in reversed(range(len(kinds))):
        for number in imports[importer]:
            import_module(modules[importer], modules[number])
    try:
        return bytes(pack(modules[0]).numpy()).hex()
    except Exception as error:  # noqa: BLE001
        assert "creating a cycle" in str(error), error
        return None


def random_tree(source: random.Random) -> tuple[list[str], list[list[int]]]:
    count = source.randint(1, 9)
    kinds = [source.choice(["c", "const_loader"]) for _ in range(count)]
    imports: list[list[int]] = [[] for _ in range(count)]
    for number in range(1, count):
        # Each module before its imports, so that the root reaches all.
        imports[source.randrange(number)].append(number)
    for _ in range(source.randint(0, count)):
        importer = source.randrange(count)
        if importer + 1 < count:
            imports[importer].append(source.randrange(importer + 1, count))
    for row in imports:
        source.shuffle(row)
    return kinds, imports


def main() -> None:
    source = random.Random(27)
    trees = []
    for _ in range(120):
        kinds, imports = random_tree(source)
        trees.append({"kinds": kinds, "imports": imports, "blob": blob(kinds, imports)})
    print("[")
    print(",\n".join(json.dumps(tree) for tree in trees))
    print("]")


if __name__ == "__main__":
    main()
