//! Integers beyond 64 bits.
