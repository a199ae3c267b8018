//! The server with Kernpack's client, and with malicious clients.

#[cfg(target_os = "linux")]
#[path = "server/network.rs"]
mod network;
#[cfg(target_os = "linux")]
#[path = "server/soak.rs"]
mod soak;

use std::fs;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicU32, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use kernpack::{DataType, Device, Tensor};
use kernpack_rpc::wire::{
    Bounds, Code, Connection, Encoder, Key, Patience, Source, TensorHeader, VERSION, Value, greet,
};
use kernpack_rpc::{Server, ServerOptions, connect};

const TIME: Duration = Duration::from_secs(30);

/// A server whose sessions have their folders in a folder of the test.
struct Tested {
    server: Option<Server>,
    folder: PathBuf,
}

impl Tested {
    fn start(change: impl FnOnce(&mut ServerOptions)) -> Self {
        static COUNT: AtomicU32 = AtomicU32::new(0);
        let name = format!("rpc-server-{}-{}", std::process::id(), COUNT.fetch_add(1, Ordering::Relaxed));
        let folder = PathBuf::from(env!("CARGO_TARGET_TMPDIR")).join(name);
        fs::create_dir_all(&folder).unwrap();
        let mut options = ServerOptions::default();
        options.listen.port = 0;
        options.program = Some((env!("CARGO_BIN_EXE_kernpack-rpc-server").into(), Vec::new()));
        options.folder = Some(folder.clone());
        change(&mut options);
        Self { server: Some(Server::start(options).unwrap()), folder }
    }

    fn server(&self) -> &Server {
        self.server.as_ref().unwrap()
    }

    fn address(&self) -> SocketAddr {
        self.server().address()
    }

    fn dial(&self) -> TcpStream {
        let stream = TcpStream::connect(self.address()).unwrap();
        stream.set_read_timeout(Some(TIME)).unwrap();
        stream
    }

    /// A connection whose handshake is done.
    fn greeted(&self) -> TcpStream {
        let mut stream = self.dial();
        greet(&mut stream, &Key::client(""), TIME).unwrap();
        stream
    }

    /// A session of raw packets.
    fn raw(&self) -> Raw {
        Raw::begin(self.greeted())
    }

    /// Waits until no session and no folder is left.
    fn wait_until_clean(&self) {
        let end = Instant::now() + TIME;
        while self.server().session_count() > 0 || fs::read_dir(&self.folder).unwrap().next().is_some() {
            assert!(Instant::now() < end, "{} sessions are left", self.server().session_count());
            thread::sleep(Duration::from_millis(10));
        }
    }
}

impl Drop for Tested {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.folder);
    }
}

/// Sends requests as raw bytes.
struct Raw(Connection<TcpStream>);

impl Raw {
    /// A session with the server at an address.
    fn open(address: &str) -> Self {
        let mut stream = TcpStream::connect(address).unwrap();
        greet(&mut stream, &Key::client(""), TIME).unwrap();
        Self::begin(stream)
    }

    /// The session of a connection whose handshake is done.
    fn begin(stream: TcpStream) -> Self {
        let mut raw = Self(Connection::new(stream, Patience { idle: Some(TIME), stall: Some(TIME) }));
        let begun = raw.request(Code::InitServer, |body| {
            body.extend_from_slice(&(VERSION.len() as u64).to_le_bytes());
            body.extend_from_slice(VERSION.as_bytes());
            Encoder::begin(body, 0);
        });
        assert_eq!(begun, Ok(vec![Value::None]));
        raw
    }

    /// The values of the reply, or the message of the exception.
    fn request(&mut self, code: Code, write: impl FnOnce(&mut Vec<u8>)) -> Result<Vec<Value>, String> {
        self.0.send(code, write).unwrap();
        self.reply()
    }

    fn reply(&mut self) -> Result<Vec<Value>, String> {
        let packet = self.0.next_packet().map_err(|error| format!("no reply: {error}"))?;
        match packet.code() {
            Some(Code::Return) => Ok(self.0.sequence(&Bounds::default()).unwrap()),
            Some(Code::Exception) => Err(self.0.exception(&Bounds::default()).unwrap()),
            other => panic!("{other:?}"),
        }
    }

