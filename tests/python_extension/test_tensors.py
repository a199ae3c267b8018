"""Arrays in both directions: NumPy in place, other exporters, tensors of the library."""

import array
import gc
import inspect
import weakref

import numpy as np
import pytest


def test_numpy_in_place(extmod):
    numbers = np.arange(6, dtype=np.float32).reshape(2, 3)
    extmod.scale_in_place(numbers, 2.0)
    assert numbers.tolist() == [[0, 2, 4], [6, 8, 10]]
    assert extmod.sum_of_elements(np.arange(6.0)[::-2]) == 9.0
    assert extmod.sum_of_elements(np.float64([[1, 2], [3, 4]]).T) == 10.0
    assert extmod.sum_of_elements(np.zeros((0, 3))) == 0.0
    assert extmod.list_i32(np.int32([[1, 2], [3, 4]]).T) == [1, 3, 2, 4]


def test_what_is_read_only_is_not_written_to(extmod):
    numbers = np.arange(4, dtype=np.float32)
    numbers.flags.writeable = False
    with pytest.raises(ValueError, match="argument 'x': the array is read-only, but the function writes to it"):
        extmod.scale_in_place(numbers, 2.0)
    assert numbers.tolist() == [0, 1, 2, 3] and extmod.element_count(numbers) == 4


@pytest.mark.parametrize(
    "value, message",
    [
        (np.arange(4), "expected a tensor of float64, got one of int64"),
        ([1.0], "expected Tensor, got Array"),
        (None, "expected Tensor, got None"),
        (np.zeros(3, ">f8"), None),
        (np.zeros(3, "f8,i4"), None),
        (np.array(["a"]), None),
        (np.array([object()]), None),
    ],
    ids=repr,
)
def test_what_is_no_such_tensor(extmod, value, message):
    with pytest.raises((TypeError, ValueError, BufferError)) as caught:
        extmod.sum_of_elements(value)
    assert message is None or str(caught.value) == f"sum_of_elements(x: Tensor): argument 'x': {message}"


def test_strides_between_elements(extmod):
    packed = np.zeros(4, np.dtype([("flag", "u1"), ("number", "f8")]))["number"]
    with pytest.raises(ValueError):
        extmod.sum_of_elements(packed)


def test_a_kernel_in_c(extmod):
    numbers = np.arange(4, dtype=np.float32)
    assert extmod.weigh(numbers, 2.0) == 4 and numbers.tolist() == [0, 2, 4, 6]
    assert extmod.weigh(weight=0.5, numbers=numbers) == 4 and numbers.tolist() == [0, 1, 2, 3]
    assert str(inspect.signature(extmod.weigh)) == "(numbers, weight)"
    with pytest.raises(TypeError, match="weigh"):
        extmod.weigh(numbers, "x")
    assert extmod.argument_count(1, "two", None) == 3
    assert str(inspect.signature(extmod.argument_count)) == "(*args)"
    with pytest.raises(TypeError, match="the kernel's arguments have no names"):
        extmod.argument_count(x=1)
    numbers.flags.writeable = False
    with pytest.raises(ValueError, match="read-only"):
        extmod.weigh(numbers, 2.0)


def test_other_exporters(extmod):
    assert extmod.sum_of_elements(array.array("d", [1, 2])) == 3.0
    assert extmod.sum_of_elements(memoryview(array.array("d", [1, 2]))) == 3.0
    assert extmod.list_u8(bytearray(b"\1\2")) == [1, 2]

    class Exporter:
        """The methods of an exporter from before DLPack 1.0."""

        def __init__(self, array):
            self.array = array

        def __dlpack__(self, stream=None):
            return self.array.__dlpack__()

    assert extmod.sum_of_elements(Exporter(np.float64([1, 2, 3]))) == 6.0


def test_exporters_that_lie(extmod):
    class Exporter:
        def __init__(self, result):
            self.result = result

        def __dlpack__(self, **_):
            if isinstance(self.result, BaseException):
                raise self.result
            return self.result

    with pytest.raises(TypeError, match="the __dlpack__ of Exporter gave no tensor"):
        extmod.element_count(Exporter(5))
    with pytest.raises(OSError, match="none today"):
        extmod.element_count(Exporter(OSError("none today")))
    used = np.zeros(3).__dlpack__()
    assert extmod.element_count(Exporter(used)) == 3
    with pytest.raises(TypeError, match="gave no tensor"):
        extmod.element_count(Exporter(used))


def test_a_buffer_that_is_held_cannot_change_its_size(extmod):
    memory = bytearray(b"12345678")
    extmod.keep_tensor(memory)
    with pytest.raises(BufferError):
        memory.extend(b"more")
    extmod.keep_tensor(None)
    memory.extend(b"more")


