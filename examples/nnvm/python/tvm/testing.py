"""Assertions of tests."""

import numpy as np


def assert_allclose(actual, desired, rtol=1e-7, atol=1e-7):
    """Asserts that arrays have the same shape and almost the same elements."""
    actual, desired = np.asanyarray(actual), np.asanyarray(desired)
    np.testing.assert_equal(actual.shape, desired.shape)
    np.testing.assert_allclose(actual, desired, rtol=rtol, atol=atol, verbose=True)