    fn call_system(&mut self, code: Code, values: &[Value]) -> Result<Vec<Value>, String> {
        self.request(code, |body| {
            let mut encoder = Encoder::begin(body, values.len());
            values.iter().for_each(|value| {
                encoder.value(value);
            });
        })
    }

    fn function(&mut self, name: &str) -> u64 {
        match self.call_system(Code::GetGlobalFunc, &[Value::Str(name.to_owned())]).as_deref() {
            Ok([Value::Opaque(handle)]) => *handle,
            other => panic!("{other:?}"),
        }
    }

    fn call(&mut self, handle: u64, values: &[Value]) -> Result<Vec<Value>, String> {
        self.request(Code::CallFunc, |body| {
            body.extend_from_slice(&handle.to_le_bytes());
            let mut encoder = Encoder::begin(body, values.len());
            values.iter().for_each(|value| {
                encoder.value(value);
            });
        })
    }

    /// Asserts that the session continues.
    fn lives(&mut self) {
        let echo = self.function("testing.echo");
        assert_eq!(self.call(echo, &[Value::Int(5)]), Ok(vec![Value::Int(1), Value::Int(5)]));
        assert_eq!(self.call_system(Code::FreeHandle, &[Value::Opaque(echo)]), Ok(vec![Value::None]));
    }
}

#[track_caller]
fn fails(reply: Result<Vec<Value>, String>, part: &str) {
    let message = reply.expect_err("an exception");
    assert!(message.contains(part), "{message}");
}

fn tensor(data: u64, length: i64) -> Value {
    Value::Tensor(header(data, length, 0))
}

fn header(data: u64, length: i64, byte_offset: u64) -> TensorHeader {
    let (device, dtype) = (Device::CPU, DataType::UINT8);
    TensorHeader { data, device, dtype, shape: vec![length], byte_offset }
}

#[test]
fn our_client() {
    let tested = Tested::start(|options| options.key = "pi".to_owned());
    let open = || connect(tested.address().to_string()).key("pi").timeout(TIME).open().unwrap();
    let session = open();
    let content: Vec<u8> = (0..3_000_000u32).map(|i| (i * 7) as u8).collect();
    for content in [&content[..], b"", b"short\0"] {
        session.upload_as("folder/data.bin", content).unwrap();
        assert_eq!(session.download("folder/data.bin").unwrap().as_slice(), content);
    }
    assert_eq!(session.listdir("folder").unwrap(), ["data.bin"]);
    session.remove("folder").unwrap();
    let echo = session.global_function("testing.echo").unwrap();
    assert_eq!(echo.call_as::<String>(("a text of some length",)).unwrap(), "a text of some length");
    assert_eq!(echo.call_as::<f64>((0.5,)).unwrap(), 0.5);
    let error = echo.call(()).unwrap_err();
    assert_eq!(error.kind(), "TypeError");
    assert!(error.message().contains("testing.echo(value): expected 1 arguments, got 0"), "{error}");
    let there = session.device("cpu:0").unwrap();
    let values: Vec<i32> = (0..100_000).collect();
    let tensor = Tensor::from_slice(&values, &[100, 1000]).unwrap().to(there).unwrap();
    let back: Tensor = echo.call_as((&tensor,)).unwrap();
    assert_eq!(back.to(Device::CPU).unwrap().view::<i32>().unwrap().to_vec(), values);
    // A second session, and one that is forwarded by this server to itself.
    let address = tested.address().to_string();
    let far = connect(address.as_str()).key("pi").hop(address, "pi").timeout(TIME).open().unwrap();
    for session in [open(), far] {
        assert_eq!(session.global_function("testing.echo").unwrap().call_as::<i64>((7,)).unwrap(), 7);
    }
    if let Ok(path) = std::env::var("CONVERSIONS_LIBRARY") {
        session.upload(&path).unwrap();
        let name = std::path::Path::new(&path).file_name().unwrap().to_str().unwrap();
        let library = session.load_module(name).unwrap();
        assert_eq!(library.function("add").unwrap().call_as::<i64>((1, 2)).unwrap(), 3);
        library.function("increase_i32").unwrap().call((&tensor, 10)).unwrap();
        assert_eq!(tensor.to(Device::CPU).unwrap().view::<i32>().unwrap().get(&[99, 999]), Some(100_009));
        let timing = session.time_evaluator(&library, "add", there).unwrap().number(3).repeat(4).run((1, 2)).unwrap();
        assert!(timing.results.len() == 4 && timing.min > 0.0, "{timing:?}");
    }
    drop((tensor, back, echo, session));
    tested.wait_until_clean();
}

