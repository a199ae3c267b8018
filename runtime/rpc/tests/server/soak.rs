//! Many calls, sessions, strangers and bytes leave nothing behind in a server. `KERNPACK_RPC_SOAK`
//! (`cargo xtask rpc --soak`) runs the full amount; without it each test takes a second or two.

use std::fs;
use std::io::{Read, Write};
use std::net::{Shutdown, TcpStream};
use std::process::Command;
use std::thread;
use std::time::{Duration, Instant};

use kernpack::{Device, Tensor};
use kernpack_rpc::connect;
use kernpack_rpc::wire::{Code, Key, Value, greet};

use super::{Program, Raw, TIME};

/// The full amount, or a small one.
pub(crate) fn whole<T>(whole: T, small: T) -> T {
    if std::env::var_os("KERNPACK_RPC_SOAK").is_some() { whole } else { small }
}

pub(crate) fn program() -> Command {
    let mut program = Command::new(env!("CARGO_BIN_EXE_kernpack-rpc-server"));
    program.arg("--no-token");
    program
}

/// The number of entries in a folder of a process in /proc.
fn count(process: u32, folder: &str) -> usize {
    fs::read_dir(format!("/proc/{process}/{folder}")).map_or(0, Iterator::count)
}

/// A value in KiB from a process's status in /proc, in bytes.
fn memory(process: u32, name: &str) -> u64 {
    let status = fs::read_to_string(format!("/proc/{process}/status")).unwrap_or_default();
    let line = status.lines().find_map(|line| line.strip_prefix(name)).unwrap_or_default();
    line.trim_matches([':', '\t', ' ', 'k', 'B']).parse::<u64>().map_or(0, |kib| kib << 10)
}

/// All descendants of a process.
pub(crate) fn descendants(process: u32) -> Vec<u32> {
    let mut found = vec![process];
    let mut next = 0;
    while next < found.len() {
        for thread in fs::read_dir(format!("/proc/{}/task", found[next])).into_iter().flatten().flatten() {
            let children = fs::read_to_string(thread.path().join("children")).unwrap_or_default();
            found.extend(children.split_ascii_whitespace().filter_map(|word| word.parse::<u32>().ok()));
        }
        next += 1;
    }
    found.split_off(1)
}

/// The descriptors, and the bytes of memory, of an idle server.
fn settled(server: &Program) -> (usize, u64) {
    let id = server.process.id();
    let end = Instant::now() + TIME;
    // The listening thread, and the main thread.
    while count(id, "task") > 2 || !descendants(id).is_empty() {
        assert!(Instant::now() < end, "{} threads, processes {:?}", count(id, "task"), descendants(id));
        thread::sleep(Duration::from_millis(10));
    }
    (count(id, "fd"), memory(id, "VmRSS"))
}

#[track_caller]
fn assert_nothing_is_left(server: &Program, before: (usize, u64)) {
    let after = settled(server);
    assert_eq!(after.0, before.0, "descriptors are left");
    let most = before.1 + (4 << 20);
    assert!(after.1 < most, "memory grew from {} to {} KiB", before.1 >> 10, after.1 >> 10);
    println!("{} descriptors, memory {} KiB before and {} KiB after", after.0, before.1 >> 10, after.1 >> 10);
}

#[test]
fn soak_of_calls_and_sessions() {
    let server = Program::start(&mut program());
    for _ in 0..5 {
        Raw::open(&server.address).lives();
    }
    let before = settled(&server);
    for round in 0..whole(1000, 20) {
        let mut raw = Raw::open(&server.address);
        if round % 3 == 0 {
            raw.lives();
        }
        if round % 5 == 0 {
            raw.0.send(Code::Shutdown, |_| ()).unwrap();
        }
    }
    assert_nothing_is_left(&server, before);
    let mut raw = Raw::open(&server.address);
    let echo = raw.function("testing.echo");
    let session = *descendants(server.process.id()).last().unwrap();
    let mut of_session = (0, 0);
    for value in 0..whole(100_000, 2000) {
        assert_eq!(raw.call(echo, &[Value::Int(value)]), Ok(vec![Value::Int(1), Value::Int(value)]));
        // With each tenth call a handle is created and freed.
        if value % 10 == 0 {
            raw.lives();
        }
        if value == 1000 {
            of_session = (count(session, "fd"), memory(session, "VmRSS"));
        }
    }
    let after = (count(session, "fd"), memory(session, "VmRSS"));
    assert!(after.0 == of_session.0 && after.1 < of_session.1 + (1 << 20), "{of_session:?} {after:?}");
    println!("the session: {} descriptors, memory {} and {} KiB", after.0, of_session.1 >> 10, after.1 >> 10);
    drop(raw);
    assert_nothing_is_left(&server, before);
}

