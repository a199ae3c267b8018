"""PyTorch and JAX in both directions. `cargo xtask extension` runs this file in an environment with both, and with Debian's PyTorch. In one without them
the tests are skipped, and if they cannot be imported the tests fail."""

import ctypes
import functools
import gc
import subprocess
import sys
import threading
import time

import numpy as np
import pytest
from conftest import imported


@pytest.fixture(scope="module")
def torch():
    return pytest.importorskip("torch", exc_type=ModuleNotFoundError)


def need_torch_2(torch):
    """For what PyTorch 1 does not have."""
    if torch.__version__.startswith("1."):
        pytest.skip("this PyTorch is older than 2.0")


def test_torch_in_place(extmod, torch):
    numbers = torch.arange(6, dtype=torch.float32).reshape(2, 3)
    extmod.scale_in_place(numbers, 2.0)
    assert numbers.tolist() == [[0, 2, 4], [6, 8, 10]]
    assert extmod.sum_of_elements(torch.arange(6, dtype=torch.float64)[::2]) == 6.0
    assert extmod.sum_of_elements(torch.ones(2, 3, dtype=torch.float64).T) == 6.0
    assert extmod.sum_of_elements(torch.zeros(0, 3, dtype=torch.float64)) == 0.0
    assert extmod.sum_of_elements(torch.tensor(2.5, dtype=torch.float64)) == 2.5
    assert extmod.sum_of_elements(torch.ones(1, 1, 1, 1, 2, dtype=torch.float64)) == 2.0
    with pytest.raises(TypeError, match="argument 'x': expected a tensor of float64, got one of int64"):
        extmod.sum_of_elements(torch.arange(3))


def test_torch_keeps_and_gets(extmod, torch):
    numbers = torch.arange(3, dtype=torch.float32)
    same = extmod.echo_any(numbers)
    assert (same.dtype, same.shape) == ("float32", (3,))
    back = torch.from_dlpack(same)
    back[0] = 5.0
    assert numbers[0] == 5.0 and back.data_ptr() == numbers.data_ptr()
    result = torch.from_dlpack(extmod.range_of(4))
    gc.collect()
    assert result.tolist() == [0, 1, 2, 3]
    extmod.keep_tensor(numbers)
    del numbers, same, back
    gc.collect()
    extmod.keep_tensor(None)


@pytest.mark.parametrize("name", ["bfloat16", "float16", "complex64", "bool", "uint8", "int64"])
def test_torch_dtypes(extmod, torch, name):
    """Also types that NumPy does not have."""
    if name == "bool":
        need_torch_2(torch)
    numbers = torch.ones(3, dtype=getattr(torch, name))
    same = extmod.echo_any(numbers)
    assert same.dtype == name and torch.equal(torch.from_dlpack(same), numbers)
    assert (name == "complex64" or extmod.echo_dtype(numbers.dtype) == name) and extmod.echo_device(numbers.device) == "cpu:0"


def test_torch_subclasses(extmod, torch):
    weights = torch.nn.Parameter(torch.ones(3, dtype=torch.float64), requires_grad=False)
    assert extmod.sum_of_elements(weights) == 3.0


COUNT = 1 << 16


def give_data(torch, tensor):
    tensor.data = torch.full((3,), 7.0, dtype=torch.float64)


def give_storage(torch, tensor):
    tensor.set_(torch.full((COUNT,), 7.0, dtype=torch.float64))


def take_storage(torch, tensor):
    tensor.set_()


TORCH_LOSSES = [give_data, give_storage, take_storage]


def own(torch):
    return torch.ones(COUNT, dtype=torch.float64)


def strided(torch):
    return torch.ones(2 * COUNT, dtype=torch.float64)[::2]


