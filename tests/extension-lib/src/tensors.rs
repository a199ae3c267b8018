//! Tensors as arguments, as results, and kept.

use std::sync::Mutex;

use kernpack::{DataType, Device, Function, Result, Shape, Tensor, TensorView, TensorViewMut, bail, packed_func};

/// The number of elements.
#[packed_func]
pub fn element_count(x: Tensor) -> i64 {
    x.shape().iter().product()
}

/// A tensor with the numbers below a limit.
#[packed_func]
pub fn range_of(limit: i64) -> Result<Tensor> {
    Tensor::from_vec((0..limit).map(|number| number as f32).collect(), &[limit])
}

/// A tensor of some type; what is in it is not defined.
#[packed_func]
pub fn tensor_of(dtype: DataType, shape: Shape) -> Result<Tensor> {
    Tensor::empty(dtype, &shape, Device::CPU)
}

/// Multiplies each element in place.
#[packed_func]
pub fn scale_in_place(mut x: TensorViewMut<f32>, factor: f32) -> Result<()> {
    x.as_slice_mut()?.iter_mut().for_each(|element| *element *= factor);
    Ok(())
}

/// The sum of all elements, whatever their order in memory.
#[packed_func]
pub fn sum_of_elements(x: TensorView<f64>) -> f64 {
    x.iter().sum()
}

/// Calls a function, then adds up all elements.
#[packed_func]
pub fn sum_after(x: TensorView<f64>, f: Function) -> Result<f64> {
    f.call(())?;
    Ok(x.iter().sum())
}

/// The same, with Python's lock held.
#[packed_func(detach = false)]
pub fn sum_after_here(x: TensorView<f64>, f: Function) -> Result<f64> {
    sum_after(x, f)
}

/// Adds up all elements, again and again, as long as they are the same number: gives that number.
#[packed_func]
pub fn same_for(x: TensorView<f64>, seconds: f64) -> Result<f64> {
    let end = std::time::Instant::now() + std::time::Duration::from_secs_f64(seconds);
    let sum: f64 = x.iter().sum();
    while std::time::Instant::now() < end {
        if x.as_slice()?.iter().sum::<f64>() != sum {
            bail!(RuntimeError, "the elements have changed");
        }
    }
    Ok(sum)
}

/// Calls a function, then gives all elements one value.
#[packed_func]
pub fn fill_after(mut x: TensorViewMut<f64>, f: Function, value: f64) -> Result<()> {
    f.call(())?;
    x.as_slice_mut()?.fill(value);
    Ok(())
}

/// A part of a tensor along the first axis, which shares its memory.
#[packed_func]
pub fn part_of(x: Tensor, start: i64, end: i64) -> Result<Tensor> {
    x.slice(start..end)
}

/// A tensor of another shape, which shares the memory.
#[packed_func]
pub fn reshaped(x: Tensor, shape: Shape) -> Result<Tensor> {
    x.reshape(&shape)
}

/// A copy of a tensor.
#[packed_func]
pub fn copy_of(x: Tensor) -> Result<Tensor> {
    x.to(Device::CPU)
}

/// Scales a tensor by calling `scale_in_place` as other libraries call it.
#[packed_func]
pub fn scale_by_name(x: Tensor, factor: f32) -> Result<()> {
    Function::global("extmod.scale_in_place")?.call((x, factor)).map(drop)
}

/// The sum of the elements of the tensor that is kept.
#[packed_func]
pub fn sum_of_kept() -> Result<f64> {
    let kept = KEPT_TENSOR.lock().unwrap_or_else(|poisoned| poisoned.into_inner()).clone();
    match kept {
        Some(tensor) => Ok(tensor.view::<f64>()?.iter().sum()),
        None => bail!(RuntimeError, "no tensor is kept"),
    }
}

static KEPT_TENSOR: Mutex<Option<Tensor>> = Mutex::new(None);

/// Keeps a tensor, or lets go of the one that is kept.
#[packed_func]
pub fn keep_tensor(x: Option<Tensor>) {
    let before = std::mem::replace(&mut *KEPT_TENSOR.lock().unwrap_or_else(|poisoned| poisoned.into_inner()), x);
    drop(before);
}
