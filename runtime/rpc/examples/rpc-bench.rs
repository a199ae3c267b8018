//! Measures calls and copies with an RPC server, for `cargo xtask bench rpc`: `rpc-bench ADDRESS`
//! prints lines `name<TAB>nanoseconds`, `rpc-bench ADDRESS FINGERPRINT` does the same over TLS, and
//! `rpc-bench plain` measures copies through a plain socket. `tests/bench/rpc/client.py` prints the
//! same lines for the client of Apache TVM, and `openssl.py` for a plain connection of OpenSSL.
//! `rpc-bench keys FOLDER` creates a certificate and prints its fingerprint.

use std::error::Error;
use std::io::{Read, Write};
use std::os::unix::net::UnixStream;
use std::thread;
use std::time::{Duration, Instant};

use kernpack::{Device, Tensor};
use kernpack_rpc::connect;
use kernpack_rpc::tls::{Identity, Trust};

const SIZES: [usize; 3] = [1 << 20, 16 << 20, 64 << 20];

type Result<T = ()> = std::result::Result<T, Box<dyn Error>>;

fn main() -> Result {
    let words: Vec<String> = std::env::args().skip(1).collect();
    match words.iter().map(String::as_str).collect::<Vec<_>>()[..] {
        ["plain"] => plain(),
        ["keys", folder] => {
            println!("{}", Identity::generate(folder.as_ref(), &["localhost".to_owned()])?.fingerprint());
            Ok(())
        }
        [address] => session(address, None),
        [address, fingerprint] => session(address, Some(Trust::Fingerprint(fingerprint.parse()?))),
        _ => Err("usage: rpc-bench ADDRESS [FINGERPRINT] | plain | keys FOLDER".into()),
    }
}

/// The median of some times.
fn median(times: impl IntoIterator<Item = Result<Duration>>) -> Result<f64> {
    let mut times = times.into_iter().collect::<Result<Vec<_>>>()?;
    times.sort();
    Ok(times[times.len() / 2].as_nanos() as f64)
}

fn timed(work: impl FnOnce() -> Result) -> Result<Duration> {
    let start = Instant::now();
    work()?;
    Ok(start.elapsed())
}

fn rounds(size: usize) -> usize {
    (256 << 20) / size.max(16 << 20)
}

fn session(address: &str, trust: Option<Trust>) -> Result {
    let mut connect = connect(address);
    if let Some(trust) = trust {
        connect = connect.tls(trust);
    }
    let session = connect.open()?;
    let echo = session.global_function("testing.echo")?;
    let call = |value: i64| {
        timed(|| {
            let back: i64 = echo.call_as((value,))?;
            if back == value { Ok(()) } else { Err("the echo is another value".into()) }
        })
    };
    (0..500).try_for_each(|value| call(value).map(drop))?;
    println!("echo\t{}", median((0..5000).map(call))?);
    for size in SIZES {
        let bytes: Vec<u8> = (0..size).map(|i| (i % 251) as u8).collect();
        let here = Tensor::from_slice(&bytes, &[size as i64])?;
        let mut there = here.to(session.device("cpu:0")?)?;
        let to = median((0..rounds(size)).map(|_| timed(|| Ok(there.copy_from(&here)?))))?;
        let mut back = Tensor::from_slice(&vec![0u8; size], &[size as i64])?;
        let from = median((0..rounds(size)).map(|_| timed(|| Ok(back.copy_from(&there)?))))?;
        if back.to(Device::CPU)?.view::<u8>()?.as_slice()? != bytes {
            return Err("the bytes that came back are others".into());
        }
        println!("to {}\t{to}\nfrom {}\t{from}", size >> 20, size >> 20);
    }
    Ok(())
}

/// Copies the same bytes from memory to memory through a plain socket, with one byte as receipt: a
/// socket of the kind that a client and a server on one machine use.
fn plain() -> Result {
    let (mut stream, mut other) = UnixStream::pair()?;
    let receiver = thread::spawn(move || -> std::io::Result<()> {
        let stream = &mut other;
        for size in SIZES {
            let mut bytes = vec![0; size];
            for _ in 0..=rounds(size) {
                stream.read_exact(&mut bytes)?;
                stream.write_all(&[1])?;
            }
        }
        Ok(())
    });
    for size in SIZES {
        let bytes = vec![7; size];
        let mut copy = || {
            timed(|| {
                stream.write_all(&bytes)?;
                Ok(stream.read_exact(&mut [0])?)
            })
        };
        copy()?;
        let time = median((0..rounds(size)).map(|_| copy()))?;
        println!("to {}\t{time}\nfrom {}\t{time}", size >> 20, size >> 20);
    }
    receiver.join().map_err(|_| "the receiver failed")??;
    Ok(())
}
