//! The loops of each case, by four contenders.

use kernpack::parallel::{rows, zip};
use kernpack::{Function, Result, Tensor, TensorView, TensorViewMut, packed_func};
use rayon::prelude::*;
use std::hint::black_box;
use std::time::Duration;

/// A computation on seeded numbers.
#[derive(Clone, Copy)]
pub(crate) enum Work {
    /// `a x + b`
    Line,
    /// `sqrt(exp(x) + 1)`
    Heavy,
    /// `y += a x`: a whole packed function with tensors, and loops over slices.
    Saxpy,
    /// A sum.
    Sum,
    /// The softmax of each row.
    Softmax { width: usize },
}

pub(crate) struct Case {
    pub(crate) name: String,
    pub(crate) work: Work,
    pub(crate) elements: usize,
    pub(crate) pause: Duration,
}

/// A contender.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Who {
    Ours,
    Iter,
    Chunks,
    Plain,
}

impl Who {
    pub(crate) fn parse(word: &str) -> Option<Self> {
        match word {
            "ours" => Some(Self::Ours),
            "par_iter" => Some(Self::Iter),
            "par_chunks" => Some(Self::Chunks),
            "plain" => Some(Self::Plain),
            _ => None,
        }
    }
}

/// A loop with its data.
pub(crate) trait Job {
    /// Runs the loop once.
    fn run(&mut self);

    /// The computed numbers.
    fn result(&self) -> Result<Vec<f32>>;
}

/// The loop of a case for one of the contenders.
pub(crate) fn make(case: &Case, who: Who) -> Result<Box<dyn Job>> {
    let count = case.elements;
    let x: Vec<f32> = (0..count).map(|i| (i % 1000) as f32 / 1000.0).collect();
    let line = |of| Box::new(Map { who, of, len: chunk(count), a: 1.5, b: 0.25, y: vec![0.0; count], x: x.clone() });
    Ok(match case.work {
        Work::Line => line(Of::Line),
        Work::Heavy => line(Of::Heavy),
        Work::Saxpy => {
            let x = vec![0.5; count];
            let (x_tensor, y_tensor) =
                (Tensor::from_slice(&x, &[count as i64])?, Tensor::zeros::<f32>(&[count as i64])?);
            let function = Function::global("bench.saxpy")?;
            Box::new(Saxpy { who, function, x_tensor, y_tensor, len: chunk(count), a: 1.0, y: vec![0.0; count], x })
        }
        Work::Sum => {
            let x = (0..count).map(|i| (i % 8) as f32).collect();
            Box::new(Sum { who, len: chunk(count), x, sum: 0.0 })
        }
        Work::Softmax { width } => {
            let shape = [(count / width) as i64, width as i64];
            // Views borrow the tensors, and there are few cases.
            let x_tensor: &'static Tensor = Box::leak(Box::new(Tensor::from_slice(&x, &shape)?));
            let out_tensor: &'static mut Tensor = Box::leak(Box::new(Tensor::zeros::<f32>(&shape)?));
            let (view, out_view) = (x_tensor.view::<f32>()?, out_tensor.view_mut::<f32>()?);
            Box::new(Softmax { who, view, out_view, width, out: vec![0.0; count], x })
        }
    })
}

/// The number of threads that rayon starts. Querying rayon would start them, in our process as
/// well.
fn threads() -> usize {
    std::thread::available_parallelism().map_or(1, usize::from)
}

/// The chunk size of a careful user of rayon: several chunks for each thread, none shorter than a
/// few microseconds.
fn chunk(elements: usize) -> usize {
    elements.div_ceil(threads() * 8).max(4096)
}

#[derive(Clone, Copy)]
enum Of {
    Line,
    Heavy,
}

/// A function of each element.
struct Map {
    who: Who,
    of: Of,
    len: usize,
    a: f32,
    b: f32,
    x: Vec<f32>,
    y: Vec<f32>,
}

impl Map {
    fn map(&mut self, of: impl Fn(f32) -> f32 + Sync + Send) {
        let Self { who, len, x, y, .. } = self;
        match who {
            Who::Ours => zip((&x[..], &mut y[..])).for_each(|(x, y)| *y = of(*x)).expect("our loop"),
            Who::Iter => y.par_iter_mut().zip(&x[..]).for_each(|(y, x)| *y = of(*x)),
            Who::Chunks => y.par_chunks_mut(*len).zip(x.par_chunks(*len)).for_each(|(y, x)| {
                y.iter_mut().zip(x).for_each(|(y, x)| *y = of(*x));
            }),
            Who::Plain => {
                y.iter_mut().zip(&x[..]).for_each(|(y, x)| *y = of(*x));
                black_box(&mut *y);
            }
        }
    }
}

