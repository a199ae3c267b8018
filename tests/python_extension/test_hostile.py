"""Hostile arguments: they raise at unexpected places, return wrong values, or change the objects of a call. The result is an exception or a value, never a crash."""

import gc
import subprocess
import sys

import pytest


class Raises:
    """Raises one exception in every method."""

    def __init__(self, error):
        self.error = error

    def _raise(self, *_, **__):
        raise self.error

    __index__ = __float__ = __int__ = __bool__ = __hash__ = __repr__ = __str__ = __iter__ = __len__ = _raise


PLACES = {
    "an argument": lambda m, bad: m.echo_i64(bad),
    "a float": lambda m, bad: m.echo_f64(bad),
    "a keyword": lambda m, bad: m.subtract(minuend=1, subtrahend=bad),
    "any value": lambda m, bad: m.echo_any([bad]),
    "in a list": lambda m, bad: m.echo_vec([1, bad]),
    "in a dict": lambda m, bad: m.echo_any({"a": bad}),
    "a result of a callback": lambda m, bad: m.sum_of(lambda _: bad, 2),
    "a constructor": lambda m, bad: m.objects.Place(bad, 1.0),
    "a method": lambda m, bad: m.objects.Place(1.0, 2.0).moved(m.objects.Place(1.0, 2.0), times=bad),
}


@pytest.mark.parametrize("kind", [OSError, KeyboardInterrupt, SystemExit])
@pytest.mark.parametrize("place", PLACES)
def test_what_an_argument_raises_comes_out_as_itself(extmod, place, kind):
    error = kind("of the argument")
    with pytest.raises(kind) as raised:
        PLACES[place](extmod, Raises(error))
    assert raised.value is error


@pytest.mark.needs("numpy")
def test_devices_that_lie(extmod):
    import numpy as np

    class Exporter:
        def __init__(self, device):
            self.device = device

        def __dlpack__(self, **_):
            return np.zeros(3).__dlpack__()

        def __dlpack_device__(self):
            if isinstance(self.device, BaseException):
                raise self.device
            return self.device

    error = OSError("no device today")
    with pytest.raises(OSError) as raised:
        extmod.element_count(Exporter(error))
    assert raised.value is error
    for device in [(), (1,), ("cpu", 0), None, 5, (2**70, 0)]:
        with pytest.raises((TypeError, IndexError, OverflowError, ValueError)):
            extmod.element_count(Exporter(device))
    # The device of the tensor itself counts.
    for device in [(1, 0), (2, 0), (2**40, -1), (-5, 7)]:
        assert extmod.element_count(Exporter(device)) == 3


@pytest.mark.needs("numpy")
def test_buffers_that_change_while_arguments_are_converted(extmod):
    """The first argument is looked at before the second one changes it."""
    import numpy as np

    class Resizes:
        def __init__(self, array):
            self.array = array

        def __float__(self):
            self.array.resize(1 << 20, refcheck=False)
            self.array[:] = 1.0
            return 2.0

    array = np.arange(4, dtype="float32")
    extmod.scale_in_place(array, Resizes(array))
    assert array.shape == (1 << 20,) and array.sum() == 2 << 20

    class Freezes(Resizes):
        def __float__(self):
            self.array.flags.writeable = False
            return 2.0

    array = np.arange(4, dtype="float32")
    with pytest.raises(ValueError, match="argument 'x': .*read-only"):
        extmod.scale_in_place(array, Freezes(array))
    assert array.tolist() == [0, 1, 2, 3]

    held = bytearray(b"12345678")

    class Grows:
        def __float__(self):
            held.extend(bytes(1 << 20))
            return 2.0

    with pytest.raises(BufferError):
        extmod.scale_in_place(memoryview(held).cast("f"), Grows())
    view = memoryview(bytearray(16)).cast("f")

    class Releases:
        def __float__(self):
            view.release()
            return 2.0

    try:
        extmod.scale_in_place(view, Releases())
    except BufferError:
        pass


