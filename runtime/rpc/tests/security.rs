//! Attacks of strangers on servers, trackers and clients: forged peers that want a token, many
//! peers that want nothing, and a session that looks around.

#[path = "security/relays.rs"]
mod relays;
#[cfg(target_os = "linux")]
#[path = "security/secrets.rs"]
mod secrets;
#[path = "security/slots.rs"]
mod slots;

use std::fs;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::sync::{Arc, Mutex};
use std::thread;
use std::time::{Duration, Instant};

use kernpack_rpc::tracker::{Tracker, TrackerClient, TrackerOptions};
use kernpack_rpc::{Place, Proxy, ProxyOptions, Server, ServerOptions, connect};

const TIME: Duration = Duration::from_secs(30);
const TOKEN: &str = "c2VjcmV0IHRva2Vu";
const MAGIC: i32 = 0xFF271;
const TRACKER_MAGIC: i32 = 0x2F271;

fn server(change: impl FnOnce(&mut ServerOptions)) -> Server {
    let mut options = ServerOptions::default();
    options.listen.port = 0;
    options.program = Some((env!("CARGO_BIN_EXE_kernpack-rpc-server").into(), Vec::new()));
    change(&mut options);
    Server::start(options).unwrap()
}

fn message(text: &str) -> Vec<u8> {
    [&(text.len() as i32).to_le_bytes()[..], text.as_bytes()].concat()
}

/// Starts a peer that answers the first bytes, whatever they are, with the first answer, and so on;
/// the result collects everything that it receives.
fn forged(answers: Vec<Vec<u8>>) -> (SocketAddr, Arc<Mutex<Vec<u8>>>) {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    let heard = Arc::new(Mutex::new(Vec::new()));
    let all = Arc::clone(&heard);
    thread::spawn(move || {
        for stream in listener.incoming() {
            let Ok(mut stream) = stream else { return };
            stream.set_read_timeout(Some(TIME)).unwrap();
            let mut bytes = [0; 4096];
            for answer in &answers {
                let Ok(count) = stream.read(&mut bytes) else { break };
                all.lock().unwrap().extend_from_slice(&bytes[..count]);
                if stream.write_all(answer).is_err() {
                    break;
                }
            }
            // Its reaction to that is recorded, too.
            while let Ok(count @ 1..) = stream.read(&mut bytes) {
                all.lock().unwrap().extend_from_slice(&bytes[..count]);
            }
        }
    });
    (address, heard)
}

fn holds_token(bytes: &[u8]) -> bool {
    bytes.windows(TOKEN.len()).any(|part| part == TOKEN.as_bytes())
}

#[test]
fn forged_servers_get_no_token() {
    let nonce = "0123456789abcdef".repeat(4);
    let welcome = [&MAGIC.to_le_bytes()[..], &message("server:pi")].concat();
    let proved = [&MAGIC.to_le_bytes()[..], &message(&format!("server:pi -proof={nonce}"))].concat();
    let challenge = [&(MAGIC + 3).to_le_bytes()[..], &message(&format!("server: -nonce={nonce}"))].concat();
    let said = [&(MAGIC + 4).to_le_bytes()[..], &message(&format!("server: -proof={nonce}")), &welcome].concat();
    let of_proxy = [&(MAGIC + 3).to_le_bytes()[..], &message(&format!("proxy: -nonce={nonce}"))].concat();
    for (what, answers, problem) in [
        ("takes all", vec![welcome.clone()], "does not prove that it knows the token"),
        ("says that it knows", vec![proved.clone()], "does not prove that it knows the token"),
        ("asks first", vec![challenge.clone(), welcome.clone()], "does not prove that it knows the token"),
        ("asks and says", vec![challenge.clone(), proved], "does not prove that it knows the token"),
        ("asks again and again", vec![challenge.clone(); 4], "does not prove that it knows the token"),
        ("asks and says more", vec![challenge.clone(), said], "does not prove that it knows the token"),
        ("asks as a proxy", vec![of_proxy], "`through_proxy()`"),
        ("asks nothing", vec![[&(MAGIC + 3).to_le_bytes()[..], &message("server:")].concat()], "none was offered"),
        ("knows no key", vec![(MAGIC + 2).to_le_bytes().to_vec()], "another key"),
        (
            "asks with a long text",
            vec![[&(MAGIC + 3).to_le_bytes()[..], &i32::MAX.to_le_bytes()].concat()],
            "the most is 4096",
        ),
    ] {
        let (address, heard) = forged(answers);
        let open = connect(address.to_string()).key("pi").token(TOKEN).connect_timeout(TIME).open();
        let error = open.unwrap_err();
        assert!(error.message().contains(problem), "{what}: {error}");
        let heard = heard.lock().unwrap();
        assert!(heard.len() > 60 && !holds_token(&heard), "{what}: {}", heard.escape_ascii());
    }
    // A client that has no token is not asked for one.
    let (address, _) = forged(vec![challenge]);
    let error = connect(address.to_string()).key("pi").connect_timeout(TIME).open().unwrap_err();
    assert!(error.message().contains("a proof of a token was asked for"), "{error}");
}

