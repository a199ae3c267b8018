//! Builds imagekit for 64-bit ARM, sends it to a board, runs its filters there on a photograph, and
//! compares the pictures with the results of this machine. Without a board, one is emulated with
//! `kernpack-rpc-server` and qemu.
//!
//! The exit status is 1 if a check fails.

mod board;
mod build;
mod filters;
mod options;
mod photo;

use std::fs;
use std::process::ExitCode;
use std::time::{Duration, Instant};

use kernpack::{Bytes, Device, Module, Tensor};

use board::Board;
use filters::Filters;
use options::Options;

/// Any error that ends the program: a missing tool, a file that cannot be read, a function that
/// fails.
type Failure = Box<dyn std::error::Error>;

fn main() -> ExitCode {
    match Options::parse(std::env::args().skip(1)).and_then(|options| run(&options)) {
        Ok(0) => ExitCode::SUCCESS,
        Ok(failed) => {
            eprintln!("{failed} pictures differ");
            ExitCode::FAILURE
        }
        Err(failure) => {
            eprintln!("remote: {failure}");
            ExitCode::FAILURE
        }
    }
}

/// Runs everything, and returns the number of pictures that differ.
fn run(options: &Options) -> Result<usize, Failure> {
    let built = build::build(options)?;
    let (shape, pixels) = photo::read(&options.photo)?;
    let photo = Tensor::from_vec(pixels, &shape)?;
    println!("{}: {} x {} pixels", options.photo.display(), shape[1], shape[0]);

    let board = match &options.board {
        Some(address) => Board::at(address),
        None => Board::under_qemu(&built.server)?,
    };
    let session = kernpack_rpc::connect(board.address()).timeout(Duration::from_secs(300)).open()?;
    let start = Instant::now();
    session.upload(&built.there)?;
    let library = session.load_module(build::LIBRARY)?;
    println!("sent {} and loaded it there in {:.0} ms", built.there.display(), start.elapsed().as_secs_f64() * 1e3);

    let there = Filters::new(&library, session.device("cpu:0")?)?;
    let here = Filters::new(&Module::load(&built.here)?, Device::CPU)?;
    let (remote, local) = (there.run(&photo)?, here.run(&photo)?);
    fs::create_dir_all(&options.pictures)?;
    let mut differ = 0;
    println!("  {:<8} {:>14} {:>12}", "filter", "time there", "difference");
    for (remote, local) in remote.iter().zip(&local) {
        let evaluator = session.time_evaluator(&library, remote.function, there.device())?;
        let timing = evaluator.number(1).repeat(3).run(&remote.arguments[..])?;
        let (picture, expected) = (remote.picture.to(Device::CPU)?, &local.picture);
        let difference = filters::difference(&picture, expected)?;
        let is_wrong = difference.is_nan() || difference > remote.tolerance;
        differ += usize::from(is_wrong);
        let verdict = if is_wrong { "  WRONG" } else { "" };
        println!("  {:<8} {:>11.3} ms {difference:>12.2e}{verdict}", remote.name, timing.median * 1e3);
        // The local library converts the pixels from the board to a file.
        let file: Bytes = here.library().function("to_pgm")?.call_as((&picture,))?;
        fs::write(options.pictures.join(format!("{}.pgm", remote.name)), &*file)?;
    }
    println!("pictures: {}", options.pictures.display());
    Ok(differ)
}
