//! Peers that forward the proofs of others: an undeclared proxy, and attackers between a client and
//! a server.

use kernpack_rpc::wire::{Code, Connection, Encoder, Patience, VERSION};

use super::*;

/// A message of the handshake, without the number before it.
fn read_text(stream: &mut TcpStream) -> Option<String> {
    let mut length = [0; 4];
    stream.read_exact(&mut length).ok()?;
    let mut text = vec![0; usize::try_from(i32::from_le_bytes(length)).unwrap()];
    stream.read_exact(&mut text).ok()?;
    Some(String::from_utf8(text).unwrap())
}

/// A number of the handshake, less `MAGIC`, and the text after it.
fn read_coded(stream: &mut TcpStream) -> Option<(i32, String)> {
    let mut code = [0; 4];
    stream.read_exact(&mut code).ok()?;
    Some((i32::from_le_bytes(code) - MAGIC, read_text(stream)?))
}

fn coded(code: i32, text: &str) -> Vec<u8> {
    [&(MAGIC + code).to_le_bytes()[..], &message(text)].concat()
}

fn dial(address: SocketAddr) -> TcpStream {
    let stream = TcpStream::connect(address).unwrap();
    stream.set_read_timeout(Some(TIME)).unwrap();
    stream
}

/// Accepts the next connection.
fn next(listener: &TcpListener) -> TcpStream {
    let stream = listener.accept().unwrap().0;
    stream.set_read_timeout(Some(TIME)).unwrap();
    stream
}

fn named(options: &mut ServerOptions) {
    options.key = "board".to_owned();
    options.listen.token = Some(TOKEN.to_owned());
}

/// Begins a session as a client does after its handshake. Returns true if it gets one.
fn gets_session(stream: &mut TcpStream) -> bool {
    let wait = Some(TIME);
    let mut connection = Connection::new(&mut *stream, Patience { idle: wait, stall: wait });
    let sent = connection.send(Code::InitServer, |body| {
        body.extend_from_slice(&(VERSION.len() as u64).to_le_bytes());
        body.extend_from_slice(VERSION.as_bytes());
        let _ = Encoder::begin(body, 0);
    });
    let _ = sent;
    stream.read(&mut [0; 4]).is_ok_and(|count| count > 0)
}

#[test]
fn a_forged_proxy_does_not_reflect_a_server_at_itself() {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let forged = listener.local_addr().unwrap();
    // The documentation prescribes one token for both.
    let server = server(|options| {
        named(options);
        options.proxy = Some(Place::new(forged.to_string()).token(TOKEN));
    });
    for asking in ["server: -nonce=", "proxy: -nonce=", "server: -answers=1 -nonce="] {
        let mut offer = next(&listener);
        let (code, said) = read_coded(&mut offer).unwrap();
        let nonce = said.strip_prefix("server:board -nonce=").unwrap().split(' ').next().unwrap();
        assert_eq!(code, 0);
        // Its own port asks for a proof, which it would have to give itself.
        let mut own = dial(server.address());
        own.write_all(&coded(0, &format!("client:board -nonce={nonce}"))).unwrap();
        let (code, asked) = read_coded(&mut own).unwrap();
        assert_eq!(code, 3);
        let asked = asked.rsplit_once("-nonce=").unwrap().1;
        offer.write_all(&coded(3, &format!("{asking}{asked}"))).unwrap();
        let proof = read_text(&mut offer).unwrap();
        assert!(proof.contains("-proof="), "{proof}");
        own.write_all(&message(&proof)).unwrap();
        assert_eq!(own.read(&mut [0; 4]).unwrap_or(0), 0, "{asking}: the server's own proof lets a stranger in");
    }
    assert_eq!(server.session_count(), 0);
}

#[test]
fn a_forged_proxy_gives_no_clients_to_a_server() {
    let nonce = "0123456789abcdef".repeat(4);
    let client = coded(0, "client:board");
    let challenge = coded(3, &format!("proxy: -nonce={nonce}"));
    let echo = |proof: &str| coded(4, proof);
    for (what, asks, answer) in [
        ("asks for nothing", Vec::new(), None),
        ("asks, and goes on", challenge.clone(), None),
        ("asks, and says that it knows", challenge.clone(), Some(coded(4, &format!("proxy: -proof={nonce}")))),
        ("asks, and sends the proof back", challenge.clone(), Some(Vec::new())),
        ("asks, and says nothing of a proof", challenge, Some(coded(4, "proxy:"))),
    ] {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let forged = listener.local_addr().unwrap();
        // The server admits everyone whom its proxy admits.
        let server = server(|options| {
            options.key = "board".to_owned();
            options.proxy = Some(Place::new(forged.to_string()).token(TOKEN));
        });
        let mut offer = next(&listener);
        let _ = read_coded(&mut offer).unwrap();
        if !asks.is_empty() {
            offer.write_all(&asks).unwrap();
            let proof = read_text(&mut offer).unwrap();
            if let Some(answer) = answer {
                let answer = if answer.is_empty() { echo(&proof) } else { answer };
                offer.write_all(&answer).unwrap();
            }
        }
        let _ = offer.write_all(&client);
        assert!(!gets_session(&mut offer) && server.session_count() == 0, "{what}: a session begins");
    }
}

