use std::sync::Mutex;
use std::thread;

use super::*;
use crate::{Error, Tensor, TensorView};

fn tensor<T: crate::Element>(values: impl IntoIterator<Item = T>, shape: &[i64]) -> Tensor {
    Tensor::from_vec(values.into_iter().collect(), shape).unwrap()
}

/// A view of a tensor's memory with different strides.
fn strided(of: &Tensor, shape: &mut [i64], strides: &mut [i64], first: usize) -> crate::abi::DLTensor {
    let mut raw = crate::abi::DLTensor { ..*of.dl_tensor() };
    raw.shape = shape.as_mut_ptr();
    raw.strides = strides.as_mut_ptr();
    raw.ndim = shape.len() as i32;
    raw.byte_offset = (first * of.dtype().size()) as u64;
    raw
}

fn view<T: crate::Element>(raw: &crate::abi::DLTensor) -> TensorView<'_, T> {
    use crate::abi::{TVMFFIAny, type_index};
    let any = TVMFFIAny::pointer(type_index::DL_TENSOR_PTR, core::ptr::from_ref(raw).cast_mut().cast());
    // SAFETY: the tensor outlives the view; leaking the small value makes the lifetimes simple.
    let value = Box::leak(Box::new(unsafe { crate::AnyView::from_raw(any) }));
    value.get::<TensorView<'_, T>>().unwrap()
}

#[test]
fn slices_vectors_and_arrays() {
    let x = [1i32, 2, 3];
    let y = vec![10i64, 20, 30];
    let mut out = [0i64; 3];
    zip((&x, y.as_slice(), &mut out)).for_each(|(x, y, out)| *out = y + i64::from(*x)).unwrap();
    assert_eq!(out, [11, 22, 33]);
    let mut names = vec![String::from("a"), String::from("b")];
    zip(&mut names).grain(1).for_each(|name| name.push('!')).unwrap();
    assert_eq!(names, ["a!", "b!"]);
    let nothing: [u8; 0] = [];
    zip(&nothing).for_each(|_| -> () { unreachable!() }).unwrap();
    let mut units = [(); 1000];
    let count = core::sync::atomic::AtomicUsize::new(0);
    zip(&mut units)
        .grain(3)
        .for_each(|()| {
            count.fetch_add(1, core::sync::atomic::Ordering::Relaxed);
        })
        .unwrap();
    assert_eq!(count.into_inner(), 1000);
}

#[test]
fn all_lengths_grains_and_threads() {
    for len in [1, 2, 63, 64, 65, 1000, 4096, 100_003] {
        for grain in [None, Some(1), Some(7), Some(1 << 20)] {
            for threads in [1, 2, 5, usize::MAX] {
                let x: Vec<u32> = (0..len).collect();
                let mut y = vec![0u32; len as usize];
                let mut loops = zip((&x, &mut y)).threads(threads);
                if let Some(grain) = grain {
                    loops = loops.grain(grain);
                }
                loops.for_each(|(x, y)| *y += x + 1).unwrap();
                assert!(y.iter().zip(1..).all(|(y, expected)| *y == expected), "{len} {grain:?} {threads}");
            }
        }
    }
}

