//! Execution of one operation.

use super::code::{Op, Reg, Value};
use super::frame::{Flow, Frame, Stop};
use super::grid::Thread;
use super::memory::Fault;
use super::number::{self, Lane};
use super::run::Run;
use super::value::{
    element_bytes, from_packed, lanes, map, map_two, math, of_lanes, operands, packed_value, quick_value,
};
use crate::error::Result;
use crate::ir::{BinaryOp, CompareOp};

impl Run<'_> {
    /// Executes one operation.
    pub(super) fn step(&mut self, frame: &mut Frame, thread: Option<&Thread>) -> Result<Flow, Fault> {
        let machine = self.machine;
        let code = &machine.functions[frame.function];
        let stmt = code.origins[frame.pc];
        let (to, value) = match &code.ops[frame.pc] {
            Op::Constant { to, value } => (*to, value.clone()),
            Op::Copy { to, from } => (*to, frame.get(*from)?.clone()),
            Op::Cast { to, from, old, new } => (*to, map(frame.get(*from)?, |bits| number::cast(*old, *new, bits))),
            Op::Binary { to, op, lane, a, b, checked, active } => {
                let active = active.map(|active| frame.get(active)).transpose()?;
                let value = map_two(frame.get(*a)?, frame.get(*b)?, |position, x, y| {
                    if active.is_some_and(|active| lanes(active)[position] == 0) {
                        return Ok(0);
                    }
                    number::binary(*op, *lane, x, y, *checked).map_err(|fault| operands(fault, *lane, x, y))
                })?;
                (*to, value)
            }
            Op::Quick { to, quick, a, b } => {
                let (Value::One(x), Value::One(y)) = (&frame.registers[*a], &frame.registers[*b]) else {
                    return Err(frame.get(*a).and_then(|_| frame.get(*b)).err().unwrap_or_default());
                };
                let bits = quick_value(*quick, *x, *y)?;
                (*to, Value::One(bits))
            }
            Op::Compare { to, op, lane, a, b } => {
                let compare = |_, x, y| Ok(u64::from(number::compare(*op, *lane, x, y)));
                (*to, map_two(frame.get(*a)?, frame.get(*b)?, compare)?)
            }
            Op::Logic { to, op, a, b } => {
                let value = map_two(frame.get(*a)?, frame.get(*b)?, |_, x, y| {
                    Ok(match op {
                        crate::ir::LogicOp::And => x & y,
                        crate::ir::LogicOp::Or => x | y,
                    })
                })?;
                (*to, value)
            }
            Op::Not { to, from } => (*to, map(frame.get(*from)?, |bits| bits ^ 1)),
            Op::Any { to, from } => {
                let any = lanes(frame.get(*from)?).iter().any(|bits| *bits != 0);
                (*to, Value::One(any.into()))
            }
            Op::Select { to, condition, a, b } => {
                let (a, b) = (frame.get(*a)?, frame.get(*b)?);
                let value = match frame.get(*condition)? {
                    Value::One(bits) => if *bits != 0 { a } else { b }.clone(),
                    chosen => {
                        let chosen = lanes(chosen);
                        map_two(a, b, |lane, x, y| Ok(if chosen[lane] != 0 { x } else { y }))?
                    }
                };
                (*to, value)
            }
            Op::Ramp { to, dtype, base, stride, lanes, checked } => {
                let (base, stride, lane) = (frame.bits(*base)?, frame.bits(*stride)?, Lane::Integer(*dtype));
                let (add, multiply) = (BinaryOp::Add, BinaryOp::Mul);
                let value = |position: u64| {
                    let step = number::binary(multiply, lane, stride, position, *checked)?;
                    number::binary(add, lane, base, step, *checked)
                };
                let values: Result<Vec<u64>, _> = (0..u64::from(*lanes)).map(value).collect();
                (*to, of_lanes(values.map_err(|fault| operands(fault, lane, base, stride))?))
            }
            Op::Broadcast { to, from, lanes } => {
                let bits = frame.bits(*from)?;
                (*to, of_lanes(vec![bits; usize::from(*lanes)]))
            }
            Op::Shuffle { to, vectors, indices } => {
                let mut all = Vec::new();
                for vector in vectors {
                    all.extend_from_slice(lanes(frame.get(*vector)?));
                }
                (*to, of_lanes(indices.iter().map(|index| all[*index]).collect()))
            }
            Op::Address { to, place, index } => {
                let offset = (frame.bits(*index)? as i64).wrapping_mul(element_bytes(place.dtype));
                (*to, Value::One(frame.bits(place.data)?.wrapping_add(offset as u64)))
            }
            Op::MakeTensor { to, data, dtype, shape, strides } => {
                let read = |regs: &[Reg]| -> Result<Vec<i64>, Fault> {
                    regs.iter().map(|reg| frame.bits(*reg).map(|bits| bits as i64)).collect()
                };
                let (shape, strides) = (read(shape)?, read(strides)?);
                (*to, Value::One(self.make_tensor(frame.bits(*data)?, *dtype, &shape, &strides, 0)?))
            }
            Op::Load { to, place, index, mask } => (*to, self.load(frame, place, *index, *mask, stmt)?),
            Op::Store { place, index, value, mask } => {
                self.store(frame, place, *index, *value, *mask, stmt)?;
                return Ok(Flow::Next);
            }
            Op::Math { to, name, dtype, args, active } => {
                let args = args.iter().map(|arg| frame.get(*arg)).collect::<Result<Vec<_>, _>>()?;
                let active = active.map(|active| frame.get(active)).transpose()?;
                (*to, math(name, *dtype, &args, active)?)
            }
            Op::Builtin { to, name, dtype, args } => {
                let value = self.builtin(frame, name, *dtype, args, stmt)?;
                if name == crate::ir::builtin::STACK_ALLOCA {
                    frame.allocated.push(lanes(&value)[0]);
                }
                (*to, value)
            }
            Op::Packed { to, name, dtype, args } => {
                let args = args.iter().map(|arg| packed_value(frame, arg)).collect::<Result<Vec<_>, _>>()?;
                let value = self.packed(name, &args, stmt)?;
                (*to, from_packed(value, *dtype)?)
            }
            Op::Extern { to, name, dtype, args } => (*to, self.call_extern(frame, name, *dtype, args, stmt)?),
            Op::Call { to, function, args } => {
                let args = args.iter().map(|arg| frame.get(*arg).cloned()).collect::<Result<Vec<_>, _>>()?;
                return Ok(Flow::Call { function: *function, args, to: *to });
            }
            Op::Alloc(allocation) => {
                let address = self.alloc(frame, allocation, thread, stmt)?;
                (allocation.data, Value::One(address))
            }
            Op::Free { data } => {
                let address = frame.bits(*data)?;
                self.memory.free(address)?;
                if let Some(at) = frame.allocated.iter().rposition(|known| *known == address) {
                    frame.allocated.swap_remove(at);
                }
                return Ok(Flow::Next);
            }
            Op::View { to, place, shape, strides, offset, alignment } => {
                (*to, self.view(frame, place, shape, strides, *offset, *alignment)?)
            }
            Op::Jump { target } => return Ok(Flow::Jump(*target)),
            Op::JumpUnless { condition, target } => {
                return Ok(if frame.holds(*condition)? { Flow::Next } else { Flow::Jump(*target) });
            }
            Op::Loop { var, end, lane, signed, target } => {
                if let (true, Value::One(var), Value::One(end)) =
                    (signed, &frame.registers[*var], &frame.registers[*end])
                {
                    return Ok(if (*var as i64) < *end as i64 { Flow::Next } else { Flow::Jump(*target) });
                }
                let goes_on = number::compare(CompareOp::Lt, *lane, frame.bits(*var)?, frame.bits(*end)?);
                return Ok(if goes_on { Flow::Next } else { Flow::Jump(*target) });
            }
            Op::EnterParallel => {
                let newer = self.memory.count();
                self.memory.races.enter_tasks(newer, "iteration");
                return Ok(Flow::Next);
            }
            Op::NextParallel => {
                self.memory.races.next_task();
                return Ok(Flow::Next);
            }
            Op::LeaveParallel => {
                self.memory.races.leave();
                return Ok(Flow::Next);
            }
            Op::Launch { end, .. } => return Ok(Flow::Launch { end: *end }),
            Op::ThreadIndex { to, tag } => {
                let Some(thread) = thread else { return Err(format!("{tag} outside of a kernel")) };
                (*to, Value::One(thread.index(tag)?))
            }
            Op::Fork { var, extent, end } => {
                let extent = frame.bits(*extent)? as i64;
                return Ok(Flow::Stop(Stop::Fork { var: *var, extent, end: *end }));
            }
            Op::EndThread => return Ok(Flow::Stop(Stop::Done(None))),
            Op::Sync(group) => return Ok(Flow::Stop(Stop::Sync(*group))),
            Op::WarpShuffle { .. } => return Ok(Flow::Stop(Stop::Shuffle)),
            Op::AllReduce(_) => return Ok(Flow::Stop(Stop::AllReduce)),
            Op::Assert { condition, kind, message } => {
                if !frame.holds(*condition)? {
                    return Err(format!("{kind}: {message}"));
                }
                return Ok(Flow::Next);
            }
            Op::Assume { condition } => {
                if !frame.holds(*condition)? {
                    return Err("what `assume` says does not hold".to_owned());
                }
                return Ok(Flow::Next);
            }
            Op::CheckArgument { given, expected, what } => {
                let (given, expected) = (frame.bits(*given)? as i64, frame.bits(*expected)? as i64);
                if given != expected {
                    return Err(format!("{what} is {given}, expected {expected}"));
                }
                return Ok(Flow::Next);
            }
            Op::Return { value } => {
                let value = value.map(|value| frame.get(value).cloned()).transpose()?;
                return Ok(Flow::Return(value));
            }
        };
        frame.registers[to] = value;
        Ok(Flow::Next)
    }
}
