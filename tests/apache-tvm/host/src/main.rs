//! Runs the libraries that `tests/apache-tvm/export.py` wrote into a folder:
//! `kernpack-apache-tvm-host FOLDER FILE...`. `tests/tests/stock/apache_tvm.rs` starts it.

use std::path::Path;

use kernpack::device::device_type;
use kernpack::module::ModuleProperties;
use kernpack::sys::provider::{Origin, origin};
use kernpack::{Device, Error, Function, Module, Result, Tensor, TensorView, TensorViewMut, bail, device, packed_func};
use kernpack_apache_tvm_host::{check, check_on, check_process, check_wrong_argument};

/// The function that the exported function `call_back` calls.
#[packed_func(name = "apache_tvm_test.fill")]
fn fill(from: TensorView<f32>, mut to: TensorViewMut<f32>, number: i64) -> Result<()> {
    let from = from.as_slice()?;
    for (to, from) in to.as_slice_mut()?.iter_mut().zip(from) {
        *to = from + number as f32;
    }
    Ok(())
}

fn main() -> Result<()> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let Some((folder, files)) = arguments.split_first() else { bail!(ValueError, "no folder was given") };
    for file in files {
        let path = Path::new(folder).join(file);
        run(file, &path).map_err(|error| Error::new(error.kind(), format!("{file}: {}", error.message())))?;
        println!("{file}: all checks passed");
    }
    assert_eq!(origin(), Origin::Embedded);
    check_process()
}

fn run(file: &str, path: &Path) -> Result<()> {
    let name = file.strip_suffix(".so").unwrap_or(file);
    match name {
        "scale" | "c_target" => {
            let module = Module::load(path)?;
            check(&module.function("scale")?, |a, i| a[i] * 2.0 + 1.0)?;
            // The entry point of a library with one function.
            check(&module.function("main")?, |a, i| a[i] * 2.0 + 1.0)?;
            check_wrong_argument(&module, "scale")
        }
        "parallel_square" => check(&Module::load(path)?.function(name)?, |a, i| a[i] * a[i]),
        "call_back" => check(&Module::load(path)?.function(name)?, |a, i| a[i] + 7.0),
        "workspace" => check(&Module::load(path)?.function(name)?, |a, i| a[a.len() - 1 - i]),
        "virtual_machine" => {
            let expected = format!(
                "cannot load {}: it carries a module of kind 'relax.VMExecutable', but no loader of that kind is registered; it is a \
                 program for the relax virtual machine; Apache TVM's libtvm_runtime.so provides the loader: preload that (LD_PRELOAD)",
                path.display()
            );
            is_not_loaded(Module::load(path), "RuntimeError", &expected)
        }
        _ => image(name, path),
    }
}

/// Restores and saves a library with an image for a GPU, which must not change. Runs it if there is
/// such a device.
fn image(kind: &str, path: &Path) -> Result<()> {
    let module = Module::load(path)?;
    let imports = module.imports();
    let kinds: Vec<String> = imports.iter().map(Module::kind).collect();
    if kinds != [kind] {
        bail!(RuntimeError, "it imports modules of the kinds {kinds:?}");
    }
    let image = &imports[0];
    let runs = if matches!(kind, "cuda" | "opencl") { ModuleProperties::RUNNABLE } else { ModuleProperties::default() };
    if image.properties() != (ModuleProperties::BINARY_SERIALIZABLE | runs) {
        bail!(RuntimeError, "the properties of its image are {:?}", image.properties());
    }
    if *image.save_to_bytes()? != std::fs::read(path.with_extension("image"))? {
        bail!(RuntimeError, "its image is saved as other bytes");
    }
    if !module.implements_function_in_tree("scale_kernel")? {
        bail!(RuntimeError, "the kernel is not found");
    }
    let device = match kind {
        "cuda" => Device::new(device_type::CUDA, 0),
        "opencl" => Device::new(device_type::OPENCL, 0),
        _ => return is_refused(image.function("scale_kernel")),
    };
    if !device::exists(device) {
        println!("no device {device}: {kind} is loaded, but does not run");
        return Ok(());
    }
    check_on(device, &module.function("scale")?, |a, i| a[i] * 2.0 + 1.0)?;
    println!("it runs on {device}");
    Ok(())
}

/// Checks that the kernel of an image without a device cannot be called, and that the error names
/// the requirement.
fn is_refused(kernel: Result<Function>) -> Result<()> {
    let vector = Tensor::zeros::<f32>(&[1000])?;
    match kernel.and_then(|kernel| kernel.call((&vector, &vector, 20, 50))) {
        Ok(_) => bail!(RuntimeError, "its kernel runs"),
        Err(error) if error.message().contains("load the library with") => Ok(()),
        Err(error) => bail!(RuntimeError, "another error than expected: {error}"),
    }
}

/// Checks that loading fails with this error.
fn is_not_loaded(result: Result<Module>, kind: &str, message: &str) -> Result<()> {
    match result {
        Ok(_) => bail!(RuntimeError, "it is loaded"),
        Err(error) if (error.kind(), error.message()) == (kind, message) => Ok(()),
        Err(error) => bail!(RuntimeError, "another error than expected: {error}"),
    }
}