/// An attacker at its own address, to which a client connects: it forwards the messages of both,
/// and changes the requests. Returns true if it is admitted.
fn comes_in(
    client: kernpack_rpc::Connect,
    stranger: &TcpListener,
    target: SocketAddr,
    change: fn(&str) -> String,
) -> bool {
    let tried = thread::spawn(move || client.key("board").token(TOKEN).connect_timeout(TIME).open().map(drop));
    let (mut outside, mut inside) = (next(stranger), dial(target));
    let (_, said) = read_coded(&mut outside).unwrap();
    inside.write_all(&coded(0, &said)).unwrap();
    let (code, asked) = read_coded(&mut inside).unwrap();
    assert_eq!(code, 3, "{asked}");
    outside.write_all(&coded(3, &change(&asked))).unwrap();
    // A client that detects it proves nothing.
    let proof = read_text(&mut outside);
    let is_in = proof.is_some_and(|proof| {
        inside.write_all(&message(&proof)).unwrap();
        read_coded(&mut inside).is_some()
    });
    drop(outside);
    assert!(tried.join().unwrap().is_err());
    is_in
}

#[test]
fn strangers_do_not_pass_on_proofs_of_another_relation() {
    let mut options = ProxyOptions::default();
    options.listen.port = 0;
    options.wait = TIME;
    let proxy = Proxy::start(options).unwrap();
    let own_port = server(named);
    let _behind = server(|options| {
        named(options);
        options.proxy = Some(Place::new(proxy.address().to_string()));
    });
    // The client has the attacker's address from a tracker without a token, which accepts all
    // offers.
    let mut options = TrackerOptions::default();
    options.listen.port = 0;
    let tracker = Tracker::start(options).unwrap();
    let stranger = TcpListener::bind("127.0.0.1:0").unwrap();
    let port = stranger.local_addr().unwrap().port();
    let mut offer = dial(tracker.address());
    offer.write_all(&TRACKER_MAGIC.to_le_bytes()).unwrap();
    offer.read_exact(&mut [0; 4]).unwrap();
    let as_it_is: fn(&str) -> String = str::to_owned;
    let as_server: fn(&str) -> String = |asked| asked.replace(" -answers=1", "");
    let as_proxy: fn(&str) -> String = |asked| asked.replace(" -answers=1", "").replace("server:", "proxy:");
    let as_behind: fn(&str) -> String = |asked| format!("{} -answers=1", asked.replace(" -answers=1", ""));
    for (what, through_proxy, target, change, expected) in [
        ("a server behind a proxy, as it is", false, proxy.address(), as_it_is, false),
        ("a server behind a proxy as one that is not", false, proxy.address(), as_server, false),
        ("a server behind a proxy as the proxy", true, proxy.address(), as_proxy, false),
        ("a server as the proxy", true, own_port.address(), as_proxy, false),
        ("a server as one behind the proxy", true, own_port.address(), as_behind, false),
        ("a server as it is", true, own_port.address(), as_it_is, false),
        // Without TLS, an attacker in the place of a server or of a proxy is between both: see
        // docs/remote-servers.md.
        ("without TLS, a server", false, own_port.address(), as_it_is, true),
        ("without TLS, through a proxy that the user named", true, proxy.address(), as_it_is, true),
    ] {
        offer.write_all(&message(&format!("[3,\"board\",[{port},\"board\"],null]"))).unwrap();
        assert_eq!(read_text(&mut offer).unwrap(), "0");
        let found = TrackerClient::new(tracker.address().to_string()).request("board", 0, TIME).unwrap();
        assert_eq!(found.address, stranger.local_addr().unwrap().to_string());
        let client = if through_proxy { found.connect().through_proxy() } else { found.connect() };
        assert_eq!(comes_in(client, &stranger, target, change), expected, "{what}");
    }
}