#[test]
fn strides_and_broadcasting() {
    // A transposed tensor, a reversed one, a column, a number: all broadcast to the shape of the
    // output.
    let base = tensor(0..12i32, &[3, 4]);
    let transposed = strided(&base, &mut [4, 3], &mut [1, 4], 0);
    let reversed = strided(&base, &mut [3], &mut [-1], 2);
    let column = tensor([100, 200, 300, 400], &[4, 1]);
    let number = tensor([1000], &[]);
    let mut out = Tensor::zeros::<i32>(&[4, 3]).unwrap();
    for grain in [1, 2, 5, 100] {
        let mut out_view = out.view_mut::<i32>().unwrap();
        zip((
            &view::<i32>(&transposed),
            &view(&reversed),
            &column.view().unwrap(),
            &number.view().unwrap(),
            &mut out_view,
        ))
        .grain(grain)
        .for_each(|(a, b, c, d, out): (&i32, &i32, &i32, &i32, &mut i32)| *out = a + 10 * b + c + d)
        .unwrap();
        let expected: Vec<i32> =
            (0..4).flat_map(|i| (0..3).map(move |j| (4 * j + i) + 10 * (2 - j) + 100 * (i + 1) + 1000)).collect();
        assert_eq!(out_view.to_vec(), expected, "grain {grain}");
    }
    // The same, as a new tensor in row-major order.
    let sum = zip((&view::<i32>(&transposed), &view::<i32>(&reversed))).grain(2).map(|(a, b)| a + 10 * b).unwrap();
    assert_eq!((sum.shape(), sum.is_contiguous()), (&[4, 3][..], true));
    let expected: Vec<i32> = (0..4).flat_map(|i| (0..3).map(move |j| 4 * j + i + 10 * (2 - j))).collect();
    assert_eq!(sum.view::<i32>().unwrap().to_vec(), expected);
    // Indices are those of the common shape.
    let seen = Mutex::new(vec![0; 12]);
    zip(&view::<i32>(&transposed)).for_each_indexed(|index, value| seen.lock().unwrap()[index] = *value).unwrap();
    assert_eq!(seen.into_inner().unwrap(), (0..12).map(|i| 4 * (i % 3) + i / 3).collect::<Vec<_>>());
}

#[test]
fn three_axes_that_cannot_be_joined() {
    let base = tensor(0..120i64, &[4, 5, 6]);
    // Every second element along each axis.
    let part = strided(&base, &mut [2, 3, 3], &mut [60, 12, 2], 1);
    let mut out = vec![0i64; 18];
    zip(&view::<i64>(&part))
        .grain(1)
        .for_each_indexed(|index, value| assert_eq!((value % 2, index < 18), (1, true)))
        .unwrap();
    let values = zip(&view::<i64>(&part)).grain(4).map(|value| *value).unwrap();
    for (index, out) in out.iter_mut().enumerate() {
        *out = (index as i64 / 9) * 60 + (index as i64 / 3 % 3) * 12 + index as i64 % 3 * 2 + 1;
    }
    assert_eq!(values.view::<i64>().unwrap().to_vec(), out);
}

#[test]
fn rows_of_tensors() {
    let x = tensor((0..24).map(|i| i as f32), &[2, 3, 4]);
    let weights = tensor([1.0f32, 0.0, 0.0, 2.0], &[4]);
    let mut sums = Tensor::zeros::<f64>(&[2, 3]).unwrap();
    let mut sums_view = sums.view_mut::<f64>().unwrap();
    // The weights are one row, which is broadcast.
    zip((rows(&x.view().unwrap()), rows(&weights.view().unwrap()), &mut sums_view))
        .for_each(|(row, weights, sum): (&[f32], &[f32], &mut f64)| {
            *sum = row.iter().zip(weights).map(|(x, w)| f64::from(x * w)).sum();
        })
        .unwrap();
    assert_eq!(sums_view.to_vec(), (0..6).map(|row| f64::from(12 * row + 6)).collect::<Vec<_>>());
    let sums = zip(rows(&x.view::<f32>().unwrap())).grain(1).map(|row| row.iter().sum::<f32>()).unwrap();
    assert_eq!((sums.shape(), sums.view::<f32>().unwrap().to_vec().len()), (&[2, 3][..], 6));
    // Rows without elements still count as rows.
    let empty = Tensor::zeros::<f32>(&[5, 0]).unwrap();
    let sums = zip(rows(&empty.view::<f32>().unwrap())).map(|row| row.len() as i64).unwrap();
    assert_eq!(sums.view::<i64>().unwrap().to_vec(), [0; 5]);
    // No rows: the closure is not called.
    let none = Tensor::zeros::<f32>(&[0, 5]).unwrap();
    assert_eq!(zip(rows(&none.view::<f32>().unwrap())).map(|row| row[0]).unwrap().shape(), [0]);
}

