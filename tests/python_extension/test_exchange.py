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
FLOAT64 = 2 | 64 << 8 | 1 << 16


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


@pytest.mark.needs("tvm_ffi")
def test_the_table_of_another_class(extmod):
    """Its functions take their objects for those of that class."""
    import tvm_ffi

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


@pytest.mark.needs("tvm_ffi")
def test_classes_that_have_the_interface(extmod):
    import tvm_ffi

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


@pytest.mark.needs("tvm_ffi")
def test_a_class_with_storage(extmod):
    """As PyTorch's: the storage is held for a call, and by a kept tensor. No PyTorch is needed."""
    import tvm_ffi

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


class Stored:
    """As PyTorch's tensors: a capsule of `__dlpack__` holds the tensor, and this may get another storage at any time."""

    conjugate = negative = False
    versions = True

    class Storage:
        def __init__(self, array):
            self.array = array

        def data_ptr(self):
            return self.array.ctypes.data

        def nbytes(self):
            return self.array.nbytes

    def __init__(self, array):
        self.storage = self.Storage(array)

    def untyped_storage(self):
        return self.storage

    def data_ptr(self):
        return self.storage.array.ctypes.data

    def is_conj(self):
        return self.conjugate

    def is_neg(self):
        return self.negative

    def __dlpack_device__(self):
        return (1, 0)

    def __dlpack__(self, *, max_version=None):
        """A capsule that holds nothing: no deleter."""
        if not self.versions and max_version:
            raise TypeError("from before DLPack 1.0")
        array = self.storage.array
        extents = (ctypes.c_int64 * 2)(array.size, 1)
        start = ctypes.addressof(extents)
        # Float64 in host memory: data, device, one axis and the type, shape, strides, offset.
        tensor = [array.ctypes.data, 1, 1 | FLOAT64 << 32, start, start + 8, 0]
        words = [1, 0, 0, 0, *tensor] if max_version else [*tensor, 0, 0]
        managed = (ctypes.c_uint64 * len(words))(*words)
        KEPT.append((extents, managed))
        return capsule(ctypes.addressof(managed), b"dltensor_versioned" if max_version else b"dltensor")

    def set_(self):
        """Gives it another storage, and says whether the first one has lived on."""
        storage = weakref.ref(self.storage)
        self.storage = self.Storage(np.zeros(4))
        gc.collect()
        return storage() is not None


class OldStored(Stored):
    versions = False


class Untold(Stored):
    """As tensors of devices without addresses."""

    class Storage(Stored.Storage):
        def data_ptr(self):
            raise RuntimeError("no address")


class Copied(Stored):
    """A derived class may give a copy."""

    def __dlpack__(self, **arguments):
        self.copy = Stored(self.storage.array + 0)
        return self.copy.__dlpack__(**arguments)


def test_a_copy_of_a_tensor_with_storage(extmod):
    assert extmod.sum_of_elements(Copied(np.ones(4))) == 4.0
    for empty in [np.ones(0), np.ones(4)[4:]]:
        assert extmod.sum_of_elements(Stored(empty)) == 0.0


@pytest.mark.parametrize("made", [Stored, OldStored, Untold])
def test_a_capsule_with_storage(extmod, made):
    """The storage is held for a call, and by a kept tensor, although the capsule holds none."""
    for name in ["sum_after", "sum_after_here"]:
        value, lived = made(np.ones(4)), []
        assert getattr(extmod, name)(value, lambda: lived.append(value.set_())) == 4.0
        assert lived == [True]
    value = made(np.ones(4))
    first = weakref.ref(value.storage)
    extmod.keep_tensor(value)
    assert value.set_() and extmod.sum_of_kept() == 4.0
    extmod.keep_tensor(None)
    gc.collect()
    assert first() is None
    array = np.arange(4.0)
    extmod.fill_after(made(array), lambda: None, 3.0)
    assert array.tolist() == [3.0] * 4


@pytest.mark.parametrize("base", [Stored, Untold])
@pytest.mark.parametrize("method", ["untyped_storage", "__dlpack__"])
def test_a_capsule_of_another_storage(extmod, method, base):
    """The tensor is given another storage after the call of a method; before `__dlpack__`, that of the first one is held."""

    class Moves(base):
        pass

    def moves(self, **arguments):
        if method == "untyped_storage":
            result = base.untyped_storage(self)
            self.set_()
            return result
        self.first = self.storage
        self.set_()
        return base.__dlpack__(self, **arguments)

    setattr(Moves, method, moves)
    for function in [extmod.sum_of_elements, extmod.echo_any, extmod.keep_tensor]:
        with pytest.raises(ValueError, match="was given other memory while it was converted"):
            function(Moves(np.ones(4)))


