//! `#[packed_func(parallel)]`: functions for one element or row, called with whole tensors as other
//! languages call them.

use kernpack::{Any, Device, Element, Error, Function, Result, Tensor, TensorView, packed_func};
use std::sync::atomic::{AtomicUsize, Ordering};

/// Adds a multiple of one vector to another.
#[packed_func(name = "parallel.saxpy", parallel)]
fn saxpy(x: &f32, y: &mut f32, a: f32) {
    *y += a * x;
}

#[packed_func(name = "parallel.add", parallel)]
fn add(x: &i64, y: &i64) -> i64 {
    x + y
}

#[packed_func(name = "parallel.root", parallel)]
fn root(x: &f64) -> Result<f64> {
    if *x < 0.0 {
        return Err(Error::value_error(format!("{x} has no square root")));
    }
    Ok(x.sqrt())
}

/// The softmax of each row.
#[packed_func(name = "parallel.softmax", parallel, grain = 1)]
fn softmax(x: &[f32], out: &mut [f32]) -> Result<()> {
    kernpack::ensure!(x.len() == out.len(), ValueError, "rows of {} and of {}", x.len(), out.len());
    let most = x.iter().copied().fold(f32::NEG_INFINITY, f32::max);
    let mut sum = 0.0;
    for (out, x) in out.iter_mut().zip(x) {
        *out = (x - most).exp();
        sum += *out;
    }
    out.iter_mut().for_each(|out| *out /= sum);
    Ok(())
}

#[packed_func(name = "parallel.dot", parallel)]
fn dot(x: &[f32], w: &[f32]) -> f32 {
    x.iter().zip(w).map(|(x, w)| x * w).sum()
}

#[packed_func(name = "parallel.look_up", parallel)]
fn look_up(index: &u8, out: &mut u8, table: &TensorView<u8>, mode: &str, limit: Option<i64>) -> Result<()> {
    let limit = limit.unwrap_or(i64::MAX);
    *out = match (mode, table.get(&[usize::from(*index)])) {
        (_, Some(value)) if i64::from(value) <= limit => value,
        ("clip", _) => u8::MAX,
        _ => kernpack::bail!(IndexError, "{index} is in no table of {} entries", table.len()),
    };
    Ok(())
}

/// The line of the assertion.
const FRAGILE: u32 = line!() + 3;
#[packed_func(name = "parallel.fragile", parallel, grain = 8)]
fn fragile(x: &mut i32) {
    assert!(*x != 77, "77 is not a number that I like");
    *x = -*x;
}

fn function(name: &str) -> Function {
    Function::global(name).unwrap()
}

fn tensor<T: Element>(values: Vec<T>, shape: &[i64]) -> Tensor {
    Tensor::from_vec(values, shape).unwrap()
}

fn values<T: Element>(tensor: &Tensor) -> Vec<T> {
    tensor.view::<T>().unwrap().to_vec()
}

/// A tensor with these strides over the memory of another.
fn with_strides(of: &Tensor, shape: &[i64], strides: &[i64]) -> Any {
    let reinterpret = Function::from_fn(|tensor: Tensor| tensor);
    let whole = of.dl_tensor();
    let (mut shape, mut strides) = (shape.to_vec(), strides.to_vec());
    let mut raw = kernpack::sys::abi::DLTensor { ..*whole };
    (raw.ndim, raw.shape, raw.strides) = (shape.len() as i32, shape.as_mut_ptr(), strides.as_mut_ptr());
    let mut object = core::ptr::null_mut();
    // SAFETY: the memory is that of the tensor, which the new one keeps alive.
    unsafe {
        let create = kernpack::sys::provider::api().tensor_create_unsafe_view;
        let any = Any::from(of.clone()).into_raw();
        assert_eq!(create(any.payload.v_obj, &raw const raw, &raw mut object), 0);
        drop(Any::from_raw(any));
        let view = kernpack::sys::abi::TVMFFIAny::pointer(kernpack::sys::abi::type_index::TENSOR, object.cast());
        reinterpret.call(&[Any::from_raw(view)][..]).unwrap()
    }
}

