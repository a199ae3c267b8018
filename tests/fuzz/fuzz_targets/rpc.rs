//! libFuzzer on [`kernpack_fuzz::rpc`].
#![no_main]

libfuzzer_sys::fuzz_target!(|input: &[u8]| kernpack_fuzz::rpc::check(input));
