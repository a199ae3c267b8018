//! Runs every function of libimagekit.so on a photograph, from Rust, and compares with NumPy and
//! SciPy.
//!
//! - `IMAGEKIT_LIBRARY`: the library, for example `target/release/libimagekit.so`
//! - `KERNPACK_DEMO_DIR`: the folder that prepare.py filled; the pictures go into its folder
//!   `rust/`
//!
//! The exit status is 1 if a check fails.

mod npy;
mod picture;
mod report;

use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::{env, fs};

use kernpack::{Any, Array, Bytes, Device, Error, Function, Map, Module, Tensor};
use report::Report;

/// Any error that ends the program: a file that cannot be read, a function that fails.
type Failure = Box<dyn std::error::Error>;

// The arguments that prepare.py used for its references.
const RADIUS: i64 = 3;
const GAIN: f64 = 1.6;
const CROP: (i64, i64, i64, i64) = (15, 60, 240, 300);

fn main() -> ExitCode {
    match run() {
        Ok(0) => ExitCode::SUCCESS,
        Ok(failed) => {
            eprintln!("{failed} checks FAILED");
            ExitCode::FAILURE
        }
        Err(failure) => {
            eprintln!("imagekit-host: {failure}");
            ExitCode::FAILURE
        }
    }
}

/// Runs everything, and returns the number of failed checks.
fn run() -> Result<usize, Failure> {
    let library = env::var("IMAGEKIT_LIBRARY").map_err(|_| "set IMAGEKIT_LIBRARY to the path of libimagekit.so")?;
    let folder = env::var("KERNPACK_DEMO_DIR").map_err(|_| "set KERNPACK_DEMO_DIR to the folder of prepare.py")?;
    let folder = PathBuf::from(folder);
    let pictures = folder.join("rust");
    fs::create_dir_all(&pictures)?;

    let imagekit = Module::load(&library)?;
    let (height, width, pixels) = picture::read_rgb(&folder.join("photo.png"))?;
    println!("{library} in a Rust program");
    println!("photo of {width} x {height} pixels");
    let photo = Tensor::from_vec(pixels, &[height as i64, width as i64, 3])?;
    let report = &mut Report::new(folder);
    let save = |name: &str, image: &Tensor, brightest: f32| save_tensor(&pictures.join(name), image, brightest);

    // A name with a dot is used unchanged, in the library and among the global functions.
    let to_gray = imagekit.function("imagekit.to_gray")?.typed::<(&Tensor,), Tensor>();
    let gray = report.compare("to_gray", "Rust", "gray", 0.0, || to_gray.call((&photo,)), numbers)?;
    save("gray.png", &gray, 255.0)?;

    let blur = imagekit.function("blur")?;
    let call = || into(&gray, |dst| blur.call((&gray, dst, RADIUS)));
    let blurred = report.compare("blur", "C", "blur", 1e-3, call, numbers)?;
    save("blur.png", &blurred, 255.0)?;

    let sobel = imagekit.function("sobel")?;
    let call = || into(&gray, |dst| sobel.call((&gray, dst)));
    let strength = report.compare("sobel", "LLVM IR", "sobel", 1e-2, call, numbers)?;
    save("sobel.png", &strength, brightest(&strength)?)?;

    let sobel_on_cuda = imagekit.function("sobel_on_cuda")?;
    // The picture is copied to the device, and the result is copied back.
    let call = || {
        let (src, dst) = (gray.to(Device::cuda(0))?, gray.to(Device::cuda(0))?);
        sobel_on_cuda.call((&src, &dst))?;
        dst.to(Device::CPU)
    };
    match call() {
        Ok(_) => drop(report.compare("sobel_on_cuda", "CUDA", "sobel", 1e-2, call, numbers)?),
        Err(error) => report.not_run("sobel_on_cuda", "CUDA", &error),
    }

    let sobel_on_opencl = imagekit.function("sobel_on_opencl")?.typed::<(&Tensor,), Tensor>();
    let call = || sobel_on_opencl.call((&gray,));
    match call() {
        Ok(_) => drop(report.compare("sobel_on_opencl", "OpenCL", "sobel", 1e-2, call, numbers)?),
        Err(error) => report.not_run("sobel_on_opencl", "OpenCL", &error),
    }

    let edges = imagekit.function("edges")?.typed::<(&Tensor, i64), Tensor>();
    let edges = report.compare("edges", "Rust+C+IR", "edges", 1e-2, || edges.call((&photo, RADIUS)), numbers)?;
    save("edges.png", &edges, brightest(&edges)?)?;

    check_histogram(&imagekit, &gray, report, &pictures)?;
    check_functions(&imagekit, &gray, report, &pictures)?;
    check_dictionary_and_bytes(&imagekit, &gray, report)?;
    check_errors(&imagekit, &photo, &gray, report)?;

    let art: String = imagekit.function("ascii_art")?.call_as((&gray, 72))?;
    println!("\nascii_art, a Rust function that returns a string:\n{art}");
    println!("pictures: {}", pictures.display());
    Ok(report.failed())
}