#[test]
fn clients_without_a_proof_are_not_in_the_way() {
    let mut options = ProxyOptions::default();
    options.listen.port = 0;
    options.wait = TIME;
    let proxy = Proxy::start(options).unwrap();
    let _behind = server(|options| {
        named(options);
        options.sessions = 1;
        options.proxy = Some(Place::new(proxy.address().to_string()));
    });
    let nonce = "0123456789abcdef".repeat(4);
    let begun = Instant::now();
    // Some send nothing when they are asked, some prove another token, some name another key.
    let mut strangers = Vec::new();
    for said in [format!("client:board -nonce={nonce}"), "client:board".to_owned(), "client:board -token=no".to_owned()]
    {
        for _ in 0..2 {
            let mut stranger = dial(proxy.address());
            stranger.write_all(&coded(0, &said)).unwrap();
            strangers.push(stranger);
        }
    }
    for _ in 0..3 {
        let client = connect(proxy.address().to_string()).key("board").through_proxy();
        assert!(client.token("c2VjcmV0IHRva2Vv").connect_timeout(TIME).open().is_err());
    }
    let client = connect(proxy.address().to_string()).key("board").through_proxy();
    assert!(client.token(TOKEN).connect_timeout(TIME).open().unwrap().is_open());
    // A handshake may take 10 s.
    assert!(begun.elapsed() < Duration::from_secs(10), "{:?}", begun.elapsed());
}

#[test]
fn proxies_of_other_machines_need_what_listening_needs() {
    let program = || Some((env!("CARGO_BIN_EXE_kernpack-rpc-server").into(), Vec::new()));
    for (address, token, insecure, problem) in [
        ("192.0.2.1:9090", None, false, "the proxy 192.0.2.1:9090 is on another machine"),
        ("192.0.2.1:9090", Some(TOKEN), false, "use TLS (--proxy-fingerprint)"),
        ("no.such.host.invalid", Some(TOKEN), false, "the proxy no.such.host.invalid is on another machine"),
        ("192.0.2.1:9090", None, true, ""),
        ("127.0.0.1:1", None, false, ""),
        ("localhost:1", None, false, ""),
        ("[::1]:1", None, false, ""),
    ] {
        let mut options = ServerOptions::default();
        options.listen.port = 0;
        options.listen.insecure = insecure;
        options.program = program();
        let mut place = Place::new(address);
        place.token = token.map(str::to_owned);
        options.proxy = Some(place);
        let found = Server::start(options).err().map(|error| error.to_string()).unwrap_or_default();
        assert!(found.contains(problem) && found.is_empty() == problem.is_empty(), "{address}: {found}");
    }
    #[cfg(feature = "tls")]
    for (of_server, of_proxy, is_taken) in [(None, None, false), (Some(TOKEN), None, true), (None, Some(TOKEN), true)] {
        let mut options = ServerOptions::default();
        options.listen.port = 0;
        options.listen.token = of_server.map(str::to_owned);
        options.program = program();
        let trust = kernpack_rpc::tls::Trust::Fingerprint("4a".repeat(32).parse().unwrap());
        let mut place = Place::new("192.0.2.1:9090").tls(trust);
        place.token = of_proxy.map(str::to_owned);
        options.proxy = Some(place);
        let error = Server::start(options).err();
        assert_eq!(error.is_none(), is_taken, "{error:?}");
        assert!(error.is_none_or(|error| error.message().contains("use a token")));
    }
}

#[test]
fn a_made_token_does_not_come_into_a_file_of_all() {
    use std::os::unix::fs::OpenOptionsExt;
    let folder = PathBuf::from(env!("CARGO_TARGET_TMPDIR")).join(format!("rpc-made-{}", std::process::id()));
    fs::create_dir_all(&folder).unwrap();
    for (mode, options, is_refused) in [
        (0o644, &["--port", "0"][..], true),
        (0o640, &["--port", "0"], true),
        (0o600, &["--port", "0"], false),
        (0o644, &["--port", "0", "--no-token"], false),
    ] {
        let path = folder.join(format!("{mode:o}-{}.log", options.len()));
        let log = fs::OpenOptions::new().write(true).create(true).mode(mode).open(&path).unwrap();
        // Independent of the umask.
        let permissions = std::os::unix::fs::PermissionsExt::from_mode(mode);
        fs::set_permissions(&path, permissions).unwrap();
        let mut command = Command::new(env!("CARGO_BIN_EXE_kernpack-rpc-server"));
        let command = command.args(options).env_remove("KERNPACK_RPC_TOKEN").stdout(log).stderr(Stdio::piped());
        let mut child = command.spawn().unwrap();
        if is_refused {
            let mut text = String::new();
            let _ = child.stderr.take().unwrap().read_to_string(&mut text).unwrap();
            assert!(!child.wait().unwrap().success());
            assert!(text.contains("a file that other users may read: `chmod 600`"), "{mode:o}: {text}");
            assert_eq!(fs::read_to_string(&path).unwrap(), "");
            continue;
        }
        let end = Instant::now() + TIME;
        let is_said = || {
            let text = fs::read_to_string(&path).unwrap();
            text.contains("listening on ") && (options.contains(&"--no-token") || text.contains("token: "))
        };
        while !is_said() {
            assert!(Instant::now() < end, "{mode:o}");
            thread::sleep(Duration::from_millis(5));
        }
        let _ = child.kill();
        let _ = child.wait();
    }
    let _ = fs::remove_dir_all(folder);
}