#[test]
fn strangers_learn_nothing() {
    let tested = Tested::start(|options| options.listen.token = Some("c2VjcmV0IHRva2Vu".to_owned()));
    let key =
        |text: &str| [&0xFF271i32.to_le_bytes()[..], &(text.len() as i32).to_le_bytes(), text.as_bytes()].concat();
    for bytes in [
        b"GET / HTTP/1.1\r\n\r\n".to_vec(),
        [&0xFF271i32.to_le_bytes()[..], &i32::MAX.to_le_bytes()].concat(),
        [&0xFF271i32.to_le_bytes()[..], &(-1i32).to_le_bytes()].concat(),
        key("client:"),
        key("client: -token=c2VjcmV0IHRva2V"),
        key("client: -timeout=x -token=c2VjcmV0IHRva2Vu"),
        key("server:"),
    ] {
        let mut stream = tested.dial();
        stream.write_all(&bytes).unwrap();
        let mut answer = Vec::new();
        // A connection that is closed with unread bytes may be reset.
        let _ = stream.read_to_end(&mut answer);
        assert_eq!(answer, b"", "{}", bytes.escape_ascii());
    }
    connect(tested.address().to_string()).token("c2VjcmV0IHRva2Vu").open().unwrap();
    tested.wait_until_clean();
}

#[test]
fn slow_and_many_connections() {
    let tested = Tested::start(|options| options.listen.handshake_time = Duration::from_secs(3));
    // Nothing, or one byte now and then.
    let mut slow = tested.dial();
    let start = Instant::now();
    while slow.write_all(b"\x71").is_ok() && start.elapsed() < TIME {
        thread::sleep(Duration::from_millis(50));
    }
    assert!(start.elapsed() < TIME / 2, "{:?}", start.elapsed());
    let mut silent: Vec<TcpStream> = (0..600).map(|_| tested.dial()).collect();
    tested.raw().lives();
    let end = Instant::now() + TIME;
    for stream in &mut silent {
        let _ = stream.read(&mut [0; 8]);
        assert!(Instant::now() < end);
    }
    tested.raw().lives();
    tested.wait_until_clean();
}

