"""The six comparisons of objects: the table of comparisons.py under the Python that runs the tests."""

import comparisons


def test_comparisons(extmod):
    comparisons.check(extmod, derives=True)


def test_not_equal_is_the_opposite_of_a_derived_equality(extmod):
    class Loose(extmod.Clip):
        def __eq__(self, other):
            return True

        __hash__ = None

    assert Loose(1.0) == Loose(2.0) and not Loose(1.0) != Loose(2.0)
    assert extmod.Clip(1.0) == Loose(2.0) and not extmod.Clip(1.0) != Loose(2.0)