/// Opens one connection of each kind of attack.
fn strike(address: &str, kind: usize) {
    let connect = || {
        let stream = TcpStream::connect(address).unwrap();
        stream.set_read_timeout(Some(TIME)).unwrap();
        stream
    };
    let greeted = || {
        let mut stream = connect();
        greet(&mut stream, &Key::client(""), TIME).unwrap();
        stream
    };
    // The answer is ignored, and so are errors.
    let send = |mut stream: TcpStream, bytes: &[u8]| {
        let _ = stream.write_all(bytes);
        let _ = stream.shutdown(Shutdown::Write);
        let _ = stream.read(&mut [0; 64]);
    };
    match kind % 12 {
        0 => drop(connect()),
        1 => send(connect(), b"GET / HTTP/1.1\r\n\r\n"),
        2 => send(connect(), b"\x71\xf2\x0f\0\xff\xff\xff\x7f"),
        3 => send(connect(), b"\x71\xf2"),
        4 => send(connect(), b"\x71\xf2\x0f\0\x06\0\0\0client"),
        5 => send(connect(), b"\x71\xf2\x0f\0\x09\0\0\0client:xy"),
        6 => drop(greeted()),
        7 => send(greeted(), &[0xff; 64]),
        8 => send(greeted(), &[&[0; 7][..], b"\x80\x02\0\0\0"].concat()),
        9 => {
            let mut raw = Raw::open(address);
            for handle in [1, u64::MAX, 0x7fff_0000_0000] {
                assert!(raw.call_system(Code::FreeHandle, &[Value::Opaque(handle)]).is_err());
                assert!(raw.call(handle, &[Value::Opaque(handle)]).is_err());
            }
        }
        10 => {
            let raw = Raw::open(address);
            // A truncated copy: 2^40 bytes are announced.
            let copy = [&(1_u64 << 40).to_le_bytes()[..], b"\x07\0\0\0", &[7; 100]].concat();
            send(raw.0.transport().try_clone().unwrap(), &copy);
        }
        _ => {
            let raw = Raw::open(address);
            // A sequence of 2^31 - 1 values.
            let sequence = [&1000_u64.to_le_bytes()[..], b"\x09\0\0\0\xff\xff\xff\x7f"].concat();
            send(raw.0.transport().try_clone().unwrap(), &sequence);
        }
    }
}

#[test]
fn soak_of_hostile_connections() {
    let server = Program::start(program().args(["--stall-time", "10", "--handshake-time", "10"]));
    let address = server.address.as_str();
    (0..24).for_each(|kind| strike(address, kind));
    let before = settled(&server);
    let connections = whole(10_000, 120);
    thread::scope(|threads| {
        for thread in 0..8 {
            threads.spawn(move || (thread..connections).step_by(8).for_each(|kind| strike(address, kind)));
        }
        // Between them, a well-behaved client is served.
        for _ in 0..connections / 100 {
            Raw::open(address).lives();
        }
    });
    assert_nothing_is_left(&server, before);
}

#[test]
fn soak_of_a_large_tensor() {
    // The size in bytes, and how much more memory the server's processes may use.
    let (size, beside) = whole((4_usize << 30, 100 << 20), (256 << 20, 32 << 20));
    let server = Program::start(&mut program());
    let session = connect(server.address.as_str()).timeout(Duration::from_secs(600)).open().unwrap();
    let pattern = |index: usize| (index * 31 % 251) as u8;
    let mut here = Tensor::from_vec((0..size).map(pattern).collect(), &[size as i64]).unwrap();
    let there = here.to(session.device("cpu").unwrap()).unwrap();
    here.view_mut::<u8>().unwrap().as_slice_mut().unwrap().fill(255);
    here.copy_from(&there).unwrap();
    let view = here.view::<u8>().unwrap();
    assert!(view.as_slice().unwrap().iter().enumerate().all(|(index, byte)| *byte == pattern(index)));
    let mut processes = descendants(server.process.id());
    processes.push(server.process.id());
    let peak: u64 = processes.iter().map(|process| memory(*process, "VmHWM")).sum();
    let more = peak.checked_sub(size as u64).expect("the tensor is in the server's memory");
    println!("{} MiB through a server: {} MiB of memory beside them", size >> 20, more >> 20);
    assert!(more < beside, "{more} bytes beside the tensor");
    assert_eq!(there.to(Device::CPU).unwrap().len(), size);
}