#[test]
fn hostile_packets() {
    let tested = Tested::start(|options| options.limits.stall_time = Some(Duration::from_secs(2)));
    let packet = |length: u64, rest: &[u8]| [&length.to_le_bytes()[..], rest].concat();
    // Each ends the session, with a message if there still is a reader.
    for (bytes, part) in [
        (packet(1 << 63, b"\x03\0\0\0"), "a packet of 9223372036854775808 bytes"),
        (packet(2, b"\x03\0"), "a packet of 2 bytes"),
        (packet(100, b"\x03\0\0\0\x01"), "waited 2 s"),
        (packet(1 << 40, &[&b"\x07\0\0\0"[..], &[0; 40]].concat()), "waited 2 s"),
    ] {
        let mut raw = tested.raw();
        raw.0.transport_mut().write_all(&bytes).unwrap();
        fails(raw.reply(), part);
        fails(raw.reply(), "no reply");
    }
    // Truncated in the middle: nothing is left of the session.
    for cut in [1, 8, 11, 20] {
        let mut raw = tested.raw();
        let whole = packet(24, b"\x09\0\0\0\x01\0\0\0\x08\0\0\0\x04\0\0\0\0\0\0\0name");
        raw.0.transport_mut().write_all(&whole[..cut]).unwrap();
    }
    // Before the first request.
    let mut raw = Raw(Connection::new(tested.greeted(), Patience { idle: Some(TIME), stall: Some(TIME) }));
    fails(
        raw.call_system(Code::GetGlobalFunc, &[Value::Str("testing.echo".into())]),
        "first packet of a session is InitServer",
    );
    let mut raw = Raw(Connection::new(tested.greeted(), Patience { idle: Some(TIME), stall: Some(TIME) }));
    let version = raw.request(Code::InitServer, |body| body.extend_from_slice(b"\x05\0\0\0\0\0\0\x000.7.9\0\0\0\0"));
    fails(version, "speaks version 0.8.0 of the RPC protocol (Apache TVM 0.27), the client 0.7.9");
    // Invalid content fails only the request.
    let mut raw = tested.raw();
    for (code, body) in [
        (Code::Return, &b""[..]),
        (Code::CopyAck, b""),
        (Code::InitServer, b"\0\0\0\0\0\0\0\0"),
        (Code::GetGlobalFunc, b""),
        (Code::GetGlobalFunc, b"\xff\xff\xff\xff"),
        (Code::GetGlobalFunc, b"\x01\0\0\0\x08\0\0\0\xff\xff\xff\xff\xff\xff\xff\xff"),
        (Code::CallFunc, b"\x01"),
        (Code::CopyToRemote, b"\0\0"),
        (Code::CopyFromRemote, &[0xff; 64]),
    ] {
        let reply = raw.request(code, |bytes| bytes.extend_from_slice(body));
        assert!(reply.is_err(), "{code:?} {body:?}: {reply:?}");
        raw.lives();
    }
    raw.0.transport_mut().write_all(&packet(4, b"\x63\0\0\0")).unwrap();
    fails(raw.reply(), "no request of code 99");
    raw.lives();
    drop(raw);
    tested.wait_until_clean();
}

