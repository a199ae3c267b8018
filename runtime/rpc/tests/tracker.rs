//! The tracker with Kernpack's servers and clients, and each of them with those of Apache TVM
//! (`KERNPACK_APACHE_TVM`, as in `stock.rs`).

mod ports;

use std::io::{BufRead, BufReader, Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::sync::{Arc, Mutex};
use std::thread;
use std::time::{Duration, Instant};

use kernpack_rpc::tracker::{Tracker, TrackerClient, TrackerOptions};
use kernpack_rpc::{Place, Server, ServerOptions, Session};
use kernpack_skip::skip;

const TIME: Duration = Duration::from_secs(30);

fn tracker_at(port: u16, stop_key: Option<&str>) -> Tracker {
    let mut options = TrackerOptions::default();
    options.listen.port = port;
    options.stop_key = stop_key.map(str::to_owned);
    Tracker::start(options).unwrap()
}

fn client_of(address: SocketAddr) -> TrackerClient {
    TrackerClient::new(address.to_string())
}

/// A server whose sessions are processes of the program for boards.
fn server(tracker: SocketAddr, key: &str, sessions: usize) -> Server {
    let mut options = ServerOptions::default();
    options.listen.port = 0;
    options.key = key.to_owned();
    options.tracker = Some(Place::new(tracker.to_string()));
    options.sessions = sessions;
    options.program = Some((PathBuf::from(env!("CARGO_BIN_EXE_kernpack-rpc-server")), Vec::new()));
    Server::start(options).unwrap()
}

fn wait_until(what: &str, condition: impl Fn() -> bool) {
    let deadline = Instant::now() + TIME;
    while !condition() {
        assert!(Instant::now() < deadline, "waited for {what}");
        thread::sleep(Duration::from_millis(20));
    }
}

/// The numbers of free servers, busy servers and waiting clients of a key.
fn status(client: &TrackerClient, key: &str) -> (usize, usize, usize) {
    let summary = client.summary().unwrap();
    let of_key = summary.keys.iter().find(|known| known.key == key);
    of_key.map_or((0, 0, 0), |known| (known.free, known.total - known.free.min(known.total), known.waiting))
}

fn is_alive(session: &Session) {
    let functions = session.global_function("ffi.FunctionListGlobalNamesFunctor").unwrap();
    drop(functions);
    assert!(session.is_open());
}

#[test]
fn servers_are_given_to_one_client_at_a_time() {
    let tracker = tracker_at(0, None);
    let client = client_of(tracker.address());
    let server = server(tracker.address(), "pi", 1);
    wait_until("the server's offer", || status(&client, "pi") == (1, 0, 0));
    assert!(server.is_registered());
    let summary = client.summary().unwrap();
    assert_eq!(summary.servers[0].address, server.address().to_string());
    assert_eq!(summary.servers[0].key, "pi");
    let found = client.request("pi", 0, TIME).unwrap();
    assert_eq!(found.address, server.address().to_string());
    let session = found.connect().open().unwrap();
    is_alive(&session);
    assert_eq!(status(&client, "pi"), (0, 1, 0));
    // Busy: a request waits for the end of the session, and reports a timeout if it does not come.
    let error = client.request("pi", 0, Duration::from_millis(300)).unwrap_err();
    assert_eq!(error.kind(), "TimeoutError");
    assert!(
        error.message().contains("no server of key 'pi' was free within 0.3 s; 1 of 1 servers with this key are busy"),
        "{error}"
    );
    // A match key is valid for one session, and only a match key opens a session.
    for key in [found.match_key.as_str(), "pi", "", "pi:0123"] {
        let error = kernpack_rpc::connect(&found.address).key(key).open().unwrap_err();
        assert!(error.message().contains("another key"), "{error}");
    }
    let next = thread::spawn({
        let client = client.clone();
        move || client.request("pi", 0, TIME).unwrap().connect().open().unwrap()
    });
    wait_until("the second client", || status(&client, "pi").2 == 1);
    drop(session);
    is_alive(&next.join().unwrap());
}

#[test]
fn clients_of_higher_priority_are_served_first() {
    let tracker = tracker_at(0, None);
    let client = client_of(tracker.address());
    let order = Arc::new(Mutex::new(Vec::new()));
    let mut waiting = Vec::new();
    for priority in [0, 5, 1, 5] {
        let (own, order, before) = (client.clone(), Arc::clone(&order), waiting.len());
        waiting.push(thread::spawn(move || {
            let session = own.request("k", priority, TIME).unwrap().connect().open().unwrap();
            // The next session begins when this one has ended.
            order.lock().unwrap().push((priority, before));
            is_alive(&session);
        }));
        wait_until("a request", || status(&client, "k").2 == before + 1);
    }
    let first = server(tracker.address(), "k", 1);
    waiting.into_iter().for_each(|thread| thread.join().unwrap());
    assert_eq!(*order.lock().unwrap(), [(5, 1), (5, 3), (1, 2), (0, 0)]);
    drop(first);
    // A server that accepts three at the same time.
    let _server = server(tracker.address(), "more", 3);
    let open = || client.request("more", 0, TIME).unwrap().connect().open().unwrap();
    let sessions = [open(), open(), open()];
    sessions.iter().for_each(is_alive);
}

#[test]
fn servers_come_back_after_a_restart() {
    let tracker = tracker_at(ports::own_port(), Some("end"));
    let address = tracker.address();
    let client = client_of(address);
    let server = server(address, "k", 1);
    wait_until("the offer", || status(&client, "k").0 == 1);
    tracker.stop();
    wait_until("the end of the connection", || !server.is_registered());
    let error = client.summary().unwrap_err();
    assert_eq!(error.kind(), "ConnectionError");
    assert!(error.message().contains(&format!("no connection to the tracker {address}")), "{error}");
    let tracker = tracker_at(address.port(), Some("end"));
    wait_until("the server", || status(&client, "k").0 == 1);
    is_alive(&client.request("k", 0, TIME).unwrap().connect().open().unwrap());
    // A server that is gone is not assigned to any client.
    drop(server);
    wait_until("the server's end", || client.summary().unwrap().servers.is_empty());
    let error = client.request("k", 0, Duration::from_millis(200)).unwrap_err();
    assert!(error.message().contains("the tracker has no server with this key: it has no servers"), "{error}");
    // It ends only with its stop key.
    assert_eq!(raw(address, &["[2, \"other\"]"]), ["-1"]);
    assert_eq!(raw(address, &["[2, \"end\"]"]), ["0"]);
    tracker.wait();
}

/// Sends messages by hand, and returns the answers; stops at the first that is missing.
fn raw(address: SocketAddr, messages: &[&str]) -> Vec<String> {
    let mut stream = TcpStream::connect(address).unwrap();
    stream.set_read_timeout(Some(TIME)).unwrap();
    let magic = 0x2F271_i32.to_le_bytes();
    stream.write_all(&magic).unwrap();
    let mut answer = [0; 4];
    stream.read_exact(&mut answer).unwrap();
    assert_eq!(answer, magic);
    let mut answers = Vec::new();
    for message in messages {
        let _ = stream.write_all(&(message.len() as i32).to_le_bytes());
        let _ = stream.write_all(message.as_bytes());
        let mut length = [0; 4];
        if stream.read_exact(&mut length).is_err() {
            break;
        }
        let mut text = vec![0; usize::try_from(i32::from_le_bytes(length)).unwrap()];
        stream.read_exact(&mut text).unwrap();
        answers.push(String::from_utf8(text).unwrap());
    }
    answers
}

#[test]
fn what_peers_say() {
    let tracker = tracker_at(0, None);
    let address = tracker.address();
    let answers = raw(
        address,
        &[
            "[1]",
            "[5,{\"key\":\"server:k\",\"addr\":[null,5]}]",
            "[3,\"k\",[5,\"k:1\"],null]",
            "[3,\"k\",[6,\"k:2\"],\"localhost\"]",
            "[7]",
            "[6]",
        ],
    );
    assert_eq!(answers[..5], ["0", "0", "0", "0", "[\"k:1\",\"k:2\"]"]);
    assert!(answers[5].contains("\"addr\":[\"127.0.0.1\",5]") && answers[5].contains("\"free\":2"), "{}", answers[5]);
    // An invalid message only ends the connection.
    for message in [
        "[99]",
        "[]",
        "{}",
        "null",
        "[3]",
        "[3,\"a b\",[1,\"m\"]]",
        "[3,\"a\",[70000,\"m\"]]",
        "[3,\"a\",[1,5]]",
        "[4]",
        "[4,\"\"]",
        "[4,\"\\u0007\",\"\",1]",
        "[5,{}]",
        "[5,7]",
        "no json",
    ] {
        assert_eq!(raw(address, &[message]), [""; 0], "{message}");
    }
    assert_eq!(raw(address, &["[2,null]"]), ["-1"]);
    // A stranger of another protocol, and many that send nothing.
    let mut other = TcpStream::connect(address).unwrap();
    other.write_all(b"GET / HTTP/1.1\r\n\r\n").unwrap();
    let mut rest = Vec::new();
    assert_eq!(other.read_to_end(&mut rest).unwrap_or(0), 0);
    let silent: Vec<TcpStream> = (0..200).map(|_| TcpStream::connect(address).unwrap()).collect();
    assert_eq!(raw(address, &["[1]"]), ["0"]);
    drop(silent);
    wait_until("the end of all", || client_of(address).summary().unwrap().keys.is_empty());
}

#[test]
fn addresses_of_other_machines_are_refused() {
    let mut options = TrackerOptions::default();
    options.listen.host = "0.0.0.0".to_owned();
    let error = Tracker::start(options).err().unwrap();
    assert!(error.message().contains("--insecure"), "{error}");
    let mut options = ServerOptions::default();
    options.listen.port = 0;
    options.tracker = Some(Place::new("127.0.0.1:1"));
    options.program = Some((PathBuf::from("none"), Vec::new()));
    let error = Server::start(options).err().unwrap();
    assert!(error.message().contains("with --key"), "{error}");
}

/// A program of Apache TVM that prints its address, and ends with its standard input.
struct Stock {
    process: Child,
    first: String,
}

impl Stock {
    fn start(program: &str, arguments: &[&str]) -> Option<Self> {
        let Some(python) = std::env::var_os("KERNPACK_APACHE_TVM") else {
            skip("KERNPACK_APACHE_TVM names no Python with Apache TVM");
            return None;
        };
        let script = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/stock_tracker.py");
        let mut command = Command::new(python);
        command.args([script, program]).args(arguments).stdin(Stdio::piped()).stdout(Stdio::piped());
        let mut process = command.spawn().expect("the program starts");
        let mut first = String::new();
        let output = process.stdout.take().expect("a pipe");
        BufReader::new(output).read_line(&mut first).expect("a line");
        Some(Self { process, first: first.trim().to_owned() })
    }
}

impl Drop for Stock {
    fn drop(&mut self) {
        drop(self.process.stdin.take());
        let _ = self.process.wait();
    }
}

#[test]
fn our_server_and_client_with_the_tracker_of_tvm() {
    let Some(stock) = Stock::start("tracker", &[]) else { return };
    let address: SocketAddr = stock.first.parse().unwrap();
    let client = client_of(address);
    let _server = server(address, "ours", 1);
    wait_until("the offer", || status(&client, "ours").0 == 1);
    assert!(client.summary().unwrap().to_string().contains("ours  1        1     0     0"));
    let session = client.request("ours", 1, TIME).unwrap().connect().open().unwrap();
    is_alive(&session);
    drop(session);
    wait_until("the next offer", || status(&client, "ours").0 == 1);
    is_alive(&client.request("ours", 1, TIME).unwrap().connect().open().unwrap());
}

#[test]
fn server_and_client_of_tvm_with_our_tracker() {
    let tracker = tracker_at(0, None);
    let (address, client) = (tracker.address(), client_of(tracker.address()));
    let port = address.port().to_string();
    let Some(_stock) = Stock::start("server", &[&port, "theirs"]) else { return };
    wait_until("the offer", || status(&client, "theirs").0 == 1);
    // Kernpack's client, then Apache TVM's, with its server; then Apache TVM's client with
    // Kernpack's server.
    let session = client.request("theirs", 0, TIME).unwrap().connect().open().unwrap();
    is_alive(&session);
    drop(session);
    let _server = server(address, "ours", 1);
    for key in ["theirs", "ours"] {
        let stock = Stock::start("client", &[&port, key]).unwrap();
        assert_eq!(stock.first, "done", "{key}");
    }
}
