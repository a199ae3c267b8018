//! libFuzzer on [`kernpack_fuzz::device_image`].
#![no_main]

libfuzzer_sys::fuzz_target!(|input: &[u8]| kernpack_fuzz::device_image::check(input));
