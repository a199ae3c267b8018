//! Builtins other than math and control: bits, memory, FFI values.

use super::code::{Operand, Value};
use super::frame::Frame;
use super::memory::Fault;
use super::number;
use super::packed::{PackedValue, tensor};
use super::run::Run;
use super::value::{from_packed, lanes, packed_value};
use crate::ir::builder::wrap_int;
use crate::ir::builtin::{self, StructField};
use crate::ir::{DataType, DataTypeExt, F64, I32, I64, U8, U16, U64};

/// The size of an FFI value, in bytes.
const ANY_SIZE: u64 = 16;
/// The type indices of FFI values.
const ANY_INT: i32 = 1;
const ANY_FLOAT: i32 = 3;
const ANY_TEXT: i32 = 8;

/// The offset of a field in its structure, the size of the structure, and the field's type in
/// memory.
fn layout(field: StructField, dtype: DataType) -> (u64, u64, DataType) {
    let size = tensor::SIZE;
    match field {
        StructField::Address => (0, size, U8),
        StructField::Data => (tensor::DATA, size, U64),
        StructField::Shape => (tensor::SHAPE, size, U64),
        StructField::Strides => (tensor::STRIDES, size, U64),
        StructField::Ndim => (tensor::NDIM, size, I32),
        StructField::TypeCode => (tensor::CODE, size, U8),
        StructField::TypeBits => (tensor::BITS, size, U8),
        StructField::TypeLanes => (tensor::LANES, size, U16),
        StructField::ByteOffset => (tensor::BYTE_OFFSET, size, U64),
        StructField::DeviceId => (tensor::DEVICE_ID, size, I32),
        StructField::DeviceType => (tensor::DEVICE_TYPE, size, I32),
        StructField::AnyTypeIndex => (0, ANY_SIZE, I32),
        StructField::AnyPadding => (4, ANY_SIZE, I32),
        StructField::AnyValue if dtype.is_float() => (8, ANY_SIZE, F64),
        StructField::AnyValue if dtype.is_handle() => (8, ANY_SIZE, U64),
        StructField::AnyValue => (8, ANY_SIZE, I64),
        StructField::Int64Element => (0, 8, I64),
    }
}

fn field(bits: u64) -> Result<StructField, Fault> {
    StructField::of(bits as i64).ok_or_else(|| format!("unknown field {}", bits as i64))
}

