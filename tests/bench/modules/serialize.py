"""Apache TVM's half of the serialization of a tree of modules. See ../README.md for what it does and prints.

Arguments: a file of import lists (line i: the modules that module i imports), and how often. Prints the nanoseconds of each time.
"""

import sys
import time

import tvm
import tvm_ffi

imports = [[int(child) for child in line.split()] for line in open(sys.argv[1])]
create = tvm_ffi.get_global_func("ffi.Module.create.const_loader")
attach = tvm_ffi.get_global_func("ffi.ModuleImportModule")
pack = tvm_ffi.get_global_func("runtime.ModulePackImportsToTensor")
modules = [create({}, {f"symbol_{number}": []}) for number in range(len(imports))]
for parent, children in zip(modules, imports):
    for child in children:
        attach(parent, modules[child])
print("bytes", pack(modules[0]).shape[0], sep="\t")
for _ in range(int(sys.argv[2])):
    start = time.perf_counter_ns()
    packed = pack(modules[0])
    print("serialize", time.perf_counter_ns() - start, sep="\t")
    del packed
