//! Devices of servers as devices of this process.
//!
//! The object that the process has for a kind of remote devices has only the session's number. A
//! packed function serves the session, so a library of the process can use sessions of any other
//! library.

use core::ffi::c_void;
use core::ptr::null_mut;
use std::sync::{Arc, Weak};

use kernpack::device::{DeviceApi, DeviceAttribute, Place, RawStream, device_type};
use kernpack::{Any, AnyView, Args, DataType, Device, Error, Function, IntoAny, Result, bail, ensure, error};

use super::memory::Block;
use super::shared::{Free, Shared};
use super::slots;
use crate::wire::{Code, Source, TensorHeader, Value};

/// The requests to a session's handler: the first argument of each call.
mod request {
    /// (device, number of the attribute) -> value
    pub(super) const ATTRIBUTE: i64 = 0;
    /// (device, bytes, alignment) -> data
    pub(super) const ALLOCATE: i64 = 1;
    /// (device, data)
    pub(super) const FREE: i64 = 2;
    /// (device, data, offset, device, data, offset, bytes, stream)
    pub(super) const COPY: i64 = 3;
    /// (device) -> stream
    pub(super) const CREATE_STREAM: i64 = 4;
    /// (device, stream)
    pub(super) const FREE_STREAM: i64 = 5;
    /// (device, stream)
    pub(super) const SYNCHRONIZE: i64 = 6;
}

/// One kind of devices of one session number.
pub(super) struct RemoteDevices {
    kind: i32,
    session: usize,
    name: String,
}

impl RemoteDevices {
    /// `kind` is the device type of a session's device.
    pub(super) fn new(kind: i32) -> Self {
        let device = Device::new(kind, 0);
        let name = device.to_string();
        let name = name.strip_suffix(":0").unwrap_or(&name).to_owned();
        Self { kind, session: device.session().unwrap_or(Device::MAX_SESSIONS), name }
    }

    fn device(&self, index: i32) -> Device {
        Device::new(self.kind, index)
    }

    fn ask(&self, args: impl Args) -> Result<Any> {
        slots::handler(self.session)?.call(args)
    }
}

impl DeviceApi for RemoteDevices {
    fn name(&self) -> &str {
        &self.name
    }

    fn device_count(&self) -> Result<i32> {
        slots::handler(self.session)?;
        let mut count = 0;
        // The protocol does not have a request for the number of devices.
        while count < 1024
            && self.attribute(count, DeviceAttribute::Exist)?.get::<i64>().is_ok_and(|exists| exists != 0)
        {
            count += 1;
        }
        Ok(count)
    }

    fn attribute(&self, index: i32, attribute: DeviceAttribute) -> Result<Any> {
        let value = self.ask((request::ATTRIBUTE, self.device(index), attribute as i32));
        if attribute == DeviceAttribute::Exist {
            return Ok(value.ok().filter(|value| !value.is_none()).unwrap_or_else(|| Any::from(0i64)));
        }
        value
    }

    fn allocate(&self, index: i32, size: usize, alignment: usize) -> Result<*mut c_void> {
        self.ask((request::ALLOCATE, self.device(index), size, alignment))?.to()
    }

    unsafe fn free(&self, index: i32, data: *mut c_void) -> Result<()> {
        self.ask((request::FREE, self.device(index), data)).map(drop)
    }

    unsafe fn copy(&self, source: Place, target: Place, size: usize, stream: RawStream) -> Result<()> {
        let args = (
            request::COPY,
            source.device,
            source.data,
            source.byte_offset,
            target.device,
            target.data,
            target.byte_offset,
            size,
            stream.0,
        );
        self.ask(args).map(drop)
    }

    fn create_stream(&self, index: i32) -> Result<RawStream> {
        self.ask((request::CREATE_STREAM, self.device(index)))?.to().map(RawStream)
    }

    unsafe fn free_stream(&self, index: i32, stream: RawStream) -> Result<()> {
        self.ask((request::FREE_STREAM, self.device(index), stream.0)).map(drop)
    }

    unsafe fn synchronize(&self, index: i32, stream: RawStream) -> Result<()> {
        self.ask((request::SYNCHRONIZE, self.device(index), stream.0)).map(drop)
    }
}

/// Returns the function that serves the devices of a session. It does not keep the session alive.
pub(super) fn handler(session: Weak<Shared>) -> Function {
    Function::from_packed(move |args| {
        let Some(shared) = session.upgrade() else { bail!(RuntimeError, "the remote session has ended") };
        serve(&shared, args)
    })
}

