//! Paths from an object to a part of it.