def many_axes(torch):
    return torch.ones(1, 2, 1, 2, 1, COUNT // 4, dtype=torch.float64)


def parameter(torch):
    return torch.nn.Parameter(own(torch), requires_grad=False)


@functools.cache
def derived_class(torch):
    """One class for all tests: a module remembers sixteen, and others take a slower path."""
    return type("Derived", (torch.Tensor,), {})


def derived(torch):
    return own(torch).as_subclass(derived_class(torch))


TORCH_TENSORS = [own, strided, many_axes, parameter, derived]


def lose(torch, how, tensor):
    how(torch, tensor)
    # Freed memory is likely to be reused.
    return [torch.full((count * COUNT,), 7.0, dtype=torch.float64) for count in (1, 2, 1, 2)]


@pytest.mark.parametrize("made", TORCH_TENSORS)
@pytest.mark.parametrize("how", TORCH_LOSSES)
def test_torch_storage_is_kept_for_the_call(extmod, torch, made, how):
    for name in ["sum_after", "sum_after_here"]:
        tensor = made(torch)
        assert getattr(extmod, name)(tensor, lambda: lose(torch, how, tensor) and None) == COUNT
        assert tensor.numel() == {give_data: 3, give_storage: COUNT, take_storage: 0}[how]


@pytest.mark.parametrize("how", TORCH_LOSSES)
def test_torch_storage_that_is_written(extmod, torch, how):
    tensor, made = own(torch), []
    before = tensor.detach()
    extmod.fill_after(tensor, lambda: made.extend(lose(torch, how, tensor)), 3.0)
    assert before.sum() == 3 * COUNT and all((other == 7).all() for other in made)


@pytest.mark.parametrize("how", TORCH_LOSSES)
def test_torch_storage_while_no_lock_is_held(extmod, torch, how):
    """Raises if an element has changed. The thread may be first."""
    tensor = own(torch)

    def other():
        time.sleep(0.005)
        lose(torch, how, tensor)

    thread = threading.Thread(target=other)
    thread.start()
    assert extmod.same_for(tensor, 0.03) in (COUNT, 0, 21, 7 * COUNT)
    thread.join()


@pytest.mark.parametrize("made", TORCH_TENSORS)
@pytest.mark.parametrize("how", TORCH_LOSSES)
def test_torch_storage_of_a_kept_tensor(extmod, torch, made, how):
    tensor = made(torch)
    extmod.keep_tensor(tensor)
    try:
        again = lose(torch, how, tensor)
        assert extmod.sum_of_kept() == COUNT and again
    finally:
        extmod.keep_tensor(None)


def test_torch_storage_is_given_back(extmod, torch):
    need_torch_2(torch)
    tensor = own(torch)
    storage = tensor.untyped_storage()
    before = sys.getrefcount(tensor), sys.getrefcount(storage)
    for _ in range(100):
        extmod.sum_of_elements(tensor)
        extmod.echo_any(tensor)
        extmod.keep_tensor(tensor)
        extmod.keep_tensor(None)
        with pytest.raises(TypeError):
            extmod.sum_f32(tensor)
    gc.collect()
    assert (sys.getrefcount(tensor), sys.getrefcount(storage)) == before


def test_torch_subclass_that_lies(extmod, torch):
    """The results of its methods are checked."""
    need_torch_2(torch)

    class Lies(torch.Tensor):
        @classmethod
        def __torch_function__(cls, func, types, args=(), kwargs=None):
            return 5

    tensor = own(torch).as_subclass(Lies)
    assert extmod.sum_of_elements(tensor) == COUNT
    extmod.keep_tensor(tensor)
    try:
        assert extmod.sum_of_kept() == COUNT
    finally:
        extmod.keep_tensor(None)


MORE_CLASSES = """
import sys; sys.path.insert(0, sys.argv[1])
import extmod, torch
COUNT = 1 << 16
for number in range(20):
    made = type(f"Derived{number}", (torch.Tensor,), {})
    extmod.element_count(torch.ones(1, dtype=torch.float64).as_subclass(made))
def own():
    return torch.ones(COUNT, dtype=torch.float64).as_subclass(made)
def give_data(tensor):
    tensor.data = torch.full((3,), 7.0, dtype=torch.float64)
def give_storage(tensor):
    tensor.set_(torch.full((COUNT,), 7.0, dtype=torch.float64))
def take_storage(tensor):
    tensor.set_()
for lose in [give_data, give_storage, take_storage]:
    for name in ["sum_after", "sum_after_here"]:
        tensor, again = own(), []
        def taken():
            lose(tensor)
            again.extend(torch.full((count * COUNT,), 7.0, dtype=torch.float64) for count in (1, 2, 1, 2))
        assert getattr(extmod, name)(tensor, taken) == COUNT
    tensor = own()
    extmod.keep_tensor(tensor)
    lose(tensor)
    again = [torch.full((count * COUNT,), 7.0, dtype=torch.float64) for count in (1, 2, 1, 2)]
    assert extmod.sum_of_kept() == COUNT
    extmod.keep_tensor(None)
assert extmod.sum_of_elements(own()[4:0:1]) == 0.0 and extmod.sum_of_elements(own()[5:]) == COUNT - 5
negative = torch.tensor([1 + 2j, 3 - 4j], dtype=torch.complex128).conj().imag.as_subclass(made)
try:
    extmod.sum_of_elements(negative)
except ValueError as error:
    assert "negative bit set" in str(error), error
else:
    raise AssertionError("a negative was taken")
print("passed")
"""


def test_torch_classes_beyond_those_that_are_remembered(folder, torch):
    """They go by capsules, which hold the tensor and not its storage."""
    result = subprocess.run([sys.executable, "-c", MORE_CLASSES, str(folder)], capture_output=True, text=True, timeout=120)
    assert (result.returncode, result.stdout.strip()) == (0, "passed"), result.stdout + result.stderr


def test_torch_conjugates(extmod, torch):
    """A tensor whose elements differ from its memory is not lent."""
    lazy = torch.tensor([1 + 2j, 3 - 4j]).conj()
    parts = torch.tensor([1 + 2j, 3 - 4j], dtype=torch.complex128).conj().imag
    with pytest.raises(ValueError, match=r"conjugate bit set; pass tensor.resolve_conj\(\)"):
        extmod.echo_any(lazy)
    assert torch.equal(torch.from_dlpack(extmod.echo_any(lazy.resolve_conj())), lazy)
    for negative in [parts, parts[1:], parts.reshape(2, 1), parts[0], parts.expand(3, 2).T]:
        with pytest.raises(ValueError, match=r"negative bit set; pass tensor.resolve_neg\(\)"):
            extmod.sum_of_elements(negative)
        assert extmod.sum_of_elements(negative.resolve_neg()) == negative.sum()
    # Neither bit is set for similar classes.
    assert extmod.sum_of_elements(torch.view_as_real(lazy.resolve_conj()).double()[:, 1]) == 2.0


def test_jax(extmod):
    jnp = pytest.importorskip("jax.numpy", exc_type=ModuleNotFoundError)
    numbers = jnp.arange(4, dtype=jnp.float32)
    assert extmod.element_count(numbers) == 4
    # JAX's arrays are immutable.
    with pytest.raises(ValueError, match="read-only"):
        extmod.scale_in_place(numbers, 2.0)
    assert jnp.from_dlpack(extmod.range_of(3)).tolist() == [0, 1, 2]


def test_bfloat16_of_ml_dtypes(extmod):
    ml_dtypes = imported("ml_dtypes")
    assert extmod.echo_dtype(np.dtype(ml_dtypes.bfloat16)) == "bfloat16"


def test_the_exchange_interface(extmod):
    """The table of C functions of our own class."""
    Tensor = type(extmod.range_of(1))
    capsule = Tensor.__dlpack_c_exchange_api__
    get = ctypes.pythonapi.PyCapsule_GetPointer
    get.restype, get.argtypes = ctypes.c_void_p, [ctypes.py_object, ctypes.c_char_p]
    address = get(capsule, b"dlpack_exchange_api")
    words = ctypes.cast(address, ctypes.POINTER(ctypes.c_uint64))
    assert words[0] == 1 | 3 << 32 and words[1] == 0 and all(words[place] for place in range(2, 7))
    # To a tensor and back.
    managed, again = ctypes.c_void_p(), ctypes.py_object()
    tensor = extmod.range_of(3)
    give = ctypes.PYFUNCTYPE(ctypes.c_int, ctypes.py_object, ctypes.POINTER(ctypes.c_void_p))(words[3])
    assert give(tensor, ctypes.byref(managed)) == 0
    take = ctypes.PYFUNCTYPE(ctypes.c_int, ctypes.c_void_p, ctypes.POINTER(ctypes.py_object))(words[4])
    assert take(managed, ctypes.byref(again)) == 0
    assert again.value.numpy().tolist() == [0, 1, 2]
    stream = ctypes.PYFUNCTYPE(ctypes.c_int, ctypes.c_int, ctypes.c_int32, ctypes.POINTER(ctypes.c_void_p))(words[6])
    assert stream(1, 0, ctypes.byref(managed)) == 0 and managed.value is None
    with pytest.raises(TypeError, match="tensors of one Kernpack library"):
        give(5, ctypes.byref(managed))


def test_an_exchange_interface_that_lies(extmod):
    class Lies:
        __dlpack_c_exchange_api__ = 5

        def __dlpack__(self, **_):
            return np.float64([1, 2]).__dlpack__()

    assert extmod.sum_of_elements(Lies()) == 3.0
