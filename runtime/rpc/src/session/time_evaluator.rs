//! `runtime.RPCTimeEvaluator`: measures the time of a function on the machine where it runs.

use std::hint::black_box;
use std::thread;
use std::time::{Duration, Instant};

use kernpack::device::{self, current_stream};
use kernpack::module::operations;
use kernpack::{Any, AnyView, Bytes, Device, Function, Module, Result, bail, ensure};

use super::arguments::Arguments;

const NAME: &str = "runtime.RPCTimeEvaluator";

/// The parameters of a measurement.
struct Plan {
    function: Function,
    device: Device,
    number: i64,
    repeat: i64,
    min_repeat: Duration,
    zero_times: i64,
    cooldown: Duration,
    repeats_to_cooldown: i64,
    flush: usize,
    prepare: Option<Function>,
}

/// The global function: it returns a function that measures another one.
pub(super) fn time_evaluator(views: &[AnyView<'_>]) -> Result<Any> {
    let plan = Plan::of(views)?;
    Ok(Any::from(Function::from_packed(move |views| plan.run(views))))
}

impl Plan {
    fn of(views: &[AnyView<'_>]) -> Result<Self> {
        let args = Arguments::new(
            NAME,
            &[
                "module",
                "name",
                "device_type",
                "device_id",
                "number",
                "repeat",
                "min_repeat_ms",
                "limit_zero_time_iterations?",
                "cooldown_interval_ms?",
                "repeats_to_cooldown?",
                "cache_flush_bytes?",
                "f_preproc_name?",
            ],
            views,
        )?;
        let name: &str = args.get(1, "name")?;
        let function = match args.get::<Option<Module>>(0, "module")? {
            Some(module) => operations::get_function(&module, name, true)?,
            None => Function::find_global(name)?,
        };
        let Some(function) = function else { bail!(KeyError, "{NAME}: there is no function '{name}'") };
        let prepare = match args.get_or(11, "f_preproc_name", "")? {
            "" => None,
            name => Some(Function::global(name)?),
        };
        let positive = |index, name, default| -> Result<i64> {
            let value = args.get_or(index, name, default)?;
            ensure!(value > 0, ValueError, "{NAME}: argument '{name}' is at least 1, got {value}");
            Ok(value)
        };
        let millis = |index, name| -> Result<Duration> {
            let value: i64 = args.get_or(index, name, 0)?;
            ensure!(value >= 0, ValueError, "{NAME}: argument '{name}' is not negative, got {value}");
            Ok(Duration::from_millis(value.unsigned_abs()))
        };
        let device = Device::new(args.get(2, "device_type")?, args.get(3, "device_id")?);
        device::api(device.device_type())?;
        let repeat = positive(5, "repeat", 1)?;
        ensure!(repeat <= 1 << 24, ValueError, "{NAME}: argument 'repeat' is at most {}, got {repeat}", 1 << 24);
        let flush: i64 = args.get_or(10, "cache_flush_bytes", 0)?;
        let Ok(flush) = usize::try_from(flush) else {
            bail!(ValueError, "{NAME}: argument 'cache_flush_bytes' is not negative, got {flush}")
        };
        Ok(Self {
            function,
            device,
            number: positive(4, "number", 1)?,
            repeat,
            min_repeat: millis(6, "min_repeat_ms")?,
            zero_times: args.get_or(7, "limit_zero_time_iterations", 100)?,
            cooldown: millis(8, "cooldown_interval_ms")?,
            repeats_to_cooldown: positive(9, "repeats_to_cooldown", 1)?,
            flush,
            prepare,
        })
    }

    /// Returns the seconds of one call, for each repetition, as the bytes of 64-bit floats.
    fn run(&self, views: &[AnyView<'_>]) -> Result<Any> {
        let mut cache = vec![0u8; self.flush];
        // The first call includes one-time work.
        self.function.call(views)?;
        self.synchronize()?;
        let mut number = self.number;
        let mut seconds = Vec::with_capacity(self.repeat as usize * 8);
        for round in 0..self.repeat {
            if let Some(prepare) = &self.prepare {
                prepare.call(views)?;
            }
            let mut zero_times = 0;
            let mut time = Duration::ZERO;
            loop {
                if !time.is_zero() {
                    let wanted = self.min_repeat.as_secs_f64() / (time.as_secs_f64() / number as f64) + 1.0;
                    // The cast saturates for a float that is too large.
                    number = wanted.max(number as f64 * 1.618) as i64;
                }
                cache.iter_mut().for_each(|byte| *byte = black_box(byte.wrapping_add(1)));
                self.synchronize()?;
                let start = Instant::now();
                for _ in 0..number {
                    self.function.call(views)?;
                }
                self.synchronize()?;
                time = start.elapsed();
                zero_times += i64::from(time.is_zero());
                if time >= self.min_repeat || zero_times >= self.zero_times {
                    break;
                }
            }
            seconds.extend_from_slice(&(time.as_secs_f64() / number as f64).to_le_bytes());
            if !self.cooldown.is_zero() && round % self.repeats_to_cooldown == 0 {
                thread::sleep(self.cooldown);
            }
        }
        Ok(Any::from(Bytes::new(&seconds)))
    }

    fn synchronize(&self) -> Result<()> {
        let api = device::api(self.device.device_type())?;
        // SAFETY: the thread's current stream is one of the device, or its default one.
        unsafe { api.synchronize(self.device.index(), current_stream(self.device)) }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;
    use std::sync::atomic::{AtomicI64, Ordering};

    use super::*;

    fn evaluate(args: &[Any]) -> Result<Function> {
        Function::from_packed(time_evaluator).call_as(args)
    }

    fn options(name: &str, number: i64, repeat: i64, min_repeat: i64) -> Vec<Any> {
        vec![
            Any::NONE,
            Any::from(name),
            Any::from(1i64),
            Any::from(0i64),
            Any::from(number),
            Any::from(repeat),
            Any::from(min_repeat),
        ]
    }

    #[test]
    fn calls_are_counted() {
        let calls = Arc::new(AtomicI64::new(0));
        let counted = Arc::clone(&calls);
        let function = Function::from_fn(move |_: i64| {
            counted.fetch_add(1, Ordering::Relaxed);
        });
        Function::register_global("rpc.time_evaluator.counted", &function).unwrap();
        let bytes: Bytes = evaluate(&options("rpc.time_evaluator.counted", 3, 4, 0)).unwrap().call_as((1,)).unwrap();
        assert_eq!(calls.swap(0, Ordering::Relaxed), 1 + 3 * 4);
        let seconds: Vec<f64> =
            bytes.as_slice().chunks(8).map(|chunk| f64::from_le_bytes(chunk.try_into().unwrap())).collect();
        assert_eq!(seconds.len(), 4);
        assert!(seconds.iter().all(|seconds| (0.0..1.0).contains(seconds)), "{seconds:?}");
        // A round has its minimum duration: more calls than requested.
        evaluate(&options("rpc.time_evaluator.counted", 1, 1, 2)).unwrap().call((1,)).unwrap();
        assert!(calls.load(Ordering::Relaxed) > 10);
        // The function's own error is passed on.
        let error = evaluate(&options("rpc.time_evaluator.counted", 1, 1, 0)).unwrap().call(("x",)).unwrap_err();
        assert!(error.message().contains("expected int"), "{error}");
    }

    #[test]
    fn wrong_arguments() {
        let wrong = |change: fn(&mut Vec<Any>)| {
            let mut args = options("rpc.nothing", 1, 1, 0);
            change(&mut args);
            evaluate(&args).unwrap_err().message().to_owned()
        };
        for (message, part) in [
            (wrong(|_| ()), "there is no function 'rpc.nothing'"),
            (wrong(|args| args.truncate(3)), "expected 7 to 12 arguments, got 3"),
            (wrong(|args| args.clear()), "expected 7 to 12 arguments, got 0"),
            (wrong(|args| args[1] = Any::from(1i64)), "argument 'name': expected str, got int"),
        ] {
            assert!(message.contains(part), "{message}");
        }
        let function = Function::from_fn(|| ());
        Function::register_global("rpc.time_evaluator.nothing", &function).unwrap();
        for (index, value, part) in [
            (2, 99, "no library in this process"),
            (4, 0, "'number' is at least 1"),
            (5, -1, "'repeat' is at least 1"),
            (5, i64::MAX, "'repeat' is at most"),
            (6, -1, "'min_repeat_ms' is not negative"),
        ] {
            let mut args = options("rpc.time_evaluator.nothing", 1, 1, 0);
            args[index] = Any::from(value);
            let error = evaluate(&args).unwrap_err();
            assert!(error.message().contains(part), "{error}");
        }
    }
}
