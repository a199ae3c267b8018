//! Loops of `kernpack::parallel` beside rayon's and beside a plain loop on one thread, over the same memory.
//!
//! `kernpack-bench-parallel ROUNDS` prints one line for each case: its name, then nanoseconds of one loop by us, by rayon's `par_iter`, by
//! rayon's `par_chunks` and by the plain loop (medians of the rounds, in which all four take turns), then our time by each of rayon's (medians
//! of each round's ratio), then the lowest time of each of the four; separated by tabs.

use kernpack::parallel::{rows, zip};
use kernpack::{Function, Result, Tensor, packed_func};
use rayon::prelude::*;
use std::hint::black_box;
use std::thread;
use std::time::{Duration, Instant};

/// Elements that one batch of loops goes over at least, so that the clock's own time does not count.
const BATCH: usize = 1 << 18;

/// A user's kernel, called as any language calls it.
#[packed_func(name = "bench.saxpy", parallel)]
fn saxpy(x: &f32, y: &mut f32, a: f32) {
    *y += a * x;
}

fn heavy(x: f32) -> f32 {
    (x.exp() + 1.0).sqrt()
}

fn softmax(x: &[f32], out: &mut [f32]) {
    let most = x.iter().copied().fold(f32::NEG_INFINITY, f32::max);
    let mut sum = 0.0;
    for (out, x) in out.iter_mut().zip(x) {
        *out = (x - most).exp();
        sum += *out;
    }
    out.iter_mut().for_each(|out| *out /= sum);
}

/// One contender: does the loop once.
type Loop<'a> = &'a mut dyn FnMut();

struct Bench {
    rounds: usize,
}

