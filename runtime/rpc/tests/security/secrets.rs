//! Secrets of a server, its token and its private key: a session does not have them, and cannot
//! read the processes that do.

use std::ffi::OsString;
use std::io;
use std::os::unix::fs::{FileExt, PermissionsExt, chown};
use std::os::unix::process::CommandExt;
use std::path::Path;

use kernpack_rpc::Connect;
use kernpack_skip::skip;

use super::*;

/// The user of the server and its sessions if the tests run as root: a process of root can read all
/// others.
const NOBODY: u32 = 65534;

/// The variable that names the server's program to a process of that user.
const PROGRAM: &str = "KERNPACK_TEST_RPC_SERVER";

/// A variable of the server that its sessions get: a secret in the same place would be found, too.
const MARK: [&str; 2] = ["KERNPACK_TEST_MARK", "dGhpcyBpcyBub3Qgc2VjcmV0"];

/// A folder that all users may read, which is removed with its content.
struct Folder(PathBuf);

impl Folder {
    fn new(parent: &Path) -> Self {
        let path = parent.join(format!("rpc-secrets-{}", std::process::id()));
        let _ = fs::remove_dir_all(&path);
        fs::create_dir_all(&path).unwrap();
        fs::set_permissions(&path, fs::Permissions::from_mode(0o755)).unwrap();
        Self(path)
    }

    /// A copy of a program that all users may run.
    fn copy(&self, program: &Path) -> PathBuf {
        let copy = self.0.join(program.file_name().unwrap());
        fs::copy(program, &copy).unwrap();
        fs::set_permissions(&copy, fs::Permissions::from_mode(0o755)).unwrap();
        copy
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
    }
}

/// All descendants of a process.
fn descendants(process: u32) -> Vec<u32> {
    let mut found = vec![process];
    let mut next = 0;
    while next < found.len() {
        for thread in fs::read_dir(format!("/proc/{}/task", found[next])).into_iter().flatten().flatten() {
            let text = fs::read_to_string(thread.path().join("children")).unwrap_or_default();
            found.extend(text.split_whitespace().map(|number| number.parse::<u32>().unwrap()));
        }
        next += 1;
    }
    found.remove(0);
    found
}

fn find(bytes: &[u8], part: &[u8]) -> Option<usize> {
    // SAFETY: both are readable with these lengths.
    let found = unsafe { libc::memmem(bytes.as_ptr().cast(), bytes.len(), part.as_ptr().cast(), part.len()) };
    (!found.is_null()).then(|| found.addr() - bytes.as_ptr().addr())
}

/// The options of a server, those of its clients, and its secrets.
struct Guarded {
    options: Vec<OsString>,
    connect: Box<dyn Fn(Connect) -> Connect>,
    secrets: Vec<(&'static str, Vec<u8>)>,
}

impl Guarded {
    fn with_token() -> Self {
        let secrets = vec![("the token", TOKEN.as_bytes().to_vec())];
        Self { options: Vec::new(), connect: Box::new(|connect| connect.token(TOKEN)), secrets }
    }

    /// Creates a server with a token and a key. The key is searched as text, as bytes, and as a
    /// number in both byte orders.
    #[cfg(feature = "tls")]
    fn with_key(folder: &Path) -> Self {
        use kernpack_rpc::tls::{Identity, Trust};
        use rustls::pki_types::PrivatePkcs8KeyDer;
        use rustls::pki_types::pem::PemObject;
        let folder = folder.join("tls");
        let fingerprint = Identity::generate(&folder, &["127.0.0.1".to_owned()]).unwrap().fingerprint();
        let [certificate, key] = ["cert.pem", "key.pem"].map(|name| folder.join(name));
        let mut guarded = Self::with_token();
        guarded.options = vec!["--tls-cert".into(), certificate.into(), "--tls-key".into(), key.clone().into()];
        guarded.connect = Box::new(move |connect| connect.tls(Trust::Fingerprint(fingerprint)).token(TOKEN));
        let text = fs::read_to_string(&key).unwrap();
        let bytes = PrivatePkcs8KeyDer::from_pem_file(&key).unwrap().secret_pkcs8_der().to_vec();
        // The number of the curve P-256: the first octet string of 32 bytes.
        let number = bytes[find(&bytes, &[4, 32]).unwrap() + 2..][..32].to_vec();
        let reversed = number.iter().rev().copied().collect();
        guarded.secrets.extend([
            ("the key's text", text.lines().nth(1).unwrap().as_bytes().to_vec()),
            ("the key's bytes", bytes),
            ("the key's number", number),
            ("the key's number in reverse", reversed),
        ]);
        guarded
    }

