//! Arguments: memory for blocks, symbols in shapes, FFI values.

use std::rc::Rc;

use super::block::{Arg, Block};
use super::code::{BufferCode, FunctionCode, Reg, Value};
use super::frame::Frame;
use super::memory::Fault;
use super::number::{self};
use super::packed::{compact, tensor};
use super::run::Run;
use super::value::element_bytes;
use crate::error::{CompileError, ErrorKind, Result, fail, require};
use crate::ir::{DataType, DataTypeExt, F64, FuncKind, I32, I64, U8, U16, U64};

impl Run<'_> {
    /// Binds arguments and runs a function.
    pub(super) fn call(
        &mut self,
        function: usize,
        args: &[Arg],
        blocks: &mut Vec<(Block, u64)>,
    ) -> Result<Option<Arg>> {
        let code = &self.machine.functions[function];
        self.insert_blocks(code, args, blocks)?;
        if self.machine.kinds[function] == FuncKind::Host {
            return self.call_host(function, args, blocks);
        }
        let expected = code.params.len() + code.launch.len();
        require!(args.len() == expected, Run, "`{}` takes {expected} arguments, got {}", code.name, args.len());
        let mut frame = Frame::new(function, code);
        for (position, (param, arg)) in code.params.iter().zip(args).enumerate() {
            let bound = match (arg, &param.buffer) {
                (Arg::Block(block), Some(buffer)) => self.bind_buffer(&mut frame, block, param.var, buffer, blocks),
                (Arg::Block(block), None) if param.dtype.is_handle() => {
                    frame.registers[param.var] = Value::One(address_of(block, blocks));
                    Ok(())
                }
                (_, Some(_)) => Err("a tensor is expected".to_owned()),
                (arg, None) => scalar(arg, param.dtype).map(|bits| frame.registers[param.var] = Value::One(bits)),
            };
            bound.map_err(|fault| {
                CompileError::new(ErrorKind::Run, format!("argument {position} (`{}`): {fault}", param.name))
                    .note(format!("in a call of `{}`", code.name))
            })?;
        }
        for (axis, arg) in code.launch.iter().zip(&args[code.params.len()..]) {
            let bits = scalar(arg, I64)
                .map_err(|fault| CompileError::new(ErrorKind::Run, format!("extent of {}: {fault}", axis.tag)))?;
            frame.registers[axis.extent] = Value::One(bits);
        }
        let value = self.execute_all(frame)?;
        Ok(match (value, code.ret) {
            (Some(Value::One(bits)), Some(dtype)) if dtype.is_float() => {
                Some(Arg::Float(number::float_of_bits(dtype, bits)))
            }
            (Some(Value::One(bits)), Some(_)) => Some(Arg::Int(bits as i64)),
            _ => None,
        })
    }

    /// Adds the arguments' memory to the machine: one region for each block, even if it is passed
    /// twice.
    pub(super) fn insert_blocks(
        &mut self,
        code: &FunctionCode,
        args: &[Arg],
        blocks: &mut Vec<(Block, u64)>,
    ) -> Result<()> {
        for (position, arg) in args.iter().enumerate() {
            let Arg::Block(block) = arg else { continue };
            if blocks.iter().any(|(known, _)| Rc::ptr_eq(&known.0, &block.0)) {
                continue;
            }
            let same = args
                .iter()
                .enumerate()
                .filter(|(_, other)| matches!(other, Arg::Block(other) if Rc::ptr_eq(&other.0, &block.0)));
            let writable = same
                .map(|(at, _)| code.params.get(at))
                .any(|param| param.and_then(|param| param.buffer.as_ref()).is_none_or(|buffer| buffer.output));
            let name = match code.params.get(position).and_then(|param| param.buffer.as_ref()) {
                Some(buffer) => buffer.name.clone(),
                None => format!("argument {position}"),
            };
            let mut content = block.0.borrow_mut();
            let (bytes, known) = (core::mem::take(&mut content.bytes), core::mem::take(&mut content.known));
            let misalignment = content.misalignment;
            let address = self
                .memory
                .insert(&name, bytes, known, misalignment, writable, false)
                .map_err(|fault| CompileError::new(ErrorKind::Run, fault))?;
            drop(content);
            blocks.push((block.clone(), address));
        }
        Ok(())
    }

    pub(super) fn bind_buffer(
        &mut self,
        frame: &mut Frame,
        block: &Block,
        var: Reg,
        buffer: &BufferCode,
        blocks: &[(Block, u64)],
    ) -> Result<(), Fault> {
        let address = address_of(block, blocks);
        let content = block.0.borrow();
        if content.dtype != buffer.dtype {
            return Err(format!(
                "elements of {} are expected, got {}",
                buffer.dtype.short_name(),
                content.dtype.short_name()
            ));
        }
        if content.shape.len() != buffer.shape.len() {
            return Err(format!("{} dimensions are expected, got {}", buffer.shape.len(), content.shape.len()));
        }
        if buffer.alignment > 0 && !address.is_multiple_of(buffer.alignment as u64) {
            return Err(format!("the address is not a multiple of {}, which the function promises", buffer.alignment));
        }
        let strides = content.full_strides();
        let empty = content.shape.contains(&0);
        if buffer.strides.is_empty() && !empty && !same_strides(&content.shape, &strides, &compact(&content.shape)) {
            return Err("a compact tensor is expected".to_owned());
        }
        for (reg, extent) in buffer.shape.iter().zip(&content.shape) {
            frame.registers[*reg] = Value::One(*extent as u64);
        }
        for (reg, stride) in buffer.strides.iter().zip(&strides) {
            frame.registers[*reg] = Value::One(*stride as u64);
        }
        frame.registers[buffer.offset] = Value::One(content.offset as u64);
        frame.registers[buffer.data] = Value::One(address);
        if var != buffer.data {
            let size = element_bytes(content.dtype);
            let tensor = self.make_tensor(address, content.dtype, &content.shape, &strides, content.offset * size)?;
            frame.registers[var] = Value::One(tensor);
        }
        Ok(())
    }

    /// Creates a `DLTensor` in memory.
    pub(super) fn make_tensor(
        &mut self,
        data: u64,
        dtype: DataType,
        shape: &[i64],
        strides: &[i64],
        byte_offset: i64,
    ) -> Result<u64, Fault> {
        let memory = &mut self.memory;
        let at = memory.allocate("DLTensor", tensor::SIZE as usize, false)?;
        let mut array = |values: &[i64]| -> Result<u64, Fault> {
            let at = memory.allocate("shape", values.len() * 8, false)?;
            for (value, address) in values.iter().zip((at..).step_by(8)) {
                memory.write(address, I64, *value as u64, 0)?;
            }
            Ok(at)
        };
        let (shape_at, strides_at) = (array(shape)?, array(strides)?);
        for (field, kind, value) in [
            (tensor::DATA, U64, data),
            (tensor::DEVICE_TYPE, I32, 1),
            (tensor::DEVICE_ID, I32, 0),
            (tensor::NDIM, I32, shape.len() as u64),
            (tensor::CODE, U8, u64::from(dtype.code())),
            (tensor::BITS, U8, u64::from(dtype.bits())),
            (tensor::LANES, U16, u64::from(dtype.lanes())),
            (tensor::SHAPE, U64, shape_at),
            (tensor::STRIDES, U64, strides_at),
            (tensor::BYTE_OFFSET, U64, byte_offset as u64),
        ] {
            memory.write(at + field, kind, value, 0)?;
        }
        Ok(at)
    }

    /// Calls a packed function with FFI values in memory.
    pub(super) fn call_host(&mut self, function: usize, args: &[Arg], blocks: &[(Block, u64)]) -> Result<Option<Arg>> {
        let code = &self.machine.functions[function];
        require!(
            code.params.len() == 4,
            Run,
            "packed function `{}` has {} parameters, not handle, arguments, number and result",
            code.name,
            code.params.len()
        );
        let mut stack = || -> Result<(u64, u64), Fault> {
            let stack = self.memory.allocate("arguments", args.len() * 16, false)?;
            for (arg, at) in args.iter().zip((stack..).step_by(16)) {
                let (kind, bits) = match arg {
                    Arg::Int(value) => (1, *value as u64),
                    Arg::Float(value) => (3, value.to_bits()),
                    Arg::Block(block) => {
                        let (address, content) = (address_of(block, blocks), block.0.borrow());
                        let offset = content.offset * element_bytes(content.dtype);
                        let strides = content.full_strides();
                        (7, self.make_tensor(address, content.dtype, &content.shape, &strides, offset)?)
                    }
                };
                self.memory.write(at, I32, kind, 0)?;
                self.memory.write(at + 4, I32, 0, 0)?;
                self.memory.write(at + 8, U64, bits, 0)?;
            }
            let result = self.memory.allocate("result", 16, false)?;
            for half in [result, result + 8] {
                self.memory.write(half, U64, 0, 0)?;
            }
            Ok((stack, result))
        };
        let internal = |fault| CompileError::new(ErrorKind::Run, fault);
        let (stack, result) = stack().map_err(internal)?;
        let mut frame = Frame::new(function, code);
        for (param, value) in code.params.iter().zip([0, stack, args.len() as u64, result]) {
            frame.registers[param.var] = Value::One(value);
        }
        let status = self.execute_all(frame)?;
        if let Some(Value::One(status)) = status
            && status as u32 != 0
        {
            fail!(Run, "`{}` returned {}", code.name, status as i32);
        }
        let mut read = |at, dtype| self.memory.read(at, dtype, 0).map_err(internal);
        Ok(match read(result, I32)? {
            0 => None,
            3 => Some(Arg::Float(f64::from_bits(read(result + 8, F64)?))),
            _ => Some(Arg::Int(read(result + 8, I64)? as i64)),
        })
    }
}

fn address_of(block: &Block, blocks: &[(Block, u64)]) -> u64 {
    blocks.iter().find(|(known, _)| Rc::ptr_eq(&known.0, &block.0)).map_or(0, |(_, address)| *address)
}

fn same_strides(shape: &[i64], a: &[i64], b: &[i64]) -> bool {
    shape.iter().zip(a.iter().zip(b)).all(|(extent, (a, b))| *extent == 1 || a == b)
}

fn scalar(arg: &Arg, dtype: DataType) -> Result<u64, Fault> {
    match arg {
        Arg::Int(value) if dtype.is_float() => Ok(number::cast(I64, dtype, *value as u64)),
        Arg::Int(value) => {
            if !dtype.can_hold(*value) && dtype != U64 && !dtype.is_handle() {
                return Err(format!("{value} is not a value of type {}", dtype.short_name()));
            }
            Ok(*value as u64)
        }
        Arg::Float(value) if dtype.is_float() => Ok(number::float_bits(dtype, *value)),
        Arg::Float(value) => Err(format!("{value} is not a value of type {}", dtype.short_name())),
        Arg::Block(_) => Err(format!("a tensor for a parameter of {}", dtype.short_name())),
    }
}
