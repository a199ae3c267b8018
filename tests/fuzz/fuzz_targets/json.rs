//! libFuzzer on [`kernpack_fuzz::json`].
#![no_main]

libfuzzer_sys::fuzz_target!(|input: &[u8]| kernpack_fuzz::json::check(input));
