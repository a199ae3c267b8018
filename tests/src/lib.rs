//! Tests that cross crates live in `tests/`: hosts in C, C++ and Rust, layouts against the C headers, conversion rules,
//! hostile libraries, compile-fail tests. Their C and C++ programs are in `c/`, the Python half in `python/`.
