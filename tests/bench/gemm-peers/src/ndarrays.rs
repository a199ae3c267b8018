//! Operations of the crate `ndarray`, written as its users do: element by element with `Zip`, with
//! rayon if there are several threads.

use ndarray::linalg::general_mat_mul;
use ndarray::parallel::prelude::*;
use ndarray::{ArrayView1, ArrayView2, ArrayViewMut1, ArrayViewMut2, Axis, Zip};

/// `c = a * b`; row-major, `a` is m x k.
///
/// # Safety
/// The pointers are valid for the elements of the matrices; `c` overlaps neither `a` nor `b`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn peer_ndarray(
    a: *const f32,
    b: *const f32,
    c: *mut f32,
    m: usize,
    k: usize,
    n: usize,
    _threads: usize,
) {
    // SAFETY: promised by the caller.
    let (a, b, mut c) = unsafe {
        (
            ArrayView2::from_shape_ptr((m, k), a),
            ArrayView2::from_shape_ptr((k, n), b),
            ArrayViewMut2::from_shape_ptr((m, n), c),
        )
    };
    general_mat_mul(1.0, &a, &b, 0.0, &mut c);
}

/// Writes `of` of each element of `x` to `out`.
///
/// # Safety
/// The pointers are valid for `count` numbers, which do not overlap.
unsafe fn map(x: *const f32, out: *mut f32, count: usize, threads: usize, of: impl Fn(f32) -> f32 + Sync + Send) {
    // SAFETY: promised by the caller.
    let (x, mut out) = unsafe { (ArrayView1::from_shape_ptr(count, x), ArrayViewMut1::from_shape_ptr(count, out)) };
    let zip = Zip::from(&mut out).and(&x);
    if threads > 1 {
        zip.par_for_each(|out, &x| *out = of(x));
    } else {
        zip.for_each(|out, &x| *out = of(x));
    }
}

/// `min(max(2 x + 1, 0), 6) - 3`.
///
/// # Safety
/// The pointers are valid for `count` numbers, which do not overlap.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn peer_ndarray_chain(x: *const f32, out: *mut f32, count: usize, threads: usize) {
    // SAFETY: promised by the caller.
    unsafe { map(x, out, count, threads, |x| (x * 2.0 + 1.0).clamp(0.0, 6.0) - 3.0) }
}

/// `x sigmoid(tanh(x) + 1)`.
///
/// # Safety
/// The pointers are valid for `count` numbers, which do not overlap.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn peer_ndarray_tanh_sigmoid(x: *const f32, out: *mut f32, count: usize, threads: usize) {
    // SAFETY: promised by the caller.
    unsafe { map(x, out, count, threads, |x| x / (1.0 + (-(x.tanh() + 1.0)).exp())) }
}

/// A copy.
///
/// # Safety
/// The pointers are valid for `count` numbers, which do not overlap.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn peer_ndarray_copy(x: *const f32, out: *mut f32, count: usize, threads: usize) {
    // SAFETY: promised by the caller.
    unsafe { map(x, out, count, threads, |x| x) }
}

/// A square matrix.
///
/// # Safety
/// The pointer is valid for `size * size` numbers, which live as long as the result.
unsafe fn square<'a>(x: *const f32, size: usize) -> ArrayView2<'a, f32> {
    // SAFETY: promised by the caller.
    unsafe { ArrayView2::from_shape_ptr((size, size), x) }
}

/// Sums of rows.
///
/// # Safety
/// `x` is valid for `size * size` numbers, `out` for `size`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn peer_ndarray_sum_rows(x: *const f32, out: *mut f32, size: usize, threads: usize) {
    // SAFETY: promised by the caller.
    let (x, mut out) = unsafe { (square(x, size), ArrayViewMut1::from_shape_ptr(size, out)) };
    if threads > 1 {
        out.axis_iter_mut(Axis(0))
            .into_par_iter()
            .zip(x.axis_iter(Axis(0)))
            .for_each(|(mut out, row)| out.fill(row.sum()));
    } else {
        out.assign(&x.sum_axis(Axis(1)));
    }
}

/// Sums of columns.
///
/// # Safety
/// `x` is valid for `size * size` numbers, `out` for `size`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn peer_ndarray_sum_columns(x: *const f32, out: *mut f32, size: usize, _threads: usize) {
    // SAFETY: promised by the caller.
    let (x, mut out) = unsafe { (square(x, size), ArrayViewMut1::from_shape_ptr(size, out)) };
    out.assign(&x.sum_axis(Axis(0)));
}

/// The transpose.
///
/// # Safety
/// The pointers are valid for `size * size` numbers, which do not overlap.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn peer_ndarray_transpose(x: *const f32, out: *mut f32, size: usize, threads: usize) {
    // SAFETY: promised by the caller.
    let (x, mut out) = unsafe { (square(x, size), ArrayViewMut2::from_shape_ptr((size, size), out)) };
    if threads > 1 {
        Zip::from(&mut out).and(x.t()).par_for_each(|out, &x| *out = x);
    } else {
        out.assign(&x.t());
    }
}