#[test]
fn hostile_handles_and_addresses() {
    let tested = Tested::start(|options| options.limits.handles = 50);
    let mut raw = tested.raw();
    let echo = raw.function("testing.echo");
    assert_eq!(raw.call_system(Code::FreeHandle, &[Value::Opaque(echo)]), Ok(vec![Value::None]));
    fails(raw.call(echo, &[Value::None]), "was not given out by this session, or was freed");
    for handle in [0, 1, echo, u64::MAX, 0x7fff_0000_0000] {
        fails(raw.call_system(Code::FreeHandle, &[Value::Opaque(handle)]), "was not given out");
        fails(raw.call(handle, &[]), "was not given out");
    }
    let echo = raw.function("testing.echo");
    for value in [
        Value::Function(7),
        Value::Module(7),
        Value::Object(7),
        Value::Opaque(0x7fff_1234),
        tensor(0x5555_0000, 1),
        Value::Module(echo),
    ] {
        assert!(raw.call(echo, std::slice::from_ref(&value)).is_err(), "{value:?}");
    }
    let device = Value::Device(Device::CPU);
    let dtype = Value::DataType(DataType::UINT8);
    let allocate = |size: i64, alignment: i64| [device.clone(), Value::Int(size), Value::Int(alignment), dtype.clone()];
    for (size, alignment) in [(-1, 64), (8, -1), (8, 3), (i64::MAX, 64), (1 << 60, 64)] {
        assert!(raw.call_system(Code::DevAllocData, &allocate(size, alignment)).is_err(), "{size} {alignment}");
    }
    let Ok(&[Value::Opaque(address)]) = raw.call_system(Code::DevAllocData, &allocate(100, 64)).as_deref() else {
        panic!()
    };
    // Reads and writes stay inside the block.
    for (data, offset, size) in [
        (address, 0, 101u64),
        (address, 100, 1),
        (address + 101, 0, 0),
        (address, u64::MAX, 2),
        (address - 1, 0, 1),
        (0, 0, 1),
    ] {
        let reply = raw.request(Code::CopyFromRemote, |body| {
            Encoder::push_tensor(body, &header(data, 1, offset));
            body.extend_from_slice(&size.to_le_bytes());
        });
        assert!(reply.is_err(), "{data:#x} {offset} {size}");
    }
    let bytes: Vec<u8> = (0..100).collect();
    let write = |body: &mut Vec<u8>, header: &TensorHeader, bytes: &[u8]| {
        Encoder::push_tensor(body, header);
        body.extend_from_slice(&(bytes.len() as u64).to_le_bytes());
        body.extend_from_slice(bytes);
    };
    fails(raw.request(Code::CopyToRemote, |body| write(body, &header(address, 100, 1), &bytes)), "are not inside");
    assert_eq!(
        raw.request(Code::CopyToRemote, |body| write(body, &header(address, 100, 0), &bytes)),
        Ok(vec![Value::None])
    );
    // The returned tensor has its own address, and the same bytes.
    let reply = raw.call(echo, &[tensor(address + 10, 20)]).unwrap();
    let [Value::Int(70), Value::Tensor(back), Value::Opaque(handle)] = &reply[..] else { panic!("{reply:?}") };
    raw.0
        .send(Code::CopyFromRemote, |body| {
            Encoder::push_tensor(body, back);
            body.extend_from_slice(&20u64.to_le_bytes());
        })
        .unwrap();
    let packet = raw.0.next_packet().unwrap();
    assert_eq!((packet.code(), packet.length), (Some(Code::CopyAck), 20));
    let mut read = [0; 20];
    raw.0.take(&mut read).unwrap();
    assert_eq!(read, bytes[10..30]);
    fails(
        raw.call_system(Code::CopyAmongRemote, &[tensor(address, 20), tensor(address + 10, 20), Value::None]),
        "share memory",
    );
    fails(
        raw.call_system(Code::CopyAmongRemote, &[tensor(address, 20), tensor(address + 30, 21), Value::None]),
        "is copied to one of 21",
    );
    fails(raw.call_system(Code::DevFreeData, &[device.clone(), Value::Opaque(back.data)]), "belongs to a tensor");
    assert_eq!(raw.call_system(Code::FreeHandle, &[Value::Opaque(*handle)]), Ok(vec![Value::None]));
    fails(raw.call(echo, &[Value::Tensor(back.clone())]), "no memory was allocated");
    assert_eq!(raw.call_system(Code::DevFreeData, &[device.clone(), Value::Opaque(address)]), Ok(vec![Value::None]));
    fails(raw.call_system(Code::DevFreeData, &[device.clone(), Value::Opaque(address)]), "no memory was allocated");
    // Streams.
    let Ok(&[Value::Opaque(stream)]) = raw.call_system(Code::DevCreateStream, std::slice::from_ref(&device)).as_deref()
    else {
        panic!()
    };
    for code in [Code::DevSetStream, Code::DevStreamSync, Code::DevFreeStream] {
        assert_eq!(raw.call_system(code, &[device.clone(), Value::Opaque(stream)]), Ok(vec![Value::None]), "{code:?}");
    }
    fails(raw.call_system(Code::DevStreamSync, &[device.clone(), Value::Opaque(stream)]), "or it was freed");
    fails(raw.call_system(Code::DevGetAttr, &[device.clone(), Value::Int(99)]), "no device attribute 99");
    fails(raw.call_system(Code::DevGetAttr, std::slice::from_ref(&device)), "expected 2 values, got 1");
    let gone = Value::Device(Device::new(33, 0));
    assert_eq!(raw.call_system(Code::DevGetAttr, &[gone.clone(), Value::Int(0)]), Ok(vec![Value::Int(0)]));
    fails(raw.call_system(Code::DevSetDevice, &[gone]), "there is no device");
    // The table is limited.
    for _ in 0..60 {
        let _ = raw.call_system(Code::GetGlobalFunc, &[Value::Str("testing.nop".into())]);
    }
    fails(raw.call_system(Code::GetGlobalFunc, &[Value::Str("testing.nop".into())]), "50 open handles");
    assert_eq!(raw.call(echo, &[Value::Int(5)]), Ok(vec![Value::Int(1), Value::Int(5)]));
    drop(raw);
    tested.wait_until_clean();
}

