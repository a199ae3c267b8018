//! libFuzzer on [`kernpack_fuzz::library_bin`].
#![no_main]

libfuzzer_sys::fuzz_target!(|input: &[u8]| kernpack_fuzz::library_bin::check(input));
