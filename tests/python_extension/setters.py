"""Attributes that a method of the library writes: with the wheel of either kind on the path."""

import extmod


def raises(kind, message, call, *arguments):
    try:
        call(*arguments)
    except kind as error:
        assert message in str(error), error
    else:
        raise AssertionError(f"{kind} was not raised")


dial = extmod.Dial(360)
dial.angle = 90
dial.angle += 0.5
dial.limit = 180
dial.note = "a"
assert (dial.angle, dial.limit, dial.note) == (90.5, 180, "a")
dial.secret = b"abc"
assert dial.note == "3 bytes"
dial.note = None
assert dial.note is None
dial.turn = lambda angle: angle + 1
assert dial.angle == 91.5

raises(ValueError, "the angle 181 is not between 0 and 180", setattr, dial, "angle", 181)
raises(TypeError, "field 'angle' of extmod.Dial: expected float, got str", setattr, dial, "angle", "x")
raises(TypeError, "field 'limit' of extmod.Dial: expected int, got str", setattr, dial, "limit", "x")
raises(AttributeError, "Dial", getattr, dial, "secret")
for name in ["angle", "limit", "secret"]:
    raises(AttributeError, "", delattr, dial, name)
assert (dial.angle, dial.limit) == (91.5, 180)

# With tvm_ffi: a copy with another value has it in the field, and no setter is called.
if hasattr(dial, "__replace__"):
    again = dial.__replace__(limit=-5)
    assert (again.limit, dial.limit) == (-5, 180)
assert extmod.Dial.angle.__doc__ == "The angle in degrees."
assert extmod.Dial.limit.__doc__ == "The largest angle."
assert extmod.Dial.secret.__doc__ == "Only its size is kept."

# A field of the parent: it is read as before, and only objects of the derived class are written.
stop = extmod.Stop(3)
stop.place = 10
assert (stop.place, stop.moved) == (3, 7)
raises(AttributeError, "", setattr, extmod.Mark(3), "place", 10)
knob = extmod.Knob(360, 0)
knob.angle = 10
assert knob.angle == 10.0

print("passed")
