//! Encoding of arguments, and decoding of results.

use std::sync::Arc;

use kernpack::sys::abi::{DLTensor, type_index};
use kernpack::{Any, AnyView, Bytes, DataType, Device, Error, Function, Module, ObjRef, Result, error};

use super::module::RemoteModule;
use super::object::RemoteObject;
use super::shared::Shared;
use super::{function, tensor};
use crate::wire::{Encoder, Value};

/// From this size on, bytes in the last argument are sent without a copy.
const LONG: usize = 1 << 10;

/// Encodes the arguments of a call at the end of `body`. The returned bytes have to be sent after
/// it.
///
/// # Errors
/// TypeError for a value that cannot be sent, ValueError for a value of another session; the
/// message gives the number of the argument.
pub(super) fn encode<'a>(shared: &Shared, args: &'a [AnyView<'a>], body: &mut Vec<u8>) -> Result<&'a [u8]> {
    let mut encoder = Encoder::begin(body, args.len());
    let mut tail: &[u8] = &[];
    for (index, arg) in args.iter().enumerate() {
        let is_last = index + 1 == args.len();
        let encoded = encode_one(shared, arg, &mut encoder, is_last);
        tail = encoded
            .map_err(|problem| Error::new(problem.kind(), format!("argument {index}: {}", problem.message())))?;
    }
    Ok(tail)
}

fn encode_one<'a>(shared: &Shared, arg: &'a AnyView<'a>, encoder: &mut Encoder<'_>, is_last: bool) -> Result<&'a [u8]> {
    // The object of an rvalue reference is only read.
    let index = match arg.object() {
        // SAFETY: the view keeps the object alive.
        Some(object) => unsafe { (*object).type_index },
        None => arg.type_index(),
    };
    match index {
        type_index::NONE => encoder.none(),
        type_index::INT => encoder.int(arg.get()?),
        type_index::BOOL => encoder.bool(arg.get()?),
        type_index::FLOAT => encoder.float(arg.get()?),
        type_index::OPAQUE_PTR => encoder.opaque(arg.get::<*mut core::ffi::c_void>()?.addr() as u64),
        type_index::DATA_TYPE => encoder.data_type(arg.get::<DataType>()?),
        type_index::DEVICE => encoder.device(shared.own_device(arg.get::<Device>()?)?),
        type_index::RAW_STR | type_index::SMALL_STR | type_index::STR => encoder.text(arg.get::<&str>()?),
        type_index::SMALL_BYTES | type_index::BYTES | type_index::BYTE_ARRAY_PTR => {
            let bytes: &[u8] = arg.get()?;
            if is_last && bytes.len() >= LONG {
                encoder.bytes_of(bytes.len() as u64);
                return Ok(bytes);
            }
            encoder.bytes(bytes)
        }
        type_index::DL_TENSOR_PTR => {
            // SAFETY: the view's invariant: a tensor pointer, which lives as long as the view.
            let tensor = unsafe { arg.as_raw().payload.v_ptr.cast::<DLTensor>().as_ref() };
            let tensor = tensor.ok_or_else(|| error!(ValueError, "the tensor pointer is NULL"))?;
            encoder.tensor(&tensor::header(shared, tensor)?)
        }
        type_index::TENSOR => {
            let tensor: kernpack::Tensor = arg.get()?;
            encoder.tensor(&tensor::header(shared, tensor.dl_tensor())?)
        }
        type_index::FUNCTION => encoder.function(function_handle(shared, &arg.get()?)?),
        type_index::MODULE => encoder.module(module_handle(shared, &arg.get()?)?),
        _ => match arg.get::<ObjRef<RemoteObject>>() {
            Ok(object) => {
                let handle = object.handle();
                if handle.shared().id != shared.id {
                    return Err(shared.not_ours("the object", &handle.shared().peer));
                }
                encoder.object(handle.raw())
            }
            Err(_) => {
                return Err(error!(
                    TypeError,
                    "a {} cannot be sent to a server; numbers, bool, str, bytes, devices, element types, and tensors, functions, modules and \
                     objects of the session can",
                    arg.type_name()
                ));
            }
        },
    };
    Ok(&[])
}