#[test]
fn the_function_itself_stays_as_it_is() {
    let mut y = 1.0;
    saxpy(&2.0, &mut y, 3.0);
    assert_eq!((y, add(&1, &2), dot(&[1.0, 2.0], &[3.0, 4.0])), (7.0, 3, 11.0));
}

#[test]
fn elements() {
    for len in [0, 1, 5, 1000, 300_000] {
        let x = tensor((0..len).map(|i| i as f32).collect(), &[len]);
        let y = tensor(vec![1.0f32; len as usize], &[len]);
        assert!(function("parallel.saxpy").call((&x, &y, 2)).unwrap().is_none());
        assert_eq!(values::<f32>(&y), (0..len).map(|i| 1.0 + 2.0 * i as f32).collect::<Vec<_>>());
    }
    // Any shape, also of rank 0.
    let (x, y) = (tensor(vec![3.0f32], &[]), tensor(vec![1.0f32], &[]));
    function("parallel.saxpy").call((&x, &y, 2.0)).unwrap();
    assert_eq!(values::<f32>(&y), [7.0]);
}

#[test]
fn results_are_a_new_tensor_of_the_common_shape() {
    let column = tensor(vec![10i64, 20, 30], &[3, 1]);
    let row = tensor(vec![1i64, 2], &[2]);
    let sums: Tensor = function("parallel.add").call_as((&column, &row)).unwrap();
    assert_eq!((sums.shape(), values::<i64>(&sums)), (&[3, 2][..], vec![11, 12, 21, 22, 31, 32]));
    let same: Tensor = function("parallel.add").call_as((&row, &row)).unwrap();
    assert_eq!(values::<i64>(&same), [2, 4], "what is only read may be the same tensor");
    let none: Tensor = function("parallel.add").call_as((&tensor::<i64>(vec![], &[0, 2]), &row)).unwrap();
    assert_eq!(none.shape(), [0, 2]);
}

#[test]
fn rows() {
    let x = tensor((0..6000).map(|i| (i % 7) as f32).collect(), &[2, 1000, 3]);
    let out = Tensor::zeros::<f32>(&[2, 1000, 3]).unwrap();
    function("parallel.softmax").call((&x, &out)).unwrap();
    let mut expected = vec![0.0; 6000];
    for (x, out) in values::<f32>(&x).chunks(3).zip(expected.chunks_mut(3)) {
        softmax(x, out).unwrap();
    }
    assert_eq!(values::<f32>(&out), expected);
    // One row of weights shared by all, and a result for each row.
    let weights = tensor(vec![1.0f32, 10.0, 100.0], &[3]);
    let dots: Tensor = function("parallel.dot").call_as((&tensor(vec![1.0f32; 6], &[2, 3]), &weights)).unwrap();
    assert_eq!((dots.shape(), values::<f32>(&dots)), (&[2][..], vec![111.0, 111.0]));
    let one: Tensor = function("parallel.dot").call_as((&weights, &weights)).unwrap();
    assert_eq!((one.shape(), values::<f32>(&one)), (&[][..], vec![10101.0]));
}

#[test]
fn plain_arguments_are_the_same_for_all_calls() {
    let indices = tensor(vec![2u8, 0, 1, 9], &[4]);
    let table = tensor(vec![5u8, 6, 7], &[3]);
    let out = Tensor::zeros::<u8>(&[4]).unwrap();
    let look_up = function("parallel.look_up");
    look_up.call((&indices, &out, &table, "clip", 6)).unwrap();
    assert_eq!(values::<u8>(&out), [255, 5, 6, 255]);
    let error = look_up.call((&indices, &out, &table, "raise", Option::<i64>::None)).unwrap_err();
    assert_eq!(error.to_string(), "IndexError: 9 is in no table of 3 entries");
    assert!(error.backtrace().contains("in parallel.look_up"), "{}", error.backtrace());
}

