//! Matrix products and other operations of other crates, for `cargo xtask bench compiler`: C
//! functions that Python calls.

mod ndarrays;

/// `c = a * b` by the crate `gemm`; row-major, `a` is m x k.
///
/// # Safety
/// The pointers are valid for the elements of the matrices; `c` overlaps neither `a` nor `b`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn peer_gemm(
    a: *const f32,
    b: *const f32,
    c: *mut f32,
    m: usize,
    k: usize,
    n: usize,
    threads: usize,
) {
    let parallelism = if threads > 1 { gemm::Parallelism::Rayon(threads) } else { gemm::Parallelism::None };
    let [k_stride, n_stride] = [k as isize, n as isize];
    // SAFETY: promised by the caller.
    unsafe {
        gemm::gemm(
            m,
            n,
            k,
            c,
            1,
            n_stride,
            false,
            a,
            1,
            k_stride,
            b,
            1,
            n_stride,
            0.0,
            1.0,
            false,
            false,
            false,
            parallelism,
        );
    }
}

/// `c = a * b` by the crate `faer`; row-major, `a` is m x k.
///
/// # Safety
/// The pointers are valid for the elements of the matrices; `c` overlaps neither `a` nor `b`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn peer_faer(
    a: *const f32,
    b: *const f32,
    c: *mut f32,
    m: usize,
    k: usize,
    n: usize,
    threads: usize,
) {
    use faer::{Accum, MatMut, MatRef, Par};
    let parallelism = if threads > 1 { Par::rayon(threads) } else { Par::Seq };
    // SAFETY: promised by the caller.
    unsafe {
        let a = MatRef::from_raw_parts(a, m, k, k as isize, 1);
        let b = MatRef::from_raw_parts(b, k, n, n as isize, 1);
        let c = MatMut::from_raw_parts_mut(c, m, n, n as isize, 1);
        faer::linalg::matmul::matmul(c, Accum::Replace, a, b, 1.0f32, parallelism);
    }
}