def test_a_class_without_storage(extmod):
    """Such a class is remembered; one that is derived from it may have the method."""
    without = {name: value for name, value in vars(Stored).items() if name not in ["untyped_storage", "__dict__", "__weakref__"]}
    base = type("Without", (), without)
    for _ in range(3):
        assert extmod.sum_of_elements(base(np.ones(4))) == 4.0
    derived = type("With", (base,), {"untyped_storage": Stored.untyped_storage})
    value = derived(np.ones(4))
    extmod.keep_tensor(value)
    assert value.set_() and extmod.sum_of_kept() == 4.0
    extmod.keep_tensor(None)


def test_shapes_that_change(extmod):
    """The shape in a capsule may be the tensor's own, which other code changes."""

    def set_extent(extent):
        extents = next(kept for kept in reversed(KEPT) if isinstance(kept, tuple))[0]
        extents[0] = extent

    class Later(Stored):
        class Storage(Stored.Storage):
            def data_ptr(self):
                set_extent(1 << 40)
                return super().data_ptr()

    assert extmod.sum_of_elements(Later(np.ones(4))) == 4.0

    class Earlier(Stored):
        def __dlpack__(self, **arguments):
            made = super().__dlpack__(**arguments)
            set_extent(5)
            return made

    for function in [extmod.sum_of_elements, extmod.echo_any, extmod.keep_tensor]:
        with pytest.raises(ValueError, match="was given other memory while it was converted"):
            function(Earlier(np.ones(4)))


def test_addresses_that_cannot_be_had(extmod):
    """A tensor around another one may have no address, and give the other one's memory."""

    class Around(Copied):
        def data_ptr(self):
            raise RuntimeError("no address")

    class Tagged(Stored):
        def data_ptr(self):
            return super().data_ptr() | 0xB4 << 56

    for made in [Around, Tagged]:
        assert extmod.sum_of_elements(made(np.ones(4))) == 4.0

    class Interrupted(Stored):
        class Storage(Stored.Storage):
            def data_ptr(self):
                raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        extmod.sum_of_elements(Interrupted(np.ones(4)))


def test_storage_that_cannot_be_had(extmod):
    class Fails(Stored):
        def untyped_storage(self):
            raise NotImplementedError("no storage today")

    for function in [extmod.sum_of_elements, extmod.echo_any, extmod.keep_tensor]:
        with pytest.raises(NotImplementedError, match="no storage today"):
            function(Fails(np.ones(4)))


def test_capsules_of_elements_that_are_not_those_in_memory(extmod):
    for attribute, method in [("conjugate", "resolve_conj"), ("negative", "resolve_neg")]:
        value = Stored(np.ones(4))
        assert extmod.element_count(value) == 4
        setattr(value, attribute, True)
        for function in [extmod.element_count, extmod.echo_any, extmod.keep_tensor]:
            with pytest.raises(ValueError, match=rf"has its {attribute} bit set; pass tensor.{method}\(\)"):
                function(value)


@pytest.mark.needs("tvm_ffi")
def test_memory_that_changes_with_the_storage(extmod):
    """The storage that is held has to be that of the memory that is lent."""
    import tvm_ffi

    class Moves(tvm_ffi.core.DLTensorTestWrapper):
        def untyped_storage(self):
            self.__init__(tvm_ffi.from_dlpack(np.zeros(4)))
            return object()

    for function in [extmod.sum_of_elements, extmod.echo_any, extmod.keep_tensor]:
        with pytest.raises(ValueError, match="was given other memory while it was converted"):
            function(Moves(tvm_ffi.from_dlpack(np.ones(4))))


@pytest.mark.needs("tvm_ffi")
def test_bits_that_change_the_elements(extmod):
    """As PyTorch's, a class tells by two methods that its elements are not those in memory."""
    import tvm_ffi

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
holder = tempfile.TemporaryDirectory(); folder = holder.name; sys.path.insert(0, folder)
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