#[test]
fn strides() {
    let base = tensor((0..12).map(f64::from).collect(), &[3, 4]);
    let transposed = with_strides(&base, &[4, 3], &[1, 4]);
    let squares: Tensor = function("parallel.root").call_as((&transposed,)).unwrap();
    let expected: Vec<f64> = (0..12).map(|i| f64::from(4 * (i % 3) + i / 3).sqrt()).collect();
    assert_eq!((squares.shape(), values::<f64>(&squares)), (&[4, 3][..], expected));
    // Writes through strides: every second element, from the last to the first.
    let numbers = tensor((1..=100).collect::<Vec<i32>>(), &[100]);
    let odd = with_strides(&numbers, &[50], &[2]);
    function("parallel.fragile").call((&odd,)).unwrap_err();
    let even = with_strides(&tensor((0..4).collect::<Vec<i32>>(), &[4]), &[2], &[2]);
    function("parallel.fragile").call((&even,)).unwrap();
    let even: Tensor = even.to().unwrap();
    assert_eq!(values::<i32>(&even), [0, -2]);
}

/// The messages for wrong arguments.
#[test]
fn messages() {
    let x = tensor(vec![1.0f32, 2.0, 3.0], &[3]);
    let four = tensor(vec![1.0f32; 4], &[4]);
    let wide = Tensor::zeros::<f32>(&[2, 3]).unwrap();
    let doubles = tensor(vec![1.0f64; 3], &[3]);
    let number = tensor(vec![1.0f32], &[]);
    let base = tensor(vec![1.0f32; 6], &[2, 3]);
    let transposed = with_strides(&base, &[3, 2], &[1, 3]);
    let fanned = with_strides(&base, &[5, 3], &[0, 1]);
    let saxpy = "saxpy(x: Tensor, y: Tensor, a: float)";
    let softmax = "softmax(x: Tensor, out: Tensor)";
    for (result, message) in [
        (
            function("parallel.saxpy").call((&x, &four, 1)),
            format!(
                "ValueError: parallel.{saxpy}: argument 'x' of shape [3] and argument 'y' of shape [4] do not fit together: 3 and 4 along axis -1"
            ),
        ),
        (
            function("parallel.saxpy").call((&wide, &x, 1)),
            format!(
                "ValueError: parallel.{saxpy}: argument 'y' of shape [3] is written to, so it cannot be broadcast to the common shape [2, 3] of the operands"
            ),
        ),
        (
            function("parallel.saxpy").call((&x, &doubles, 1)),
            format!("TypeError: parallel.{saxpy}: argument 'y': expected a tensor of float32, got one of float64"),
        ),
        (
            function("parallel.saxpy").call((&x, 2.0, 1)),
            format!("TypeError: parallel.{saxpy}: argument 'y': expected Tensor, got float"),
        ),
        (
            function("parallel.saxpy").call((&x, &x, 1)),
            format!(
                "ValueError: parallel.{saxpy}: arguments 'x' and 'y' share memory, but the function writes to 'y'; pass a copy"
            ),
        ),
        (
            function("parallel.saxpy").call((&x, &x)),
            format!("TypeError: parallel.{saxpy}: expected 3 arguments, got 2"),
        ),
        (
            function("parallel.saxpy").call((&wide, &fanned, 1)),
            format!(
                "ValueError: parallel.{saxpy}: argument 'x' of shape [2, 3] and argument 'y' of shape [5, 3] do not fit together: 2 and 5 along axis -2"
            ),
        ),
        (
            function("parallel.saxpy").call((&x, &fanned, 1)),
            format!(
                "ValueError: parallel.{saxpy}: elements of argument 'y' share memory with each other, so they cannot be written to at the same time: shape [5, 3], strides [0, 1] (in elements); pass a copy"
            ),
        ),
        (
            function("parallel.softmax").call((&transposed, &Tensor::zeros::<f32>(&[3, 2]).unwrap())),
            format!(
                "ValueError: parallel.{softmax}: the rows of argument 'x' are not contiguous: shape [3, 2], strides [1, 3] (in elements); pass a contiguous copy, for example numpy.ascontiguousarray(x)"
            ),
        ),
        (
            function("parallel.softmax").call((&number, &x)),
            format!(
                "ValueError: parallel.{softmax}: argument 'x' has no dimensions, so it has no rows; give it the shape of one row"
            ),
        ),
        (function("parallel.softmax").call((&x, &four)), "ValueError: rows of 3 and of 4".to_owned()),
        (
            function("parallel.softmax").call((&wide, &Tensor::zeros::<f32>(&[4, 3]).unwrap())),
            format!(
                "ValueError: parallel.{softmax}: the rows of argument 'x' of shape [2, 3] and the rows of argument 'out' of shape [4, 3] do not fit together: 2 and 4 along axis -1"
            ),
        ),
        (
            function("parallel.root").call((&tensor(vec![4.0, -1.0], &[2]),)),
            "ValueError: -1 has no square root".to_owned(),
        ),
    ] {
        assert_eq!(result.unwrap_err().to_string(), message);
    }
}