impl Bench {
    /// Ours, rayon's `par_iter`, rayon's `par_chunks`, a plain loop.
    fn case(&self, name: &str, elements: usize, pause: Duration, contenders: [Loop<'_>; 4]) {
        let [ours, iter, chunks, plain] = contenders;
        let contenders = [ours, iter, chunks, plain];
        let times = if pause.is_zero() { (BATCH / elements).clamp(1, 256) } else { 1 };
        let mut samples = [const { Vec::new() }; 4];
        for round in 0..self.rounds + 2 {
            for turn in 0..4 {
                let who = (turn + round) % 4;
                thread::sleep(pause);
                let start = Instant::now();
                for _ in 0..times {
                    contenders[who]();
                }
                let time = start.elapsed().as_nanos() as f64 / times as f64;
                // The first two are for warming up.
                if round >= 2 {
                    samples[who].push(time);
                }
            }
        }
        let ratio = |peer: usize| {
            let mut ratios: Vec<f64> = samples[0].iter().zip(&samples[peer]).map(|(ours, peer)| ours / peer).collect();
            at(&mut ratios, 0.5)
        };
        let ratios = [ratio(1), ratio(2)];
        let medians = samples.each_mut().map(|samples| at(samples, 0.5));
        let lowest = samples.each_mut().map(|samples| at(samples, 0.0));
        let columns: Vec<String> =
            medians.iter().chain(&ratios).chain(&lowest).map(|number| format!("{number:.4}")).collect();
        println!("{name}\t{}", columns.join("\t"));
    }
}

/// The number below which this share of the samples lies.
fn at(samples: &mut [f64], share: f64) -> f64 {
    samples.sort_by(f64::total_cmp);
    samples[(share * (samples.len() - 1) as f64).round() as usize]
}

/// What a careful user of rayon takes: some pieces for each thread, none smaller than a few microseconds.
fn chunk(elements: usize) -> usize {
    elements.div_ceil(rayon::current_num_threads() * 8).max(4096)
}

/// Elements, and what messages call so many.
const SIZES: [(usize, &str); 4] = [(1 << 10, "1 k"), (1 << 16, "64 k"), (1 << 20, "1 M"), (1 << 24, "16 M")];

fn main() -> Result<()> {
    let rounds = std::env::args().nth(1).and_then(|rounds| rounds.parse().ok()).unwrap_or(31);
    let bench = Bench { rounds };
    for (elements, size) in SIZES {
        let x: Vec<f32> = (0..elements).map(|i| (i % 1000) as f32 / 1000.0).collect();
        maps(&bench, &x, size, Duration::ZERO);
        if elements == 1 << 16 || elements == 1 << 20 {
            maps(&bench, &x, &format!("{size}, after 1 ms"), Duration::from_millis(1));
            maps(&bench, &x, &format!("{size}, after 10 ms"), Duration::from_millis(10));
        }
    }
    packed(&bench)?;
    reduction(&bench);
    over_rows(&bench, 1024, 1024)?;
    over_rows(&bench, 8, 128)?;
    over_rows(&bench, 2, 1 << 19)
}

fn maps(bench: &Bench, x: &[f32], size: &str, pause: Duration) {
    let (a, b) = (black_box(1.5f32), black_box(0.25f32));
    let mut y = [const { Vec::new() }; 4].map(|_: Vec<f32>| vec![0.0f32; x.len()]);
    let [ours, iter, chunks, plain] = &mut y;
    let len = chunk(x.len());
    bench.case(
        &format!("a x + b, {size}"),
        x.len(),
        pause,
        [
            &mut || zip((x, &mut *ours)).for_each(|(x, y)| *y = a * x + b).unwrap(),
            &mut || iter.par_iter_mut().zip(x).for_each(|(y, x)| *y = a * x + b),
            &mut || {
                chunks.par_chunks_mut(len).zip(x.par_chunks(len)).for_each(|(y, x)| {
                    y.iter_mut().zip(x).for_each(|(y, x)| *y = a * x + b);
                });
            },
            &mut || {
                plain.iter_mut().zip(x).for_each(|(y, x)| *y = a * x + b);
                black_box(&mut *plain);
            },
        ],
    );
    assert_eq!((&*ours, &*iter, &*chunks), (&*plain, &*plain, &*plain));
    bench.case(
        &format!("sqrt(exp(x) + 1), {size}"),
        x.len(),
        pause,
        [
            &mut || zip((x, &mut *ours)).for_each(|(x, y)| *y = heavy(*x)).unwrap(),
            &mut || iter.par_iter_mut().zip(x).for_each(|(y, x)| *y = heavy(*x)),
            &mut || {
                chunks.par_chunks_mut(len).zip(x.par_chunks(len)).for_each(|(y, x)| {
                    y.iter_mut().zip(x).for_each(|(y, x)| *y = heavy(*x));
                });
            },
            &mut || {
                plain.iter_mut().zip(x).for_each(|(y, x)| *y = heavy(*x));
                black_box(&mut *plain);
            },
        ],
    );
    assert_eq!((&*ours, &*iter, &*chunks), (&*plain, &*plain, &*plain));
}

/// A whole packed function with tensors, beside loops over slices.
fn packed(bench: &Bench) -> Result<()> {
    let function = Function::global("bench.saxpy")?;
    for (elements, size) in SIZES {
        let x = vec![0.5f32; elements];
        let (x_tensor, y_tensor) =
            (Tensor::from_slice(&x, &[elements as i64])?, Tensor::zeros::<f32>(&[elements as i64])?);
        let a = black_box(1.0f32);
        let mut y = [const { Vec::new() }; 3].map(|_: Vec<f32>| vec![0.0f32; elements]);
        let [iter, chunks, plain] = &mut y;
        let len = chunk(elements);
        bench.case(
            &format!("#[packed_func(parallel)] saxpy, {size}"),
            elements,
            Duration::ZERO,
            [
                &mut || function.call_as::<()>((&x_tensor, &y_tensor, 1.0)).unwrap(),
                &mut || iter.par_iter_mut().zip(&x).for_each(|(y, x)| *y += a * x),
                &mut || {
                    chunks.par_chunks_mut(len).zip(x.par_chunks(len)).for_each(|(y, x)| {
                        y.iter_mut().zip(x).for_each(|(y, x)| *y += a * x);
                    });
                },
                &mut || {
                    plain.iter_mut().zip(&x).for_each(|(y, x)| *y += a * x);
                    black_box(&mut *plain);
                },
            ],
        );
        assert_eq!(y_tensor.view::<f32>()?.to_vec(), *plain);
    }
    Ok(())
}

fn reduction(bench: &Bench) {
    let x: Vec<f32> = (0..1 << 20).map(|i| (i % 8) as f32).collect();
    let len = chunk(x.len());
    let expected: f64 = x.iter().map(|x| f64::from(*x)).sum();
    let check = |sum: f64| assert_eq!(sum, expected);
    bench.case(
        "sum, 1 M",
        x.len(),
        Duration::ZERO,
        [
            &mut || check(zip(&x).reduce(|| 0.0, |sum, x| *sum += f64::from(*x), |a, b| a + b).unwrap()),
            &mut || check(x.par_iter().map(|x| f64::from(*x)).sum()),
            &mut || check(x.par_chunks(len).map(|x| x.iter().map(|x| f64::from(*x)).sum::<f64>()).sum()),
            &mut || check(black_box(&x).iter().map(|x| f64::from(*x)).sum()),
        ],
    );
}

fn over_rows(bench: &Bench, height: usize, width: usize) -> Result<()> {
    let x: Vec<f32> = (0..height * width).map(|i| (i % 1000) as f32 / 1000.0).collect();
    let x_tensor = Tensor::from_slice(&x, &[height as i64, width as i64])?;
    let mut out_tensor = Tensor::zeros::<f32>(&[height as i64, width as i64])?;
    let mut out = [const { Vec::new() }; 3].map(|_: Vec<f32>| vec![0.0f32; x.len()]);
    let [iter, chunks, plain] = &mut out;
    let view = x_tensor.view::<f32>()?;
    let mut out_view = out_tensor.view_mut::<f32>()?;
    bench.case(
        &format!("softmax of {height} rows of {width}"),
        x.len(),
        Duration::ZERO,
        [
            &mut || zip((rows(&view), rows(&mut out_view))).for_each(|(x, out)| softmax(x, out)).unwrap(),
            &mut || {
                let rows = x.par_chunks_exact(width);
                iter.par_chunks_exact_mut(width).zip(rows).for_each(|(out, x)| softmax(x, out));
            },
            &mut || {
                // Several rows at a time.
                let rows = height.div_ceil(rayon::current_num_threads() * 8).max(1) * width;
                chunks.par_chunks_mut(rows).zip(x.par_chunks(rows)).for_each(|(out, x)| {
                    out.chunks_exact_mut(width).zip(x.chunks_exact(width)).for_each(|(out, x)| softmax(x, out));
                });
            },
            &mut || {
                plain.chunks_exact_mut(width).zip(x.chunks_exact(width)).for_each(|(out, x)| softmax(x, out));
                black_box(&mut *plain);
            },
        ],
    );
    assert_eq!((view.shape(), out_view.to_vec()), (out_view.shape(), plain.clone()));
    Ok(())
}