impl Run<'_> {
    pub(super) fn builtin(
        &mut self,
        frame: &Frame,
        name: &str,
        dtype: DataType,
        args: &[Operand],
        stmt: u32,
    ) -> Result<Value, Fault> {
        let value = |index: usize| match args.get(index) {
            Some(Operand::Value(reg, dtype)) => Ok((frame.get(*reg)?, *dtype)),
            Some(Operand::Text(text)) => Err(format!("`{name}` of the text \"{text}\"")),
            None => Err(format!("`{name}` has {} arguments", args.len())),
        };
        let bits = |index: usize| match value(index)?.0 {
            Value::One(bits) => Ok(*bits),
            _ => Err(format!("`{name}` of a vector")),
        };
        let each = |change: &dyn Fn(DataType, u64) -> u64| -> Result<Value, Fault> {
            let (value, dtype) = value(0)?;
            Ok(of(lanes(value).iter().map(|bits| change(dtype.element(), *bits)).collect()))
        };
        Ok(match name {
            builtin::ISNULLPTR => Value::One(u64::from(bits(0)? == 0)),
            builtin::REINTERPRET => {
                let (value, from) = value(0)?;
                reinterpret(lanes(value), from, dtype)?
            }
            builtin::DOT => {
                let (sums, a, b) = (value(0)?, value(1)?, value(2)?);
                let group = usize::from(a.1.lanes() / dtype.lanes().max(1)).max(1);
                let wide =
                    |(value, _): &(&Value, DataType)| lanes(value).iter().map(|lane| *lane as i64).collect::<Vec<_>>();
                let (x, y) = (wide(&a), wide(&b));
                if x.len() != y.len() || x.len() != lanes(sums.0).len() * group {
                    return Err(format!("`dot` of {} and {} lanes for {} sums", x.len(), y.len(), lanes(sums.0).len()));
                }
                let products = x.chunks(group).zip(y.chunks(group));
                let added = lanes(sums.0).iter().zip(products).map(|(sum, (x, y))| {
                    let products = x.iter().zip(y).fold(0_i64, |all, (x, y)| all.wrapping_add(x * y));
                    wrap_int(I32, (*sum as i64).wrapping_add(products)) as u64
                });
                of(added.collect())
            }
            builtin::HANDLE_ADD_BYTE_OFFSET => Value::One(bits(0)?.wrapping_add(bits(1)?)),
            builtin::ANY_LANE => Value::One(u64::from(lanes(value(0)?.0).iter().any(|lane| lane & 1 != 0))),
            "popcount" => each(&|dtype, bits| u64::from(unsigned(dtype, bits).count_ones()))?,
            // The result for 0 is the number of bits.
            "clz" => {
                each(&|dtype, bits| u64::from(unsigned(dtype, bits).leading_zeros() + u32::from(dtype.bits()) - 64))?
            }
            "ctz" => {
                each(&|dtype, bits| u64::from(unsigned(dtype, bits).trailing_zeros().min(u32::from(dtype.bits()))))?
            }
            "isnan" => each(&|dtype, bits| u64::from(number::float_of_bits(dtype, bits).is_nan()))?,
            "isinf" => each(&|dtype, bits| u64::from(number::float_of_bits(dtype, bits).is_infinite()))?,
            "isfinite" => each(&|dtype, bits| u64::from(number::float_of_bits(dtype, bits).is_finite()))?,
            "bitnot" => each(&|dtype, bits| {
                if dtype.is_bool() { bits ^ 1 } else { wrap_int(dtype, !(bits as i64)) as u64 }
            })?,
            "vectorlow" | "vectorhigh" => {
                let all = lanes(value(0)?.0);
                let (low, high) = all.split_at(all.len() / 2);
                of(if name == "vectorlow" { low } else { high }.to_vec())
            }
            "vectorcombine" => of([lanes(value(0)?.0), lanes(value(1)?.0)].concat()),
            builtin::PREFETCH => Value::One(0),
            builtin::STRUCT_GET => {
                let field = field(bits(2)?)?;
                let (offset, size, kind) = layout(field, dtype);
                let at = bits(0)?.wrapping_add(bits(1)?.wrapping_mul(size)).wrapping_add(offset);
                if field == StructField::Address {
                    return Ok(Value::One(at));
                }
                let bits = self.memory.read(at, kind, stmt)?;
                Value::One(if dtype.is_handle() { bits } else { number::cast(kind, dtype, bits) })
            }
            builtin::STRUCT_SET => {
                let text;
                let (data, from) = match args.get(3) {
                    Some(Operand::Text(chars)) => {
                        text = Value::One(self.text(chars)?);
                        (&text, crate::ir::POINTER)
                    }
                    _ => value(3)?,
                };
                let field = field(bits(2)?)?;
                let (offset, size, kind) = layout(field, from);
                let at = bits(0)?.wrapping_add(bits(1)?.wrapping_mul(size)).wrapping_add(offset);
                let word = *lanes(data).first().ok_or("a value without lanes")?;
                let word = if from.is_handle() { word } else { number::cast(from, kind, word) };
                self.memory.write(at, kind, word, stmt)?;
                Value::One(0)
            }
            builtin::STACK_ALLOCA => {
                let size = match args {
                    [Operand::Text(kind), _] if kind == "any" => ANY_SIZE,
                    [Operand::Text(kind), _] if kind == "shape" => 8,
                    [Operand::Text(kind), _] if kind == "array" => tensor::SIZE,
                    _ => return Err("`stack_alloca` takes any, shape or array, and a number".to_owned()),
                };
                let count = bits(1)?;
                if count > 1 << 20 {
                    return Err(format!("{count} values on the stack"));
                }
                Value::One(self.memory.allocate("stack", (size * count) as usize, false)?)
            }
            builtin::ALLOC_WORKSPACE => {
                let bytes = bits(2)?;
                if bytes > 1 << 32 {
                    return Err(format!("a workspace of {bytes} bytes"));
                }
                Value::One(self.memory.allocate("workspace", bytes as usize, false)?)
            }
            builtin::FREE_WORKSPACE => {
                self.memory.free(bits(2)?)?;
                Value::One(0)
            }
            builtin::THROW_LAST_ERROR => return Err("`throw_last_error`".to_owned()),
            builtin::STATIC_HANDLE => {
                if let Some(address) = self.handles.get(&stmt) {
                    return Ok(Value::One(*address));
                }
                let address = self.memory.allocate("handle", 8, false)?;
                self.memory.write(address, U64, 0, stmt)?;
                self.handles.insert(stmt, address);
                Value::One(address)
            }
            builtin::CALL_PACKED_LOWERED | builtin::CALL_TRACE_PACKED_LOWERED => {
                self.call_lowered(frame, args, dtype, stmt)?
            }
            _ => return Err(format!("the interpreter does not know `{name}` here")),
        })
    }

    /// Stores a NUL-terminated text in memory and returns its address.
    fn text(&mut self, text: &str) -> Result<u64, Fault> {
        let bytes: Vec<u8> = text.bytes().chain([0]).collect();
        let known = vec![true; bytes.len()];
        self.memory.insert("text", bytes, known, 0, false, false)
    }

    /// Reads the text whose address is in memory.
    fn read_text(&mut self, at: u64, stmt: u32) -> Result<String, Fault> {
        let first = self.memory.read(at, U64, stmt)?;
        let mut bytes = Vec::new();
        for address in first.. {
            match self.memory.read(address, U8, stmt)? {
                0 => break,
                byte => bytes.push(byte as u8),
            }
        }
        Ok(String::from_utf8_lossy(&bytes).into_owned())
    }

    /// `call_packed_lowered(name, stack, begin, end)`, with an optional value for a result of None:
    /// the arguments are the FFI values from `begin` to `end`, slot `end` gets the result.
    fn call_lowered(&mut self, frame: &Frame, args: &[Operand], dtype: DataType, stmt: u32) -> Result<Value, Fault> {
        let [
            Operand::Text(name),
            Operand::Value(stack, _),
            Operand::Value(begin, _),
            Operand::Value(end, _),
            rest @ ..,
        ] = args
        else {
            return Err("`call_packed_lowered` takes a name, a stack, and two positions".to_owned());
        };
        let traced = match rest {
            [Operand::Value(traced, _)] => Some(frame.get(*traced)?.clone()),
            _ => None,
        };
        let (stack, begin, end) = (frame.bits(*stack)?, frame.bits(*begin)?, frame.bits(*end)?);
        let mut values = Vec::new();
        for slot in begin..end {
            let at = stack + slot * ANY_SIZE;
            values.push(match self.memory.read(at, I32, stmt)? as i32 {
                0 => PackedValue::Nothing,
                ANY_FLOAT => PackedValue::Float(f64::from_bits(self.memory.read(at + 8, F64, stmt)?)),
                ANY_TEXT => PackedValue::Text(self.read_text(at + 8, stmt)?),
                kind => match (kind, self.memory.read(at + 8, U64, stmt)?) {
                    (ANY_INT | 2, bits) => PackedValue::Int(bits as i64),
                    (_, 0) => PackedValue::Nothing,
                    (_, address) => PackedValue::Pointer(address),
                },
            });
        }
        let result = self.packed(name, &values, stmt)?;
        let at = stack + end * ANY_SIZE;
        let (kind, bits) = match &result {
            PackedValue::Nothing => (0, 0),
            PackedValue::Int(value) => (ANY_INT, *value as u64),
            PackedValue::Float(value) => (ANY_FLOAT, value.to_bits()),
            PackedValue::Pointer(address) => (4, *address),
            PackedValue::Text(_) => return Err(format!("`{name}` returns text, which the interpreter does not store")),
        };
        self.memory.write(at, I32, kind as u64, stmt)?;
        self.memory.write(at + 4, I32, 0, stmt)?;
        self.memory.write(at + 8, U64, bits, stmt)?;
        if let (PackedValue::Nothing, Some(traced)) = (&result, traced) {
            return Ok(traced);
        }
        from_packed(result, dtype)
    }

    /// Calls a C function: one that the test provides, or a math function of the C library by its
    /// name.
    pub(super) fn call_extern(
        &mut self,
        frame: &Frame,
        name: &str,
        dtype: DataType,
        args: &[Operand],
        stmt: u32,
    ) -> Result<Value, Fault> {
        let known = name.strip_suffix('f').filter(|_| dtype.element().bits() == 32).unwrap_or(name);
        let known = match known {
            "fabs" => "abs",
            "rint" | "nearbyint" | "roundeven" => "round",
            other => other,
        };
        if dtype.is_float()
            && builtin::math_arity(known) == Some(args.len())
            && (known != "round" || name != "round" && name != "roundf")
        {
            let mut values = Vec::new();
            for arg in args {
                let Operand::Value(reg, _) = arg else { return Err(format!("`{name}` of a text")) };
                values.push(lanes(frame.get(*reg)?));
            }
            let count = values.first().map_or(0, |lanes| lanes.len());
            let mut results = Vec::new();
            for lane in 0..count {
                let words: Option<Vec<u64>> = values.iter().map(|lanes| lanes.get(lane).copied()).collect();
                let words = words.ok_or("arguments with different numbers of lanes")?;
                let word = number::math(known, dtype.element(), &words);
                results.push(word.ok_or_else(|| format!("unknown function `{name}`"))?);
            }
            return Ok(of(results));
        }
        let values = args.iter().map(|arg| packed_value(frame, arg)).collect::<Result<Vec<_>, _>>()?;
        from_packed(self.packed(name, &values, stmt)?, dtype)
    }
}

fn of(lanes: Vec<u64>) -> Value {
    match lanes[..] {
        [only] => Value::One(only),
        _ => Value::Many(lanes.into()),
    }
}

/// The bits of a lane, without sign extension.
fn unsigned(dtype: DataType, bits: u64) -> u64 {
    match dtype.bits() {
        64 => bits,
        count => bits & ((1 << count) - 1),
    }
}

fn reinterpret(lanes: &[u64], from: DataType, to: DataType) -> Result<Value, Fault> {
    let (old, new) = (from.lane_bytes(), to.lane_bytes());
    let bytes: Vec<u8> = lanes.iter().flat_map(|bits| bits.to_le_bytes()[..old].to_vec()).collect();
    if bytes.len() != new * usize::from(to.lanes()) {
        return Err(format!("`reinterpret` of {} as {}", from.short_name(), to.short_name()));
    }
    Ok(of(bytes.chunks_exact(new).map(|bytes| super::block::read_lane(to.element(), bytes)).collect()))
}