/// Answers one request; see [`request`].
fn serve(shared: &Arc<Shared>, args: &[AnyView<'_>]) -> Result<Any> {
    let Some((what, args)) = args.split_first() else { bail!(TypeError, "a request begins with its number") };
    let what: i64 = what.get()?;
    let argument = |index: usize| {
        args.get(index)
            .ok_or_else(|| error!(TypeError, "request {what} has {} arguments, which is too few", args.len()))
    };
    let device = shared.own_device(argument(0)?.get()?)?;
    match what {
        request::ATTRIBUTE => attribute(shared, device, argument(1)?.get()?),
        request::ALLOCATE => {
            let (size, alignment): (usize, usize) = (argument(1)?.get()?, argument(2)?.get()?);
            let reply = shared.ask(Code::DevAllocData, 4, |request| {
                request.device(device).int(size as i64).int(alignment as i64).data_type(DataType::UINT8);
            });
            match reply.map_err(|error| as_memory_error(error, size))? {
                Value::Opaque(0) if size > 0 => Err(Error::new(
                    "MemoryError",
                    format!("{} gave no memory for {size} bytes on {device}", shared.peer),
                )),
                Value::Opaque(address) => Ok(Block::allocated(shared, device, address).into_any()),
                Value::None => Ok(Block::allocated(shared, device, 0).into_any()),
                other => Err(shared.confused(&other)),
            }
        }
        request::FREE => {
            let data: *mut c_void = argument(1)?.get()?;
            ensure!(Block::forget(data), ValueError, "the memory on {device} was not allocated, or is freed already");
            Ok(Any::NONE)
        }
        request::COPY => {
            let place = |first: usize| {
                Ok::<_, Error>(Place {
                    device: argument(first)?.get()?,
                    data: argument(first + 1)?.get()?,
                    byte_offset: argument(first + 2)?.get()?,
                })
            };
            let stream: *mut c_void = argument(7)?.get()?;
            // SAFETY: the caller of a device's copy promises that both places have `size` bytes.
            unsafe { copy(shared, place(0)?, place(3)?, argument(6)?.get()?, stream)? };
            Ok(Any::NONE)
        }
        request::CREATE_STREAM => {
            let reply = shared.ask(Code::DevCreateStream, 1, |request| {
                request.device(device);
            });
            match reply? {
                Value::Opaque(stream) => Ok(pointer(stream)?.into_any()),
                Value::None => Ok(null_mut::<c_void>().into_any()),
                other => Err(shared.confused(&other)),
            }
        }
        request::FREE_STREAM => {
            let stream: *mut c_void = argument(1)?.get()?;
            if !stream.is_null() {
                shared.free(Free::Stream(device, stream.addr() as u64));
            }
            Ok(Any::NONE)
        }
        request::SYNCHRONIZE => synchronize(shared, device, argument(1)?.get()?),
        _ => bail!(ValueError, "there is no request {what}"),
    }
}

fn attribute(shared: &Arc<Shared>, device: Device, number: i32) -> Result<Any> {
    // As in every client: a machine has its processor.
    if number == DeviceAttribute::Exist as i32 && device.device_type() == device_type::CPU {
        return Ok(Any::from(i64::from(device.index() == 0)));
    }
    let reply = shared.ask(Code::DevGetAttr, 2, |request| {
        request.device(device).int(i64::from(number));
    });
    Ok(match reply? {
        Value::None => Any::NONE,
        Value::Int(value) => Any::from(value),
        Value::Bool(value) => Any::from(value),
        Value::Float(value) => Any::from(value),
        Value::Str(text) => Any::from(text),
        other => return Err(shared.confused(&other)),
    })
}

fn synchronize(shared: &Arc<Shared>, device: Device, stream: *mut c_void) -> Result<Any> {
    let reply = shared.ask(Code::DevStreamSync, 2, |request| {
        request.device(device).opaque(stream.addr() as u64);
    });
    reply.map(|_| Any::NONE)
}

/// Copies between memory of the server and CPU memory of this process, or within the server.
///
/// # Safety
/// A place in this process has `size` bytes of memory, which stay valid until this returns, and
/// which nothing else writes to (or reads, if it is the target).
unsafe fn copy(shared: &Arc<Shared>, source: Place, target: Place, size: usize, stream: *mut c_void) -> Result<()> {
    match (source.device.session(), target.device.session()) {
        (Some(_), Some(_)) => {
            let (from, to) = (remote(shared, source, size)?, remote(shared, target, size)?);
            let request = |request: &mut crate::wire::Encoder<'_>| {
                request.tensor(&from).tensor(&to).opaque(stream.addr() as u64);
            };
            shared.ask(Code::CopyAmongRemote, 3, request)?;
            // The server's copy may still be in progress; later requests of the stream are ordered
            // after it, those of other streams are not.
            synchronize(shared, to.device, stream).map(drop)
        }
        (None, Some(_)) => {
            ensure!(
                target_is_host(source),
                ValueError,
                "memory of {} cannot be sent; copy it to the cpu first",
                source.device
            );
            let to = remote(shared, target, size)?;
            wait_for(shared, &to, stream)?;
            // SAFETY: promised by the caller.
            let bytes = unsafe { core::slice::from_raw_parts(source.address().cast::<u8>(), size) };
            for (first, piece) in pieces(shared, bytes.len())? {
                shared.copy_to(&part(shared, &to, first as u64, piece), &bytes[first..first + piece])?;
            }
            Ok(())
        }
        (Some(_), None) => {
            ensure!(
                target_is_host(target),
                ValueError,
                "memory of {} cannot be received to; go through the cpu",
                target.device
            );
            let from = remote(shared, source, size)?;
            wait_for(shared, &from, stream)?;
            for (first, piece) in pieces(shared, size)? {
                // SAFETY: promised by the caller; possibly uninitialized bytes are only written to.
                let bytes = unsafe {
                    core::slice::from_raw_parts_mut(
                        target.address().cast::<core::mem::MaybeUninit<u8>>().add(first),
                        piece,
                    )
                };
                shared.copy_from(&part(shared, &from, first as u64, piece), piece as u64, |connection| {
                    debug_assert_eq!(connection.left(), piece as u64);
                    connection.data(bytes)
                })?;
            }
            Ok(())
        }
        (None, None) => bail!(InternalError, "neither {} nor {} is a remote device", source.device, target.device),
    }
}

