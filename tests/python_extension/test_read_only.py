"""Read-only memory stays read-only when it passes through the library."""

import array
import mmap
import pickle

import numpy as np
import pytest


def frozen(values):
    values.flags.writeable = False
    return values


class Exporter:
    """An array of another library that has only DLPack."""

    def __init__(self, tensor):
        self.tensor = tensor

    def __dlpack__(self, **arguments):
        return self.tensor.__dlpack__(**arguments)

    def __dlpack_device__(self):
        return self.tensor.__dlpack_device__()


def from_file(tmp_path):
    path = tmp_path / "floats"
    path.write_bytes(bytes(64))
    return np.memmap(path, dtype="float32", mode="r")


def map_of_file(tmp_path):
    from_file(tmp_path)
    with open(tmp_path / "floats", "rb") as file:
        return memoryview(mmap.mmap(file.fileno(), 64, access=mmap.ACCESS_READ)).cast("f")


SOURCES = {
    "a NumPy array": lambda _: frozen(np.zeros(16, "float32")),
    "a matrix of NumPy": lambda _: frozen(np.zeros((4, 4), "float32")),
    "a part of a NumPy array": lambda _: frozen(np.zeros(32, "float32"))[::2],
    "an array over bytes": lambda _: np.frombuffer(bytes(64), "float32"),
    "a broadcast array": lambda _: np.broadcast_to(np.zeros(1, "float32"), 16),
    "bytes": lambda _: memoryview(bytes(64)).cast("f"),
    "a read-only view": lambda _: memoryview(array.array("f", bytes(64))).toreadonly(),
    "a file": from_file,
    "a map of a file": map_of_file,
    "an exporter": lambda _: Exporter(frozen(np.zeros(16, "float32"))),
}

# Results of the library that share a tensor's memory.
WAYS = {
    "itself": lambda m, x: m.echo_any(x),
    "in a list": lambda m, x: m.echo_any([x])[0],
    "in a dict": lambda m, x: m.echo_any({"x": [x]})["x"][0],
    "a part": lambda m, x: m.part_of(x, 1, 3),
    "a part of a part": lambda m, x: m.part_of(m.part_of(x, 0, 3), 1, 2),
    "twice": lambda m, x: m.echo_any(m.echo_any(x)),
    "by numpy": lambda m, x: m.echo_any(np.asarray(m.echo_any(x))),
    "by dlpack": lambda m, x: m.echo_any(np.from_dlpack(m.echo_any(x))),
    "by an exporter": lambda m, x: m.echo_any(Exporter(m.echo_any(x))),
    "by a callback": lambda m, x: m.apply_to(lambda y: y, x),
}


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("source", SOURCES)
def test_read_only_stays_so(extmod, tmp_path, source, way):
    if source == "an exporter" and np.lib.NumpyVersion(np.__version__) < "2.1.0":
        pytest.skip("this NumPy does not export what is read-only")
    value = SOURCES[source](tmp_path)
    # Any value may be a buffer; an object with DLPack is an array.
    tensor = WAYS[way](extmod, value if hasattr(value, "__dlpack__") else extmod.echo_tensor(value))
    for exported in [np.asarray(tensor), tensor.numpy(), np.from_dlpack(tensor), np.asarray(memoryview(tensor))]:
        assert not exported.flags.writeable
        with pytest.raises(ValueError):
            exported[:] = 65
    assert memoryview(tensor).readonly
    assert '"dltensor_versioned"' in repr(tensor.__dlpack__(max_version=(1, 0)))
    with pytest.raises(BufferError, match="read-only.*max_version"):
        tensor.__dlpack__()
    for call in [extmod.scale_in_place, extmod.scale_by_name, extmod.weigh]:
        with pytest.raises(ValueError, match="read-only"):
            call(tensor, 2.0)
    with pytest.raises(ValueError, match="read-only"):
        extmod.scale_in_place(value, 2.0)
    # It may be read, and copies of it are writable.
    assert extmod.element_count(tensor) == np.asarray(tensor).size
    extmod.sum_f32(extmod.copy_of(tensor))
    for copy in [extmod.copy_of(tensor), pickle.loads(pickle.dumps(tensor))]:
        np.asarray(copy)[:] = 1
        assert np.asarray(copy).flags.writeable and not memoryview(copy).readonly
        copy.__dlpack__()


@pytest.mark.parametrize("way", WAYS)
def test_what_can_be_written_stays_so(extmod, way):
    numbers = np.ones(16, "float32")
    tensor = WAYS[way](extmod, numbers)
    # A read-only view of the same memory is different.
    other = WAYS[way](extmod, frozen(numbers[:]))
    extmod.scale_in_place(tensor, 3.0)
    assert np.asarray(tensor).flags.writeable and not np.asarray(other).flags.writeable
    assert 3.0 in numbers and np.asarray(other)[0] == 3.0
    memoryview(tensor)[0] = 4.0
    tensor.__dlpack__()


@pytest.mark.needs("tvm_ffi")
def test_tvm_ffi_gets_the_flag(extmod):
    import tvm_ffi

    tensor = extmod.echo_any(frozen(np.zeros(4, "float32")))
    if not hasattr(tensor, "__tvm_ffi_object__"):
        pytest.skip("the library has an implementation of the ABI of its own")
    theirs = tvm_ffi.load_module(extmod.__file__)
    with pytest.raises(ValueError, match="read-only"):
        theirs.scale_in_place(theirs.echo_any(tensor.__tvm_ffi_object__()), 2.0)
    assert np.asarray(tensor).tolist() == [0, 0, 0, 0]