/// An object with fields, and functions that take it. This program has no `Histogram` type: it
/// holds a value of any type and reads the fields by name.
fn check_histogram(imagekit: &Module, gray: &Tensor, report: &mut Report, pictures: &Path) -> Result<(), Failure> {
    let histogram = imagekit.function("histogram")?;
    let bins = |histogram: &Any| histogram.field("bins")?.to::<Array<i64>>();
    let histogram = report.compare(
        "histogram",
        "Rust",
        "histogram",
        0.0,
        || histogram.call((gray,)),
        |histogram| Ok(bins(histogram)?.iter().map(|count| count as f64).collect()),
    )?;
    let fields = ["total", "mean", "min", "max"];
    let read = || fields.iter().map(|name| histogram.field(name)?.to::<f64>()).collect::<kernpack::Result<Vec<f64>>>();
    report.compare("  its fields", "Rust", "statistics", 1e-9, read, |values| Ok(values.clone()))?;

    let contrast = imagekit.function("contrast")?.typed::<(&Any,), f64>();
    report.compare("contrast", "Rust", "contrast", 1e-12, || contrast.call((&histogram,)), |value| Ok(vec![*value]))?;

    let otsu = imagekit.function("otsu_threshold")?.typed::<(&Any,), i64>();
    let threshold = report.compare(
        "otsu_threshold",
        "Rust",
        "otsu_threshold",
        0.0,
        || otsu.call((&histogram,)),
        |level| Ok(vec![*level as f64]),
    )?;

    let counts: Vec<i64> = bins(&histogram)?.iter().collect();
    picture::write_gray(&pictures.join("histogram.png"), 512, &bar_chart(&counts, threshold), 255.0)?;
    let black_and_white: Vec<f32> =
        gray.view::<f32>()?.iter().map(|value| if value > threshold as f32 { 255.0 } else { 0.0 }).collect();
    picture::write_gray(&pictures.join("threshold.png"), gray.shape()[1] as usize, &black_and_white, 255.0)
}

/// Functions as arguments and results, and a rectangle.
fn check_functions(imagekit: &Module, gray: &Tensor, report: &mut Report, pictures: &Path) -> Result<(), Failure> {
    let brighten: Function = imagekit.function("make_scaler")?.call_as((GAIN,))?;
    let scaled =
        report.compare("make_scaler", "Rust", "scaled", 1e-4, || brighten.call_as::<Tensor>((gray,)), numbers)?;
    save_tensor(&pictures.join("scaled.png"), &scaled, 255.0)?;

    let reverse = Function::from_fn(|row: Tensor, _index: i64| -> kernpack::Result<Tensor> {
        let mut pixels = row.view::<f32>()?.to_vec();
        pixels.reverse();
        Tensor::from_vec(pixels, row.shape())
    });
    let map_rows = imagekit.function("map_rows")?.typed::<(&Tensor, &Function), Tensor>();
    let mirrored = report.compare("map_rows", "Rust", "mirrored", 0.0, || map_rows.call((gray, &reverse)), numbers)?;
    save_tensor(&pictures.join("mirrored.png"), &mirrored, 255.0)?;

    let crop = imagekit.function("crop")?.typed::<(&Tensor, i64, i64, i64, i64), Tensor>();
    let (top, left, height, width) = CROP;
    let cropped =
        report.compare("crop", "Rust", "crop", 0.0, || crop.call((gray, top, left, height, width)), numbers)?;
    save_tensor(&pictures.join("crop.png"), &cropped, 255.0)
}

