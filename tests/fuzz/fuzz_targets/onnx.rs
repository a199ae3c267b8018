//! libFuzzer on [`kernpack_fuzz::onnx`]: one mutation in four sets an integer to a limit, the
//! others are libFuzzer's own.
#![no_main]

use kernpack_fuzz::{limits, onnx};

libfuzzer_sys::fuzz_target!(|input: &[u8]| onnx::check(input));

libfuzzer_sys::fuzz_mutator!(|data: &mut [u8], size: usize, max_size: usize, seed: u32| {
    let at_limit = if seed.is_multiple_of(4) { limits::mutate(&data[..size], seed / 4) } else { None };
    match at_limit.filter(|model| model.len() <= max_size) {
        Some(model) => {
            data[..model.len()].copy_from_slice(&model);
            model.len()
        }
        None => libfuzzer_sys::fuzzer_mutate(data, size, max_size),
    }
});
