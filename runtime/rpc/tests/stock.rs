//! The client with the server of Apache TVM. `cargo xtask rpc` and `cargo xtask test` set
//! `KERNPACK_APACHE_TVM` to a Python that has it, and `CONVERSIONS_LIBRARY` to the library to
//! upload; without them the tests are skipped.

#[path = "client/exercise.rs"]
mod exercise;

use std::io::{BufRead, BufReader};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use kernpack_rpc::{Session, Timing, connect};
use kernpack_skip::skip;

/// A server that ends when this value is dropped.
struct Server {
    process: Child,
    address: String,
}

impl Server {
    /// `None` if Apache TVM is not available.
    fn start(key: &str) -> Option<Self> {
        let Some(python) = std::env::var_os("KERNPACK_APACHE_TVM") else {
            skip("KERNPACK_APACHE_TVM names no Python with Apache TVM");
            return None;
        };
        let script = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/stock_server.py");
        let mut process = Command::new(python)
            .args([script, key])
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .expect("the server starts");
        let mut line = String::new();
        let output = process.stdout.take().expect("a pipe");
        BufReader::new(output).read_line(&mut line).expect("the server says its port");
        Some(Self { process, address: format!("127.0.0.1:{}", line.trim()) })
    }

    fn connect(&self) -> Session {
        connect(&self.address).timeout(Duration::from_secs(60)).open().unwrap()
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        // The server ends with its standard input.
        drop(self.process.stdin.take());
        let _ = self.process.wait();
    }
}

#[test]
fn everything_with_one_session() {
    let Some(server) = Server::start("") else { return };
    let session = server.connect();
    exercise::all(&session, false);
    match std::env::var("CONVERSIONS_LIBRARY") {
        Ok(library) => exercise::library(&session, false, &library),
        Err(_) => skip("CONVERSIONS_LIBRARY names no library, so none is uploaded"),
    }
    // Apache TVM's server in Python does not support listing.
    let error = session.listdir(".").unwrap_err();
    assert!(error.message().contains("has no function 'tvm.rpc.server.listdir'"), "{error}");
    drop(session);
    // The server accepts the next client when the session is over.
    assert_eq!(server.connect().global_function("rpc_test.echo").unwrap().call_as::<i64>((1,)).unwrap(), 1);
}

#[test]
fn several_servers_and_hops() {
    let (Some(first), Some(second)) = (Server::start("a"), Server::start("b")) else { return };
    let a = connect(&first.address).key("a").open().unwrap();
    assert_eq!(a.server_key(), "a");
    let b = connect(&second.address).key("b").open().unwrap();
    exercise::two_sessions(&a, &b);
    drop((a, b));
    let wrong = connect(&first.address).key("other").open().unwrap_err();
    assert!(wrong.message().contains("another key than 'other'"), "{wrong}");
    let far = connect(&first.address).key("a").hop(&second.address, "b").open().unwrap();
    assert!(far.peer().ends_with(&format!("(through {})", first.address)));
    exercise::values(&far);
    exercise::exceptions(&far, false);
    exercise::tensors(&far);
}

#[test]
fn servers_that_end() {
    let Some(server) = Server::start("") else { return };
    let session = server.connect();
    let echo = session.global_function("rpc_test.echo").unwrap();
    let tensor = kernpack::Tensor::from_slice(&[1.0f32], &[1]).unwrap().to(session.device("cpu").unwrap()).unwrap();
    let start = Instant::now();
    let died = session.global_function("rpc_test.die").unwrap().call(()).unwrap_err();
    assert_eq!(died.kind(), "ConnectionError", "{died}");
    assert!(died.message().contains("has ended"), "{died}");
    assert!(!session.is_open());
    assert_eq!(echo.call((1,)).unwrap_err().to_string(), died.to_string());
    assert!(tensor.to(kernpack::Device::CPU).is_err());
    // The rest is dropped without a server.
    drop((tensor, echo, session));
    assert!(start.elapsed() < Duration::from_secs(29));
}

#[test]
fn sessions_that_take_too_long() {
    let Some(server) = Server::start("") else { return };
    let session = connect(&server.address).session_timeout(Duration::from_secs(4)).open().unwrap();
    let sleep = session.global_function("rpc_test.sleep").unwrap();
    let start = Instant::now();
    let error = sleep.call((30.0,)).unwrap_err();
    assert_eq!(error.kind(), "RPCSessionTimeoutError", "{error}");
    assert_eq!(sleep.call((0.0,)).unwrap_err().kind(), "RPCSessionTimeoutError");
    assert!(start.elapsed() < Duration::from_secs(29));
    drop((sleep, session));
    let session = connect(&server.address).timeout(Duration::from_secs(2)).open().unwrap();
    let sleep = session.global_function("rpc_test.sleep").unwrap();
    let error = sleep.call((30.0,)).unwrap_err();
    assert_eq!(error.kind(), "TimeoutError", "{error}");
    assert!(error.message().contains("nothing for 2 s"), "{error}");
}

#[test]
fn timings_print_alike() {
    let Some(python) = std::env::var_os("KERNPACK_APACHE_TVM") else {
        return skip("KERNPACK_APACHE_TVM names no Python with Apache TVM");
    };
    let results = vec![0.001_25, 0.003, 0.002, 0.000_1];
    let program = format!("from tvm.runtime.module import BenchmarkResult; print(BenchmarkResult({results:?}))");
    let printed = Command::new(python).args(["-c", &program]).output().unwrap();
    assert!(printed.status.success(), "{}", String::from_utf8_lossy(&printed.stderr));
    // Apache TVM pads the line with blanks.
    let printed = String::from_utf8(printed.stdout).unwrap();
    assert_eq!(printed.trim_end(), Timing::new(results).to_string().trim_end());
}
