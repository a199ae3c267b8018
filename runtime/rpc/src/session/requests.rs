//! The handlers of the requests.

use std::fs::File;
use std::io::{Read, Write};
use std::mem::MaybeUninit;
use std::slice;

use kernpack::device::{self, DeviceAttribute, Place};
use kernpack::{Any, Device, Function, bail, ensure, error, module};

use super::handles::Entry;
use super::hop::{self, Upstream};
use super::streams::number_of;
use super::values::{Returned, encode, exactly, wrong};
use super::{Failure, Session};
use crate::position::Phase;
use crate::wire::{Code, Encoder, Source, TensorHeader, Transport, VERSION, Value, WireError, decode_with};

/// The size of the pieces in which data is transferred if it cannot be sent from its memory, or
/// read into it, directly.
const PIECE: usize = 1 << 20;
/// From this number of bytes on, an upload is streamed to the file.
const STREAMED: u64 = 64 << 10;

/// The reply to a request.
pub(super) enum Reply {
    /// No value.
    None,
    /// An integer.
    Int(i64),
    /// Any plain value.
    Plain(Any),
    /// A handle, an address or a stream.
    Opaque(u64),
    /// The value that a function returned.
    Returned(Returned),
    /// The bytes of a tensor, whose memory the session keeps alive.
    Data(Place, u64),
    /// The bytes of a file.
    File(String, File, u64),
}