#[test]
fn what_does_not_fit() {
    let [a, b] = [tensor(0..6i32, &[2, 3]), tensor(0..4i32, &[4])];
    let (a, b) = (a.view::<i32>().unwrap(), b.view::<i32>().unwrap());
    let number = tensor([1i32], &[]);
    let base = tensor(0..12i32, &[3, 4]);
    let transposed = strided(&base, &mut [4, 3], &mut [1, 4], 0);
    let transposed = view::<i32>(&transposed);
    let mut out = Tensor::zeros::<i32>(&[1, 3]).unwrap();
    let mut out = out.view_mut::<i32>().unwrap();
    let huge = strided(&number, &mut [1 << 40, 1], &mut [0, 0], 0);
    let wide = strided(&number, &mut [1, 1 << 40], &mut [0, 0], 0);
    for (result, message) in [
        (
            zip((&a, &b)).for_each(|_| ()),
            "operand 0 of shape [2, 3] and operand 1 of shape [4] do not fit together: 3 and 4 along axis -1",
        ),
        (
            zip((rows(&a), &b)).for_each(|_| ()),
            "the rows of operand 0 of shape [2, 3] and operand 1 of shape [4] do not fit together: 2 and 4 along axis -1",
        ),
        (
            zip((&a, &mut out)).for_each(|_| ()),
            "operand 1 of shape [1, 3] is written to, so it cannot be broadcast to the common shape [2, 3] of the operands",
        ),
        (
            zip(rows(&number.view::<i32>().unwrap())).for_each(|_| ()),
            "operand 0 has no dimensions, so it has no rows; give it the shape of one row",
        ),
        (
            zip(rows(&transposed)).for_each(|_| ()),
            "the rows of operand 0 are not contiguous: shape [4, 3], strides [1, 4] (in elements); pass a contiguous copy, for example \
             numpy.ascontiguousarray(x)",
        ),
        (
            zip((&view::<i32>(&huge), &view::<i32>(&wide))).for_each(|_| ()),
            "the common shape [1099511627776, 1099511627776] is larger than memory",
        ),
        (chunks_mut(&mut [1, 2], 0, |_, _| ()), "pieces of 0 elements never end"),
    ] {
        assert_eq!(result.unwrap_err().to_string(), format!("ValueError: {message}"));
    }
}

#[test]
fn the_first_error_stops_the_loop() {
    let x: Vec<i64> = (0..1_000_000).collect();
    let fail = |x: &i64| if *x >= 500 { Err(crate::error!(ValueError, "{x} is too large")) } else { Ok(()) };
    assert_eq!(zip(&x).for_each(fail).unwrap_err().to_string(), "ValueError: 500 is too large");
    // One error, from a thread that may not be this one.
    let late = |x: &i64| if *x == 999_999 { Err("the last one") } else { Ok(()) };
    assert_eq!(zip(&x).grain(1000).for_each(late).unwrap_err().to_string(), "RuntimeError: the last one");
    let error = zip(&x).map(|x| if *x == 70_000 { Err("no result") } else { Ok(*x) }).unwrap_err();
    assert_eq!(error.message(), "no result");
}

#[test]
fn panics_are_errors_and_leave_the_pool_whole() {
    // Panics record their location as soon as there is a provider.
    crate::provider::api();
    for round in 0..50 {
        let mut data = vec![0u8; 4096];
        let error =
            chunks_mut(&mut data, 64, |number, _| assert!(number != round, "piece {number} is bad")).unwrap_err();
        assert_eq!(error.kind(), "InternalError");
        assert!(error.message().ends_with(&format!("tests.rs:{}: piece {round} is bad", line!() - 2)), "{error}");
    }
    let error = for_range(0..100, 1, |range| {
        if range.contains(&99) {
            std::panic::panic_any(7)
        }
    })
    .unwrap_err();
    assert!(error.message().ends_with("a value that is not text"), "{error}");
    let error = reduce_range(0..100, 1, || 0, |range| range.sum::<usize>(), |_, _| panic!("combining")).unwrap_err();
    assert!(error.message().ends_with("combining"), "{error}");
    assert_eq!(reduce_range(0..100, 1, || 0, |range| range.sum::<usize>(), |a, b| a + b).unwrap(), 4950);
}