fn target_is_host(place: Place) -> bool {
    place.device.is_host_accessible()
}

/// The location of bytes on the server, as a tensor of bytes.
fn remote(shared: &Arc<Shared>, place: Place, size: usize) -> Result<TensorHeader> {
    let device = shared.own_device(place.device)?;
    let block = Block::of(place.data)?;
    if block.shared.id != shared.id {
        return Err(shared.not_ours("the memory", &block.shared.peer));
    }
    ensure!(block.device == device, ValueError, "the memory is on {}, not on {device}", block.device);
    let start = TensorHeader { data: block.address, device, dtype: DataType::UINT8, shape: Vec::new(), byte_offset: 0 };
    Ok(part(shared, &start, place.byte_offset, size))
}

/// A range of a tensor of bytes.
fn part(shared: &Shared, whole: &TensorHeader, first: u64, size: usize) -> TensorHeader {
    let mut part = TensorHeader { shape: vec![size as i64], ..whole.clone() };
    // A stock server on the route to a further server loses the offset of a copy, so the offset is
    // added to the address here.
    if shared.is_far() && (whole.device.is_host_accessible() || whole.device.device_type() == device_type::CUDA) {
        part.data = part.data.wrapping_add(first);
    } else {
        part.byte_offset = part.byte_offset.wrapping_add(first);
    }
    part
}

/// Copies are not enqueued in streams on a server: earlier work of the stream has to finish first.
fn wait_for(shared: &Arc<Shared>, place: &TensorHeader, stream: *mut c_void) -> Result<()> {
    if stream.is_null() { Ok(()) } else { synchronize(shared, place.device, stream).map(drop) }
}

/// The pieces of a copy: one, unless the server is a small one that reports a maximum packet size.
fn pieces(shared: &Arc<Shared>, size: usize) -> Result<impl Iterator<Item = (usize, usize)>> {
    let limit = most_bytes_in_a_packet(shared)?;
    Ok((0..size).step_by(limit).map(move |first| (first, limit.min(size - first))))
}

/// Bytes of a copy that fit into a packet with its head.
fn most_bytes_in_a_packet(shared: &Arc<Shared>) -> Result<usize> {
    const NAME: &str = "tvm.rpc.server.GetCRTMaxPacketSize";
    /// Room for the head of a copy.
    const HEAD: i64 = 1024;
    if shared.own_function(NAME)? == 0 {
        return Ok(usize::MAX);
    }
    let limit: i64 = shared.call_own(NAME, ())?.to()?;
    usize::try_from(limit - HEAD).ok().filter(|&limit| limit > 0).ok_or_else(|| {
        error!(
            RuntimeError,
            "{} takes packets of {limit} bytes at most, which is too little to copy anything", shared.peer
        )
    })
}

fn pointer(value: u64) -> Result<*mut c_void> {
    let value = usize::try_from(value)
        .map_err(|_| error!(RuntimeError, "the handle {value:#x} is too large for this machine"))?;
    Ok(core::ptr::without_provenance_mut(value))
}

/// Converts a server's error about a failed allocation to the error that local allocations raise.
fn as_memory_error(error: Error, size: usize) -> Error {
    match error.kind() {
        "RPCError" | "RuntimeError" => {
            Error::new("MemoryError", format!("the server cannot allocate {size} bytes: {}", error.message()))
        }
        _ => error,
    }
}
