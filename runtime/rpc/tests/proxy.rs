//! The proxy with Kernpack's servers and clients, and each of them with those of Apache TVM
//! (`KERNPACK_APACHE_TVM`, as in `stock.rs`).

mod ports;
#[path = "proxy/tracker.rs"]
mod tracker;

use std::io::{BufRead, BufReader, Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use kernpack::{Device, Tensor};
use kernpack_rpc::wire::{Key, greet_through_proxy, offer};
use kernpack_rpc::{Connect, Place, Proxy, ProxyOptions, Server, ServerOptions, Session, connect};
use kernpack_skip::skip;

const TIME: Duration = Duration::from_secs(30);

fn proxy(change: impl FnOnce(&mut ProxyOptions)) -> Proxy {
    let mut options = ProxyOptions::default();
    options.listen.port = 0;
    change(&mut options);
    Proxy::start(options).unwrap()
}

/// A server whose sessions are processes of the program for boards.
fn server(proxy: &str, change: impl FnOnce(&mut ServerOptions)) -> Server {
    let mut options = ServerOptions::default();
    options.listen.port = 0;
    options.key = "pi".to_owned();
    options.proxy = Some(Place::new(proxy));
    options.sessions = 1;
    options.program = Some((PathBuf::from(env!("CARGO_BIN_EXE_kernpack-rpc-server")), Vec::new()));
    change(&mut options);
    Server::start(options).unwrap()
}

fn to(proxy: impl ToString) -> Connect {
    connect(proxy.to_string()).key("pi").timeout(TIME).connect_timeout(TIME)
}

fn wait_until(what: &str, condition: impl Fn() -> bool) {
    let deadline = Instant::now() + TIME;
    while !condition() {
        assert!(Instant::now() < deadline, "waited for {what}");
        thread::sleep(Duration::from_millis(20));
    }
}

/// Calls, files, and data larger than any buffer, in both directions.
fn exercise(session: &Session) {
    exercise_with(session, 3_000_000);
}

fn exercise_with(session: &Session, count: u32) {
    let echo = session.global_function("testing.echo").unwrap();
    (0..100).for_each(|value: i64| assert_eq!(echo.call_as::<i64>((value,)).unwrap(), value));
    session.upload_as("file", b"bytes").unwrap();
    assert_eq!(session.download("file").unwrap().as_slice(), b"bytes");
    let numbers: Vec<u32> = (0..count).map(|i| i.wrapping_mul(2_654_435_761)).collect();
    let there = Tensor::from_slice(&numbers, &[i64::from(count)]).unwrap().to(session.device("cpu").unwrap()).unwrap();
    let back = there.to(Device::CPU).unwrap();
    assert!(back.view::<u32>().unwrap().as_slice().unwrap() == numbers);
}

#[test]
fn servers_and_clients_meet() {
    let proxy = proxy(|options| options.wait = TIME);
    let address = proxy.address().to_string();
    // The client comes before the server.
    let early = thread::scope(|threads| {
        let client = threads.spawn(|| to(&address).open().unwrap());
        thread::sleep(Duration::from_millis(100));
        let server = server(&address, |_| ());
        (client.join().unwrap(), server)
    });
    let (session, server) = early;
    assert_eq!(session.server_key(), "pi");
    exercise(&session);
    assert_eq!((server.session_count(), proxy.waiting_servers()), (1, 0), "one session at a time");
    // The next client waits for the end of the session; both servers of the key are used.
    let second = self::server(&address, |_| ());
    let other = to(&address).open().unwrap();
    exercise(&other);
    let third = thread::scope(|threads| {
        let client = threads.spawn(|| to(&address).open().unwrap());
        thread::sleep(Duration::from_millis(200));
        // Drop the server first: if its session ended first, it would take the next client.
        drop((server, session));
        drop(other);
        client.join().unwrap()
    });
    exercise(&third);
    assert_eq!(second.session_count(), 1);
    // If a session dies, only that session ends.
    drop(third);
    wait_until("the server's return", || proxy.waiting_servers() == 1);
    drop(second);
    wait_until("the end of all connections", || proxy.connections() == 0);
}

#[test]
fn clients_without_a_server() {
    let proxy = proxy(|options| options.wait = Duration::from_secs(3));
    let server = server(&proxy.address().to_string(), |_| ());
    wait_until("the server", || proxy.waiting_servers() == 1);
    let start = Instant::now();
    let error = connect(proxy.address().to_string()).key("other").open().unwrap_err();
    assert!(error.message().contains("another key than 'other', or no server of a proxy has it"), "{error}");
    assert!(start.elapsed() < TIME / 2);
    // A client that gives up leaves nothing behind.
    let error = connect(proxy.address().to_string()).key("other").connect_timeout(Duration::from_millis(100)).open();
    assert_eq!(error.unwrap_err().kind(), "TimeoutError");
    wait_until("the end of the clients", || proxy.connections() == 1);
    // A server that is gone is not assigned to a client.
    let mut gone = TcpStream::connect(proxy.address()).unwrap();
    offer(&mut gone, &Key::server("gone"), TIME).unwrap();
    wait_until("the second server", || proxy.waiting_servers() == 2);
    drop(gone);
    wait_until("its end", || proxy.waiting_servers() == 1);
    drop(server);
}

#[test]
fn a_proxy_that_is_restarted() {
    let first = proxy(|options| options.listen.port = ports::own_port());
    let address = first.address();
    let server = server(&address.to_string(), |_| ());
    exercise(&to(address).open().unwrap());
    let session = to(address).open().unwrap();
    first.stop();
    let error = session.global_function("testing.echo").unwrap_err();
    assert_eq!(error.kind(), "ConnectionError", "{error}");
    wait_until("the end of the session", || server.session_count() == 0);
    let mut options = ProxyOptions::default();
    options.listen.port = address.port();
    let again = Proxy::start(options).unwrap();
    exercise(&to(address).open().unwrap());
    drop((again, server));
}

#[test]
fn strangers_learn_nothing() {
    let token = "c2VjcmV0IHRva2Vu";
    let proxy = proxy(|options| {
        options.listen.token = Some(token.to_owned());
        options.listen.handshake_time = Duration::from_secs(3);
        options.connections = 300;
    });
    let address = proxy.address().to_string();
    let key =
        |text: &str| [&0xFF271i32.to_le_bytes()[..], &(text.len() as i32).to_le_bytes(), text.as_bytes()].concat();
    for bytes in [
        b"GET / HTTP/1.1\r\n\r\n".to_vec(),
        [&0xFF271i32.to_le_bytes()[..], &i32::MAX.to_le_bytes()].concat(),
        key("client:pi"),
        key("server:pi"),
        key("server:pi -token=c2VjcmV0IHRva2V"),
        key(&format!("proxy:pi -token={token}")),
        key("pi"),
        b"\x71".to_vec(),
    ] {
        let mut stream = TcpStream::connect(proxy.address()).unwrap();
        stream.set_read_timeout(Some(TIME)).unwrap();
        stream.write_all(&bytes).unwrap();
        let mut answer = Vec::new();
        let _ = stream.read_to_end(&mut answer);
        assert_eq!(answer, b"", "{}", bytes.escape_ascii());
    }
    assert_eq!(proxy.waiting_servers(), 0);
    // Silent connections are ended for others.
    let silent: Vec<TcpStream> = (0..600).map(|_| TcpStream::connect(proxy.address()).unwrap()).collect();
    let server = server(&address, |options| {
        options.proxy = Some(Place::new(address.as_str()).token(token));
        options.listen.token = Some(token.to_owned());
    });
    exercise(&to(&address).through_proxy().token(token).open().unwrap());
    assert!(to(&address).open().is_err());
    drop(silent);
    drop(server);
    wait_until("the end of all connections", || proxy.connections() == 0);
    // The token of a server is not revealed to its clients.
    let mut stream = TcpStream::connect(proxy.address()).unwrap();
    let own = Key { token: Some(token.to_owned()), ..Key::server("pi") };
    offer(&mut stream, &own, TIME).unwrap();
    let mut client = TcpStream::connect(proxy.address()).unwrap();
    let answer = greet_through_proxy(&mut client, &Key { role: "client".to_owned(), ..own }, TIME).unwrap();
    assert_eq!(answer, Key::server("pi"));
    let open = ProxyOptions::default;
    for (options, problem) in [
        (
            {
                let mut options = open();
                options.listen.host = "0.0.0.0".to_owned();
                options
            },
            "--insecure",
        ),
        (
            {
                let mut options = open();
                options.listen.token = Some("short".to_owned());
                options
            },
            "at least 8 letters",
        ),
    ] {
        let error = Proxy::start(options).err().unwrap();
        assert!(error.message().contains(problem), "{error}");
    }
}

#[test]
#[cfg(feature = "tls")]
fn with_tls() {
    use kernpack_rpc::tls::{Identity, TlsAcceptor, Trust};
    let folder = PathBuf::from(env!("CARGO_TARGET_TMPDIR")).join(format!("rpc-proxy-{}", std::process::id()));
    let identity = Identity::generate(&folder, &["localhost".to_owned()]).unwrap();
    let trust = Trust::Fingerprint(identity.fingerprint());
    let token = std::fs::read_to_string(folder.join("token")).unwrap().trim().to_owned();
    std::fs::remove_dir_all(&folder).unwrap();
    // With both it may listen for other machines.
    let proxy = proxy(|options| {
        options.listen.host = "0.0.0.0".to_owned();
        options.listen.token = Some(token.clone());
        options.listen.tls = Some(TlsAcceptor::new(identity).unwrap());
    });
    let address = format!("127.0.0.1:{}", proxy.address().port());
    let server = server(&address, |options| {
        options.proxy = Some(Place::new(address.as_str()).token(token.as_str()).tls(trust.clone()));
    });
    for _ in 0..2 {
        // Without optimization TLS is slow.
        exercise_with(&to(&address).through_proxy().tls(trust.clone()).token(token.as_str()).open().unwrap(), 300_000);
    }
    // Without TLS a proxy does not answer.
    let error = to(&address).token(token.as_str()).connect_timeout(Duration::from_secs(15)).open().unwrap_err();
    assert_eq!(error.kind(), "ConnectionError", "{error}");
    drop(server);
    wait_until("the end of all connections", || proxy.connections() == 0);
}

/// A process of `stock_proxy.py`, which ends when this value is dropped.
struct Stock(Child, BufReader<std::process::ChildStdout>);

impl Stock {
    /// `None` if Apache TVM is not available.
    fn start(arguments: &[&str]) -> Option<Self> {
        let Some(python) = std::env::var_os("KERNPACK_APACHE_TVM") else {
            skip("KERNPACK_APACHE_TVM names no Python with Apache TVM");
            return None;
        };
        let script = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/stock_proxy.py");
        let mut process = Command::new(python)
            .arg(script)
            .args(arguments)
            .env("PYTHONDONTWRITEBYTECODE", "1")
            .env_remove("LD_LIBRARY_PATH")
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let output = BufReader::new(process.stdout.take().unwrap());
        Some(Self(process, output))
    }

    fn line(&mut self) -> String {
        let mut line = String::new();
        self.1.read_line(&mut line).unwrap();
        line.trim().to_owned()
    }
}

impl Drop for Stock {
    fn drop(&mut self) {
        drop(self.0.stdin.take());
        let end = Instant::now() + Duration::from_secs(5);
        while self.0.try_wait().unwrap().is_none() {
            if Instant::now() > end {
                let _ = self.0.kill();
            }
            thread::sleep(Duration::from_millis(20));
        }
    }
}

fn port(address: SocketAddr) -> String {
    address.port().to_string()
}

#[test]
fn stock_server_and_clients_at_our_proxy() {
    let proxy = proxy(|_| ());
    let Some(mut server) = Stock::start(&["server", &port(proxy.address()), "board"]) else { return };
    assert_eq!(server.line(), "ready");
    let mut client = Stock::start(&["client", &port(proxy.address()), "board"]).unwrap();
    assert_eq!(client.line(), "done");
    exercise(&to(proxy.address()).key("board").open().unwrap());
    // A stock client and Kernpack's server.
    let _ours = self::server(&proxy.address().to_string(), |_| ());
    let mut client = Stock::start(&["client", &port(proxy.address()), "pi"]).unwrap();
    assert_eq!(client.line(), "done");
}

#[test]
fn our_server_and_clients_at_the_stock_proxy() {
    let Some(mut proxy) = Stock::start(&["proxy"]) else { return };
    let address = proxy.line();
    let _server = server(&address, |_| ());
    for _ in 0..2 {
        exercise(&to(&address).open().unwrap());
    }
    let mut client = Stock::start(&["client", address.rsplit(':').next().unwrap(), "pi"]).unwrap();
    assert_eq!(client.line(), "done");
}
