//! The client for other languages: the functions `kernpack.rpc.*` of a library that contains this
//! crate.
//!
//! | function | |
//! |---|---|
//! | `connect(address, key, token, timeout, session_timeout, hops, fingerprint, connect_timeout, through_proxy)` | a session; what is None is not set, times are in seconds, `hops` is a list of (address, key); with the `fingerprint` of the server's certificate over TLS; `through_proxy` is true for the address of a proxy |
//! | `close(session)`, `is_open(session)`, `number(session)` | |
//! | `upload(session, path)`, `upload_as(session, name, content)`, `download(session, name)`, `listdir(session, path)`, `remove(session, name)` | files of the session's folder |
//! | `load_module(session, name)`, `system_lib(session)`, `import_module(session, parent, child)` | modules, used like any other |
//! | `global_function(session, name)` | a function, used like any other; None when the server has none of this name |
//! | `device(session, name)` | a device of the server |
//! | `exists(device)`, `attribute(device, number)`, `synchronize(device)` | |
//! | `empty(shape, dtype, device)`, `copy(tensor, device)` | tensors on the server and here |
//! | `describe(timing)` | the figures of a timing as a table |
//! | `time_evaluator(session, module, function, device, number, repeat, min_repeat_ms, cooldown_ms, repeats_to_cooldown, cache_flush_bytes, preparation)` | a function that takes the arguments of the measured one and returns a `kernpack.rpc.Timing`; `module` is None for a global function |

use std::path::Path;
use std::time::Duration;

use kernpack::device::{self, DeviceAttribute};
use kernpack::{
    Any, Bytes, DataType, Device, Function, IntoAny, Module, ObjRef, Object, Result, Shape, Tensor, ensure, error,
    packed_func,
};

use super::connect::{Connect, connect as begin};
use super::session::Session;
use super::time_evaluator::Timing;

/// A session, for other languages.
#[derive(Object)]
#[object(key = "kernpack.rpc.Session")]
#[repr(C)]
pub struct SessionObject {
    /// The server.
    pub peer: String,
    /// The key that the server has sent.
    pub server_key: String,
    #[field(skip)]
    session: Session,
}

/// The type in which functions take and return sessions.
type Shared = ObjRef<SessionObject>;

/// A time in seconds from another language.
fn seconds(name: &str, value: f64) -> Result<Duration> {
    let time = Duration::try_from_secs_f64(value).ok().filter(|time| !time.is_zero());
    time.ok_or_else(|| error!(ValueError, "`{name}` is a number of seconds greater than 0, got {value}"))
}

/// Opens a session with the RPC server at an address. `None` leaves an option at its default;
/// `hops` are further servers, each an address and a key; with the fingerprint of the server's
/// certificate the session uses TLS. `through_proxy`: there is a proxy at the address.
#[packed_func(name = "kernpack.rpc.connect")]
#[allow(clippy::too_many_arguments, reason = "other languages name them")]
fn connect(
    address: String,
    key: Option<String>,
    token: Option<String>,
    timeout: Option<f64>,
    session_timeout: Option<f64>,
    hops: Option<Vec<(String, String)>>,
    fingerprint: Option<&str>,
    connect_timeout: Option<f64>,
    through_proxy: Option<bool>,
) -> Result<Shared> {
    let mut connect = begin(address);
    if through_proxy == Some(true) {
        connect = connect.through_proxy();
    }
    if let Some(timeout) = connect_timeout {
        connect = connect.connect_timeout(seconds("connect_timeout", timeout)?);
    }
    if let Some(key) = key {
        connect = connect.key(key);
    }
    if let Some(token) = token {
        connect = connect.token(token);
    }
    if let Some(timeout) = timeout {
        connect = connect.timeout(seconds("timeout", timeout)?);
    }
    if let Some(timeout) = session_timeout {
        connect = connect.session_timeout(seconds("session_timeout", timeout)?);
    }
    for (address, key) in hops.unwrap_or_default() {
        connect = connect.hop(address, key);
    }
    if let Some(fingerprint) = fingerprint {
        connect = with_tls(connect, fingerprint)?;
    }
    let session = connect.open()?;
    let (peer, server_key) = (session.peer().to_owned(), session.server_key().to_owned());
    Ok(ObjRef::new(SessionObject { peer, server_key, session }))
}

#[cfg(feature = "tls")]
fn with_tls(connect: Connect, fingerprint: &str) -> Result<Connect> {
    Ok(connect.tls(crate::tls::Trust::Fingerprint(fingerprint.parse()?)))
}

#[cfg(not(feature = "tls"))]
fn with_tls(_: Connect, _: &str) -> Result<Connect> {
    Err(error!(RuntimeError, "this library was built without TLS: give its dependency kernpack-rpc the feature `tls`"))
}

/// Ends a session now; without this, it ends when nothing refers to it any more.
#[packed_func(name = "kernpack.rpc.close")]
fn close(session: Shared) {
    session.session.close();
}

/// Returns true if a session is still open, as far as this side knows.
#[packed_func(name = "kernpack.rpc.is_open")]
fn is_open(session: Shared) -> bool {
    session.session.is_open()
}

