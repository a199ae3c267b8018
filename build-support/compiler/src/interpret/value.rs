//! Values of registers, lane by lane.

use super::code::{Operand, Quick, Value};
use super::frame::Frame;
use super::memory::Fault;
use super::number::{self, Lane};
use super::packed::PackedValue;
use crate::error::Result;
use crate::ir::{BinaryOp, DataType, DataTypeExt, F64, I64};

/// One word for each lane.
pub(super) fn lanes(value: &Value) -> &[u64] {
    match value {
        Value::Unset => &[],
        Value::One(bits) => core::slice::from_ref(bits),
        Value::Many(lanes) => lanes,
    }
}

pub(super) fn of_lanes(lanes: Vec<u64>) -> Value {
    match lanes[..] {
        [only] => Value::One(only),
        _ => Value::Many(lanes.into()),
    }
}

pub(super) fn map(value: &Value, mut change: impl FnMut(u64) -> u64) -> Value {
    match value {
        Value::Unset => Value::Unset,
        Value::One(bits) => Value::One(change(*bits)),
        Value::Many(lanes) => Value::Many(lanes.iter().map(|bits| change(*bits)).collect()),
    }
}

pub(super) fn map_two(
    a: &Value,
    b: &Value,
    mut combine: impl FnMut(usize, u64, u64) -> Result<u64, Fault>,
) -> Result<Value, Fault> {
    if let (Value::One(a), Value::One(b)) = (a, b) {
        return Ok(Value::One(combine(0, *a, *b)?));
    }
    let (a, b) = (lanes(a), lanes(b));
    if a.len() != b.len() {
        return Err(format!("an operation on vectors of {} and {} lanes", a.len(), b.len()));
    }
    let values: Result<Vec<u64>, Fault> =
        a.iter().zip(b).enumerate().map(|(lane, (a, b))| combine(lane, *a, *b)).collect();
    Ok(of_lanes(values?))
}

pub(super) fn element_bytes(dtype: DataType) -> i64 {
    (dtype.lane_bytes() * usize::from(dtype.lanes())) as i64
}

#[inline]
pub(super) fn quick_value(quick: Quick, x: u64, y: u64) -> Result<u64, Fault> {
    match quick {
        Quick::Index(op, checked) => {
            let (a, b) = (x as i64, y as i64);
            let (value, overflows) = match op {
                BinaryOp::Add => a.overflowing_add(b),
                BinaryOp::Sub => a.overflowing_sub(b),
                _ => a.overflowing_mul(b),
            };
            if overflows && checked {
                return Err(format!("overflow of index arithmetic: {a} and {b}"));
            }
            Ok(value as u64)
        }
        Quick::Single(op) => {
            let (a, b) = (f32::from_bits(x as u32), f32::from_bits(y as u32));
            let value = match op {
                BinaryOp::Add => a + b,
                BinaryOp::Sub => a - b,
                _ => a * b,
            };
            Ok(u64::from(value.to_bits()))
        }
        Quick::Compare(op) => {
            let (a, b) = (x as i64, y as i64);
            Ok(u64::from(op.holds(a, b)))
        }
    }
}

pub(super) fn operands(fault: &str, lane: Lane, a: u64, b: u64) -> Fault {
    match lane {
        Lane::Integer(dtype) => format!("{fault}: {} and {}", number::show(dtype, a), number::show(dtype, b)),
        _ => fault.to_owned(),
    }
}

pub(super) fn math(name: &str, dtype: DataType, args: &[&Value], active: Option<&Value>) -> Result<Value, Fault> {
    let lane = Lane::of(dtype).map_err(|error| error.what().to_owned())?;
    let count = lanes(args[0]).len();
    let mut values = Vec::with_capacity(count);
    for position in 0..count {
        if active.is_some_and(|active| lanes(active)[position] == 0) {
            values.push(0);
            continue;
        }
        let mut words = [0; 3];
        for (word, arg) in words.iter_mut().zip(args) {
            *word = *lanes(arg).get(position).ok_or("arguments with different numbers of lanes")?;
        }
        values.push(match name {
            "fma" => number::fma(lane, words[0], words[1], words[2])?,
            _ => number::math(name, dtype, &words[..args.len()]).ok_or_else(|| format!("unknown function `{name}`"))?,
        });
    }
    Ok(of_lanes(values))
}

pub(super) fn packed_value(frame: &Frame, operand: &Operand) -> Result<PackedValue, Fault> {
    Ok(match operand {
        Operand::Text(text) => PackedValue::Text(text.clone()),
        Operand::Value(reg, dtype) if dtype.is_float() => {
            PackedValue::Float(number::float_of_bits(*dtype, frame.bits(*reg)?))
        }
        Operand::Value(reg, dtype) if dtype.is_handle() => match frame.bits(*reg)? {
            0 => PackedValue::Nothing,
            address => PackedValue::Pointer(address),
        },
        Operand::Value(reg, _) => PackedValue::Int(frame.bits(*reg)? as i64),
    })
}

pub(super) fn from_packed(value: PackedValue, dtype: DataType) -> Result<Value, Fault> {
    if dtype.lanes() == 0 {
        return Ok(Value::One(0));
    }
    Ok(Value::One(match value {
        PackedValue::Nothing => 0,
        PackedValue::Pointer(address) => address,
        PackedValue::Int(value) => number::cast(I64, dtype, value as u64),
        PackedValue::Float(value) => number::cast(F64, dtype, value.to_bits()),
        PackedValue::Text(text) => return Err(format!("text \"{text}\" in place of {}", dtype.short_name())),
    }))
}