#[test]
fn forged_trackers_and_proxies_get_no_token() {
    let nonce = "0123456789abcdef".repeat(4);
    let magic = TRACKER_MAGIC.to_le_bytes().to_vec();
    for answers in [
        vec![magic.clone(), message("0")],
        vec![magic.clone(), message(&format!("[0,\"{nonce}\"]")), message("0")],
        vec![magic.clone(), message(&format!("[0,\"{nonce}\"]")), message(&format!("[0,\"{nonce}\"]"))],
    ] {
        let (address, heard) = forged(answers);
        let client = TrackerClient::new(address.to_string()).token(TOKEN).connect_timeout(TIME);
        let error = client.summary().unwrap_err();
        assert_eq!(error.kind(), "ConnectionError", "{error}");
        let heard = heard.lock().unwrap();
        assert!(heard.len() > 60 && !holds_token(&heard), "{}", heard.escape_ascii());
    }
    let challenge = [&(MAGIC + 3).to_le_bytes()[..], &message(&format!("server: -nonce={nonce}"))].concat();
    let (address, heard) = forged(vec![challenge, Vec::new()]);
    let server = server(|options| {
        options.key = "pi".to_owned();
        options.proxy = Some(Place::new(address.to_string()).token(TOKEN));
    });
    let end = Instant::now() + TIME;
    let is_proved = || heard.lock().unwrap().windows(7).any(|part| part == b"-proof=");
    while !is_proved() {
        assert!(Instant::now() < end, "{}", heard.lock().unwrap().escape_ascii());
        thread::sleep(Duration::from_millis(5));
    }
    drop(server);
    assert!(!holds_token(&heard.lock().unwrap()));
}

#[test]
fn who_knows_the_token_comes_in() {
    let named = |options: &mut ServerOptions| {
        options.key = "pi".to_owned();
        options.listen.token = Some(TOKEN.to_owned());
    };
    let server = server(named);
    let open = |address: SocketAddr, token: &str| connect(address.to_string()).key("pi").token(token).open();
    assert!(open(server.address(), TOKEN).unwrap().is_open());
    for token in ["c2VjcmV0IHRva2V", "c2VjcmV0IHRva2Vv"] {
        let error = open(server.address(), token).unwrap_err();
        assert!(error.message().contains("closed the connection"), "{error}");
    }
    // Through a proxy: one that has no token, and one that has the same.
    for of_proxy in [None, Some(TOKEN.to_owned())] {
        let mut options = ProxyOptions::default();
        options.listen.port = 0;
        options.listen.token = of_proxy.clone();
        options.wait = TIME;
        let proxy = Proxy::start(options).unwrap();
        let mut place = Place::new(proxy.address().to_string());
        place.token = of_proxy.clone();
        let _behind = self::server(|options| {
            named(options);
            options.proxy = Some(place);
        });
        // A proxy that the user did not declare gets no proof.
        let error = open(proxy.address(), TOKEN).unwrap_err();
        assert!(error.message().contains("`through_proxy()`"), "{of_proxy:?}: {error}");
        let open = |address: SocketAddr, token: &str| {
            connect(address.to_string()).key("pi").through_proxy().token(token).open()
        };
        let error = open(server.address(), TOKEN).unwrap_err();
        assert!(error.message().contains("leave out `through_proxy()`"), "{error}");
        let session = open(proxy.address(), TOKEN).unwrap_or_else(|error| panic!("{of_proxy:?}: {error}"));
        assert_eq!(session.server_key(), "pi", "{of_proxy:?}");
        assert!(session.global_function("testing.echo").unwrap().call_as::<i64>((1,)).unwrap() == 1);
        drop(session);
        assert!(open(proxy.address(), "c2VjcmV0IHRva2Vv").is_err(), "{of_proxy:?}");
    }
    // A tracker.
    let mut options = TrackerOptions::default();
    options.listen.port = 0;
    options.listen.token = Some(TOKEN.to_owned());
    let tracker = Tracker::start(options).unwrap();
    let client = |token: &str| TrackerClient::new(tracker.address().to_string()).token(token);
    assert!(client(TOKEN).summary().unwrap().servers.is_empty());
    assert_eq!(client("c2VjcmV0IHRva2Vv").summary().unwrap_err().kind(), "ConnectionError");
    let _offered = self::server(|options| {
        named(options);
        options.tracker = Some(Place::new(tracker.address().to_string()).token(TOKEN));
    });
    let found = client(TOKEN).request("pi", 0, TIME).unwrap();
    assert!(found.connect().token(TOKEN).open().unwrap().is_open());
    let plain = TrackerClient::new(tracker.address().to_string()).summary().unwrap_err();
    assert_eq!(plain.kind(), "ConnectionError", "{plain}");
}

