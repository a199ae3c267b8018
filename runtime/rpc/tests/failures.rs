//! The client with servers that fail, lie or go silent: each is a few lines that implement the
//! protocol as far as the test needs it.

#[path = "client/fake.rs"]
mod fake;

use std::io::Write;
use std::net::TcpListener;
use std::sync::mpsc::{Receiver, channel};
use std::thread;
use std::time::{Duration, Instant};

use kernpack::{DataType, Device, Function, Tensor};
use kernpack_rpc::connect;
use kernpack_rpc::wire::{Bounds, Code, Encoder, TensorHeader, Value, hear};

use fake::{Server, TIME};

fn packet(length: u64, code: i32, body: &[u8]) -> Vec<u8> {
    [&length.to_le_bytes()[..], &code.to_le_bytes(), body].concat()
}

#[test]
fn connections_that_do_not_begin() {
    // Another version.
    let server = Server::raw(1, |mut served| {
        served.next();
        served.connection.send_exception("the server speaks version 0.9.1, the client 0.8.0").unwrap();
    });
    let error = server.connect().open().unwrap_err();
    assert_eq!(error.kind(), "ConnectionError");
    assert!(
        error.message().contains("0.9.1") && error.message().contains("this client speaks version 0.8.0"),
        "{error}"
    );
    server.join();
    // A server of another protocol, and one that rejects the client.
    for (bytes, problem) in [
        (&b"HTTP/1.1 400 Bad Request\r\n\r\n"[..], "is this the right port?"),
        (b"", "closed the connection: it is not an RPC server, or wants a token, TLS, or another key"),
        (b"\x73\xf2\x0f\0", "another key than 'pi'"),
        (b"\x71\xf2\x0f\0\xff\xff\xff\x7f", "a key of 2147483647 bytes"),
    ] {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap().to_string();
        let server = thread::spawn(move || {
            let (mut stream, _) = listener.accept().unwrap();
            hear(&mut stream, TIME).unwrap();
            stream.write_all(bytes).unwrap();
        });
        let error = connect(&address).key("pi").open().unwrap_err();
        assert_eq!(error.kind(), "ConnectionError");
        assert!(error.message().contains(problem) && error.message().contains(&address), "{error}");
        server.join().unwrap();
    }
    // A server that only accepts connections.
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let silent = connect(listener.local_addr().unwrap().to_string()).connect_timeout(Duration::from_millis(100));
    let error = silent.open().unwrap_err();
    assert_eq!(error.kind(), "TimeoutError");
    assert!(error.message().contains("sent nothing for 0.1 s"), "{error}");
    for (connect, problem) in [
        (connect("127.0.0.1:1").key("two words"), "a key has no white space in it"),
        (connect("127.0.0.1:1").token("two words"), "a token has no white space in it"),
        (connect("127.0.0.1:x"), "'127.0.0.1:x' is not an address"),
        (connect("127.0.0.1:1").timeout(Duration::ZERO), "a timeout is longer than zero"),
    ] {
        let error = connect.open().unwrap_err();
        assert!(error.kind() == "ValueError" && error.message().contains(problem), "{error}");
    }
}

#[test]
fn sessions_that_break() {
    let cut = packet(100, 4, b"\x02\0\0\0");
    let other_code = packet(4, 8, b"");
    let unknown_code = packet(4, 99, b"");
    for (bytes, problem) in [
        (Vec::new(), "closed the connection, or is gone"),
        (cut, "closed the connection, or is gone"),
        (packet(3, 4, b""), "a packet of 3 bytes"),
        (other_code, "a packet CopyAck came in place of a reply"),
        (unknown_code, "unknown code 99"),
        (packet(u64::MAX, 5, b"\x01\0\0\0\x08\0\0\0\xff\xff\xff\xff\xff\xff\xff\xff"), "ended"),
    ] {
        let server = Server::start(move |served| {
            served.found(5);
            served.called(5);
            served.write(&bytes);
        });
        let session = server.open();
        let function = session.global_function("f").unwrap();
        let start = Instant::now();
        let error = function.call((1,)).unwrap_err();
        assert!(error.message().contains(problem), "{error}");
        let again = function.call((1,)).unwrap_err();
        assert_eq!(again.kind(), "ConnectionError");
        assert!(again.message().starts_with(&format!("the session with {} has ended: ", server.address)), "{again}");
        assert!(!session.is_open() && session.device("cpu").is_err());
        drop((function, session));
        assert!(start.elapsed() < TIME / 2);
        server.join();
    }
}

