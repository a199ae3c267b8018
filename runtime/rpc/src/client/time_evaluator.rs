use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use kernpack::{Any, AnyView, Args, Device, Function, Object, Result, ensure};

use super::shared::Shared;

/// Measures a function on the server, with the clock of the server's machine: the times do not
/// include round trips.
///
/// The function is called once to warm up; then, `repeat` times, it is called `number` times in a
/// row, and the mean of each row is one result.
///
/// ```no_run
/// # let session = kernpack_rpc::connect("pi.local").open()?;
/// # let (library, image) = (session.load_module("libfilters.so")?, kernpack::Tensor::zeros::<f32>(&[1])?);
/// let timing = session.time_evaluator(&library, "blur", session.device("cpu:0")?)?.number(10).repeat(3).run((&image,))?;
/// println!("{timing}");
/// # Ok::<(), kernpack::Error>(())
/// ```
#[derive(Clone)]
#[must_use = "nothing is measured before `run`"]
pub struct TimeEvaluator {
    shared: Arc<Shared>,
    /// Handle of the module; `None` for a global function.
    module: Option<u64>,
    function: String,
    device: Device,
    number: u32,
    repeat: u32,
    min_repeat: Duration,
    limit_zero_time_iterations: u32,
    cooldown: Duration,
    repeats_to_cooldown: u32,
    cache_flush_bytes: u64,
    preparation: String,
}

impl TimeEvaluator {
    pub(super) fn new(shared: Arc<Shared>, module: Option<u64>, function: &str, device: Device) -> Self {
        Self {
            shared,
            module,
            function: function.to_owned(),
            device,
            number: 10,
            repeat: 1,
            min_repeat: Duration::ZERO,
            limit_zero_time_iterations: 100,
            cooldown: Duration::ZERO,
            repeats_to_cooldown: 1,
            cache_flush_bytes: 0,
            preparation: String::new(),
        }
    }

    /// Sets the number of calls in a row, whose mean is one result; the default is 10.
    pub fn number(mut self, number: u32) -> Self {
        self.number = number;
        self
    }

    /// Sets the number of results; the default is 1.
    pub fn repeat(mut self, repeat: u32) -> Self {
        self.repeat = repeat;
        self
    }

    /// Sets the minimum duration of a row: a shorter row is repeated with more calls. Whole
    /// milliseconds.
    pub fn min_repeat(mut self, time: Duration) -> Self {
        self.min_repeat = time;
        self
    }

    /// Sets how often a row that takes no measurable time is repeated, if there is a
    /// [`min_repeat`](Self::min_repeat); the default is 100.
    pub fn limit_zero_time_iterations(mut self, limit: u32) -> Self {
        self.limit_zero_time_iterations = limit;
        self
    }

    /// Sets the time that the machine rests after each `repeats` results. Whole milliseconds.
    pub fn cooldown(mut self, time: Duration, repeats: u32) -> Self {
        self.cooldown = time;
        self.repeats_to_cooldown = repeats;
        self
    }

    /// Reads and writes this number of bytes before each row, so that it begins with a cold cache;
    /// with `number(1)` each call does.
    pub fn cache_flush(mut self, bytes: u64) -> Self {
        self.cache_flush_bytes = bytes;
        self
    }

    /// Sets a global function of the server that is called with the arguments before each row.
    pub fn preparation(mut self, function: impl Into<String>) -> Self {
        self.preparation = function.into();
        self
    }

    /// Returns the server's measuring function: it takes the arguments of the measured function and
    /// returns bytes, `repeat` numbers of type f64 in seconds.
    ///
    /// # Errors
    /// ValueError for invalid options; any other error that the server reports, such as a missing
    /// function.
    pub fn function(&self) -> Result<Function> {
        ensure!(self.number > 0 && self.repeat > 0, ValueError, "`number` and `repeat` are 1 at least");
        ensure!(self.repeats_to_cooldown > 0, ValueError, "the machine rests after 1 result at least");
        let evaluator = self.shared.call_own_with("runtime.RPCTimeEvaluator", 12, |arguments| {
            match self.module {
                Some(module) => arguments.module(module),
                None => arguments.none(),
            };
            arguments
                .text(&self.function)
                .int(i64::from(self.device.device_type()))
                .int(i64::from(self.device.index()))
                .int(i64::from(self.number))
                .int(i64::from(self.repeat))
                .int(milliseconds(self.min_repeat))
                .int(i64::from(self.limit_zero_time_iterations))
                .int(milliseconds(self.cooldown))
                .int(i64::from(self.repeats_to_cooldown))
                .int(i64::try_from(self.cache_flush_bytes).unwrap_or(i64::MAX))
                .text(&self.preparation);
        });
        evaluator?.to()
    }