#[test]
fn other_devices() {
    // A tensor that claims to be on a GPU; its memory is not read.
    let x = tensor(vec![1.0f64], &[1]);
    let mut raw = kernpack::sys::abi::DLTensor { ..*x.dl_tensor() };
    raw.device = Device::new(kernpack::device::device_type::CUDA, 1).as_raw();
    let raw =
        kernpack::sys::abi::TVMFFIAny::pointer(kernpack::sys::abi::type_index::DL_TENSOR_PTR, (&raw mut raw).cast());
    // SAFETY: the tensor outlives the call.
    let view = unsafe { kernpack::AnyView::from_raw(raw) };
    let error = function("parallel.root").call(&[view][..]).unwrap_err();
    assert_eq!(
        error.to_string(),
        "ValueError: parallel.root(x: Tensor): argument 'x': the tensor is on cuda:1, but the function reads it on the CPU; copy it first, \
         with .to(Device::CPU)"
    );
}

#[test]
fn a_panic_is_an_error_that_says_where() {
    for _ in 0..20 {
        let x = tensor((0..1000).collect::<Vec<i32>>(), &[1000]);
        let error = function("parallel.fragile").call((&x,)).unwrap_err();
        assert_eq!(error.kind(), "InternalError");
        assert_eq!(error.message(), format!("panicked at {}:{}: 77 is not a number that I like", file!(), FRAGILE));
    }
    let fine = tensor((100..1100).collect::<Vec<i32>>(), &[1000]);
    function("parallel.fragile").call((&fine,)).unwrap();
    assert_eq!(values::<i32>(&fine), (-1099..=-100).rev().collect::<Vec<_>>());
}

#[test]
fn a_kernel_in_a_kernel_and_many_callers() {
    static CALLS: AtomicUsize = AtomicUsize::new(0);
    #[packed_func(name = "parallel.outer", parallel, grain = 1)]
    fn outer(x: &i64) -> Result<i64> {
        CALLS.fetch_add(1, Ordering::Relaxed);
        assert_eq!(kernpack::parallel::threads(), 1);
        let row = Tensor::from_vec(vec![*x; 100], &[100])?;
        let sums: Tensor = Function::global("parallel.add")?.call_as((&row, &row))?;
        let view = sums.view::<i64>()?;
        kernpack::parallel::zip(&view).reduce(|| 0, |sum, x| *sum += x, |a, b| a + b)
    }
    std::thread::scope(|scope| {
        for caller in 0..4 {
            scope.spawn(move || {
                let x = tensor((0..50).map(|x| x * caller).collect::<Vec<i64>>(), &[50]);
                let sums: Tensor = function("parallel.outer").call_as((&x,)).unwrap();
                assert_eq!(values::<i64>(&sums), (0..50).map(|x| x * caller * 200).collect::<Vec<_>>());
            });
        }
    });
    assert_eq!(CALLS.load(Ordering::Relaxed), 200);
}