/// Sends messages to a tracker, and returns the answers.
fn ask(address: SocketAddr, messages: &[&str]) -> Vec<String> {
    let mut stream = TcpStream::connect(address).unwrap();
    stream.set_read_timeout(Some(TIME)).unwrap();
    stream.write_all(&TRACKER_MAGIC.to_le_bytes()).unwrap();
    stream.read_exact(&mut [0; 4]).unwrap();
    let mut answers = Vec::new();
    for text in messages {
        stream.write_all(&message(text)).unwrap();
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
fn trackers_take_only_addresses_of_the_peer() {
    let tracker = |any_host: bool| {
        let mut options = TrackerOptions::default();
        options.listen.port = 0;
        options.any_host = any_host;
        Tracker::start(options).unwrap()
    };
    let (strict, free) = (tracker(false), tracker(true));
    for (host, own) in [
        ("null", true),
        ("\"127.0.0.1\"", true),
        ("\"localhost\"", true),
        ("\"192.0.2.1\"", false),
        ("\"8.8.8.8\"", false),
        ("\"::ffff:192.0.2.1\"", false),
        ("\"0.0.0.0\"", false),
        ("\"no.such.host.invalid\"", false),
    ] {
        for asked in
            [format!("[3,\"k\",[6,\"k:1\"],{host}]"), format!("[5,{{\"key\":\"server:k\",\"addr\":[{host},6]}}]")]
        {
            let answers = ask(strict.address(), &[&asked, "[1]"]);
            match own {
                true => assert_eq!(answers, ["0", "0"], "{asked}"),
                // The tracker sends the reason, and closes the connection.
                false => assert!(answers.len() == 1 && answers[0].contains("another machine"), "{asked}: {answers:?}"),
            }
            assert_eq!(ask(free.address(), &[&asked, "[1]"]), ["0", "0"], "{asked}");
        }
    }
    // A text that is too long for a tracker, and the length of one that never arrives.
    assert_eq!(ask(strict.address(), &[&format!("[1,\"{}\"]", "x".repeat(9000))]), [""; 0]);
}

/// A program with few descriptors, which prints its address first.
struct Few(Child, SocketAddr);

impl Few {
    fn start(program: &str, arguments: &[&str]) -> Self {
        let mut command = Command::new("sh");
        command.args(["-c", "ulimit -n 200; exec \"$0\" \"$@\"", program]).args(arguments);
        let mut child = command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::null()).spawn().unwrap();
        let lines = BufReader::new(child.stdout.take().unwrap()).lines();
        let found = lines.map(Result::unwrap).find_map(|line| Some(line.split_once("listening on ")?.1.to_owned()));
        Self(child, found.expect("an address").parse().unwrap())
    }
}

impl Drop for Few {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// Not a test by itself: the tracker of the next one, in its own process, until its input ends.
#[test]
#[ignore = "started by strangers_do_not_use_up_descriptors"]
fn tracker_with_few_descriptors() {
    let mut options = TrackerOptions::default();
    options.listen.port = 0;
    let tracker = Tracker::start(options).unwrap();
    println!("listening on {}", tracker.address());
    let _ = std::io::stdin().read(&mut [0]);
}

#[test]
fn strangers_do_not_use_up_descriptors() {
    let own = std::env::current_exe().unwrap();
    let tracker = Few::start(
        own.to_str().unwrap(),
        &["--exact", "tracker_with_few_descriptors", "--ignored", "--nocapture", "--test-threads=1"],
    );
    let client = TrackerClient::new(tracker.1.to_string()).connect_timeout(TIME);
    // A registered server stays.
    let mut options = ServerOptions::default();
    options.listen.port = 0;
    options.key = "pi".to_owned();
    options.tracker = Some(Place::new(tracker.1.to_string()));
    options.sessions = 1;
    options.program = Some((env!("CARGO_BIN_EXE_kernpack-rpc-server").into(), Vec::new()));
    let _server = Server::start(options).unwrap();
    let is_offered = || client.summary().is_ok_and(|summary| summary.keys.iter().any(|key| key.free == 1));
    let end = Instant::now() + TIME;
    while !is_offered() {
        assert!(Instant::now() < end, "no offer");
        thread::sleep(Duration::from_millis(5));
    }
    let mut strangers = Vec::new();
    for index in 0..400 {
        let mut stream = TcpStream::connect(tracker.1).unwrap();
        if index % 2 == 0 {
            let _ = stream.write_all(&TRACKER_MAGIC.to_le_bytes());
        }
        strangers.push(stream);
    }
    for _ in 0..5 {
        assert!(is_offered(), "strangers are in the way");
    }
    drop(strangers);
    assert!(is_offered());
    // A server.
    let program = Few::start(env!("CARGO_BIN_EXE_kernpack-rpc-server"), &["--no-token", "--port", "0"]);
    let strangers: Vec<_> = (0..400).map(|_| TcpStream::connect(program.1).unwrap()).collect();
    for _ in 0..3 {
        assert!(connect(program.1.to_string()).connect_timeout(TIME).open().unwrap().is_open());
    }
    drop(strangers);
}