def test_a_kept_array_lives(extmod):
    class Array(np.ndarray):
        pass

    numbers = np.arange(4.0).view(Array)
    gone = weakref.ref(numbers)
    extmod.keep_tensor(numbers)
    del numbers
    gc.collect()
    assert gone() is not None
    extmod.keep_tensor(None)
    gc.collect()
    assert gone() is None


def test_a_tensor_of_the_library(extmod):
    tensor = extmod.range_of(4)
    assert (tensor.shape, tensor.dtype, tensor.device, tensor.ndim) == ((4,), "float32", "cpu:0", 1)
    assert repr(tensor) == "Tensor(shape=[4], dtype=float32, device=cpu:0)"
    arrays = [tensor.numpy(), np.asarray(tensor), np.from_dlpack(tensor)]
    extmod.scale_in_place(tensor, 3.0)
    assert all(array.tolist() == [0, 3, 6, 9] and array.dtype == np.float32 for array in arrays)
    view = memoryview(tensor)
    del tensor, arrays
    gc.collect()
    assert (view.tolist(), view.format, view.strides, view.readonly) == ([0, 3, 6, 9], "f", (4,), False)


def test_dlpack_arguments(extmod):
    tensor = extmod.range_of(4)
    assert tensor.__dlpack_device__() == (1, 0)
    assert '"dltensor"' in repr(tensor.__dlpack__()) and '"dltensor"' in repr(tensor.__dlpack__(max_version=(0, 8)))
    assert '"dltensor_versioned"' in repr(tensor.__dlpack__(max_version=(1, 0), dl_device=(1, 0), copy=False))
    for wrong in [{"copy": True}, {"dl_device": (2, 0)}]:
        with pytest.raises(BufferError):
            tensor.__dlpack__(**wrong)
    for wrong in [{"max_version": 1}, {"max_version": ("x", 0)}, {"dl_device": ()}]:
        with pytest.raises((TypeError, IndexError)):
            tensor.__dlpack__(**wrong)
    with pytest.raises(TypeError):
        tensor.__dlpack__(1)
    with pytest.raises(TypeError):
        type(tensor)()


def test_a_tensor_as_any_value(extmod):
    numbers = np.arange(3.0)
    tensor = extmod.echo_any(numbers)
    tensor.numpy()[0] = 5.0
    assert numbers[0] == 5.0
    assert extmod.echo_any([numbers])[0].numpy().tolist() == [5, 1, 2]
    assert extmod.apply(lambda x: x, 1) == 1


class Exporter:
    """An array of another library, such as JAX or CuPy, that has only DLPack."""

    def __init__(self, tensor):
        self.tensor = tensor

    def __dlpack__(self, **arguments):
        return self.tensor.__dlpack__(**arguments)

    def __dlpack_device__(self):
        return self.tensor.__dlpack_device__()


@pytest.mark.parametrize("name", ["bfloat16", "float8_e4m3fn", "float16", "bool", "uint64"])
def test_types_of_elements(extmod, name):
    """bfloat16 and smaller floats have no buffer format; DLPack supports them in both directions."""
    tensor = extmod.tensor_of(name, (2, 3))
    assert (tensor.dtype, tensor.shape) == (name, (2, 3))
    again = extmod.echo_any(Exporter(tensor))
    assert (again.dtype, again.shape) == (name, (2, 3)) and extmod.element_count(Exporter(again)) == 6
    if name in ("bfloat16", "float8_e4m3fn"):
        with pytest.raises(BufferError, match=f"a buffer has no elements of type {name}"):
            memoryview(tensor)
    else:
        array = tensor.numpy()
        array[:] = 1
        assert np.from_dlpack(again).all() and array.dtype == name
    with pytest.raises(TypeError, match=f"expected a tensor of float64, got one of {name}"):
        extmod.sum_of_elements(tensor)


@pytest.mark.parametrize("name", ["complex64", "complex128", "float16", "int8"])
def test_types_of_numpys_elements(extmod, name):
    array = np.arange(6).reshape(2, 3).astype(name)
    same = extmod.echo_any(array)
    assert same.dtype == name and np.from_dlpack(same).tolist() == array.tolist()
    same.numpy()[1, 2] = 7
    assert array[1, 2] == 7 and extmod.element_count(array) == 6
    assert extmod.echo_any(array.T).numpy().tolist() == array.T.tolist()


def test_nothing_is_kept(extmod):
    numbers = np.arange(3.0)
    gone = weakref.ref(numbers)
    for _ in range(100):
        extmod.sum_of_elements(numbers)
        extmod.echo_any(numbers).__dlpack__()
        memoryview(extmod.echo_any(numbers))
        with pytest.raises(TypeError):
            extmod.sum_f32(numbers)
    del numbers
    gc.collect()
    assert gone() is None
