//! The client with the server of this crate. A program without the test harness: the server starts
//! the program again for each session.

#[path = "client/exercise.rs"]
mod exercise;
mod ports;

use std::sync::atomic::{AtomicI64, Ordering};
use std::time::{Duration, Instant};

use kernpack::{
    Any, Array, DataType, Device, Error, Function, Result, Tensor, TensorView, TensorViewMut, bail, packed_func,
};
use kernpack_rpc::{Server, ServerOptions, Session, connect, run_session_if_asked};
use kernpack_skip::skip;

/// The functions that the session's process offers.
mod functions {
    use super::*;

    #[packed_func(name = "rpc_test.echo")]
    fn echo(value: Any) -> Any {
        value
    }

    #[packed_func(name = "rpc_test.kind")]
    fn kind(value: Any) -> String {
        value.type_name()
    }

    #[packed_func(name = "rpc_test.raise")]
    fn throw(kind: &str, message: &str) -> Result<()> {
        Err(Error::new(kind, message))
    }

    #[packed_func(name = "rpc_test.adder")]
    fn adder(amount: i64) -> Function {
        Function::from_fn(move |x: i64| x + amount)
    }

    #[packed_func(name = "rpc_test.call")]
    fn call(function: Function, value: i64) -> Result<Any> {
        function.call((value,))
    }

    #[packed_func(name = "rpc_test.pair")]
    fn pair(a: i64, b: i64) -> Array<i64> {
        Array::from(vec![a, b])
    }

    #[packed_func(name = "rpc_test.sum_of_pair")]
    fn sum_of_pair(pair: Array<i64>) -> i64 {
        pair.iter().sum()
    }

    /// Calls a macro with the Rust types of element types.
    macro_rules! for_type {
        ($dtype:expr, $name:ident => $body:expr, half $half:expr) => {
            match $dtype {
                "int8" => {
                    type $name = i8;
                    $body
                }
                "uint8" => {
                    type $name = u8;
                    $body
                }
                "int16" => {
                    type $name = i16;
                    $body
                }
                "uint16" => {
                    type $name = u16;
                    $body
                }
                "int32" => {
                    type $name = i32;
                    $body
                }
                "uint32" => {
                    type $name = u32;
                    $body
                }
                "int64" => {
                    type $name = i64;
                    $body
                }
                "uint64" => {
                    type $name = u64;
                    $body
                }
                "float32" => {
                    type $name = f32;
                    $body
                }
                "float64" => {
                    type $name = f64;
                    $body
                }
                "float16" => $half,
                other => bail!(TypeError, "no tensor of {other}"),
            }
        };
    }

    /// The bits of small integers as float16.
    fn half(value: u16) -> u16 {
        if value == 0 {
            return 0;
        }
        let exponent = value.ilog2() as u16;
        ((exponent + 15) << 10) | ((value << (10 - exponent)) & 0x3ff)
    }

    fn from_half(bits: u16) -> f64 {
        if bits == 0 { 0.0 } else { f64::from(1024 + (bits & 0x3ff)) * 2f64.powi(i32::from(bits >> 10) - 25) }
    }

    #[packed_func(name = "rpc_test.arange")]
    fn arange(count: u16, dtype: &str) -> Result<Tensor> {
        let shape = [i64::from(count)];
        for_type!(dtype, T => Tensor::from_vec((0..count).map(|i| i as T).collect(), &shape), half {
            let bits = Tensor::from_vec((0..count).map(half).collect(), &shape)?;
            bits.view_as(&shape, "float16".parse::<DataType>()?, 0)
        })
    }

    #[packed_func(name = "rpc_test.total")]
    #[allow(clippy::unnecessary_cast, reason = "one body serves all types")]
    fn total(tensor: Tensor) -> Result<f64> {
        let dtype = tensor.dtype().to_string();
        for_type!(dtype.as_str(), T => Ok(tensor.view::<T>()?.to_vec().into_iter().map(|x| x as f64).sum()), half {
            let bits = tensor.view_as(tensor.shape(), DataType::UINT16, 0)?;
            Ok(bits.view::<u16>()?.to_vec().into_iter().map(from_half).sum())
        })
    }

    #[packed_func(name = "rpc_test.fill")]
    fn fill(mut tensor: TensorViewMut<f32>, value: f32) -> Result<()> {
        tensor.as_slice_mut()?.fill(value);
        Ok(())
    }

