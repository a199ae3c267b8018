//! Several threads that call at once, each with its own argument: `view@2` is the case `view` on
//! two threads.

use kernpack::{Any, AnyView, Error, Function, IntoAny, Module, Result, Str, Tensor};
use std::hint::black_box;
use std::sync::Barrier;
use std::time::Instant;

/// Elements of a tensor.
const LEN: i64 = 16;

/// The work that a thread repeats.
enum Work {
    /// Calls a function with two integers.
    Add(Function),
    /// Calls a function with this argument.
    Call(Function, Any),
    /// Makes a tensor.
    NewTensor,
}

impl Work {
    fn of(module: &Module, case: &str) -> Result<Self> {
        let argument = match case {
            "add" => return Ok(Self::Add(module.function("add")?)),
            "new_tensor" => return Ok(Self::NewTensor),
            "tensor" | "view" | "view_mut" => Tensor::from_vec(vec![1_f32; LEN as usize], &[LEN])?.into_any(),
            "object" => module.function("new_object")?.call((7_i64,))?,
            "text" => Str::new("a text that does not fit into one value").into_any(),
            "function" => Function::from_fn(|x: i64| x).into_any(),
            _ => return Err(Error::value_error("unknown case")),
        };
        Ok(Self::Call(module.function(case)?, argument))
    }

    fn run(&self, iterations: u64) -> Result<()> {
        for _ in 0..iterations {
            match self {
                Self::Add(add) => _ = black_box(add.call((black_box(3_i64), black_box(4_i64)))?),
                Self::Call(function, argument) => {
                    let arguments: &[AnyView<'_>] = &[*black_box(argument).as_view()];
                    black_box(function.call(arguments)?);
                }
                Self::NewTensor => _ = black_box(Tensor::from_slice(&[1_f32; LEN as usize], &[LEN])?),
            }
        }
        Ok(())
    }
}

/// The CPU time in nanoseconds that a batch takes on each thread: if there are more threads than
/// processors, they share the time.
pub(crate) fn measure(module: &Module, case: &str, iterations: u64) -> Result<u128> {
    let (case, threads) = case.split_once('@').unwrap_or((case, "1"));
    let threads: usize = threads.parse().map_err(|_| Error::value_error("expected a number of threads"))?;
    // All on this thread, one after the other: they are neighbours in memory, like a program's
    // tensors.
    let work = (0..threads).map(|_| Work::of(module, case)).collect::<Result<Vec<Work>>>()?;
    let start = Barrier::new(threads + 1);
    let began = std::thread::scope(|scope| {
        let running: Vec<_> = work
            .iter()
            .map(|work| {
                scope.spawn(|| {
                    start.wait();
                    work.run(iterations)
                })
            })
            .collect();
        let began = Instant::now();
        start.wait();
        running.into_iter().try_for_each(|thread| thread.join().expect("no panic"))?;
        Ok::<_, Error>(began)
    })?;
    let processors = std::thread::available_parallelism().map_or(1, usize::from);
    Ok(began.elapsed().as_nanos() * processors.min(threads) as u128 / threads as u128)
}
