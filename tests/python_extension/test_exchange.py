"""DLPack's exchange interface, `__dlpack_c_exchange_api__`, on classes that it does not belong to, and invalid tables."""

import ctypes
import gc
import subprocess
import sys
import types
import weakref

import numpy as np
import pytest

NAME = b"dlpack_exchange_api"
KEPT = []


def table(major=1, minor=3, previous=None, functions=(0, 0, 0, 0, 0)):
    """A table of five addresses."""
    words = (ctypes.c_uint64 * 7)(major | minor << 32, previous or 0, *functions)
    KEPT.append(words)
    return ctypes.addressof(words)


def capsule(address, name=NAME):
    new = ctypes.pythonapi.PyCapsule_New
    new.restype, new.argtypes = ctypes.py_object, [ctypes.c_void_p, ctypes.c_char_p, ctypes.c_void_p]
    KEPT.append(name)
    return new(address, name, None)


def endless():
    """Each older version is the same table."""
    words = (ctypes.c_uint64 * 7)(2, 0, 0, 0, 0, 0, 0)
    words[1] = ctypes.addressof(words)
    KEPT.append(words)
    return ctypes.addressof(words)


LIES = {
    "a number": lambda: 5,
    "nothing": lambda: None,
    "a text": lambda: "dlpack_exchange_api",
    "another name": lambda: capsule(table(), b"dltensor"),
    "no functions": lambda: capsule(table()),
    "a later version": lambda: capsule(table(2, 0)),
    "an older version": lambda: capsule(table(0, 9)),
    "a later version after a later one": lambda: capsule(table(3, 0, table(2, 0))),
    "an older one without functions": lambda: capsule(table(2, 0, table(1, 3))),
    "an endless list": lambda: capsule(endless()),
    "an odd address": lambda: capsule(table() + 1),
}


def array_class(attribute, bases=(), name="Array"):
    def give(self, **arguments):
        return np.float64([1, 2]).__dlpack__(**arguments)

    return type(name, bases, {"__dlpack__": give, "__dlpack_device__": lambda self: (1, 0), "__dlpack_c_exchange_api__": attribute})


@pytest.mark.parametrize("lie", LIES)
@pytest.mark.parametrize("base", [object, types.SimpleNamespace, np.ndarray])
def test_tables_that_lie(extmod, lie, base):
    """The array is passed in the usual way."""
    made = array_class(LIES[lie](), (base,))
    value = np.float64([1, 2]).view(made) if base is np.ndarray else made()
    for _ in range(2):
        assert extmod.sum_of_elements(value) == 3.0
        assert extmod.element_count(value) == 2


def test_the_table_of_another_class(extmod):
    """The functions of its table assume objects of that class."""
    tvm_ffi = pytest.importorskip("tvm_ffi")
    tables = [tvm_ffi.core.DLTensorTestWrapper.__dlpack_c_exchange_api__, type(extmod.range_of(1)).__dlpack_c_exchange_api__]
    for own in tables:
        for bases in [(), (types.SimpleNamespace,), (set,)]:
            made = array_class(own, bases)
            value = made()
            for _ in range(2):
                assert extmod.sum_of_elements(value) == 3.0
                assert extmod.element_count(value) == 2
        view = np.float64([1, 2]).view(array_class(own, (np.ndarray,)))
        assert extmod.sum_of_elements(view) == 3.0

    class Meta(type):
        """All attributes of another class, as mocks and proxies have them."""

        def __getattr__(cls, name):
            return getattr(tvm_ffi.core.DLTensorTestWrapper, name)

    class Proxy(metaclass=Meta):
        def __dlpack__(self, **arguments):
            return np.float64([1, 2]).__dlpack__(**arguments)

    assert extmod.sum_of_elements(Proxy()) == 3.0
    with pytest.raises(ValueError, match="the .* is empty"):
        extmod.sum_of_elements(tvm_ffi.Tensor.__new__(tvm_ffi.Tensor))