    #[packed_func(name = "rpc_test.sleep")]
    fn sleep(seconds: f64) {
        std::thread::sleep(Duration::from_secs_f64(seconds));
    }

    #[packed_func(name = "rpc_test.die")]
    fn die() {
        std::process::abort();
    }

    static ALIVE: AtomicI64 = AtomicI64::new(0);

    struct Counted;

    impl Drop for Counted {
        fn drop(&mut self) {
            ALIVE.fetch_sub(1, Ordering::SeqCst);
        }
    }

    #[packed_func(name = "rpc_test.counted")]
    fn counted() -> Function {
        ALIVE.fetch_add(1, Ordering::SeqCst);
        let counted = Counted;
        Function::from_fn(move |x: i64| {
            let _ = &counted;
            x
        })
    }

    #[packed_func(name = "rpc_test.alive")]
    fn alive() -> i64 {
        ALIVE.load(Ordering::SeqCst)
    }

    #[packed_func(name = "rpc_test.dot")]
    fn dot(a: TensorView<f32>, b: TensorView<f32>) -> f32 {
        a.iter().zip(b.iter()).map(|(a, b)| a * b).sum()
    }
}

fn server(key: &str) -> (Server, String) {
    server_at(0, key)
}

fn server_at(port: u16, key: &str) -> (Server, String) {
    let mut options = ServerOptions::default();
    options.listen.port = port;
    options.key = key.to_owned();
    let server = Server::start(options).unwrap();
    let address = server.address().to_string();
    (server, address)
}

fn open(address: &str, key: &str) -> Session {
    connect(address).key(key).timeout(Duration::from_secs(60)).open().unwrap()
}

fn everything_with_one_session() {
    let (_server, address) = server("");
    let session = open(&address, "");
    exercise::all(&session, true);
    match std::env::var("CONVERSIONS_LIBRARY") {
        Ok(library) => exercise::library(&session, true, &library),
        Err(_) => skip("CONVERSIONS_LIBRARY names no library, so none is uploaded"),
    }
    session.upload_as("a.txt", b"a").unwrap();
    session.upload_as("b.txt", b"b").unwrap();
    let mut names = session.listdir(".").unwrap();
    names.retain(|name| name.ends_with(".txt"));
    names.sort();
    assert_eq!(names, ["a.txt", "b.txt"]);
    let there = session.device("cpu").unwrap();
    let numbers = Tensor::from_slice(&[1.0f32, 2.0, 3.0], &[3]).unwrap().to(there).unwrap();
    let dot = session.global_function("rpc_test.dot").unwrap();
    assert_eq!(dot.call_as::<f32>((&numbers, &numbers)).unwrap(), 14.0);
}

fn several_servers_and_hops() {
    let ((_first, a), (_second, b)) = (server("a"), server("b"));
    let (one, other) = (open(&a, "a"), open(&b, "b"));
    exercise::two_sessions(&one, &other);
    drop((one, other));
    let far = connect(&a).key("a").hop(&b, "b").open().unwrap();
    exercise::all(&far, true);
    let wrong = connect(&a).key("b").open().unwrap_err();
    assert!(wrong.message().contains("another key than 'b'"), "{wrong}");
}

fn sessions_that_end() {
    let (_server, address) = server("");
    // The session's process dies in a call; the server continues.
    let session = open(&address, "");
    let start = Instant::now();
    let tensor = Tensor::from_slice(&[1.0f32], &[1]).unwrap().to(session.device("cpu").unwrap()).unwrap();
    let died = session.global_function("rpc_test.die").unwrap().call(()).unwrap_err();
    assert!(!died.message().is_empty());
    assert!(tensor.to(Device::CPU).is_err());
    drop((tensor, session));
    // The session's time is over.
    let session = connect(&address).session_timeout(Duration::from_secs(4)).open().unwrap();
    let error = session.global_function("rpc_test.sleep").unwrap().call((30.0,)).unwrap_err();
    assert_eq!(error.kind(), "RPCSessionTimeoutError", "{error}");
    // The client does not wait longer than its timeout.
    let session = connect(&address).timeout(Duration::from_secs(2)).open().unwrap();
    let error = session.global_function("rpc_test.sleep").unwrap().call((30.0,)).unwrap_err();
    assert_eq!(error.kind(), "TimeoutError", "{error}");
    drop(session);
    assert_eq!(open(&address, "").global_function("rpc_test.echo").unwrap().call_as::<i64>((1,)).unwrap(), 1);
    assert!(start.elapsed() < Duration::from_secs(60));
}

