"""Classes of registered types: constructors, fields, methods, operators, inheritance, copies. The types are those of tests/objects-lib."""

import copy
import gc
import inspect
import pickle
import weakref

import pytest


@pytest.fixture
def place(extmod):
    return extmod.objects.Place(3.0, 4.0)


def test_constructors(extmod):
    Record = extmod.Record
    for record in [Record(1, 2.5, "x", (1, 2)), Record(1, 2.5, pair=(1, 2), label="x"), Record(1, 2.5, "x", [1, 2])]:
        assert (record.count, record.scale, record.label, record.pair) == (1, 2.5, "x", (1, 2))
    assert extmod.objects.Place(5).y == 0.0
    assert str(inspect.signature(extmod.objects.Place)) == "(x, y=0.0)"
    assert (Record.__name__, Record.__module__, Record.__doc__) == ("Record", "extmod", "A count with a label.")
    assert Record.count.__doc__ == "The count."


def test_a_constructor_is_given_what_no_field_takes(extmod):
    """The fields are set one after the other; the old values are released."""
    Record = extmod.Record

    class Number:
        asked = 0

        def __index__(self):
            self.asked += 1
            if self.asked > 1:
                raise ZeroDivisionError("asked twice")
            return 9

    assert Record(Number(), 2, "\u00e4" * 20, [1, 2]).count == 9
    assert Record(1, 2, "a\0b", (1, 2)).label == "a\0b"
    for arguments, message in [
        (("x", 2.5, "x", (1, 2)), "'count'.*expected int, got str"),
        ((1, "x", "a longer text", (1, 2)), "'scale'.*expected float, got str"),
        ((1, 2.5, 5, (1, 2)), "'label'.*expected str, got int"),
        ((1, 2.5, "a longer text", (1, "x")), "'pair'.*expected int, got str"),
        ((1, 2.5, "a longer text", (1, 2, 3)), "'pair'.*3 elements"),
    ]:
        with pytest.raises(TypeError, match=f"(?s){message}"):
            Record(*arguments)
    again = Number()
    again.asked = 1
    with pytest.raises(ZeroDivisionError, match="asked twice"):
        Record(1, 2.5, "x", (1, again))
    holder = extmod.Holder(len, None)
    assert holder.function is len and holder.other is None


ERRORS = [
    (lambda m: m.Record(1, 2.5, "x"), TypeError, "extmod.Record.__ffi_init__() missing required argument: 'pair'"),
    (lambda m: m.Record(1, 2, "x", (1, 2), 5), TypeError, "takes at most 4 positional argument(s), but 5 were given"),
    (lambda m: m.Record(1, pai=2), TypeError, "got an unexpected keyword argument 'pai'"),
    (lambda m: m.objects.Place("x"), TypeError, "argument 'x': expected float, got str"),
    (lambda m: m.objects.Place(float("nan")), ValueError, "a place is somewhere"),
    (lambda m: m.objects.Place(1.0).__init__(2.0), TypeError, "the Place is constructed already"),
    (lambda m: m.objects.Place.__new__(m.objects.Place).x, ValueError, "its constructor was not called"),
    (lambda m: m.count_of(m.objects.Place(1.0)), TypeError, "expected extmod.Record, got objects.Place"),
    (lambda m: m.count_of(None), TypeError, "expected extmod.Record, got None"),
    (lambda m: setattr(m.record(1, "x"), "count", 3), AttributeError, "count"),
    (lambda m: m.objects.Place(0).direction, ValueError, "the origin has no direction"),
    (lambda m: m.objects.Place(1)[2], IndexError, "there is none at 2"),
    (lambda m: m.objects.Place(1).moved(), TypeError, "argument 'by' is missing"),
    (lambda m: m.objects.Place(1).moved(times=2), TypeError, "argument 'by' is missing"),
    (lambda m: m.objects.Place(1).moved(buy=2), TypeError, "there is no argument 'buy'; did you mean 'by'?"),
    (lambda m: type(m.record(1, "x")).__mro__[-2](), TypeError, "Object has no constructor"),
]


@pytest.mark.parametrize("call, kind, message", ERRORS, ids=lambda value: str(value)[:40])
def test_errors(extmod, call, kind, message):
    with pytest.raises(kind) as caught:
        call(extmod)
    assert message in str(caught.value)


def test_methods_and_properties(extmod, place):
    Place = extmod.objects.Place
    assert (place.length, place.pair) == (5.0, (3.0, 4.0))
    assert place.moved(Place(1), times=2).pair == place.moved(times=2, by=Place(1)).pair == (5.0, 4.0)
    assert Place.on_circle(0.0).pair == (1.0, 0.0)
    assert place.apply(lambda x, y: x * y) == 12.0
    assert place.is_same(place.same()) and place.same() == place
    assert str(inspect.signature(place.moved)) == "(by, times=1.0)"
    assert place.moved.__doc__ == "The place moved by another, once or so many times."


def test_operators(extmod, place):
    Place = extmod.objects.Place
    assert repr(place) == "(3, 4)" and repr(extmod.record(1, "x")).startswith("extmod.Record(count=1, ")
    assert place == Place(5) and not place != Place(5) and hash(place) == hash(Place(5))
    assert place < Place(9) and Place(9) > place and place <= Place(5) and place != 1
    assert (len(place), place[1], (place + place).pair, list(place)) == (2, 4.0, (6.0, 8.0), [3.0, 4.0])
    first, second = extmod.record(1, "x"), extmod.record(1, "x")
    assert first != second and first == first and len({first, second}) == 2
    with pytest.raises(TypeError):
        first < second


