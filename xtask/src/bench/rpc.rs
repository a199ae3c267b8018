//! `cargo xtask bench rpc`: calls and copies with RPC servers, the client and server of Apache TVM
//! and ours, each with each, in interleaved rounds on the loopback device.

use super::figures::{duration, two_digits, verdict};
use super::machine::Machine;
use crate::Result;
use crate::apache_tvm;
use crate::python;
use crate::step::{self, Show};
use crate::workspace::Workspace;
use std::collections::HashMap;
use std::fmt::Write as _;
use std::fs;
use std::io::{BufRead, BufReader};
use std::path::Path;
use std::process::{Child, Command, Stdio};

/// Sizes of the copies, in MiB.
const SIZES: [u32; 3] = [1, 16, 64];

/// Client and server, and copies through a plain socket and through a connection of OpenSSL.
const PAIRS: [&str; 7] = [
    "ours to ours",
    "stock to stock",
    "stock to ours",
    "ours to stock",
    "plain socket",
    "ours to ours, TLS 1.3",
    "OpenSSL, TLS 1.3",
];

/// A server process that ends when this value is dropped.
struct Server {
    process: Child,
    port: u16,
}

impl Server {
    /// Starts a program that prints its port, alone or after a colon, in its first line.
    fn start(command: &mut Command) -> Result<Self> {
        let mut process = command.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn()?;
        let output = process.stdout.take().ok_or("a server without output")?;
        let mut line = String::new();
        BufReader::new(output).read_line(&mut line)?;
        let port = line.trim().rsplit(':').next().and_then(|port| port.parse().ok());
        match port {
            Some(port) => Ok(Self { process, port }),
            None => {
                let _ = process.kill();
                Err(format!("a server printed '{}' in place of its port", line.trim()).into())
            }
        }
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        // The stock server ends when its standard input is closed.
        drop(self.process.stdin.take());
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}

/// The times of one row, in nanoseconds, by their names.
type Times = HashMap<String, Vec<f64>>;

/// Builds, measures, prints the table and writes it to `target/bench/rpc.md`.
pub(crate) fn run(rounds: usize) -> Result {
    let workspace = Workspace::find()?;
    let stock = apache_tvm::interpreter(&workspace)?;
    let mut build = workspace.cargo("build");
    build.args(["--release", "--package", "kernpack-rpc", "--features", "program,tls", "--bins", "--examples"]);
    step::run("build the server and the client", &mut build, Show::Warnings)?;
    let folder = workspace.cargo_target().join("release");
    let client = folder.join("examples/rpc-bench");
    let ours =
        Server::start(workspace.command(folder.join("kernpack-rpc-server")).args(["--no-token", "--port", "0"]))?;
    let theirs = Server::start(
        workspace.command(&stock).arg(workspace.root().join("runtime/rpc/tests/stock_server.py")).arg(""),
    )?;
    let keys = workspace.folder("bench/rpc-keys")?;
    let _ = fs::remove_dir_all(&keys);
    let made = workspace.command(&client).arg("keys").arg(&keys).output()?;
    let fingerprint = String::from_utf8_lossy(&made.stdout).trim().to_owned();
    let mut guarded = workspace.command(folder.join("kernpack-rpc-server"));
    guarded
        .args(["--no-token", "--port", "0", "--tls-cert"])
        .arg(keys.join("cert.pem"))
        .arg("--tls-key")
        .arg(keys.join("key.pem"));
    let guarded = Server::start(&mut guarded)?;
    let openssl = workspace.root().join("tests/bench/rpc/openssl.py");
    let script = workspace.root().join("tests/bench/rpc/client.py");
    println!("> measure {} pairs in {rounds} rounds", PAIRS.len());
    let mut rows: Vec<Times> = PAIRS.iter().map(|_| Times::new()).collect();
    for _ in 0..rounds {
        for (pair, row) in PAIRS.iter().zip(&mut rows) {
            let with_ours = |port: u16| -> Command {
                let mut command = workspace.command(&client);
                command.arg(format!("127.0.0.1:{port}"));
                command
            };
            let with_stock = |port: u16| -> Command {
                let mut command = workspace.command(&stock);
                command.arg(&script).arg(port.to_string());
                command
            };
            let mut command = match *pair {
                "ours to ours" => with_ours(ours.port),
                "stock to stock" => with_stock(theirs.port),
                "stock to ours" => with_stock(ours.port),
                "ours to stock" => with_ours(theirs.port),
                "plain socket" => plain(&workspace, &client),
                "ours to ours, TLS 1.3" => {
                    let mut command = with_ours(guarded.port);
                    command.arg(&fingerprint);
                    command
                }
                _ => {
                    let mut command = workspace.command(&stock);
                    command.arg(&openssl).arg(&keys);
                    command
                }
            };
            ask(&mut command, row)?;
        }
    }
    let openssl = python::say(&workspace, &stock, "import ssl; print(ssl.OPENSSL_VERSION)")?;
    let machine = Machine::find(&workspace)
        .program("rustc")
        .packages(&stock, &["apache-tvm", "apache-tvm-ffi"])?
        .and(openssl)
        .to_string();
    let report = report(&rows, rounds, &machine);
    println!("\n{report}");
    let file = workspace.folder("bench")?.join("rpc.md");
    fs::write(&file, report).map_err(|error| format!("cannot write {}: {error}", file.display()))?;
    println!("written to {}", file.display());
    Ok(())
}

fn plain(workspace: &Workspace, client: &Path) -> Command {
    let mut command = workspace.command(client);
    command.arg("plain");
    command
}

/// Runs a program and adds its lines `name<TAB>nanoseconds`.
fn ask(command: &mut Command, row: &mut Times) -> Result {
    let output = command.stderr(Stdio::inherit()).output()?;
    if !output.status.success() {
        return Err(format!("{command:?}: {}", output.status).into());
    }
    for line in String::from_utf8_lossy(&output.stdout).lines() {
        let (name, time) = line.split_once('\t').ok_or_else(|| format!("a line without a time: {line}"))?;
        row.entry(name.to_owned()).or_default().push(time.parse()?);
    }
    Ok(())
}

/// The median of a row's times of this name.
fn median(row: &Times, name: &str) -> Option<f64> {
    let mut times = row.get(name)?.clone();
    times.sort_by(f64::total_cmp);
    times.get(times.len() / 2).copied()
}

/// Bytes per second in a copy of `size` MiB.
fn speed(row: &Times, direction: &str, size: u32) -> Option<f64> {
    median(row, &format!("{direction} {size}")).map(|time| f64::from(size << 20) / time * 1e9)
}

/// The table in Markdown, with the goals.
fn report(rows: &[Times], rounds: usize, machine: &str) -> String {
    let mut text = format!(
        "RPC on the loopback device: medians of {rounds} interleaved rounds ({machine}). Copies in MB/s, to and from the server.\n\n| client to server | echo call |"
    );
    SIZES.iter().for_each(|size| _ = write!(text, " {size} MiB to | from |"));
    text.push_str("\n|---|---:|");
    SIZES.iter().for_each(|_| text.push_str("---:|---:|"));
    text.push('\n');
    let megabytes = |speed: Option<f64>| speed.map_or("-".to_owned(), |speed| format!("{:.0}", speed / 1e6));
    for (pair, row) in PAIRS.iter().zip(rows) {
        let _ = write!(text, "| {pair} | {} |", median(row, "echo").map_or("-".to_owned(), duration));
        for size in SIZES {
            let [to, from] = ["to", "from"].map(|direction| megabytes(speed(row, direction, size)));
            let _ = write!(text, " {to} | {from} |");
        }
        text.push('\n');
    }
    text.push_str("\n| goal | limit | measured | |\n|---|---:|---:|---|\n");
    let [ours, stock, stock_to_ours, _, plain, ours_tls, openssl] = rows else { return text };
    let ratio = |a: Option<f64>, b: Option<f64>| a.zip(b).map(|(a, b)| a / b);
    let mut goal = |what: String, limit: f64, measured: Option<f64>, at_least: bool| {
        let Some(measured) = measured else { return };
        let met = if at_least { measured >= limit } else { measured <= limit };
        let _ = writeln!(text, "| {what} | {limit:.2} | {} | {} |", two_digits(measured), verdict(met));
    };
    let echo = ratio(median(ours, "echo"), median(stock, "echo"));
    goal("echo call: ours to ours / stock to stock, at most".to_owned(), 0.5, echo, false);
    for direction in ["to", "from"] {
        let fast = speed(ours, direction, 64);
        goal(format!("64 MiB {direction}, ours to ours: GB/s, at least"), 1.0, fast.map(|speed| speed / 1e9), true);
        let bare = speed(plain, direction, 64);
        goal(format!("64 MiB {direction}, ours to ours / plain socket, at least"), 0.9, ratio(fast, bare), true);
        let mixed = ratio(speed(stock_to_ours, direction, 64), speed(stock, direction, 64));
        goal(format!("64 MiB {direction}, stock to ours / stock to stock, at least"), 1.5, mixed, true);
        let guarded = ratio(speed(ours_tls, direction, 64), speed(openssl, direction, 64));
        goal(format!("64 MiB {direction}, TLS: ours to ours / OpenSSL, at least"), 0.5, guarded, true);
    }
    text.push_str("\nRepeat with `cargo xtask bench rpc`.\n");
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_become_a_table() {
        let row = |echo: f64, copy: f64| {
            let mut row = Times::new();
            row.insert("echo".to_owned(), vec![echo, 0.0, 1e9]);
            for name in ["to 64", "from 64"] {
                row.insert(name.to_owned(), vec![copy]);
            }
            row
        };
        let rows = [
            row(7_000.0, 5e7),
            row(16_000.0, 1.2e9),
            row(12_000.0, 6e8),
            row(9_000.0, 1e9),
            row(0.0, 5e7),
            row(20_000.0, 1e8),
            row(0.0, 4e7),
        ];
        let report = report(&rows, 3, "a machine");
        for expected in [
            "| ours to ours | 7.00 us | - | - | - | - | 1342 | 1342 |\n",
            "| echo call: ours to ours / stock to stock, at most | 0.50 | 0.44 | met |\n",
            "| 64 MiB to, ours to ours: GB/s, at least | 1.00 | 1.34 | met |\n",
            "| 64 MiB from, ours to ours / plain socket, at least | 0.90 | 1.00 | met |\n",
            "| 64 MiB to, stock to ours / stock to stock, at least | 1.50 | 2.00 | met |\n",
            "| 64 MiB to, TLS: ours to ours / OpenSSL, at least | 0.50 | 0.40 | missed |\n",
        ] {
            assert!(report.contains(expected), "{expected}\n{report}");
        }
    }
}