def test_a_callback_that_lets_go_of_everything(extmod):
    """The object of a method, the holder of the callback that runs, the list of arguments."""
    holders = []

    def forget(*_):
        holders.clear()
        gc.collect()
        return 1

    holders.append(extmod.Holder(forget, None))
    assert extmod.sum_of(forget, 3) == 3
    extmod.keep(forget)

    def replace(_):
        extmod.keep(None)
        gc.collect()
        return 5

    extmod.keep(replace)
    assert extmod.call_kept(1) == 5


def test_a_callback_that_calls_itself_through_the_library(extmod):
    def deeper(number):
        return extmod.sum_here(deeper, 2)

    with pytest.raises(RecursionError):
        extmod.sum_here(deeper, 2)
    assert extmod.subtract(7, 3) == 4


@pytest.mark.parametrize(
    "program",
    [
        # The first import is in the child of a fork.
        "import os\npid = os.fork()\nimport extmod\nassert extmod.sum_of(lambda x: x, 4) == 6\n"
        "if pid: assert os.waitpid(pid, 0)[1] == 0\n",
        # The first import is while Python shuts down.
        "import atexit\ndef late():\n    import extmod\n    assert extmod.sum_of(lambda x: x, 4) == 6\natexit.register(late)\n",
        # The first import is in a thread, at the same time in another one.
        "import threading\ndef use():\n    import extmod\n    assert extmod.record(7, 'label').count == 7\n"
        "threads = [threading.Thread(target=use) for _ in range(8)]\n[thread.start() for thread in threads]\n[thread.join() for thread in threads]\n",
        # Objects outlive their module, and are freed after it.
        "import extmod, gc\nkept = [extmod.record(7, 'label'), extmod.range_of(3), extmod.multiplier(2), extmod.subtract]\n"
        "del sys.modules['extmod'], extmod\ngc.collect()\nassert kept[0].count == 7 and kept[2](4) == 8 and kept[3](7, 3) == 4\n"
        "sys.kept = kept\n",
    ],
    ids=["after a fork", "at exit", "in threads", "without the module"],
)
def test_imports_at_odd_times(folder, program):
    program = f"import sys; sys.path.insert(0, {str(folder)!r})\n{program}print('passed', flush=True)\n"
    result = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, timeout=60)
    assert result.returncode == 0 and set(result.stdout.split()) == {"passed"}, (result.returncode, result.stdout, result.stderr)


@pytest.mark.parametrize("result", [object(), None, 5, "text", object, ValueError], ids=repr)
@pytest.mark.parametrize("caused", [False, True])
def test_an_exception_that_its_class_does_not_make(extmod, result, caused):
    """`__new__` may return anything, which is not used as an exception."""
    for kind in ["FilterFault", "KernelFault", "Own"]:
        with pytest.raises(Exception) as raised:
            extmod.fail_as(kind, "the message", False)
        made = raised.type
        made.__new__ = lambda cls, *arguments: result
        try:
            with pytest.raises(TypeError, match="not an exception|returned an instance"):
                extmod.fail_as(kind, "the message", caused)
        finally:
            del made.__new__
        with pytest.raises(made, match="the message"):
            extmod.fail_as(kind, "the message", caused)


def test_a_cause_that_its_class_does_not_make(extmod):
    """The class of the error is valid, and that of its cause is not."""
    number = [0]

    def new(cls, *arguments):
        number[0] += 1
        return object() if number[0] == 2 else ValueError.__new__(cls, *arguments)

    extmod.FilterFault.__new__ = new
    try:
        with pytest.raises(TypeError, match="returned an object of type object, which is not an exception"):
            extmod.fail_as("FilterFault", "the message", True)
    finally:
        del extmod.FilterFault.__new__


def test_an_exception_of_another_class(extmod):
    """Any exception is accepted, regardless of its class."""
    extmod.FilterFault.__new__ = lambda cls, *arguments: OSError("another")
    try:
        for caused in (False, True):
            with pytest.raises(OSError, match="another"):
                extmod.fail_as("FilterFault", "the message", caused)
    finally:
        del extmod.FilterFault.__new__
