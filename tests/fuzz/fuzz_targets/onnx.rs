//! libFuzzer on [`kernpack_fuzz::onnx`].
#![no_main]

libfuzzer_sys::fuzz_target!(|input: &[u8]| kernpack_fuzz::onnx::check(input));