fn check_dictionary_and_bytes(imagekit: &Module, gray: &Tensor, report: &mut Report) -> Result<(), Failure> {
    let (height, width) = (gray.shape()[0], gray.shape()[1]);
    let facts: Map<String, Any> = imagekit.function("describe")?.call_as((gray,))?;
    let fact = |name: &str| facts.get(name).unwrap_or_default();
    let good = fact("height").to::<i64>()? == height
        && fact("width").to::<i64>()? == width
        && fact("dtype").to::<String>()? == "float32"
        && fact("contiguous").to::<bool>()?;
    report.verdict("describe", "Rust", good, &format!("{facts:?}"), None);

    let file: Bytes = imagekit.function("to_pgm")?.call_as((gray,))?;
    let mut expected = format!("P5\n{width} {height}\n255\n").into_bytes();
    expected.extend(gray.view::<f32>()?.iter().map(|value| (value + 0.5).floor() as u8));
    report.verdict("to_pgm", "Rust", *file == *expected, &format!("{} bytes, as expected", file.len()), None);
    Ok(())
}

fn check_errors(imagekit: &Module, photo: &Tensor, gray: &Tensor, report: &mut Report) -> Result<(), Failure> {
    println!("  errors, as they arrive:");
    let crop = imagekit.function("crop")?;
    report.expect_error("crop", "Rust", "ValueError", "top 400 + height 100", || crop.call((gray, 400, 0, 100, 10)));

    let fail_at_row_7 =
        Function::from_fn(
            |row: Tensor, index: i64| {
                if index == 7 { Err(Error::value_error("row 7 is not for sale")) } else { Ok(row) }
            },
        );
    let map_rows = imagekit.function("map_rows")?;
    report.expect_error("map_rows", "Rust", "ValueError", "row 7", || map_rows.call((gray, &fail_at_row_7)));

    let blur = imagekit.function("blur")?;
    report.expect_error("blur", "C", "TypeError", "argument 'src'", || blur.call((photo, gray, 1)));

    let sobel = imagekit.function("sobel")?;
    report.expect_error("sobel", "LLVM IR", "TypeError", "expected 2 arguments", || sobel.call((gray,)));

    let to_gray = imagekit.function("imagekit.to_gray")?;
    report.expect_error("to_gray", "Rust", "TypeError", "argument 'rgb'", || to_gray.call(("photo",)));
    report.expect_error("blurr", "", "KeyError", "did you mean 'blur'?", || imagekit.function("blurr"));
    Ok(())
}

/// Creates a tensor like `src` and lets `kernel` write into it.
fn into(src: &Tensor, kernel: impl FnOnce(&Tensor) -> kernpack::Result<Any>) -> kernpack::Result<Tensor> {
    let dst = Tensor::zeros::<f32>(src.shape())?;
    kernel(&dst)?;
    Ok(dst)
}

fn numbers(image: &Tensor) -> kernpack::Result<Vec<f64>> {
    Ok(image.view::<f32>()?.iter().map(f64::from).collect())
}

fn brightest(image: &Tensor) -> kernpack::Result<f32> {
    Ok(image.view::<f32>()?.iter().fold(0.0, f32::max))
}

fn save_tensor(path: &Path, image: &Tensor, brightest: f32) -> Result<(), Failure> {
    picture::write_gray(path, image.shape()[1] as usize, &image.view::<f32>()?.to_vec(), brightest)
}

/// The histogram as a picture of 512 x 200: one bar of two pixels per level, bars up to the
/// threshold darker.
fn bar_chart(bins: &[i64], threshold: i64) -> Vec<f32> {
    let highest = bins.iter().copied().max().unwrap_or(1).max(1);
    let mut chart = vec![255.0; 512 * 200];
    for (level, count) in bins.iter().enumerate() {
        let shade = if level as i64 <= threshold { 40.0 } else { 150.0 };
        for y in 200 - (190 * count / highest) as usize..200 {
            chart[y * 512 + 2 * level..y * 512 + 2 * level + 2].fill(shade);
        }
    }
    chart
}