    fn start(&self, program: &Path, folder: &Path) -> (Running, String) {
        let mut command = Command::new(program);
        command.args(["--port", "0", "--folder"]).arg(folder).args(&self.options);
        command.env("KERNPACK_RPC_TOKEN", TOKEN).env(MARK[0], MARK[1]).stdout(Stdio::piped());
        let mut running = Running(command.spawn().unwrap());
        let mut line = String::new();
        BufReader::new(running.0.stdout.take().unwrap()).read_line(&mut line).unwrap();
        (running, line.trim().strip_prefix("listening on ").unwrap().to_owned())
    }
}

/// A process that is killed with this value.
struct Running(Child);

impl Drop for Running {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// Returns true if the system keeps other processes of the same user from reading a process.
fn is_hidden(process: u32) -> bool {
    let is_refused =
        |outcome: io::Result<()>| outcome.is_err_and(|error| error.kind() == io::ErrorKind::PermissionDenied);
    let open = |file: &str| fs::File::open(format!("/proc/{process}/{file}")).map(drop);
    ["environ", "maps", "mem"].into_iter().all(|file| is_refused(open(file)))
        && is_refused(fs::read_dir(format!("/proc/{process}/fd")).map(drop))
}

/// The bytes of a process that this one can read, with their sources: its environment, its
/// arguments, its open files, and its memory.
fn readable(process: u32) -> Vec<(String, Vec<u8>)> {
    let place = |file: &str| format!("/proc/{process}/{file}");
    let read = |file: &str| (file.to_owned(), fs::read(place(file)).unwrap_or_default());
    let mut pieces: Vec<_> = ["environ", "cmdline"].map(read).into();
    for entry in fs::read_dir(place("fd")).into_iter().flatten().flatten() {
        // Regular files only: reading a pipe would block.
        if fs::metadata(entry.path()).is_ok_and(|file| file.is_file()) {
            let link = fs::read_link(entry.path()).unwrap_or_default();
            pieces.push((format!("open file {}", link.display()), fs::read(entry.path()).unwrap_or_default()));
        }
    }
    let Ok(memory) = fs::File::open(place("mem")) else { return pieces };
    for line in fs::read_to_string(place("maps")).unwrap_or_default().lines() {
        let Some((range, rest)) = line.split_once(' ').filter(|(_, rest)| rest.starts_with('r')) else { continue };
        let (begin, end) = range.split_once('-').unwrap();
        let [begin, end] = [begin, end].map(|number| u64::from_str_radix(number, 16).unwrap());
        let mut bytes = vec![0; usize::try_from(end - begin).unwrap()];
        if let Ok(count) = memory.read_at(&mut bytes, begin) {
            bytes.truncate(count);
            pieces.push((format!("memory {rest}"), bytes));
        }
    }
    pieces
}

/// Starts a server with these secrets, and searches for them as its session could: as a process of
/// the same user.
fn look_around(program: &Path, folder: &Path, guarded: &Guarded) {
    let (server, address) = guarded.start(program, folder);
    let session = (guarded.connect)(connect(address)).open().unwrap();
    assert_eq!(session.global_function("testing.echo").unwrap().call_as::<i64>((1,)).unwrap(), 1);
    let processes = descendants(server.0.id());
    let [warden, of_session] = processes[..] else { panic!("a warden and a session, not {processes:?}") };
    // SAFETY: a plain call.
    if unsafe { libc::geteuid() } != 0 {
        assert!(is_hidden(server.0.id()), "the server can be read");
        // The warden hides while the session begins.
        let end = Instant::now() + TIME;
        while !is_hidden(warden) {
            assert!(Instant::now() < end, "the warden can be read");
            thread::sleep(Duration::from_millis(5));
        }
    }
    // The server's arguments are readable by everyone, and the warden's memory by root.
    let arguments = ("cmdline of the server".to_owned(), fs::read(format!("/proc/{}/cmdline", server.0.id())).unwrap());
    let found = readable(of_session);
    for (place, bytes) in found.iter().chain(&readable(warden)).chain([&arguments]) {
        for (name, secret) in &guarded.secrets {
            assert!(find(bytes, secret).is_none(), "{name} is in {place}");
        }
    }
    let has_mark = |place: &str| {
        let mut pieces = found.iter().filter(|(name, _)| name.starts_with(place));
        pieces.any(|(_, bytes)| find(bytes, MARK[1].as_bytes()).is_some())
    };
    assert!(has_mark("environ"), "the session's environment was not read");
    match fs::File::open(format!("/proc/{of_session}/mem")) {
        Ok(_) => assert!(has_mark("memory"), "the session's memory was not read"),
        Err(error) => skip(format_args!("the memory of a session: {error}")),
    }
}

/// Looks around at a server without TLS, and at one with TLS.
fn look_around_all(program: &Path, folder: &Path) {
    look_around(program, folder, &Guarded::with_token());
    #[cfg(feature = "tls")]
    look_around(program, folder, &Guarded::with_key(folder));
}

/// Not a test by itself: part of the next one, in a process of a user other than root.
#[test]
#[ignore = "started by sessions_do_not_have_the_servers_secrets"]
fn looks_around_as_another_user() {
    let Some(program) = std::env::var_os(PROGRAM).map(PathBuf::from) else { return };
    // SAFETY: a plain call.
    assert_eq!(unsafe { libc::geteuid() }, NOBODY);
    look_around_all(&program, program.parent().unwrap());
}

#[test]
fn sessions_do_not_have_the_servers_secrets() {
    let program = Path::new(env!("CARGO_BIN_EXE_kernpack-rpc-server"));
    // SAFETY: a plain call.
    if unsafe { libc::geteuid() } != 0 {
        let folder = Folder::new(Path::new(env!("CARGO_TARGET_TMPDIR")));
        return look_around_all(program, &folder.0);
    }
    // The folder of the build may not be accessible to other users.
    let folder = Folder::new(&std::env::temp_dir());
    if let Err(problem) = chown(&folder.0, Some(NOBODY), Some(NOBODY)) {
        // A container of one user.
        skip(format_args!("the server hides from its user: there is no user {NOBODY}: {problem}"));
        return look_around_all(program, &folder.0);
    }
    let [program, own] = [program, &std::env::current_exe().unwrap()].map(|program| folder.copy(program));
    let mut command = Command::new(own);
    command.args(["--exact", "secrets::looks_around_as_another_user", "--ignored", "--nocapture"]);
    command.env(PROGRAM, &program).current_dir(&folder.0).uid(NOBODY).gid(NOBODY);
    match command.output() {
        Ok(output) => {
            let text = String::from_utf8_lossy(&output.stdout);
            let problem = String::from_utf8_lossy(&output.stderr);
            assert!(output.status.success() && text.contains("1 passed"), "{text}{problem}");
        }
        Err(problem) => {
            skip(format_args!("the server hides from its user: no process of user {NOBODY}: {problem}"));
            look_around_all(&program, &folder.0);
        }
    }
}

#[test]
fn a_token_that_is_made_is_printed() {
    let mut command = Command::new(env!("CARGO_BIN_EXE_kernpack-rpc-server"));
    let command = command.args(["--port", "0"]).env_remove("KERNPACK_RPC_TOKEN");
    let mut running = Running(command.stdout(Stdio::piped()).spawn().unwrap());
    let mut lines = BufReader::new(running.0.stdout.take().unwrap()).lines().map(Result::unwrap);
    let address = lines.next().unwrap().strip_prefix("listening on ").unwrap().to_owned();
    let token = lines.next().unwrap().strip_prefix("token: ").unwrap().to_owned();
    assert!(connect(&address).open().is_err());
    assert!(connect(&address).token(token).open().unwrap().is_open());
}