#[test]
fn silence_ends() {
    let server = Server::start(|served| {
        served.found(5);
        served.called(5);
        assert!(served.connection.next_packet().is_err(), "the client has gone");
    });
    let session = server.connect().timeout(Duration::from_secs(2)).open().unwrap();
    let function = session.global_function("f").unwrap();
    let start = Instant::now();
    let error = function.call(()).unwrap_err();
    assert_eq!(error.kind(), "TimeoutError");
    assert!(error.message().contains("`timeout` of the connection sets how long a call may take"), "{error}");
    drop((function, session));
    assert!(start.elapsed() < TIME / 2, "nothing waits for a session that has ended");
    server.join();
}

#[test]
fn a_server_that_ends_the_session_says_why() {
    let server = Server::start(|served| {
        served.found(5);
        served.connection.send_exception("RPCSessionTimeoutError: 2 s are over").unwrap();
    });
    let session = server.open();
    let function = session.global_function("f").unwrap();
    let address = server.address.clone();
    server.join();
    for _ in 0..3 {
        let error = function.call(()).unwrap_err();
        assert_eq!(error.to_string(), "RPCSessionTimeoutError: 2 s are over", "{address}");
    }
}

#[test]
fn replies_that_make_no_sense() {
    type Reply = fn(&mut Encoder<'_>);
    fn tensor(shape: &[i64], device: Device) -> TensorHeader {
        TensorHeader { data: 64, device, dtype: DataType::FLOAT32, shape: shape.to_vec(), byte_offset: 0 }
    }
    const REPLIES: [(Reply, usize, &str); 9] = [
        (|_| {}, 0, "the number of values does not fit"),
        (
            |values| {
                values.int(1).int(2).int(3);
            },
            3,
            "a handle behind a value that has none",
        ),
        (
            |values| {
                values.none().none();
            },
            2,
            "the number of values does not fit",
        ),
        (
            |values| {
                values.int(1 << 40).int(2);
            },
            2,
            "a type index that is too large",
        ),
        (
            |values| {
                values.int(70).tensor(&tensor(&[1], Device::CPU));
            },
            2,
            "a tensor without a handle",
        ),
        (
            |values| {
                values.int(70).tensor(&tensor(&[-1], Device::CPU)).opaque(7);
            },
            3,
            "a tensor of shape [-1]",
        ),
        (
            |values| {
                values.int(70).tensor(&tensor(&[1 << 40, 1 << 40], Device::CPU)).opaque(8);
            },
            3,
            "a tensor of shape [1099511627776, 1099511627776]",
        ),
        (
            |values| {
                values.int(70).tensor(&tensor(&[1], Device::new(129, 0))).opaque(9);
            },
            3,
            "remote[0]-cpu:0 is not a device that",
        ),
        (
            |values| {
                values.int(6).device(Device::new(-3, 0));
            },
            2,
            "is not a device that",
        ),
    ];
    let server = Server::start(|served| {
        served.found(5);
        let mut freed = Vec::new();
        for (reply, count, _) in REPLIES {
            served.called(5);
            served.reply(reply, count);
            if count == 3 && freed.len() < 3 && served_tensor(reply) {
                freed.push(served.freed());
            }
        }
        assert_eq!(freed, [7, 8, 9], "what cannot be used is given back");
        served.called(5);
        served.reply(
            |values| {
                values.int(1).int(42);
            },
            2,
        );
    });
    /// Returns true if a reply contains a tensor's handle.
    fn served_tensor(reply: Reply) -> bool {
        let mut bytes = Vec::new();
        reply(&mut Encoder::begin(&mut bytes, 3));
        bytes.len() > 60
    }
    let session = server.open();
    let function = session.global_function("f").unwrap();
    for (_, _, problem) in REPLIES {
        let error = function.call(()).unwrap_err();
        assert!(error.message().contains(problem), "{problem}: {error}");
    }
    assert_eq!(function.call_as::<i64>(()).unwrap(), 42, "the session goes on");
}

/// A server that returns functions, and the handles that it was asked to free; `before_call` is
/// called in each call, with its number.
fn giver(count: u64, before_call: impl Fn(u64) + Send + 'static) -> (Server, Receiver<u64>) {
    let (send, freed) = channel();
    let server = Server::raw(1, move |mut served| {
        served.begin();
        served.found(5);
        let mut given = 0;
        loop {
            let packet = served.next();
            match packet.code() {
                Some(Code::CallFunc) => {
                    before_call(given);
                    // One request at a time: nothing arrives while one is in flight.
                    let mut byte = [0; 1];
                    let stream = served.connection.transport();
                    stream.set_nonblocking(true).unwrap();
                    served.connection.skip().unwrap();
                    let peeked = served.connection.transport().peek(&mut byte);
                    served.connection.transport().set_nonblocking(false).unwrap();
                    assert!(peeked.is_err(), "a second request came before the reply");
                    given += 1;
                    assert!(given <= count);
                    served.reply(
                        |values| {
                            values.int(68).opaque(100 + given);
                        },
                        2,
                    );
                }
                Some(Code::FreeHandle) => {
                    let values = served.connection.sequence(&Bounds::default()).unwrap();
                    served.reply(
                        |values| {
                            values.none();
                        },
                        1,
                    );
                    let [Value::Opaque(handle)] = values[..] else { panic!("{values:?}") };
                    send.send(handle).unwrap();
                }
                Some(Code::Shutdown) => return,
                _ => panic!("{packet:?}"),
            }
        }
    });
    (server, freed)
}

#[test]
fn handles_are_given_back_from_all_threads() {
    let (server, freed) = giver(200, |_| ());
    let session = server.open();
    let make = session.global_function("make").unwrap();
    thread::scope(|threads| {
        for _ in 0..4 {
            threads.spawn(|| {
                for round in 0..50 {
                    let function: Function = make.call_as(()).unwrap();
                    if round % 2 == 0 {
                        thread::spawn(move || drop(function)).join().unwrap();
                    }
                }
            });
        }
    });
    // The last reference ends the session: first the function, then the rest.
    drop(session);
    drop(make);
    server.join();
    let mut freed: Vec<u64> = freed.iter().collect();
    freed.sort_unstable();
    let expected: Vec<u64> = std::iter::once(5).chain(101..=300).collect();
    assert_eq!(freed, expected, "each once, and the function itself");
}

#[test]
fn dropping_does_not_wait_for_a_call() {
    // The second call is in flight from `begun` to `end`.
    let ((begun, has_begun), (end, ends)) = (channel(), channel());
    let (server, freed) = giver(2, move |calls_before| {
        if calls_before == 1 {
            begun.send(()).unwrap();
            ends.recv_timeout(TIME).unwrap();
        }
    });
    let session = server.open();
    let make = session.global_function("make").unwrap();
    let first: Function = make.call_as(()).unwrap();
    thread::scope(|threads| {
        let call = threads.spawn(|| make.call_as::<Function>(()).unwrap());
        has_begun.recv_timeout(TIME).unwrap();
        // It is freed later: the call does not end before this has returned.
        drop(first);
        end.send(()).unwrap();
        let second = call.join().unwrap();
        assert_eq!(freed.recv_timeout(TIME).unwrap(), 101);
        drop(second);
        assert_eq!(freed.recv_timeout(TIME).unwrap(), 102);
    });
    drop((session, make));
    server.join();
}

#[test]
fn a_closed_session_stays_closed() {
    let (server, freed) = giver(1, |_| ());
    let session = server.open();
    let make = session.global_function("make").unwrap();
    let function: Function = make.call_as(()).unwrap();
    session.clone().close();
    let error = function.call(()).unwrap_err();
    assert_eq!(error.to_string(), format!("ConnectionError: the session with {} was closed", server.address));
    server.join();
    drop((function, make, session));
    assert_eq!(freed.iter().count(), 0, "a session that is over gives nothing back");
}

/// Answers the requests before a copy: the allocation, and the lookup of the packet limit.
fn memory(served: &mut fake::Served, address: u64) {
    assert_eq!(served.next().code(), Some(Code::DevAllocData));
    served.reply(
        |values| {
            values.opaque(address);
        },
        1,
    );
    served.found(0);
}

#[test]
fn servers_that_end_in_a_copy() {
    const SIZE: i64 = 8 << 20;
    // To the server: it reads a part, and is gone.
    let server = Server::start(|served| {
        memory(served, 1 << 32);
        assert_eq!(served.next().code(), Some(Code::CopyToRemote));
    });
    let session = server.open();
    let here = Tensor::from_vec(vec![1u8; SIZE as usize], &[SIZE]).unwrap();
    let start = Instant::now();
    let error = here.to(session.device("cpu").unwrap()).unwrap_err();
    assert_eq!(error.kind(), "ConnectionError", "{error}");
    server.join();
    // From the server: only a part arrives.
    let server = Server::start(|served| {
        memory(served, 1 << 32);
        assert_eq!(served.next().code(), Some(Code::CopyFromRemote));
        served.connection.send_begin(Code::CopyAck, SIZE as u64, |_| {}).unwrap();
        served.connection.send_more(&[7; 100_000]).unwrap();
    });
    let session = server.open();
    let there = Tensor::empty(DataType::UINT8, &[SIZE], session.device("cpu").unwrap()).unwrap();
    let error = there.to(Device::CPU).unwrap_err();
    assert_eq!(error.kind(), "ConnectionError", "{error}");
    drop((there, session));
    server.join();
    // It does not read, and sends too little.
    let (done, is_done) = channel::<()>();
    let server = Server::start(move |served| {
        memory(served, 1 << 32);
        assert_eq!(served.next().code(), Some(Code::CopyFromRemote));
        served.connection.send_with(Code::CopyAck, b"four", |_| {}).unwrap();
        served.connection.skip().unwrap();
        let _ = is_done.recv_timeout(TIME);
    });
    let session = server.connect().timeout(Duration::from_secs(2)).open().unwrap();
    let mut there = Tensor::empty(DataType::UINT8, &[SIZE], session.device("cpu").unwrap()).unwrap();
    let error = there.to(Device::CPU).unwrap_err();
    assert_eq!(error.to_string(), "ValueError: the server sent 4 bytes in place of 8388608");
    let error = there.copy_from(&here).unwrap_err();
    assert_eq!(error.kind(), "TimeoutError", "{error}");
    drop((there, session, done));
    server.join();
    assert!(start.elapsed() < TIME);
}

#[test]
fn tensors_of_others() {
    use kernpack::sys::abi::{DLManagedTensorVersioned, DLPackVersion, DLTensor};
    let server = Server::start(|served| {
        served.found(5);
        assert_eq!(served.freed(), 5);
        assert_eq!(served.next().code(), Some(Code::Shutdown));
    });
    let session = server.open();
    let device = session.device("cpu").unwrap();
    // A tensor as another RPC implementation in the process would make it: our kind of device, and
    // memory that is unknown here.
    let mut shape = [4i64];
    let mut block = [0u64; 4];
    let mut managed = DLManagedTensorVersioned {
        version: DLPackVersion { major: 1, minor: 0 },
        manager_ctx: core::ptr::null_mut(),
        deleter: None,
        flags: 0,
        dl_tensor: DLTensor {
            data: block.as_mut_ptr().cast(),
            device: device.as_raw(),
            ndim: 1,
            dtype: DataType::FLOAT32.as_raw(),
            shape: shape.as_mut_ptr(),
            strides: core::ptr::null_mut(),
            byte_offset: 0,
        },
    };
    // SAFETY: the description outlives the tensor, which is dropped below.
    let tensor = unsafe { Tensor::from_dlpack(&raw mut managed).unwrap() };
    let error = tensor.to(Device::CPU).unwrap_err();
    assert_eq!(error.kind(), "ValueError");
    assert!(error.message().contains("one of another RPC implementation"), "{error}");
    let function = session.global_function("f").unwrap();
    let error = function.call((&tensor,)).unwrap_err();
    assert!(error.message().starts_with("argument 0: the tensor's memory is not known"), "{error}");
    assert!(tensor.view::<f32>().is_err());
    drop((tensor, function, session));
    server.join();
}
