//! A host program for 64-bit ARM.
//!
//! - `aarch64-host report LIBRARY`: the results of `libimagekit.so`, as text.
//! - `aarch64-host devices LIBRARY`: the errors of its functions for devices on a machine without
//!   devices.
//! - `aarch64-host exported LIBRARY...`: the calls of libraries that
//!   `tests/tests/export/on_aarch64.rs` exported.

#[path = "../../tests/export/length.rs"]
mod length;
mod report;

use std::path::Path;

use kernpack::{Module, Result, Tensor};

fn main() -> Result<()> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    match arguments.iter().map(String::as_str).collect::<Vec<_>>()[..] {
        ["report", library] => print!("{}", report::report(Path::new(library))?),
        ["devices", library] => devices(&Module::load(library)?)?,
        ["exported", ref libraries @ ..] => libraries.iter().try_for_each(|library| exported(library))?,
        _ => kernpack::bail!(ValueError, "expected report, devices or exported, and libraries; got {arguments:?}"),
    }
    Ok(())
}

fn devices(kit: &Module) -> Result<()> {
    let image = Tensor::zeros::<f32>(&[4, 4])?;
    for result in [
        kit.function("sobel_on_cuda")?.call((&image, &image)),
        kit.function("sobel_on_opencl")?.call((&image,)),
        image.to("opencl:0".parse()?).map(Into::into),
    ] {
        println!("{}", result.map_or_else(|error| error.to_string(), |_| "no error".to_owned()));
    }
    let images: Vec<String> = kit.imports().iter().map(Module::kind).collect();
    println!("images: {}", images.join(" "));
    Ok(())
}

/// Calls `far` of a library, and `length` of its import.
fn exported(library: &str) -> Result<()> {
    let module = Module::load(library)?;
    let far: i64 = module.function("far")?.call_as(())?;
    let length: i64 = match module.find_function_in_tree("length")? {
        Some(length) => length.call_as(())?,
        None => 0,
    };
    println!("{}: far {far}, length {length}", library.rsplit('/').next().unwrap_or_default());
    Ok(())
}