    /// Measures the function with these arguments.
    ///
    /// # Errors
    /// As for [`TimeEvaluator::function`], and any error of the measured function.
    pub fn run(&self, args: impl Args) -> Result<Timing> {
        Timing::from_bytes(&self.function()?.call(args)?)
    }

    /// As [`TimeEvaluator::run`], for arguments of a packed call.
    pub(super) fn run_views(&self, args: &[AnyView<'_>]) -> Result<Timing> {
        self.run(args)
    }
}

fn milliseconds(time: Duration) -> i64 {
    i64::try_from(time.as_millis()).unwrap_or(i64::MAX)
}

/// The result of a [`TimeEvaluator`]: seconds for one call. It prints as Apache TVM's
/// `BenchmarkResult` does.
///
/// ```
/// use kernpack_rpc::Timing;
/// let timing = Timing::new(vec![0.001, 0.003, 0.002]);
/// assert_eq!((timing.mean, timing.median, timing.min, timing.max), (0.002, 0.002, 0.001, 0.003));
/// assert!(timing.to_string().starts_with("Execution time summary:\n mean (ms)   median (ms) "));
/// ```
#[derive(Object, Clone, Debug, PartialEq)]
#[object(key = "kernpack.rpc.Timing")]
#[repr(C)]
pub struct Timing {
    /// Each row's mean.
    pub results: Vec<f64>,
    /// Mean of the results.
    pub mean: f64,
    /// The middle result; the mean of the two middle ones if the number is even.
    pub median: f64,
    /// The smallest.
    pub min: f64,
    /// The largest.
    pub max: f64,
    /// Standard deviation of the results themselves (not an estimate for a larger population).
    pub std: f64,
}

impl Timing {
    /// Computes the statistics of these results. Without results, they are NaN.
    pub fn new(results: Vec<f64>) -> Self {
        let count = results.len() as f64;
        let mean = results.iter().sum::<f64>() / count;
        let variance = results.iter().map(|result| (result - mean).powi(2)).sum::<f64>() / count;
        let mut sorted = results.clone();
        sorted.sort_by(f64::total_cmp);
        let middle = |index: usize| sorted.get(index).copied().unwrap_or(f64::NAN);
        let median = match sorted.len() {
            0 => f64::NAN,
            odd if odd % 2 == 1 => middle(odd / 2),
            even => f64::midpoint(middle(even / 2 - 1), middle(even / 2)),
        };
        Self {
            mean,
            median,
            min: middle(0),
            max: sorted.last().copied().unwrap_or(f64::NAN),
            std: variance.sqrt(),
            results,
        }
    }

    /// Computes the statistics from the result of a time evaluator.
    fn from_bytes(returned: &Any) -> Result<Self> {
        let bytes: &[u8] = returned.get()?;
        let (results, rest) = bytes.as_chunks::<8>();
        ensure!(
            rest.is_empty() && !results.is_empty(),
            RuntimeError,
            "a time evaluator returned {} bytes",
            bytes.len()
        );
        Ok(Self::new(results.iter().map(|result| f64::from_le_bytes(*result)).collect()))
    }
}

impl fmt::Display for Timing {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "Execution time summary:")?;
        for name in ["mean (ms)", "median (ms)", "max (ms)", "min (ms)"] {
            write!(f, "{name:^12} ")?;
        }
        writeln!(f, "{:^12}", "std (ms)")?;
        for seconds in [self.mean, self.median, self.max, self.min] {
            write!(f, "{:^12.4} ", seconds * 1e3)?;
        }
        write!(f, "{:^12.4}", self.std * 1e3)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn figures() {
        let timing = Timing::new(vec![0.004, 0.001, 0.002, 0.001]);
        assert_eq!((timing.median, timing.min, timing.max), (0.0015, 0.001, 0.004));
        assert!((timing.mean - 0.002).abs() < 1e-12);
        assert!((timing.std - 1.224_744_871e-3).abs() < 1e-9);
        let one = Timing::new(vec![0.5]);
        assert_eq!((one.mean, one.median, one.std), (0.5, 0.5, 0.0));
        assert!(Timing::new(Vec::new()).mean.is_nan());
    }
}