/// The number of a session in this process, from 0 to 31: a part of its device numbers.
#[packed_func(name = "kernpack.rpc.number")]
fn number(session: Shared) -> usize {
    session.session.number()
}

/// Sends a file to the session's folder, under its own name.
#[packed_func(name = "kernpack.rpc.upload")]
fn upload(session: Shared, path: &str) -> Result<()> {
    session.session.upload(Path::new(path))
}

/// Writes a file of this name and content to the session's folder.
#[packed_func(name = "kernpack.rpc.upload_as")]
fn upload_as(session: Shared, name: &str, content: &[u8]) -> Result<()> {
    session.session.upload_as(name, content)
}

/// The content of a file of the session's folder.
#[packed_func(name = "kernpack.rpc.download")]
fn download(session: Shared, name: &str) -> Result<Bytes> {
    session.session.download(name)
}

/// The names of the entries of a folder in the session's folder.
#[packed_func(name = "kernpack.rpc.listdir")]
fn listdir(session: Shared, path: &str) -> Result<Vec<String>> {
    session.session.listdir(path)
}

/// Removes a file of the session's folder.
#[packed_func(name = "kernpack.rpc.remove")]
fn remove(session: Shared, name: &str) -> Result<()> {
    session.session.remove(name)
}

/// Loads a library of the session's folder.
#[packed_func(name = "kernpack.rpc.load_module")]
fn load_module(session: Shared, name: &str) -> Result<Module> {
    session.session.load_module(name)
}

/// The functions that are linked into the server itself.
#[packed_func(name = "kernpack.rpc.system_lib")]
fn system_lib(session: Shared) -> Result<Module> {
    session.session.system_lib()
}

/// Lets a module of the session import another one.
#[packed_func(name = "kernpack.rpc.import_module")]
fn import_module(session: Shared, parent: Module, child: Module) -> Result<()> {
    session.session.import_module(&parent, &child)
}

/// A global function of the server; `None` if it has no function of this name.
#[packed_func(name = "kernpack.rpc.global_function")]
fn global_function(session: Shared, name: &str) -> Result<Option<Function>> {
    session.session.find_global_function(name)
}

/// A device of the server, such as `cpu:0`.
#[packed_func(name = "kernpack.rpc.device")]
fn remote_device(session: Shared, name: &str) -> Result<Device> {
    session.session.device(name)
}

/// Returns true if the device exists.
#[packed_func(name = "kernpack.rpc.exists")]
fn exists(device: Device) -> bool {
    device::exists(device)
}

/// An attribute of a device, by its number; `None` if such devices do not have it.
#[packed_func(name = "kernpack.rpc.attribute")]
fn attribute(device: Device, number: i32) -> Result<Any> {
    let attribute = DeviceAttribute::from_number(number).ok_or_else(|| {
        error!(ValueError, "there is no device attribute {number}; the last is {}", DeviceAttribute::ALL.len() - 1)
    })?;
    device::attribute(device, attribute)
}

/// Waits for the work in a device's current stream.
#[packed_func(name = "kernpack.rpc.synchronize")]
fn synchronize(device: Device) -> Result<()> {
    // SAFETY: the environment's stream is one of the device, or its default one.
    unsafe { device::api(device.device_type())?.synchronize(device.index(), device::current_stream(device)) }
}

/// A tensor on any device; its content is undefined.
#[packed_func(name = "kernpack.rpc.empty")]
fn empty(shape: Shape, dtype: DataType, device: Device) -> Result<Tensor> {
    Tensor::empty(dtype, &shape, device)
}

/// A copy of a tensor on any device: from here to a server, from a server here, or between servers.
#[packed_func(name = "kernpack.rpc.copy")]
fn copy(tensor: Tensor, device: Device) -> Result<Tensor> {
    tensor.to(device)
}

/// Creates a function that measures another one on the server: it takes the arguments of the
/// measured one and returns a `Timing`.
#[packed_func(name = "kernpack.rpc.time_evaluator")]
#[allow(clippy::too_many_arguments, reason = "other languages name them")]
fn time_evaluator(
    session: Shared,
    module: Option<Module>,
    function: &str,
    device: Device,
    number: u32,
    repeat: u32,
    min_repeat_ms: u32,
    cooldown_ms: u32,
    repeats_to_cooldown: u32,
    cache_flush_bytes: u64,
    preparation: &str,
) -> Result<Function> {
    ensure!(number > 0 && repeat > 0, ValueError, "`number` and `repeat` are 1 at least");
    let session = &session.session;
    let evaluator = match module {
        Some(module) => session.time_evaluator(&module, function, device)?,
        None => session.time_evaluator_of_global(function, device)?,
    };
    let evaluator = evaluator
        .number(number)
        .repeat(repeat)
        .min_repeat(Duration::from_millis(min_repeat_ms.into()))
        .cooldown(Duration::from_millis(cooldown_ms.into()), repeats_to_cooldown)
        .cache_flush(cache_flush_bytes)
        .preparation(preparation);
    Ok(Function::from_packed(move |args| Ok(ObjRef::new(evaluator.run_views(args)?).into_any())))
}

/// The figures of a timing as a table, as Apache TVM prints them.
#[packed_func(name = "kernpack.rpc.describe")]
fn describe(timing: ObjRef<Timing>) -> String {
    timing.to_string()
}
