//! libFuzzer on [`kernpack_fuzz::json_graph`].
#![no_main]

libfuzzer_sys::fuzz_target!(|input: &[u8]| kernpack_fuzz::json_graph::check(input));