fn clients_that_end() {
    let (server, address) = server("");
    // The client gives up; the call that it waited for does not continue to use the machine.
    let session = connect(&address).timeout(Duration::from_secs(2)).open().unwrap();
    let start = Instant::now();
    let error = session.global_function("rpc_test.sleep").unwrap().call((3000.0,)).unwrap_err();
    assert_eq!(error.kind(), "TimeoutError", "{error}");
    while server.session_count() > 0 {
        assert!(start.elapsed() < Duration::from_secs(60), "the session goes on without its client");
        std::thread::sleep(Duration::from_millis(20));
    }
    assert!(start.elapsed() > Duration::from_secs(4), "a call may come to its end");
}

fn servers_that_end() {
    let (server, address) = server_at(ports::own_port(), "");
    let session = open(&address, "");
    let sleep = session.global_function("rpc_test.sleep").unwrap();
    let start = Instant::now();
    let error = std::thread::scope(|threads| {
        let call = threads.spawn(|| sleep.call((30.0,)).unwrap_err());
        std::thread::sleep(Duration::from_millis(300));
        drop(server);
        call.join().unwrap()
    });
    assert!(!error.message().is_empty());
    assert!(sleep.call((0.0,)).is_err());
    assert!(start.elapsed() < Duration::from_secs(29), "{error}");
    assert!(connect(&address).open().is_err());
}

/// The numbers of open descriptors and of threads of this process.
fn descriptors_and_threads() -> (usize, usize) {
    let count = |folder: &str| std::fs::read_dir(folder).map_or(0, Iterator::count);
    (count("/proc/self/fd"), count("/proc/self/task"))
}

fn nothing_is_left() {
    let (server, address) = server("");
    let round = |calls: i64| {
        let session = open(&address, "");
        let echo = session.global_function("rpc_test.echo").unwrap();
        (0..calls).for_each(|i| assert_eq!(echo.call_as::<i64>((i,)).unwrap(), i));
        let there = session.device("cpu").unwrap();
        let tensor = Tensor::from_slice(&[1.0f32; 64], &[64]).unwrap().to(there).unwrap();
        // Dropped after the session itself.
        drop(session);
        assert_eq!(tensor.to(Device::CPU).unwrap().len(), 64);
    };
    // What a process keeps permanently exists after the first round.
    round(10);
    let settled = |expected: Option<(usize, usize)>| {
        let start = Instant::now();
        loop {
            let now = (server.session_count(), descriptors_and_threads());
            if now.0 == 0 && expected.is_none_or(|expected| now.1 == expected)
                || start.elapsed() > Duration::from_secs(30)
            {
                return now.1;
            }
            std::thread::sleep(Duration::from_millis(10));
        }
    };
    let before = settled(None);
    // `cargo xtask rpc --soak` runs the full amount.
    let (calls, sessions) =
        if std::env::var_os("KERNPACK_RPC_SOAK").is_some() { (100_000, 1000) } else { (20_000, 30) };
    round(calls);
    (0..sessions).for_each(|_| round(10));
    assert_eq!(settled(Some(before)), before, "descriptors and threads");
    assert_eq!(server.session_count(), 0);
}

fn main() {
    run_session_if_asked();
    let chosen: Vec<String> = std::env::args().skip(1).filter(|word| !word.starts_with('-')).collect();
    let tests: [(&str, fn()); 6] = [
        ("everything_with_one_session", everything_with_one_session),
        ("several_servers_and_hops", several_servers_and_hops),
        ("sessions_that_end", sessions_that_end),
        ("clients_that_end", clients_that_end),
        ("servers_that_end", servers_that_end),
        ("nothing_is_left", nothing_is_left),
    ];
    let mut failed = 0;
    let mut passed = 0;
    for (name, test) in tests {
        if !chosen.is_empty() && !chosen.iter().any(|word| name.contains(word.as_str())) {
            continue;
        }
        let outcome = std::panic::catch_unwind(test);
        println!("test {name} ... {}", if outcome.is_ok() { "ok" } else { "FAILED" });
        match outcome {
            Ok(()) => passed += 1,
            Err(_) => failed += 1,
        }
    }
    let result = if failed == 0 { "ok" } else { "FAILED" };
    let left_out = tests.len() - passed - failed;
    println!(
        "\ntest result: {result}. {passed} passed; {failed} failed; 0 ignored; 0 measured; {left_out} filtered out"
    );
    std::process::exit(if failed == 0 { 0 } else { 101 });
}
