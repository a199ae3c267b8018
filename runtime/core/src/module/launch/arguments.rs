//! The arguments of a call, checked against the function table.

use core::fmt;
use core::mem::MaybeUninit;

use super::param::Param;
use super::signature::Signature;
use super::{KernelArg, LaunchConfig};
use crate::abi::{device_type, type_index};
use crate::layout::buffer;
use crate::value::{AnyView, Device, FromAny};
use crate::{Error, Result};

/// Number of arguments of a launch that are stored on the stack; more are allocated on the heap.
const ON_STACK: usize = 24;

/// The devices whose memory a kernel can use.
pub(super) struct Reach<'a> {
    /// Kind of the devices that the kernel runs on.
    pub(super) device_type: i32,
    /// Returns whether the kernel can use memory of a device of another kind.
    pub(super) beyond: &'a dyn Fn(Device) -> bool,
}

/// The devices of the tensors of a call.
struct Placement {
    /// The device of the tensors on devices of the kernel's kind.
    own: Option<i32>,
    /// The first other device that determines where the kernel runs: managed memory.
    other: Option<i32>,
    /// True if there were plain pointers, which do not have a device.
    plain: bool,
}

impl Signature {
    /// Number of values that a call passes.
    #[inline]
    pub(super) fn arity(&self) -> usize {
        self.params.len() + self.tags.len()
    }

