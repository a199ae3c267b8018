//! Tests of several crates together are in `tests/`: hosts in C, C++ and Rust, layouts compared
//! with the C headers, conversion rules, hostile libraries, compile-fail tests. Their C and C++
//! programs are in `c/`, the Python tests in `python/`.

pub mod beside;
pub mod cuda_stand_in;
pub mod headers;
pub mod library;
pub mod stock;
pub mod symbols;

pub use kernpack_skip as skip;

/// The number of objects in the chains that no operation may recurse through: a million, or
/// `KERNPACK_CHAIN_LENGTH` if a checker makes everything slow.
pub fn chain_length() -> usize {
    std::env::var("KERNPACK_CHAIN_LENGTH").map_or(1_000_000, |length| length.parse().expect("a number of objects"))
}