#[test]
fn a_stopped_server_tells_its_clients() {
    // A program that listens at the port afterwards does not have this key.
    let key = format!("stopped-{}", std::process::id());
    let mut tested = Tested::start(|options| options.key = key.clone());
    let open = |address: SocketAddr| {
        let mut stream = TcpStream::connect(address)?;
        greet(&mut stream, &Key::client(key.as_str()), TIME).map(|_| stream).map_err(std::io::Error::other)
    };
    let mut raw = Raw::begin(open(tested.address()).unwrap());
    raw.lives();
    let (address, server) = (tested.address(), tested.server.take().unwrap());
    let stopping = thread::spawn(move || server.stop());
    fails(raw.reply(), "the server was stopped");
    drop(raw);
    stopping.join().unwrap();
    assert!(open(address).is_err());
    assert_eq!(fs::read_dir(&tested.folder).unwrap().count(), 0);
}

#[test]
fn libraries_that_need_others() {
    let tested = Tested::start(|_| ());
    let folder = PathBuf::from(env!("CARGO_TARGET_TMPDIR")).join(format!("rpc-needs-{}", std::process::id()));
    fs::create_dir_all(&folder).unwrap();
    let build = |name: &str, source: &str, other: &[&str]| {
        fs::write(folder.join("source.c"), source).unwrap();
        let mut compile = Command::new("cc");
        compile.args(["-shared", "-fPIC", "-o", name, "source.c"]).args(other).current_dir(&folder);
        assert!(compile.status().unwrap().success());
    };
    build("libinner.so", "int inner(void) { return 7; }", &["-Wl,-soname,libinner.so"]);
    let outer = "int inner(void);
        struct any { int type, zero; long value; };
        int __tvm_ffi_answer(void *self, const struct any *given, int count, struct any *result) {
            result->type = 1, result->zero = 0, result->value = inner();
            return 0;
        }";
    build("outer.so", outer, &["-L.", "-linner"]);
    let session = connect(tested.address().to_string()).timeout(TIME).open().unwrap();
    session.upload(folder.join("outer.so")).unwrap();
    let error = session.load_module("outer.so").unwrap_err();
    let advice = "needs libinner.so, which this server's machine does not have: install it there, or upload it";
    assert!(error.message().contains(advice), "{error}");
    session.upload(folder.join("libinner.so")).unwrap();
    let answer = session.load_module("outer.so").unwrap().function("answer").unwrap();
    assert_eq!(answer.call_as::<i64>(()).unwrap(), 7);
    fs::remove_dir_all(&folder).unwrap();
}

/// A server in its own process; killed with this value.
struct Program {
    process: Child,
    address: String,
}

impl Program {
    fn start(command: &mut Command) -> Self {
        let mut process = command.args(["--port", "0"]).stdout(Stdio::piped()).spawn().unwrap();
        let mut line = String::new();
        BufReader::new(process.stdout.take().unwrap()).read_line(&mut line).unwrap();
        let Some(address) = line.trim().strip_prefix("listening on ") else { panic!("the server says '{line}'") };
        Self { process, address: address.to_owned() }
    }
}

impl Drop for Program {
    fn drop(&mut self) {
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}

#[test]
#[cfg(target_os = "linux")]
fn a_program_that_is_replaced_while_it_serves() {
    let folder = PathBuf::from(env!("CARGO_TARGET_TMPDIR")).join(format!("rpc-replaced-{}", std::process::id()));
    fs::create_dir_all(&folder).unwrap();
    let path = folder.join("server");
    // A link instead of a copy: a copy is open for writing here, a process that another test starts
    // meanwhile inherits the descriptor, and the kernel refuses to start a program that is open for
    // writing (ETXTBSY).
    fs::hard_link(env!("CARGO_BIN_EXE_kernpack-rpc-server"), &path).unwrap();
    let program = Program::start(Command::new(&path).arg("--no-token"));
    let serves = |what: &str| {
        let session = connect(program.address.as_str()).timeout(TIME).open();
        let session = session.unwrap_or_else(|error| panic!("{what}: {error}"));
        assert_eq!(session.global_function("testing.echo").unwrap().call_as::<i64>((1,)).unwrap(), 1, "{what}");
    };
    serves("as it was");
    fs::remove_file(&path).unwrap();
    serves("without its file");
    fs::write(&path, "another program").unwrap();
    serves("with another file in its place");
    drop(program);
    fs::remove_dir_all(&folder).unwrap();
}
