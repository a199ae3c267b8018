//! libFuzzer on [`kernpack_fuzz::dtype`].
#![no_main]

libfuzzer_sys::fuzz_target!(|input: &[u8]| kernpack_fuzz::dtype::check(input));
