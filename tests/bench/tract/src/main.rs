//! tract on one thread, for `cargo xtask bench models tract`:
//! `kernpack-bench-tract MODEL.onnx TYPE EXTENT..` loads a model whose only input has this type
//! (`f32` or `i32`) and shape. For each line `INPUT OUTPUT` with two files it runs the model once,
//! and writes the first output. For each line with a number of seconds, it prints the shortest time
//! of a call, in nanoseconds of the clock, among the calls that fit into this time.

use std::io::{BufRead, Write};
use std::time::Instant;
use tract_onnx::prelude::*;

fn main() -> TractResult<()> {
    let mut arguments = std::env::args().skip(1);
    let usage = || anyhow_of("usage: kernpack-bench-tract MODEL.onnx TYPE EXTENT..");
    let (path, element) = (arguments.next().ok_or_else(usage)?, arguments.next().ok_or_else(usage)?);
    let shape = arguments.map(|extent| extent.parse()).collect::<Result<Vec<usize>, _>>()?;
    let is_int = element == "i32";
    let fact = if is_int { i32::fact(&shape) } else { f32::fact(&shape) };
    let model = onnx().model_for_path(path)?.with_input_fact(0, fact.into())?.into_optimized()?.into_runnable()?;
    let mut input = if is_int { Tensor::zero::<i32>(&shape)? } else { Tensor::zero::<f32>(&shape)? };
    println!("ready");
    for line in std::io::stdin().lock().lines() {
        let line = line?;
        if let Ok(seconds) = line.parse::<f64>() {
            println!("{}", shortest(seconds, || model.run(tvec!(input.clone().into())).map(drop))?);
        } else if let Some((from, to)) = line.split_once(' ') {
            let bytes = std::fs::read(from)?;
            let words = bytes.chunks_exact(4).map(|word| word.try_into().expect("four bytes"));
            input = if is_int {
                Tensor::from_shape(&shape, &words.map(i32::from_le_bytes).collect::<Vec<_>>())?
            } else {
                Tensor::from_shape(&shape, &words.map(f32::from_le_bytes).collect::<Vec<_>>())?
            };
            let outputs = model.run(tvec!(input.clone().into()))?;
            std::fs::write(to, outputs[0].as_bytes())?;
            println!("written");
        }
        std::io::stdout().flush()?;
    }
    Ok(())
}

fn anyhow_of(text: &'static str) -> TractError {
    TractError::msg(text)
}

fn shortest(seconds: f64, mut call: impl FnMut() -> TractResult<()>) -> TractResult<u64> {
    let (mut shortest, mut calls, begin) = (u64::MAX, 0, Instant::now());
    while calls < 3 || begin.elapsed().as_secs_f64() < seconds {
        let start = Instant::now();
        call()?;
        shortest = shortest.min(u64::try_from(start.elapsed().as_nanos()).unwrap_or(u64::MAX));
        calls += 1;
    }
    Ok(shortest)
}
