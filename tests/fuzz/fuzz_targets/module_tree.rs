//! libFuzzer on [`kernpack_fuzz::module_tree`].
#![no_main]

libfuzzer_sys::fuzz_target!(|input: &[u8]| kernpack_fuzz::module_tree::check(input));