    /// Reads a call's values: the kernel's own arguments, then launch parameters.
    #[inline]
    pub(super) fn read<'a>(&self, values: &'a [AnyView<'a>]) -> Result<(&'a [AnyView<'a>], LaunchConfig)> {
        if values.len() != self.arity() {
            return Err(self.wrong_count(values.len()));
        }
        let (own, launch) = values.split_at(self.params.len());
        let config = self.tags.read(launch).map_err(|wrong| {
            let got = launch.get(wrong.position).map(shown).unwrap_or_default();
            self.wrong_extent(wrong.tag, wrong.least, &got)
        })?;
        Ok((own, config))
    }

    /// Checks the kernel's own arguments, and passes them to `work` with the index of the device
    /// that they are on: that of the tensors, else the result of `fallback`.
    #[inline]
    pub(super) fn with_args<R>(
        &self,
        args: &[AnyView<'_>],
        reach: &Reach<'_>,
        fallback: impl FnOnce() -> i32,
        work: impl FnOnce(i32, &[KernelArg]) -> Result<R>,
    ) -> Result<R> {
        if args.len() <= ON_STACK {
            let mut space = [const { MaybeUninit::<KernelArg>::uninit() }; ON_STACK];
            let (index, args) = self.convert(args, reach, fallback, &mut space)?;
            work(index, args)
        } else {
            let mut space = Vec::with_capacity(args.len());
            let (index, args) = self.convert(args, reach, fallback, space.spare_capacity_mut())?;
            work(index, args)
        }
    }

    /// Converts the arguments; `space` has room for all of `args`.
    #[inline]
    fn convert<'s>(
        &self,
        args: &[AnyView<'_>],
        reach: &Reach<'_>,
        fallback: impl FnOnce() -> i32,
        space: &'s mut [MaybeUninit<KernelArg>],
    ) -> Result<(i32, &'s [KernelArg])> {
        if args.len() != self.params.len() {
            return Err(self.wrong_arg_count(args.len()));
        }
        let mut placement = Placement { own: None, other: None, plain: false };
        let mut count = 0;
        for (index, ((param, arg), slot)) in self.params.iter().zip(args).zip(space.iter_mut()).enumerate() {
            slot.write(self.argument(index, *param, arg, reach, &mut placement)?);
            count += 1;
        }
        // SAFETY: the loop above wrote the first `count` elements.
        let written = unsafe { core::slice::from_raw_parts_mut(space.as_mut_ptr().cast::<KernelArg>(), count) };
        let index = placement.own.or(placement.other).unwrap_or_else(fallback);
        if placement.plain {
            for arg in written.iter_mut() {
                if let KernelArg::Pointer { device, .. } = arg
                    && *device == NOWHERE
                {
                    *device = Device::new(reach.device_type, index);
                }
            }
        }
        Ok((index, written))
    }

    #[inline]
    fn argument(
        &self,
        index: usize,
        param: Param,
        arg: &AnyView<'_>,
        reach: &Reach<'_>,
        placement: &mut Placement,
    ) -> Result<KernelArg> {
        let number = |bits, size: u8| Ok(KernelArg::Number { bits, size: usize::from(size) });
        match param {
            Param::Pointer => self.pointer(index, arg, reach, placement),
            Param::Signed(8) => number(self.int(index, arg)? as u64, 8),
            Param::Unsigned(8) => match u64::from_any(arg) {
                Ok(value) => number(value, 8),
                Err(_) => Err(self.not_unsigned(index, arg)),
            },
            Param::Signed(size) => {
                let value = self.int(index, arg)?;
                let bits = u32::from(size) * 8;
                let (min, max) = (-1i64 << (bits - 1), (1i64 << (bits - 1)) - 1);
                if value < min || value > max {
                    return Err(self.out_of_range(index, value, bits, min, max));
                }
                number(value as u64, size)
            }
            Param::Unsigned(size) => {
                let value = self.int(index, arg)?;
                let bits = u32::from(size) * 8;
                let max = (1i64 << bits) - 1;
                if value < 0 || value > max {
                    return Err(self.out_of_range(index, value, bits, 0, max));
                }
                number(value as u64, size)
            }
            Param::Bool => match bool::from_any(arg) {
                Ok(value) => number(u64::from(value), 1),
                Err(_) => Err(self.wrong_type(index, "bool", arg)),
            },
            Param::Float64 => number(self.float(index, arg)?.to_bits(), 8),
            Param::Float32 => {
                let wide = self.float(index, arg)?;
                let value = wide as f32;
                if value.is_infinite() && !wide.is_infinite() {
                    return Err(self.float_out_of_range(index, wide, "float32"));
                }
                number(u64::from(value.to_bits()), 4)
            }
            Param::Narrow(format) => {
                let value = self.float(index, arg)?;
                match format.bits(value) {
                    Some(bits) => Ok(KernelArg::Number { bits, size: format.size }),
                    None => Err(self.float_out_of_range(index, value, format.name)),
                }
            }
            Param::TensorMap if arg.type_index() == type_index::OPAQUE_PTR && arg.as_raw().bits() != 0 => {
                Ok(KernelArg::TensorMap { address: core::ptr::with_exposed_provenance(arg.as_raw().bits() as usize) })
            }
            Param::TensorMap => Err(self.wrong_type(index, "a pointer to a tensor map", arg)),
            Param::Unsupported(ty) => Err(self.wrong(
                "TypeError",
                index,
                format_args!(
                    "parameters of type code {} with {} bits x {} are not supported",
                    ty.code, ty.bits, ty.lanes
                ),
            )),
        }
    }

    #[inline]
    fn pointer(
        &self,
        index: usize,
        arg: &AnyView<'_>,
        reach: &Reach<'_>,
        placement: &mut Placement,
    ) -> Result<KernelArg> {
        if matches!(arg.type_index(), type_index::NONE | type_index::OPAQUE_PTR) {
            placement.plain = true;
            let address = if arg.is_none() { 0 } else { arg.as_raw().bits() as usize };
            let data = core::ptr::with_exposed_provenance_mut(address);
            return Ok(KernelArg::Pointer { data, byte_offset: 0, device: NOWHERE });
        }
        let (tensor, contiguous) = match buffer(arg) {
            Ok(Some(found)) => found,
            Ok(None) => return Err(self.wrong_type(index, "Tensor", arg)),
            Err(problem) => return Err(self.wrong("ValueError", index, format_args!("{problem}"))),
        };
        let device = Device::from_raw(tensor.device);
        if device.device_type() == reach.device_type {
            match placement.own {
                Some(first) if first != device.index() => return Err(self.elsewhere(index, device, first)),
                _ => placement.own = Some(device.index()),
            }
        } else if !(reach.beyond)(device) {
            return Err(self.unreachable(index, device, reach));
        } else if device.device_type() == device_type::CUDA_MANAGED {
            placement.other.get_or_insert(device.index());
        }
        if !contiguous {
            return Err(self.wrong(
                "ValueError",
                index,
                format_args!("the tensor is not contiguous; pass a contiguous copy"),
            ));
        }
        Ok(KernelArg::Pointer { data: tensor.data, byte_offset: tensor.byte_offset, device })
    }

    #[inline]
    fn int(&self, index: usize, arg: &AnyView<'_>) -> Result<i64> {
        i64::from_any(arg).map_err(|_| self.wrong_type(index, "int", arg))
    }

    #[inline]
    fn float(&self, index: usize, arg: &AnyView<'_>) -> Result<f64> {
        f64::from_any(arg).map_err(|_| self.wrong_type(index, "float", arg))
    }
}

/// Placeholder for the device of a plain pointer until the launch's device is known.
const NOWHERE: Device = Device::new(0, 0);

// The errors of a call.
impl Signature {
    #[cold]
    #[inline]
    fn wrong(&self, kind: &str, index: usize, clause: fmt::Arguments<'_>) -> Error {
        Error::new(kind, format!("{}: {}: {clause}", self.shown(), self.shown_argument(index)))
    }

    #[cold]
    #[inline]
    fn wrong_type(&self, index: usize, expected: &str, arg: &AnyView<'_>) -> Error {
        self.wrong("TypeError", index, format_args!("expected {expected}, got {}", arg.type_name()))
    }

    #[cold]
    #[inline]
    fn not_unsigned(&self, index: usize, arg: &AnyView<'_>) -> Error {
        let kind = if i64::from_any(arg).is_ok() { "ValueError" } else { "TypeError" };
        self.wrong(kind, index, format_args!("expected an int from 0 up, got {}", shown(arg)))
    }

    #[cold]
    #[inline]
    fn out_of_range(&self, index: usize, value: i64, bits: u32, min: i64, max: i64) -> Error {
        self.wrong(
            "ValueError",
            index,
            format_args!("{value} is out of range for a {bits}-bit integer ({min} to {max})"),
        )
    }

    #[cold]
    #[inline]
    fn float_out_of_range(&self, index: usize, value: f64, name: &str) -> Error {
        self.wrong("ValueError", index, format_args!("{value} is out of range for {name}"))
    }

    #[cold]
    #[inline]
    fn elsewhere(&self, index: usize, device: Device, first: i32) -> Error {
        let first = Device::new(device.device_type(), first);
        self.wrong(
            "ValueError",
            index,
            format_args!("the tensor is on {device}, but one before it is on {first}; a launch is on one device"),
        )
    }

    #[cold]
    #[inline]
    fn unreachable(&self, index: usize, device: Device, reach: &Reach<'_>) -> Error {
        let wanted = Device::new(reach.device_type, 0).to_string();
        let wanted = wanted.trim_end_matches(":0");
        self.wrong(
            "ValueError",
            index,
            format_args!(
                "expected a tensor on {wanted}, got one on {device}; copy it there first: tensor.to(device) in Rust, \
                 kernpack.tensor.to(tensor, device) elsewhere"
            ),
        )
    }

    #[cold]
    #[inline]
    fn wrong_count(&self, got: usize) -> Error {
        let tags: Vec<_> = self.tags.names().collect();
        let then = if tags.is_empty() { String::new() } else { format!(" and then {}", tags.join(", ")) };
        let own = self.counted();
        let all = self.arity();
        crate::error!(TypeError, "{} takes {own}{then}: {all} in all, got {got}", self.shown())
    }

    /// The error of a typed launch, which passes launch parameters separately.
    #[cold]
    #[inline]
    fn wrong_arg_count(&self, got: usize) -> Error {
        let own = self.counted();
        crate::error!(TypeError, "{} takes {own}, got {got}", self.shown())
    }

    /// The kernel's own arguments, for messages: `3 arguments (out, by, n)`.
    #[inline]
    fn counted(&self) -> String {
        let count = self.params.len();
        let mut text = if count == 1 { "1 argument".to_owned() } else { format!("{count} arguments") };
        if let [first, rest @ ..] = self.arg_names() {
            text.push_str(&format!(" ({first}"));
            rest.iter().for_each(|name| text.push_str(&format!(", {name}")));
            text.push(')');
        }
        text
    }

    #[cold]
    #[inline]
    pub(super) fn wrong_extent(&self, tag: &str, least: u32, got: &str) -> Error {
        crate::error!(ValueError, "{}: {tag} must be an int from {least} up, got {got}", self.shown())
    }
}

/// An argument for messages: the value of an integer, or the type of any other argument.
#[inline]
fn shown(arg: &AnyView<'_>) -> String {
    match i64::from_any(arg) {
        Ok(value) => value.to_string(),
        Err(_) => arg.type_name(),
    }
}