impl<T: Transport> Session<'_, T> {
    /// Serves the first request; returns the connection to another server if the session is one of
    /// that server.
    pub(super) fn init(&mut self) -> Result<Option<Upstream>, Failure> {
        let length = self.connection.word()?;
        let mut version = vec![0; usize::try_from(length.min(64)).unwrap_or(64)];
        self.connection.take(&mut version)?;
        if length > 64 || version != VERSION.as_bytes() {
            return Err(Failure::Error(error!(
                ValueError,
                "this server speaks version {VERSION} of the RPC protocol (Apache TVM 0.27), the client {}; use versions that agree",
                String::from_utf8_lossy(&version)
            )));
        }
        let values = self.connection.sequence(&self.bounds)?;
        self.connection.end()?;
        if values.is_empty() {
            return Ok(None);
        }
        Ok(Some(hop::connect(&values)?))
    }

    /// Serves a request.
    pub(super) fn request(&mut self, code: Code) -> Result<Reply, Failure> {
        match code {
            Code::CallFunc => return self.call(),
            Code::CopyToRemote => return self.copy_to(),
            Code::CopyFromRemote => return self.copy_from(),
            Code::GetGlobalFunc
            | Code::FreeHandle
            | Code::DevSetDevice
            | Code::DevGetAttr
            | Code::DevAllocData
            | Code::DevFreeData
            | Code::DevStreamSync
            | Code::CopyAmongRemote
            | Code::DevAllocDataWithScope
            | Code::DevCreateStream
            | Code::DevFreeStream
            | Code::DevSetStream
            | Code::DevGetCurrentStream => {}
            Code::InitServer => return Err(Failure::Error(error!(ValueError, "the session has begun already"))),
            Code::None | Code::Shutdown | Code::Return | Code::Exception | Code::CopyAck => {
                return Err(Failure::Error(error!(ValueError, "{code:?} is not a request")));
            }
        }
        let values = self.connection.sequence(&self.bounds)?;
        self.connection.end()?;
        Ok(self.system_call(code, values)?)
    }

    fn system_call(&mut self, code: Code, values: Vec<Value>) -> kernpack::Result<Reply> {
        let name = format!("{code:?}");
        let name = name.as_str();
        Ok(match code {
            Code::GetGlobalFunc => {
                let [Value::Str(function)] = &exactly(name, values)? else {
                    bail!(TypeError, "{name}: expected a name")
                };
                match Function::find_global(function)? {
                    Some(found) => {
                        let entry = Entry { value: Any::from(found), name: function.clone(), memory: None };
                        Reply::Opaque(self.handles.insert(entry)?)
                    }
                    None => Reply::Opaque(0),
                }
            }
            Code::FreeHandle => {
                let [handle] = exactly(name, values)?;
                let Value::Opaque(handle) = handle else { return Err(wrong(name, "a handle", &handle)) };
                let entry = self.handles.remove(handle)?;
                if let Some(address) = entry.memory {
                    self.memory.forget(address);
                }
                Reply::None
            }
            Code::DevSetDevice => {
                let [device] = exactly(name, values)?;
                let device = device_of(name, &device)?;
                ensure!(device::exists(device), ValueError, "there is no device {device} on this server");
                module::set_current_device(device);
                Reply::None
            }
            Code::DevGetAttr => {
                let [device, kind] = exactly(name, values)?;
                let Value::Int(number) = kind else { return Err(wrong(name, "the number of an attribute", &kind)) };
                self.attribute(device_of(name, &device)?, number)?
            }
            Code::DevAllocData => {
                let [device, size, alignment, dtype] = exactly(name, values)?;
                let (Value::Int(size), Value::Int(alignment), Value::DataType(_)) = (&size, &alignment, &dtype) else {
                    bail!(TypeError, "{name}: expected a device, a size, an alignment and a type of elements");
                };
                let (Ok(size), Ok(alignment)) = (u64::try_from(*size), u64::try_from(*alignment)) else {
                    bail!(ValueError, "{name}: {size} bytes aligned to {alignment} cannot be allocated");
                };
                self.check_room()?;
                Reply::Opaque(self.memory.allocate(device_of(name, &device)?, size, alignment)?)
            }
            Code::DevAllocDataWithScope => {
                let [tensor, scope] = exactly(name, values)?;
                let Value::Tensor(header) = tensor else { return Err(wrong(name, "a tensor", &tensor)) };
                match &scope {
                    Value::None => {}
                    Value::Str(scope) if scope.is_empty() || scope == "global" => {}
                    Value::Str(scope) => bail!(
                        ValueError,
                        "{name}: {} has no kind of memory named '{scope}'; use 'global' or none",
                        header.device
                    ),
                    other => return Err(wrong(name, "the name of a kind of memory, or None", other)),
                }
                self.check_room()?;
                Reply::Opaque(self.memory.allocate(header.device, header.size()?, 64)?)
            }
            Code::DevFreeData => {
                let [device, address] = exactly(name, values)?;
                let device = device_of(name, &device)?;
                match address {
                    Value::None | Value::Opaque(0) => {}
                    Value::Opaque(address) => self.memory.free(device, address)?,
                    other => return Err(wrong(name, "a pointer", &other)),
                }
                Reply::None
            }
            Code::DevStreamSync => {
                let [device, stream] = exactly(name, values)?;
                self.streams.synchronize(device_of(name, &device)?, number_of(&stream)?)?;
                Reply::None
            }
            Code::DevCreateStream => {
                let [device] = exactly(name, values)?;
                self.check_room()?;
                Reply::Opaque(self.streams.create(device_of(name, &device)?)?)
            }
            Code::DevFreeStream => {
                let [device, stream] = exactly(name, values)?;
                let device = device_of(name, &device)?;
                match number_of(&stream)? {
                    0 => {}
                    number => self.streams.free(device, number)?,
                }
                Reply::None
            }
            Code::DevSetStream => {
                let [device, stream] = exactly(name, values)?;
                self.streams.set(device_of(name, &device)?, number_of(&stream)?)?;
                Reply::None
            }
            Code::DevGetCurrentStream => {
                let [device] = exactly(name, values)?;
                Reply::Opaque(self.streams.current(device_of(name, &device)?))
            }
            Code::CopyAmongRemote => {
                let [from, to, stream] = exactly(name, values)?;
                let (Value::Tensor(from), Value::Tensor(to)) = (&from, &to) else {
                    bail!(TypeError, "{name}: expected two tensors, got {} and {}", from.kind(), to.kind());
                };
                self.streams.check(to.device, number_of(&stream)?)?;
                self.copy_among(from, to)?;
                Reply::None
            }
            _ => bail!(InternalError, "{name} is served elsewhere"),
        })
    }

    /// Checks that another object or block may be allocated.
    pub(super) fn check_room(&self) -> kernpack::Result<()> {
        let count = self.memory.len() + self.streams.len();
        ensure!(
            count < self.limit,
            MemoryError,
            "the session has {count} blocks of memory and streams, its limit; free what is not needed, or start the server with a \
             larger `--handles`"
        );
        Ok(())
    }

    fn attribute(&self, device: Device, number: i64) -> kernpack::Result<Reply> {
        let known = i32::try_from(number).ok().and_then(DeviceAttribute::from_number);
        let Some(attribute) = known else { bail!(ValueError, "there is no device attribute {number}") };
        if attribute == DeviceAttribute::Exist {
            return Ok(Reply::Int(i64::from(device::exists(device))));
        }
        Ok(Reply::Plain(device::attribute(device, attribute)?))
    }

    fn call(&mut self) -> Result<Reply, Failure> {
        let handle = self.connection.word()?;
        let entry = self.handles.get(handle);
        let (function, name) = match entry.map(|entry| (entry.value.get::<Function>(), &entry.name)) {
            Ok((Ok(function), name)) => {
                self.position.name(name);
                (function, name.clone())
            }
            Ok((Err(_), _)) => return Err(Failure::Error(error!(TypeError, "handle {handle:#x} is not a function"))),
            Err(error) => return Err(Failure::Error(error)),
        };
        if function == self.functions.upload {
            return self.upload();
        }
        let values = self.connection.sequence(&self.bounds)?;
        self.connection.end()?;
        if function == self.functions.download
            && let [Value::Str(name)] = &values[..]
        {
            let (file, length) = self.files.open(name)?;
            return Ok(Reply::File(name.clone(), file, length));
        }
        // The name of the function that `ModuleGetFunction` returns, for messages.
        let inner = match &values[..] {
            [Value::Module(_), Value::Str(inner), ..] => inner.clone(),
            _ => name,
        };
        let args = values.into_iter().map(|value| self.argument(value)).collect::<kernpack::Result<Vec<Any>>>()?;
        let result = function.call(&args[..])?;
        drop(args);
        Ok(Reply::Returned(self.give_out(result, &inner)?))
    }

    /// Serves a call of `tvm.rpc.server.upload`, whose bytes are streamed to the file.
    fn upload(&mut self) -> Result<Reply, Failure> {
        let files = &self.files;
        let mut failed = None;
        let values = decode_with(&mut self.connection, &self.bounds, &mut |before, length, source| {
            let [Value::Str(name)] = before else { return Ok(None) };
            if length < STREAMED || length > source.left() {
                return Ok(None);
            }
            match files.create(name, length).and_then(|mut file| write_file(name, &mut file, length, source)) {
                Ok(None) => Ok(Some(Value::None)),
                Ok(Some(wire)) => Err(wire),
                Err(error) => {
                    failed = Some(error);
                    Err(WireError::Content("the upload failed".to_owned()))
                }
            }
        });
        if let Some(error) = failed {
            return Err(Failure::Error(error));
        }
        let values = values?;
        self.connection.end()?;
        if let [Value::Str(_), Value::None] = &values[..] {
            return Ok(Reply::Returned(Returned::Plain(Any::NONE)));
        }
        let args = values.into_iter().map(|value| self.argument(value)).collect::<kernpack::Result<Vec<Any>>>()?;
        Ok(Reply::Returned(Returned::Plain(self.functions.upload.call(&args[..])?)))
    }

    fn copy_to(&mut self) -> Result<Reply, Failure> {
        let header = self.connection.tensor(&self.bounds)?;
        let size = self.connection.word()?;
        let left = self.connection.left();
        if size != left {
            return Err(Failure::Error(error!(ValueError, "a copy of {size} bytes brings {left}")));
        }
        let (place, block) = self.memory.resolve(header.device, header.data, header.byte_offset, size)?;
        let _keeps = block.clone();
        if header.device.is_host_accessible() {
            // SAFETY: the block has `size` bytes there, of memory that may be written; the block is
            // kept meanwhile.
            let target = unsafe { slice::from_raw_parts_mut(place.address().cast::<MaybeUninit<u8>>(), size as usize) };
            self.connection.data(target)?;
            return Ok(Reply::None);
        }
        let mut piece = vec![0; PIECE.min(size as usize)];
        let mut done = 0;
        while done < size {
            let count = ((size - done) as usize).min(piece.len());
            self.connection.take(&mut piece[..count])?;
            let target = Place { byte_offset: place.byte_offset + done, ..place };
            // SAFETY: the piece has `count` bytes, and so has the block after the bytes that were
            // copied before; copies from the CPU are done when this returns.
            unsafe { device::copy(host_place(piece.as_mut_ptr()), target, count)? };
            done += count as u64;
        }
        Ok(Reply::None)
    }

    fn copy_from(&mut self) -> Result<Reply, Failure> {
        let header = self.connection.tensor(&self.bounds)?;
        let size = self.connection.word()?;
        self.connection.end()?;
        let (place, _) = self.memory.resolve(header.device, header.data, header.byte_offset, size)?;
        Ok(Reply::Data(place, size))
    }

    fn copy_among(&mut self, from: &TensorHeader, to: &TensorHeader) -> kernpack::Result<()> {
        let (source, target) = (self.memory.resolve_tensor(from)?.0, self.memory.resolve_tensor(to)?.0);
        let size = from.size()?;
        ensure!(size == to.size()?, ValueError, "a tensor of {size} bytes is copied to one of {} bytes", to.size()?);
        let (start, end) = (source.address() as usize, target.address() as usize);
        ensure!(
            source.device != target.device || start.abs_diff(end) as u64 >= size,
            ValueError,
            "the two tensors of a copy share memory"
        );
        // SAFETY: both places are inside of blocks with `size` bytes there, and do not overlap.
        unsafe { device::copy(source, target, size as usize) }
    }

    /// Sends the reply to a request.
    pub(super) fn reply(&mut self, reply: Reply) -> Result<(), Failure> {
        match reply {
            Reply::None => self.send(|encoder| encoder.none())?,
            Reply::Int(value) => self.send(|encoder| encoder.int(value))?,
            Reply::Opaque(value) => self.send(|encoder| encoder.opaque(value))?,
            Reply::Plain(value) => {
                let value = match value.type_index() {
                    0 => Value::None,
                    1 => Value::Int(value.get()?),
                    _ => Value::Str(value.get::<String>()?),
                };
                self.send(|encoder| encoder.value(&value))?;
            }
            Reply::Returned(returned) => {
                let mut body = std::mem::take(&mut self.scratch);
                body.clear();
                let data = encode(&mut body, &returned)?;
                self.position.set(Phase::Replying);
                self.connection.send_with(Code::Return, data, |packet| packet.extend_from_slice(&body))?;
                self.scratch = body;
            }
            Reply::Data(place, size) => self.send_data(place, size)?,
            Reply::File(name, file, size) => self.send_file(&name, file, size)?,
        }
        Ok(())
    }

    fn send(
        &mut self,
        write: impl for<'e, 'b> FnOnce(&'e mut Encoder<'b>) -> &'e mut Encoder<'b>,
    ) -> Result<(), WireError> {
        self.position.set(Phase::Replying);
        self.connection.send(Code::Return, |body| {
            write(&mut Encoder::begin(body, 1));
        })
    }

    fn send_data(&mut self, place: Place, size: u64) -> Result<(), Failure> {
        if place.device.is_host_accessible() {
            // SAFETY: the block has `size` bytes there, and lives until the next request. What is
            // in them may be undefined for the client, but it is memory that the allocator has
            // mapped.
            let data = unsafe { slice::from_raw_parts(place.address().cast::<u8>(), size as usize) };
            self.position.set(Phase::Replying);
            self.connection.send_with(Code::CopyAck, data, |_| {})?;
            return Ok(());
        }
        let mut piece = vec![0; PIECE.min(size as usize)];
        let mut done = 0;
        loop {
            let count = ((size - done) as usize).min(piece.len());
            let source = Place { byte_offset: place.byte_offset + done, ..place };
            // SAFETY: the piece has `count` bytes, and so has the block after the bytes that were
            // copied before; copies to the CPU are done when this returns.
            let copied = unsafe { device::copy(source, host_place(piece.as_mut_ptr()), count) };
            if let Err(error) = copied {
                if done == 0 {
                    return Err(Failure::Error(error));
                }
                return Err(Failure::Wire(WireError::Protocol(format!(
                    "a device failed in the middle of a copy: {error}"
                ))));
            }
            if done == 0 {
                self.position.set(Phase::Replying);
                self.connection.send_begin(Code::CopyAck, size, |_| {})?;
            }
            self.connection.send_more(&piece[..count])?;
            done += count as u64;
            if done >= size {
                return Ok(());
            }
        }
    }

    fn send_file(&mut self, name: &str, mut file: File, size: u64) -> Result<(), Failure> {
        self.position.set(Phase::Replying);
        let index = i64::from(kernpack::sys::abi::type_index::BYTES);
        self.connection.send_begin(Code::Return, size, |body| {
            Encoder::begin(body, 2).int(index).byte_array_of(size);
        })?;
        let mut piece = vec![0; PIECE.min(size as usize)];
        let mut left = size;
        while left > 0 {
            let wanted = (left as usize).min(piece.len());
            match file.read(&mut piece[..wanted]) {
                Ok(count) if count > 0 => {
                    self.connection.send_more(&piece[..count])?;
                    left -= count as u64;
                }
                Err(problem) if problem.kind() == std::io::ErrorKind::Interrupted => {}
                _ => {
                    let problem = format!("the file '{name}' became shorter while it was sent");
                    return Err(Failure::Wire(WireError::Protocol(problem)));
                }
            }
        }
        Ok(())
    }
}

/// Writes `length` bytes of a packet to a file; an error of the connection is returned separately
/// from an error of the file.
fn write_file(
    name: &str,
    file: &mut File,
    length: u64,
    source: &mut dyn Source,
) -> kernpack::Result<Option<WireError>> {
    let mut piece = vec![0; PIECE.min(length as usize)];
    let mut left = length;
    while left > 0 {
        let count = (left as usize).min(piece.len());
        if let Err(wire) = source.take(&mut piece[..count]) {
            return Ok(Some(wire));
        }
        file.write_all(&piece[..count]).map_err(|problem| error!(RuntimeError, "cannot write '{name}': {problem}"))?;
        left -= count as u64;
    }
    Ok(None)
}

fn host_place(data: *mut u8) -> Place {
    Place { device: Device::CPU, data: data.cast(), byte_offset: 0 }
}

fn device_of(name: &str, value: &Value) -> kernpack::Result<Device> {
    match value {
        Value::Device(device) => Ok(*device),
        other => Err(wrong(name, "a device", other)),
    }
}