#[test]
fn reductions_do_not_depend_on_threads() {
    // Numbers whose sum depends on the order.
    let x: Vec<f32> = (0..300_000).map(|i| (i as f32 * 0.37).sin() * 1e6).collect();
    let sum = |threads: usize, grain: Option<usize>| {
        let loops = zip(&x).threads(threads);
        let loops = if let Some(grain) = grain { loops.grain(grain) } else { loops };
        loops.reduce(|| 0.0f32, |sum, x| *sum += x, |a, b| a + b).unwrap().to_bits()
    };
    let by_hand = |piece: usize| -> u32 {
        let sums = x.chunks(piece).map(|piece| piece.iter().sum::<f32>());
        sums.reduce(|a, b| a + b).unwrap().to_bits()
    };
    for threads in [1, 2, 3, 16] {
        assert_eq!(sum(threads, None), by_hand(1 << 14));
        assert_eq!(sum(threads, Some(1000)), by_hand(1000));
    }
    let nothing: [f32; 0] = [];
    assert_eq!(zip(&nothing).reduce(|| -1.0f32, |sum, x| *sum += x, |a, b| a + b).unwrap(), -1.0);
    // Strings are concatenated in order.
    let text =
        reduce_range(0..26, 3, String::new, |range| range.map(|i| (b'a' + i as u8) as char).collect(), |a, b| a + &b);
    assert_eq!(text.unwrap(), "abcdefghijklmnopqrstuvwxyz");
}

#[test]
fn ranges_keep_to_their_grain() {
    let lengths = Mutex::new(Vec::new());
    for_range(10..1010, 300, |range| lengths.lock().unwrap().push((range.start, range.len()))).unwrap();
    let mut lengths = lengths.into_inner().unwrap();
    lengths.sort_unstable();
    if threads() > 1 {
        assert_eq!(lengths, [(10, 300), (310, 300), (610, 300), (910, 100)]);
    } else {
        assert_eq!(lengths, [(10, 1000)]);
    }
    let whole = Mutex::new(Vec::new());
    for_range(0..100, 100, |range| whole.lock().unwrap().push((range, thread::current().id()))).unwrap();
    assert_eq!(whole.into_inner().unwrap(), [(0..100, thread::current().id())]);
    #[expect(clippy::reversed_empty_ranges, reason = "that is the mistake")]
    for_range(5..3, 1, |_| -> () { unreachable!() }).unwrap();
    for_range(5..5, 0, |_| -> Result<()> { Err(Error::value_error("not called")) }).unwrap();
}

#[test]
fn small_and_cheap_loops_stay_here() {
    let here = thread::current().id();
    let x = vec![1u8; 1000];
    // On a busy machine even this is slow at times, so it is tried several times.
    let stays = || {
        let elsewhere = Mutex::new(0);
        zip(&x)
            .for_each(|_| {
                if thread::current().id() != here {
                    *elsewhere.lock().unwrap() += 1
                }
            })
            .unwrap();
        elsewhere.into_inner().unwrap() == 0
    };
    assert!((0..20).any(|_| stays()));
}

#[test]
fn long_work_on_few_items_is_shared() {
    if threads() < 2 {
        return;
    }
    let ids = Mutex::new(std::collections::HashSet::new());
    let items: Vec<u8> = (0..32).collect();
    zip(&items)
        .for_each(|_| {
            ids.lock().unwrap().insert(thread::current().id());
            thread::sleep(core::time::Duration::from_millis(2));
        })
        .unwrap();
    assert!(ids.into_inner().unwrap().len() > 1, "one thread did it all");
}

#[test]
fn many_callers_at_once() {
    thread::scope(|scope| {
        for caller in 0..8u64 {
            scope.spawn(move || {
                for round in 0..50u64 {
                    let x: Vec<u64> = (0..10_000).collect();
                    let sum = zip(&x).grain(512).reduce(|| 0, |sum, x| *sum += x * caller, |a, b| a + b).unwrap();
                    assert_eq!(sum, 49_995_000 * caller);
                    let failed = zip(&x).grain(64).for_each(|x| if *x == round { Err("that one") } else { Ok(()) });
                    assert_eq!(failed.unwrap_err().message(), "that one");
                }
            });
        }
    });
}