def test_inheritance(extmod):
    place = extmod.place(1, 2, "name")
    Point, Place = extmod.conversions.Point, extmod.conversions.Place
    assert type(place) is Place and isinstance(place, Point) and issubclass(Place, Point)
    assert (place.x, place.y, place.name) == (1, 2, "name") and extmod.coordinates(place) == (1, 2)

    class Corner(extmod.objects.Place):
        def __init__(self, side):
            super().__init__(side, side)
            self.side = side

    corner = Corner(2.0)
    assert (corner.side, corner.pair, corner.moved(corner).pair) == (2.0, (2.0, 2.0), (4.0, 4.0))

    class Forgets(extmod.objects.Place):
        def __init__(self):
            pass

    for use in [lambda: Forgets().x, lambda: repr(Forgets()), lambda: corner.moved(Forgets())]:
        with pytest.raises(ValueError, match="its constructor was not called"):
            use()




@pytest.mark.parametrize("again", [copy.copy, copy.deepcopy, lambda value: pickle.loads(pickle.dumps(value))])
def test_copies(extmod, again):
    record = again(extmod.record(7, "label"))
    assert type(record) is extmod.Record and (record.count, record.label, record.pair) == (7, "label", (7, 7))
    assert again(extmod.objects.Place(3, 4)).pair == (3.0, 4.0)


def test_weak_references(extmod):
    record = extmod.record(1, "x")
    gone = weakref.ref(record)
    assert gone() is record
    del record
    gc.collect()
    assert gone() is None


def test_cyclic_garbage(extmod):
    """An object that holds a callable which refers to the object; not collected while Rust also holds the callable."""

    class Derived(extmod.Holder):
        pass

    def cycle(make, in_first):
        place = []

        def call():
            return place

        place.append(make(call, None) if in_first else make(print, call))
        assert (place[0].function if in_first else place[0].other) is call
        return weakref.ref(place[0]), call

    for make in [extmod.Holder, Derived]:
        for in_first in [True, False]:
            gone, call = cycle(make, in_first)
            gc.collect()
            assert gone() is not None
            extmod.keep(call)
            del call
            gc.collect()
            assert gone() is not None
            extmod.keep(None)
            gc.collect()
            assert gone() is None


def test_an_object_outlives_its_python_object(extmod):
    held = extmod.record(1, "x")
    same = extmod.echo_any([held])[0]
    del held
    gc.collect()
    assert same.label == "x"


def test_no_object_is_lost(extmod):
    before = extmod.alive() if hasattr(extmod, "alive") else 0

    def everything():
        for _ in range(100):
            extmod.record(1, "x").label
            extmod.objects.Place(1.0).moved(extmod.objects.Place(2.0), times=2.0)
            copy.copy(extmod.record(1, "x"))
            with pytest.raises(TypeError):
                extmod.objects.Place("x")

    everything()
    gc.collect()
    objects = len(gc.get_objects())
    everything()
    gc.collect()
    assert abs(len(gc.get_objects()) - objects) < 20
    assert not hasattr(extmod, "alive") or extmod.alive() == before


def test_memory_of_objects_is_used_again(extmod):
    """Objects reuse the memory of freed ones, also of other classes, and keep nothing of them."""

    class Derived(extmod.objects.Place):
        pass

    ended = []
    for number in range(100):
        mixed = [extmod.record(number, "a label"), extmod.objects.Place(number, 1), extmod.range_of(3), extmod.multiplier(2)]
        mixed += [Derived(number, 2), extmod.Holder(lambda: 1, None)]
        watched = [weakref.ref(thing, lambda _: ended.append(extmod.record(7, "made meanwhile"))) for thing in mixed[:2] + mixed[4:5]]
        del mixed
        assert [watch() for watch in watched] == [None] * 3
        again = [extmod.record(number, "another"), extmod.objects.Place(3, 4)]
        assert [weakref.getweakrefcount(thing) for thing in again] == [0, 0]
        assert (again[0].count, again[0].label, len(again[1])) == (number, "another", 2)
    assert len(ended) == 300 and {record.label for record in ended} == {"made meanwhile"}


def test_weak_references_to_parents(extmod):
    """A parent is a property; operations that walk through the tree do not see it, and the cycle is freed at once."""
    Folder, alive = extmod.objects.Folder, extmod.folders_alive
    gc.collect()
    before = alive()

    def tree():
        home, music, songs = Folder("home"), Folder("music"), Folder("songs")
        home.adopt(music)
        music.adopt(songs)
        return home, music, songs

    home, music, songs = tree()
    assert (songs.parent == music, songs.parent.parent == home, home.parent, songs.path()) == (True, True, None, "home/music/songs")
    assert "parent" not in inspect.signature(Folder).parameters and "parent" not in repr(songs)
    with pytest.raises(AttributeError):
        songs.parent = home
    restored = pickle.loads(pickle.dumps(home))
    assert (restored.folders[0].name, restored.folders[0].parent) == ("music", None)
    copied = copy.deepcopy(home)
    assert copied.folders[0] != music and copied.folders[0].parent is None
    assert copy.copy(home).folders[0] == music
    note = extmod.objects.Note("clean up", home)
    assert note.folder() == home
    del home, copied, restored
    with pytest.raises(RuntimeError, match="the folder of the note 'clean up' is gone"):
        note.folder()
    assert (music.parent, songs.path(), alive() - before) == (None, "music/songs", 2)
    del music, songs
    assert alive() == before
