//! Models by the crate `tract-onnx`, for `cargo xtask bench models`: C functions that Python calls. A model has one input and one output.

use std::ffi::{CStr, c_char};
use std::slice;

use tract_onnx::prelude::*;

/// A model that is optimized for one shape of its input.
pub struct Peer {
    plan: Arc<TypedRunnableModel>,
    shape: Vec<usize>,
    is_int: bool,
}

fn load(path: &str, shape: Vec<usize>, is_int: bool) -> TractResult<Peer> {
    let datum = if is_int { i32::datum_type() } else { f32::datum_type() };
    let model = onnx().model_for_path(path)?.with_input_fact(0, InferenceFact::dt_shape(datum, &shape))?;
    let plan = model.into_optimized()?.into_runnable()?;
    Ok(Peer { plan, shape, is_int })
}

impl Peer {
    /// Runs the model on the numbers at `input`.
    ///
    /// # Safety
    /// `input` is to as many numbers as the input has, of its type.
    unsafe fn run(&self, input: *const u8) -> TractResult<TVec<TValue>> {
        let count: usize = self.shape.iter().product();
        let tensor = if self.is_int {
            // SAFETY: as the caller says.
            Tensor::from_shape(&self.shape, unsafe { slice::from_raw_parts(input.cast::<i32>(), count) })?
        } else {
            // SAFETY: as the caller says.
            Tensor::from_shape(&self.shape, unsafe { slice::from_raw_parts(input.cast::<f32>(), count) })?
        };
        self.plan.run(tvec!(tensor.into()))
    }
}

/// Reads the model at `path` for an input of this shape, of `int32` or `float32`; null, with a line on standard error, if tract does not take it.
///
/// # Safety
/// `path` is a C string, `shape` is to `rank` numbers.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn tract_load(
    path: *const c_char,
    shape: *const usize,
    rank: usize,
    is_int: bool,
) -> Option<Box<Peer>> {
    // SAFETY: as the caller says.
    let (path, shape) = unsafe { (CStr::from_ptr(path), slice::from_raw_parts(shape, rank)) };
    load(&path.to_string_lossy(), shape.to_vec(), is_int)
        .map_err(|error| eprintln!("tract does not take {}: {error:#}", path.to_string_lossy()))
        .ok()
}

/// Runs a model and copies its first output, which has to be `count` floats. 0: done.
///
/// # Safety
/// `peer` is from [`tract_load`], `input` is to as many numbers as the input has, `output` is to `count` floats.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn tract_run(peer: &Peer, input: *const u8, output: *mut f32, count: usize) -> i32 {
    // SAFETY: as the caller says.
    let outcome = unsafe { peer.run(input) };
    let values = outcome.and_then(|values| Ok(values[0].cast_to::<f32>()?.into_owned()));
    match values.as_ref().map(|tensor| tensor.as_slice::<f32>()) {
        Ok(Ok(values)) if values.len() == count => {
            // SAFETY: as the caller says; tract's memory is its own.
            unsafe { output.copy_from_nonoverlapping(values.as_ptr(), count) };
            0
        }
        Ok(Ok(values)) => {
            eprintln!("tract gives {} numbers, not {count}", values.len());
            1
        }
        Ok(Err(error)) => {
            eprintln!("tract: {error:#}");
            1
        }
        Err(error) => {
            eprintln!("tract: {error:#}");
            1
        }
    }
}
