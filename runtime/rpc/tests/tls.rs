//! Sessions over TLS: the admitted peers, the sent bytes, and the limits.

mod ports;

use std::io::{Read, Write};
use std::net::TcpStream;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use kernpack::{Device, Tensor};
use kernpack_rpc::tls::{Fingerprint, Identity, TlsAcceptor, Trust};
use kernpack_rpc::{Place, Server, ServerOptions, connect};

/// An empty folder of a test, which is removed with this value.
struct Folder(PathBuf);

impl Folder {
    fn new(name: &str) -> Self {
        let path = Path::new(env!("CARGO_TARGET_TMPDIR")).join(format!("tls-{name}-{}", std::process::id()));
        let _ = std::fs::remove_dir_all(&path);
        Self(path)
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

const NAMES: [&str; 2] = ["localhost", "127.0.0.1"];

fn identity(folder: &Folder) -> Identity {
    Identity::generate(&folder.0, &NAMES.map(str::to_owned)).unwrap()
}

fn server(folder: &Folder, host: &str) -> (Server, Fingerprint, String) {
    let identity = identity(folder);
    let fingerprint = identity.fingerprint();
    let token = std::fs::read_to_string(folder.0.join("token")).unwrap().trim().to_owned();
    let mut options = ServerOptions::default();
    options.listen.host = host.to_owned();
    options.listen.port = 0;
    options.listen.token = Some(token.clone());
    options.listen.tls = Some(TlsAcceptor::new(identity).unwrap());
    options.listen.handshake_time = Duration::from_secs(5);
    options.program = Some((PathBuf::from(env!("CARGO_BIN_EXE_kernpack-rpc-server")), Vec::new()));
    (Server::start(options).unwrap(), fingerprint, token)
}

#[test]
fn a_session_over_tls() {
    let folder = Folder::new("session");
    // With both, the server may listen for other machines.
    let (server, fingerprint, token) = server(&folder, "0.0.0.0");
    let address = format!("127.0.0.1:{}", server.address().port());
    let session = connect(&address).tls(Trust::Fingerprint(fingerprint)).token(&token).open().unwrap();
    let values: Vec<f32> = (0..500_000).map(|index| index as f32).collect();
    let tensor = Tensor::from_slice(&values, &[500, 1000]).unwrap();
    let remote = tensor.to(session.device("cpu").unwrap()).unwrap();
    let back = remote.to(Device::CPU).unwrap();
    assert_eq!(back.view::<f32>().unwrap().to_vec(), values);
    session.upload_as("note", &[7; 100_000]).unwrap();
    assert_eq!(&session.download("note").unwrap()[..], [7; 100_000]);
    // Several at the same time, and by an authority: the certificate is self-signed.
    let authorities = Trust::Authorities(folder.0.join("cert.pem"));
    let other =
        connect(format!("localhost:{}", server.address().port())).tls(authorities).token(&token).open().unwrap();
    assert_eq!(server.session_count(), 2);
    drop((remote, session));
    assert!(other.global_function("ffi.FunctionListGlobalNamesFunctor").is_ok());
    drop(other);
    let deadline = Instant::now() + Duration::from_secs(20);
    while server.session_count() > 0 {
        assert!(Instant::now() < deadline, "a session is left");
        std::thread::sleep(Duration::from_millis(10));
    }
}

#[test]
fn strangers_stay_outside() {
    let folder = Folder::new("strangers");
    let (server, fingerprint, token) = server(&folder, "127.0.0.1");
    let address = server.address().to_string();
    let other = Folder::new("other");
    let wrong = identity(&other).fingerprint();
    // Another server's certificate, no token, another token, no TLS at all.
    let error = connect(&address).tls(Trust::Fingerprint(wrong)).token(&token).open().unwrap_err();
    assert_eq!(error.kind(), "ConnectionError");
    let (own, expected) = (fingerprint.to_string(), wrong.to_string());
    assert!(error.message().contains(&format!("the fingerprint {own}, not {expected}")), "{error}");
    let authorities = Trust::Authorities(other.0.join("cert.pem"));
    let error = connect(&address).tls(authorities).token(&token).open().unwrap_err();
    assert!(error.message().contains("no TLS with 127.0.0.1"), "{error}");
    for token in [None, Some("0000000000000000")] {
        let mut asked = connect(&address).tls(Trust::Fingerprint(fingerprint));
        if let Some(token) = token {
            asked = asked.token(token);
        }
        let error = asked.open().unwrap_err();
        assert!(error.message().contains("wants a token"), "{error}");
    }
    let error = connect(&address).token(&token).open().unwrap_err();
    assert_eq!(error.kind(), "ConnectionError", "{error}");
    // Bytes that are not TLS, and no bytes: the connection ends within the time of a handshake.
    for bytes in [&b"GET / HTTP/1.1\r\n\r\n"[..], &[0x16, 3, 1, 0xff, 0xff, 1], &[]] {
        let mut stream = TcpStream::connect(&address).unwrap();
        stream.set_read_timeout(Some(Duration::from_secs(40))).unwrap();
        stream.write_all(bytes).unwrap();
        let start = Instant::now();
        let mut rest = Vec::new();
        let _ = stream.read_to_end(&mut rest);
        // At most an alert, no certificate.
        assert!(rest.len() <= 7, "{rest:?}");
        assert!(start.elapsed() < Duration::from_secs(20));
    }
    assert_eq!(server.session_count(), 0);
    assert!(connect(&address).tls(Trust::Fingerprint(fingerprint)).token(&token).open().is_ok());
}

#[test]
fn files_of_keys() {
    use std::os::unix::fs::PermissionsExt;
    let folder = Folder::new("files");
    let made = identity(&folder);
    for (name, mode) in [("key.pem", 0o600), ("token", 0o600), ("cert.pem", 0o644)] {
        assert_eq!(std::fs::metadata(folder.0.join(name)).unwrap().permissions().mode() & 0o777, mode, "{name}");
    }
    let (certificate, key) = (folder.0.join("cert.pem"), folder.0.join("key.pem"));
    let loaded = Identity::load(&certificate, &key).unwrap();
    assert_eq!(loaded.fingerprint(), made.fingerprint());
    // Existing files are not overwritten.
    let error = Identity::generate(&folder.0, &["a".to_owned()]).err().unwrap();
    assert!(error.message().contains("key.pem"), "{error}");
    let error = Identity::load(&key, &key).err().unwrap();
    assert!(error.message().contains("no certificate in it"), "{error}");
    let error = Identity::load(&certificate, &certificate).err().unwrap();
    assert!(error.message().contains("no private key"), "{error}");
    let error = Identity::load(Path::new("/no/file"), &key).err().unwrap();
    assert!(error.message().contains("/no/file"), "{error}");
    // A key of another certificate.
    let other = Folder::new("files-other");
    let _ = identity(&other);
    let mixed = Identity::load(&certificate, &other.0.join("key.pem")).unwrap();
    assert!(TlsAcceptor::new(mixed).unwrap_err().message().contains("do not go together"));
    let error = connect("127.0.0.1:1").tls(Trust::Authorities("/no/file".into())).open().unwrap_err();
    assert!(error.kind() == "ConnectionError" || error.message().contains("/no/file"), "{error}");
}

/// A token or a certificate alone is not enough for other machines.
#[test]
fn half_a_guard() {
    let folder = Folder::new("half");
    for (has_token, has_tls) in [(true, false), (false, true)] {
        let mut options = ServerOptions::default();
        options.listen.host = "0.0.0.0".to_owned();
        options.listen.port = 0;
        options.listen.token = has_token.then(|| "12345678".to_owned());
        let _ = std::fs::remove_dir_all(&folder.0);
        options.listen.tls = has_tls.then(|| TlsAcceptor::new(identity(&folder)).unwrap());
        options.program = Some((PathBuf::from("none"), Vec::new()));
        let error = Server::start(options).err().unwrap();
        assert!(error.message().contains("use TLS and a token"), "{error}");
    }
}

#[test]
fn a_tracker_for_other_machines() {
    use kernpack_rpc::tracker::{Tracker, TrackerClient, TrackerOptions};
    let folder = Folder::new("tracker");
    let identity = identity(&folder);
    let trust = Trust::Fingerprint(identity.fingerprint());
    let token = "tracker-token";
    let mut options = TrackerOptions::default();
    options.listen.host = "0.0.0.0".to_owned();
    options.listen.port = ports::own_port();
    options.listen.token = Some(token.to_owned());
    let error = Tracker::start(options.clone()).err().unwrap();
    assert!(error.message().contains("use TLS and a token"), "{error}");
    options.listen.tls = Some(TlsAcceptor::new(identity).unwrap());
    let tracker = Tracker::start(options).unwrap();
    let address = format!("127.0.0.1:{}", tracker.address().port());
    let mut options = ServerOptions::default();
    options.listen.port = 0;
    options.key = "pi".to_owned();
    options.tracker = Some(Place::new(address.clone()).token(token).tls(trust.clone()));
    options.program = Some((env!("CARGO_BIN_EXE_kernpack-rpc-server").into(), Vec::new()));
    let server = Server::start(options).unwrap();
    let client = TrackerClient::new(address.as_str()).tls(trust.clone()).token(token);
    let found = client.request("pi", 0, Duration::from_secs(30)).unwrap();
    assert_eq!(found.address, server.address().to_string());
    assert!(found.connect().open().unwrap().global_function("testing.echo").is_ok());
    assert!(client.summary().unwrap().to_string().contains("pi"));
    // Strangers: without TLS, without a token, with another one. None receives a reason.
    let short = |client: TrackerClient| client.connect_timeout(Duration::from_secs(5)).summary().unwrap_err();
    for error in [
        short(TrackerClient::new(address.as_str())),
        short(TrackerClient::new(address.as_str()).token(token)),
        short(TrackerClient::new(address.as_str()).tls(trust.clone())),
        short(TrackerClient::new(address.as_str()).tls(trust.clone()).token("another-token")),
    ] {
        assert!(["ConnectionError", "TimeoutError"].contains(&error.kind()), "{error}");
    }
    drop(server);
    tracker.stop();
    assert_eq!(client.summary().unwrap_err().kind(), "ConnectionError");
}

/// Sends these bytes one by one, with short pauses; returns the time until the other side ends the
/// connection.
fn trickle(mut stream: TcpStream, bytes: &[u8]) -> Duration {
    let begun = Instant::now();
    stream.set_read_timeout(Some(Duration::from_millis(10))).unwrap();
    for byte in bytes.iter().cycle() {
        if stream.write_all(&[*byte]).is_err() || matches!(stream.read(&mut [0; 4096]), Ok(0)) {
            break;
        }
        assert!(begun.elapsed() < Duration::from_secs(60), "the connection goes on and on");
    }
    begun.elapsed()
}

#[test]
fn records_that_trickle_in() {
    let folder = Folder::new("trickle");
    let identity = identity(&folder);
    let (fingerprint, token) = (identity.fingerprint(), "c2VjcmV0IHRva2Vu".to_owned());
    let mut options = ServerOptions::default();
    options.listen.port = 0;
    options.listen.token = Some(token.clone());
    options.listen.tls = Some(TlsAcceptor::new(identity).unwrap());
    options.listen.handshake_time = Duration::from_secs(1);
    options.program = Some((PathBuf::from(env!("CARGO_BIN_EXE_kernpack-rpc-server")), Vec::new()));
    let server = Server::start(options).unwrap();
    // The head of a long record of the handshake, and its bytes: the connection ends after the time
    // of a handshake, not after the last byte plus that time.
    let record = [&[0x16, 3, 1, 0x3f, 0xff, 1, 0, 0x3f, 0xf0][..], &[3; 100]].concat();
    let time = trickle(TcpStream::connect(server.address()).unwrap(), &record);
    assert!(time < Duration::from_secs(20), "{time:?}");
    // A server that does the same to a client.
    let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap().to_string();
    let forged = std::thread::spawn(move || {
        trickle(listener.accept().unwrap().0, &[&[0x16, 3, 3, 0x3f, 0xff, 2, 0, 0x3f, 0xf0][..], &[3; 100]].concat())
    });
    let begun = Instant::now();
    let open = connect(&address).tls(Trust::Fingerprint(fingerprint)).connect_timeout(Duration::from_secs(1));
    let error = open.token(token).open().unwrap_err();
    assert!(begun.elapsed() < Duration::from_secs(20), "{error}");
    assert!(["TimeoutError", "ConnectionError"].contains(&error.kind()), "{error}");
    forged.join().unwrap();
}
