//! libFuzzer on [`kernpack_fuzz::dlpack`].
#![no_main]

libfuzzer_sys::fuzz_target!(|input: &[u8]| kernpack_fuzz::dlpack::check(input));
