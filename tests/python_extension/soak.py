"""Many rounds of everything, errors included: memory and objects stay as many as they were.

    python soak.py FOLDER [ROUNDS]

FOLDER has the library as extmod.so. A million rounds, if no number is given.
"""

import copy
import gc
import pickle
import sys
import weakref

folder, rounds = sys.argv[1], int(sys.argv[2]) if len(sys.argv) > 2 else 1_000_000
sys.path.insert(0, folder)
import extmod

try:
    import numpy
except ImportError:
    numpy = None
Color, Place, Record = extmod.objects.Color, extmod.objects.Place, extmod.Record
BUFFER = bytearray(64)


class Derived(Place):
    def __init__(self, side):
        super().__init__(side, side)
        self.side = side


def throws(_):
    raise KeyError("thrown") from ValueError("first")


def catches(call, *arguments):
    try:
        call(*arguments)
    except Exception:
        return
    raise AssertionError("no error")


def cycle():
    place = []
    place.append(extmod.Holder(lambda: place, None))


def everything(number):
    extmod.subtract(number, subtrahend=3)
    extmod.echo_any({"a": [1, "a text that is not small", b"bytes that are not small", 2**70, None, 2.5]})
    extmod.words("a b a b a text"), extmod.divide(7, 2), extmod.byte_count(memoryview(BUFFER))
    extmod.sum_of(lambda x: x, 2), extmod.sum_here(lambda x: x, 2), extmod.multiplier(2)(3)
    extmod.keep(lambda x: x)
    extmod.call_kept(number)
    extmod.keep(None)
    extmod.echo_any(object()), extmod.next_color(Color.RED), extmod.next_color("GREEN")
    record = Record(number, 2.5, "a label that is not small", pair=(1, 2))
    weakref.ref(record)
    record.label, record.pair, extmod.count_of(record), copy.copy(record), repr(record), hash(record)
    place = Place(3.0, 4.0)
    place.moved(Derived(1.0), times=2), place == Place(5), place < Place(9), len(place), list(place)
    tensor = extmod.range_of(8)
    memoryview(tensor).tolist(), extmod.element_count(tensor), extmod.scale_in_place(tensor, 2.0), tensor.__dlpack__(max_version=(1, 0))
    if numpy:
        array = numpy.arange(4.0)
        extmod.sum_of_elements(array), extmod.echo_any(array).numpy(), numpy.from_dlpack(tensor)
    catches(extmod.subtract, "x", 1)
    catches(extmod.sum_of, throws, 1)
    catches(extmod.sum_here, throws, 1)
    catches(extmod.fail_with_causes)
    catches(extmod.fail, "Own", "text")
    catches(Place, "x")
    catches(extmod.next_color, 7)
    catches(extmod.scale_in_place, bytes(8), 1.0)
    if number % 100 == 0:
        cycle()
        extmod.on_a_thread(lambda: 1)
        pickle.loads(pickle.dumps(record))
    if number % 10_000 == 0:
        gc.collect()


def resident():
    with open("/proc/self/statm") as statm:
        return int(statm.read().split()[1]) * 4096


def state():
    gc.collect()
    return resident(), len(gc.get_objects()), sys.getrefcount(None), sys.getrefcount(Color.GREEN)


warm = max(rounds // 10, 1000)
for number in range(warm):
    everything(number)
before = state()
for number in range(rounds):
    everything(number)
after = state()
print(f"{rounds} rounds: resident bytes, objects, references to None and to a member before {before}, after {after}")
assert after[0] - before[0] < 1 << 20, "memory grew"
objects, nones, members = (now - then for now, then in zip(after[1:], before[1:]))
assert abs(objects) < 100 and abs(members) < 100, "objects are left"
# References to None are counted only up to 3.11. The interpreter's own ones decrease by some
# hundred in the first 100,000 rounds, and then stay constant. A path that drops one too many, or
# leaks one, changes them by one in each of its rounds: in every round, or in every hundredth.
assert abs(nones) < 500 + rounds // 200, "references to None are lost or left"
