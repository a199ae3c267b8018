//! A network that is cut: the server is in a network namespace of the test, behind a pair of
//! virtual cables. For root with `ip` (Debian: iproute2).

use std::fs;
use std::path::PathBuf;
use std::process::{Command, Output};
use std::thread;
use std::time::{Duration, Instant};

use kernpack::Tensor;
use kernpack_rpc::connect;
use kernpack_skip::skip;

use super::Program;
use super::soak::{descendants, program, whole};

/// A namespace with a cable to this one; both are removed with this value.
struct Network {
    name: String,
    cable: String,
    /// The addresses of both ends.
    here: String,
    there: String,
}

fn ip(words: &str) -> Output {
    Command::new("ip").args(words.split_whitespace()).output().unwrap()
}

fn must(words: &str) {
    let output = ip(words);
    assert!(output.status.success(), "ip {words}: {}", String::from_utf8_lossy(&output.stderr));
}

impl Network {
    /// `None`, with a printed reason, if it cannot be created.
    fn new() -> Option<Self> {
        // SAFETY: a plain call.
        let is_root = unsafe { libc::geteuid() } == 0;
        let reason = if !is_root {
            "only root has network namespaces"
        } else if Command::new("ip").arg("-V").output().is_err() {
            "there is no program `ip` (Debian: iproute2)"
        } else {
            let id = std::process::id();
            let (name, cable) = (format!("kernpack-{id}"), format!("kp{id}"));
            // Addresses of a range for network tests; each process has different ones.
            let [_, _, third, fourth] = (id % (1 << 14) * 4).to_be_bytes();
            let [here, there] = [1, 2].map(|end| format!("198.18.{third}.{}", fourth + end));
            let made = ip(&format!("netns add {name}"));
            if made.status.success() {
                let network = Self { name, cable, here, there };
                let Self { name, cable, here, there } = &network;
                must(&format!("link add {cable} type veth peer name far netns {name}"));
                must(&format!("addr add {here}/30 dev {cable}"));
                must(&format!("link set {cable} up"));
                must(&format!("-n {name} addr add {there}/30 dev far"));
                must(&format!("-n {name} link set far up"));
                return Some(network);
            }
            "the system allows no network namespace"
        };
        skip(reason);
        None
    }

    fn cut(&self) {
        must(&format!("-n {} link set far down", self.name));
    }

    fn mend(&self) {
        must(&format!("-n {} link set far up", self.name));
    }

    /// A server in the namespace, with its sessions' folders in a folder of the test.
    fn server(&self, folder: &PathBuf, options: &[&str]) -> Program {
        let mut command = Command::new("ip");
        command.args(["netns", "exec", &self.name]).arg(program().get_program()).arg("--no-token");
        command.args(["--host", &self.there, "--insecure", "--folder"]).arg(folder).args(options);
        Program::start(&mut command)
    }
}

impl Drop for Network {
    fn drop(&mut self) {
        let _ = ip(&format!("link del {}", self.cable));
        let _ = ip(&format!("netns del {}", self.name));
    }
}

#[test]
fn soak_of_a_network_that_is_cut() {
    let Some(network) = Network::new() else { return };
    let folder = PathBuf::from(env!("CARGO_TARGET_TMPDIR")).join(format!("rpc-network-{}", std::process::id()));
    fs::create_dir_all(&folder).unwrap();
    // With the default times the system itself must notice it.
    let options = whole(&[][..], &["--idle-time", "10", "--call-time", "10", "--stall-time", "5"][..]);
    let server = network.server(&folder, options);
    let try_to_open = || connect(server.address.as_str()).timeout(Duration::from_secs(5)).open();
    let open = || try_to_open().unwrap();
    let (idle, calling, copying) = (open(), open(), open());
    let echo = calling.global_function("testing.echo").unwrap();
    assert_eq!(echo.call_as::<i64>((1,)).unwrap(), 1);
    let there = copying.device("cpu").unwrap();
    let bytes = Tensor::from_vec(vec![1_u8; 32 << 20], &[32 << 20]).unwrap();
    let mut copied = bytes.to(there).unwrap();
    assert_eq!(descendants(server.process.id()).len(), 6, "a session and its warden each");
    let begun = Instant::now();
    thread::scope(|threads| {
        let copy = threads.spawn(|| {
            loop {
                if let Err(error) = copied.copy_from(&bytes) {
                    return error;
                }
            }
        });
        let call = threads.spawn(|| {
            loop {
                if let Err(error) = echo.call((1,)) {
                    return error;
                }
            }
        });
        thread::sleep(Duration::from_millis(300));
        network.cut();
        for error in [copy.join().unwrap(), call.join().unwrap()] {
            assert!(["TimeoutError", "ConnectionError"].contains(&error.kind()), "{error}");
        }
        assert!(begun.elapsed() < Duration::from_secs(25), "{:?}", begun.elapsed());
    });
    let error = idle.global_function("testing.echo").unwrap_err();
    assert!(["TimeoutError", "ConnectionError"].contains(&error.kind()), "{error}");
    assert!(begun.elapsed() < Duration::from_secs(40), "{:?}", begun.elapsed());
    drop((idle, calling, echo, copying, copied));
    // The other side notices it, too: no process and no file is left.
    let end = Instant::now() + Duration::from_secs(180);
    loop {
        let (processes, files) = (descendants(server.process.id()), fs::read_dir(&folder).unwrap().count());
        if processes.is_empty() && files == 0 {
            break;
        }
        assert!(Instant::now() < end, "processes {processes:?} and {files} folders are left");
        thread::sleep(Duration::from_millis(50));
    }
    println!("the server's side was clean {:?} after the cut", begun.elapsed());
    // It serves again when the network is back.
    network.mend();
    let end = Instant::now() + Duration::from_secs(30);
    // The system remembers for a moment that the other end was not reachable.
    let again = loop {
        match try_to_open() {
            Ok(session) => break session,
            Err(error) => assert!(Instant::now() < end, "{error}"),
        }
        thread::sleep(Duration::from_millis(200));
    };
    assert_eq!(again.global_function("testing.echo").unwrap().call_as::<i64>((2,)).unwrap(), 2);
    drop(server);
    fs::remove_dir_all(&folder).unwrap();
}