fn function_handle(shared: &Shared, function: &Function) -> Result<u64> {
    match function::known(function) {
        Some(known) if known.session == shared.id => Ok(known.raw),
        Some(known) => Err(shared.not_ours("the function", &known.peer)),
        None => Err(error!(
            TypeError,
            "a function of this process cannot be sent to a server, which could not call it; upload a library that has it"
        )),
    }
}

/// The handle of a module of the session.
pub(super) fn module_handle(shared: &Shared, module: &Module) -> Result<u64> {
    match module.downcast_ref::<RemoteModule>() {
        Some(remote) if remote.handle.shared().id == shared.id => Ok(remote.handle.raw()),
        Some(remote) => Err(shared.not_ours("the module", &remote.handle.shared().peer)),
        None => Err(error!(
            TypeError,
            "a module of kind '{}' of this process cannot be sent to a server; export it as a library, upload that, and load it there",
            module.kind()
        )),
    }
}

/// Decodes the result of a call: type index, value, and for a tensor its handle.
pub(super) fn decode(shared: &Arc<Shared>, reply: Vec<Value>) -> Result<Any> {
    let mut values = reply.into_iter();
    let (index, value, handle, rest) = (values.next(), values.next(), values.next(), values.next());
    let nonsense = |what: &str| {
        error!(RuntimeError, "{} returned something that is not the result of a call: {what}", shared.peer)
    };
    let (Some(Value::Int(index)), Some(value), None) = (index, value, rest) else {
        return Err(nonsense("the number of values does not fit"));
    };
    let index = i32::try_from(index).map_err(|_| nonsense("a type index that is too large"))?;
    if let (Value::Tensor(header), Some(Value::Opaque(raw))) = (&value, &handle) {
        return tensor::tensor(shared, header, *raw).map(Any::from);
    }
    if handle.is_some() {
        return Err(nonsense("a handle behind a value that has none"));
    }
    Ok(match value {
        Value::None => Any::NONE,
        Value::Int(value) if index == type_index::BOOL => Any::from(value != 0),
        Value::Int(value) => Any::from(value),
        Value::Bool(value) => Any::from(value),
        Value::Float(value) => Any::from(value),
        Value::DataType(dtype) => kernpack::IntoAny::into_any(dtype),
        Value::Device(device) => {
            // A server may return devices that it has from a session of its own.
            let device = shared.device(device)?;
            super::slots::offer(device.device_type())?;
            kernpack::IntoAny::into_any(device)
        }
        Value::Str(text) => Any::from(text),
        Value::Bytes(bytes) => kernpack::IntoAny::into_any(Bytes::from(bytes)),
        Value::Function(raw) => Any::from(function::function(shared, raw)),
        Value::Module(raw) => Any::from(super::module::module(shared, raw)),
        Value::Object(raw) => Any::from(RemoteObject::new(shared, index, raw)),
        Value::Opaque(raw) => match index {
            type_index::FUNCTION | type_index::MODULE if raw == 0 => Any::NONE,
            type_index::FUNCTION => Any::from(function::function(shared, raw)),
            type_index::MODULE => Any::from(super::module::module(shared, raw)),
            type_index::STATIC_OBJECT_BEGIN.. => Any::from(RemoteObject::new(shared, index, raw)),
            _ => {
                let address = usize::try_from(raw).map_err(|_| nonsense("a pointer of another width"))?;
                kernpack::IntoAny::into_any(core::ptr::without_provenance_mut::<core::ffi::c_void>(address))
            }
        },
        Value::Tensor(_) => return Err(nonsense("a tensor without a handle")),
    })
}
