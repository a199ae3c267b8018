//! `cargo kernpack rpc query`.

use kernpack_rpc::Place;
use kernpack_rpc::tracker::{Offer, Registration, Tracker, TrackerOptions};

use super::ports::own_port;
use super::*;

fn tracker_at(port: u16) -> Tracker {
    let mut options = TrackerOptions::default();
    options.listen.port = port;
    Tracker::start(options).unwrap()
}

/// A process that is killed when this value is dropped.
struct Process(Child);

impl Drop for Process {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

#[test]
fn query() {
    let port = own_port();
    let tracker = tracker_at(port);
    let address = tracker.address().to_string();
    let once = |options: &[&str]| rpc("query").args(["--tracker", &address]).args(options).output().unwrap();
    let output = once(&[]);
    assert!(output.status.success(), "{output:?}");
    assert_eq!(String::from_utf8_lossy(&output.stdout), "server  key\n\nkey  servers  free  busy  waiting\n");
    // Repeatedly, while servers start and the tracker stops.
    let mut watch = rpc("query");
    watch.args(["--tracker", &address, "--watch", "--every", "0.1"]).stdout(Stdio::piped());
    let mut watch = Process(watch.spawn().unwrap());
    let mut lines = BufReader::new(watch.0.stdout.take().unwrap()).lines();
    let mut wait_for = |line: &str| {
        let end = Instant::now() + TIME;
        for found in lines.by_ref() {
            let found = found.unwrap();
            assert!(!found.contains('\x1b'), "no codes of terminals: {found:?}");
            if found.starts_with(line) {
                return;
            }
            assert!(Instant::now() < end, "waited for '{line}', saw '{found}'");
        }
        panic!("the table ends before '{line}'");
    };
    wait_for("key  servers  free  busy  waiting");
    let server = Registration::start(Offer {
        tracker: Place::new(address.as_str()),
        key: "pi".to_owned(),
        port: 9,
        host: Some("localhost".to_owned()),
        sessions: 1,
    });
    wait_for("127.0.0.1:9  pi");
    wait_for("pi   1        1     0     0");
    tracker.stop();
    wait_for(&format!("no connection to the tracker {address}"));
    let tracker = tracker_at(port);
    wait_for("pi   1        1     0     0");
    drop((server, tracker));
    // The reader of the table is gone, so the command ends, too.
    drop(lines);
    let end = Instant::now() + TIME;
    while watch.0.try_wait().unwrap().is_none() {
        assert!(Instant::now() < end, "the command goes on without its output");
        thread::sleep(Duration::from_millis(20));
    }
    for (options, problem) in [
        (&[][..], "no connection to the tracker"),
        (&["--every", "x"], "takes a number of seconds, got `x`"),
        (&["--timeout", "0"], "an answer takes more than 0 s"),
        (&["--token-file", "/no/such"], "cannot read the token in /no/such"),
        (&["--fingerprint", "4a"], "64 hexadecimal digits"),
    ] {
        let output = once(options);
        let text = String::from_utf8_lossy(&output.stderr).into_owned();
        assert!(!output.status.success() && text.contains(problem), "{options:?}: {text}");
    }
}