impl Job for Map {
    fn run(&mut self) {
        let (a, b) = (black_box(self.a), black_box(self.b));
        match self.of {
            Of::Line => self.map(|x| a * x + b),
            Of::Heavy => self.map(|x| (x.exp() + 1.0).sqrt()),
        }
    }

    fn result(&self) -> Result<Vec<f32>> {
        Ok(self.y.clone())
    }
}

/// A user's kernel, called as other languages call it.
#[packed_func(name = "bench.saxpy", parallel)]
fn saxpy(x: &f32, y: &mut f32, a: f32) {
    *y += a * x;
}

/// The kernel as a packed function, or the same as loops over slices.
struct Saxpy {
    who: Who,
    function: Function,
    x_tensor: Tensor,
    y_tensor: Tensor,
    len: usize,
    a: f32,
    x: Vec<f32>,
    y: Vec<f32>,
}

impl Job for Saxpy {
    fn run(&mut self) {
        let Self { who, function, x_tensor, y_tensor, len, x, y, .. } = self;
        let a = black_box(self.a);
        match who {
            Who::Ours => function.call_as::<()>((&*x_tensor, &*y_tensor, 1.0)).expect("our function"),
            Who::Iter => y.par_iter_mut().zip(&x[..]).for_each(|(y, x)| *y += a * x),
            Who::Chunks => y.par_chunks_mut(*len).zip(x.par_chunks(*len)).for_each(|(y, x)| {
                y.iter_mut().zip(x).for_each(|(y, x)| *y += a * x);
            }),
            Who::Plain => {
                y.iter_mut().zip(&x[..]).for_each(|(y, x)| *y += a * x);
                black_box(&mut *y);
            }
        }
    }

    fn result(&self) -> Result<Vec<f32>> {
        if self.who == Who::Ours { Ok(self.y_tensor.view::<f32>()?.to_vec()) } else { Ok(self.y.clone()) }
    }
}

/// A sum in double precision.
struct Sum {
    who: Who,
    len: usize,
    x: Vec<f32>,
    sum: f64,
}

impl Job for Sum {
    fn run(&mut self) {
        let Self { who, len, x, .. } = self;
        let sum = match who {
            Who::Ours => zip(&x[..]).reduce(|| 0.0, |sum, x| *sum += f64::from(*x), |a, b| a + b).expect("our loop"),
            Who::Iter => x.par_iter().map(|x| f64::from(*x)).sum(),
            Who::Chunks => x.par_chunks(*len).map(|x| x.iter().map(|x| f64::from(*x)).sum::<f64>()).sum(),
            Who::Plain => black_box(&*x).iter().map(|x| f64::from(*x)).sum(),
        };
        self.sum = sum;
    }

    fn result(&self) -> Result<Vec<f32>> {
        Ok(vec![self.sum as f32])
    }
}

/// The softmax of each row of a matrix.
struct Softmax {
    who: Who,
    view: TensorView<'static, f32>,
    out_view: TensorViewMut<'static, f32>,
    width: usize,
    x: Vec<f32>,
    out: Vec<f32>,
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

impl Job for Softmax {
    fn run(&mut self) {
        let Self { who, view, out_view, width, x, out } = self;
        let width = *width;
        match who {
            Who::Ours => {
                zip((rows(&*view), rows(&mut *out_view))).for_each(|(x, out)| softmax(x, out)).expect("our loop");
            }
            Who::Iter => {
                let rows = x.par_chunks_exact(width);
                out.par_chunks_exact_mut(width).zip(rows).for_each(|(out, x)| softmax(x, out));
            }
            Who::Chunks => {
                // Several rows per task.
                let height = x.len() / width;
                let rows = height.div_ceil(threads() * 8).max(1) * width;
                out.par_chunks_mut(rows).zip(x.par_chunks(rows)).for_each(|(out, x)| {
                    out.chunks_exact_mut(width).zip(x.chunks_exact(width)).for_each(|(out, x)| softmax(x, out));
                });
            }
            Who::Plain => {
                out.chunks_exact_mut(width).zip(x.chunks_exact(width)).for_each(|(out, x)| softmax(x, out));
                black_box(&mut *out);
            }
        }
    }

    fn result(&self) -> Result<Vec<f32>> {
        if self.who == Who::Ours { Ok(self.out_view.to_vec()) } else { Ok(self.out.clone()) }
    }
}