def test_classes_that_have_the_interface(extmod):
    tvm_ffi = pytest.importorskip("tvm_ffi")

    def wrap(array):
        return tvm_ffi.core.DLTensorTestWrapper(tvm_ffi.from_dlpack(array))

    class Derived(tvm_ffi.core.DLTensorTestWrapper):
        pass

    assert extmod.sum_of_elements(Derived(tvm_ffi.from_dlpack(np.ones(4)))) == 4.0
    assert extmod.element_count(Derived(tvm_ffi.from_dlpack(np.ones(4)))) == 4
    array = np.arange(4, dtype="float32")
    extmod.scale_in_place(wrap(array), 2.0)
    assert array.tolist() == [0, 2, 4, 6]
    with pytest.raises(TypeError, match="argument 'x': expected a tensor of float64, got one of float32"):
        extmod.sum_of_elements(wrap(array))
    for shape in [(), (0,), (2, 3), (1, 2, 1, 2), (1, 1, 1, 1, 2)]:
        ones = np.ones(shape)
        assert extmod.sum_of_elements(wrap(ones)) == extmod.element_count(wrap(ones)) == ones.size


def test_a_class_with_storage(extmod):
    """Like PyTorch's: a call or a kept tensor holds the storage. PyTorch is not needed."""
    tvm_ffi = pytest.importorskip("tvm_ffi")
    given, alive = [], []

    class Storage:
        pass

    class Stored(tvm_ffi.core.DLTensorTestWrapper):
        def untyped_storage(self):
            storage = Storage()
            given.append(weakref.ref(storage))
            return storage

    value = Stored(tvm_ffi.from_dlpack(np.ones(4)))
    for name in ["sum_after", "sum_after_here"]:
        assert getattr(extmod, name)(value, lambda: alive.append(given[-1]() is not None)) == 4.0
    assert alive == [True, True] and len(given) == 2
    extmod.keep_tensor(value)
    kept = given[-1]
    del value
    gc.collect()
    assert kept() is not None and extmod.sum_of_kept() == 4.0
    extmod.keep_tensor(None)
    gc.collect()
    assert not any(storage() for storage in given)


def test_memory_that_changes_with_the_storage(extmod):
    """The held storage must belong to the lent memory."""
    tvm_ffi = pytest.importorskip("tvm_ffi")

    class Moves(tvm_ffi.core.DLTensorTestWrapper):
        def untyped_storage(self):
            self.__init__(tvm_ffi.from_dlpack(np.zeros(4)))
            return object()

    for function in [extmod.sum_of_elements, extmod.echo_any, extmod.keep_tensor]:
        with pytest.raises(ValueError, match="was given other memory while it was converted"):
            function(Moves(tvm_ffi.from_dlpack(np.ones(4))))


def test_bits_that_change_the_elements(extmod):
    """Like PyTorch's classes, it has two methods that report that its elements differ from the memory."""
    tvm_ffi = pytest.importorskip("tvm_ffi")

    class Bits(tvm_ffi.core.DLTensorTestWrapper):
        conjugate = negative = False

        def untyped_storage(self):
            return None

        def is_conj(self):
            return self.conjugate

        def is_neg(self):
            return self.negative

    for array in [np.ones(4, "complex64"), np.ones(8)[::2], np.ones((2, 4))[:, ::2], np.ones(1)]:
        value = Bits(tvm_ffi.from_dlpack(array))
        assert extmod.element_count(value) == array.size
        value.negative = True
        for function in [extmod.element_count, extmod.echo_any, extmod.keep_tensor]:
            with pytest.raises(ValueError, match=r"has its negative bit set; pass tensor.resolve_neg\(\)"):
                function(value)
        value.conjugate, value.negative = True, False
        if array.dtype == "complex64":
            with pytest.raises(ValueError, match=r"has its conjugate bit set; pass tensor.resolve_conj\(\)"):
                extmod.echo_any(value)
        else:
            assert extmod.element_count(value) == array.size


def test_more_classes_than_are_remembered(extmod):
    """The twenty classes are those of twenty copies of the library."""
    program = """
import sys, shutil, os, importlib, tempfile
folder = tempfile.mkdtemp(); sys.path.insert(0, folder)
makers = []
for number in range(20):
    package = os.path.join(folder, f"p{number}"); os.mkdir(package); open(os.path.join(package, "__init__.py"), "w").close()
    shutil.copyfile(sys.argv[1], os.path.join(package, "extmod.so"))
    makers.append(importlib.import_module(f"p{number}.extmod"))
first = makers[0]
for _ in range(3):
    for maker in makers:
        assert first.sum_f32(maker.range_of(4)) == 6.0
        assert first.element_count(maker.range_of(4)) == 4
print("passed")
"""
    result = subprocess.run([sys.executable, "-c", program, extmod.__file__], capture_output=True, text=True, timeout=120)
    assert (result.returncode, result.stdout.strip()) == (0, "passed"), result.stdout + result.stderr
