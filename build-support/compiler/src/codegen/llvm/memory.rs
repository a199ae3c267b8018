//! Loads, stores and allocations.

use inkwell::types::BasicTypeEnum;
use inkwell::values::{AsValueRef, CallSiteValue, InstructionValue, PointerValue, VectorValue};
use kernpack::DataType;

use super::CodeGenLLVM;
use super::emit::{Value, confused, instruction};
use super::intrinsics::call_instruction;
use crate::error::{Result, fail};
use crate::ir::{Buffer, DataTypeExt, Expr, ExprNode};

/// The memory locations of the lanes of an access.
pub(super) enum Place {
    /// Consecutive elements, starting at an index.
    Contiguous(Expr),
    /// Consecutive elements in reverse order, starting at an index.
    Reversed(Expr),
    /// Every second element, starting at an index.
    EverySecond(Expr),
    /// All lanes at one index.
    Same(Expr),
    /// Arbitrary locations.
    Scattered,
}

pub(super) fn place(index: &Expr) -> Place {
    match &**index {
        _ if index.lanes() == 1 => Place::Contiguous(index.clone()),
        ExprNode::Ramp { base, stride, .. } => match stride.as_int() {
            Some(1) => Place::Contiguous(base.clone()),
            Some(-1) => Place::Reversed(base.clone()),
            Some(2) => Place::EverySecond(base.clone()),
            Some(0) => Place::Same(base.clone()),
            _ => Place::Scattered,
        },
        ExprNode::Broadcast { value, .. } => Place::Same(value.clone()),
        _ => Place::Scattered,
    }
}

/// Returns true if all lanes of an access lie in local memory of a known size, at a known place.
/// LLVM keeps such memory in registers if no access has a mask: sums of a last, partial vector
/// would go through memory otherwise.
pub(super) fn is_in_registers(buffer: &Buffer, base: &Expr, lanes: u16) -> bool {
    let count = buffer.shape.iter().try_fold(1_i64, |count, extent| count.checked_mul(extent.as_int()?));
    let is_inside = |(first, count): (i64, i64)| first >= 0 && first <= count - i64::from(lanes);
    buffer.scope.as_str() == "local"
        && buffer.dtype.is_scalar()
        && buffer.strides.is_empty()
        && base.as_int().zip(count).is_some_and(is_inside)
}

impl<'ctx> CodeGenLLVM<'ctx, '_> {
    /// The data pointer of a buffer.
    pub(super) fn data_pointer(&self, buffer: &Buffer) -> Result<PointerValue<'ctx>> {
        match self.variable(&buffer.data)? {
            Value::PointerValue(pointer) => Ok(pointer),
            other => Err(confused(&format!("the data pointer of `{}`", buffer.name.as_str()), other)),
        }
    }

    /// The address of an element; for a vector element, that of its first lane.
    pub(super) fn element_address(&mut self, buffer: &Buffer, index: &Expr) -> Result<PointerValue<'ctx>> {
        let base = self.data_pointer(buffer)?;
        let index = self.index_value(index)?;
        self.offset(base, buffer.dtype, index)
    }

    /// The address `index` elements after another. The size of an element with lanes is the sum of
    /// its lanes.
    pub(super) fn offset(
        &self,
        base: PointerValue<'ctx>,
        dtype: DataType,
        index: Value<'ctx>,
    ) -> Result<PointerValue<'ctx>> {
        let Value::IntValue(mut index) = index else { return Err(confused("index", index)) };
        let wide = self.context.i64_type();
        if index.get_type().get_bit_width() < 64 {
            index = self.builder.build_int_s_extend(index, wide, "")?;
        }
        if dtype.lanes() > 1 {
            let lanes = wide.const_int(u64::from(dtype.lanes()), false);
            index = self.builder.build_int_nsw_mul(index, lanes, "")?;
        }
        if index.is_const() && index.get_zero_extended_constant() == Some(0) {
            return Ok(base);
        }
        let ty = self.memory_scalar(dtype)?;
        // SAFETY: the program's indices are within the buffer; the lowered program guarantees this,
        // and the interpreter checks it.
        Ok(unsafe { self.builder.build_in_bounds_gep(ty, base, &[index], "")? })
    }

    /// The alignment of the address of an element.
    pub(super) fn alignment(&self, buffer: &Buffer, index: &Expr) -> u32 {
        let lane = (buffer.dtype.lane_bytes().max(1) as i64).min(64);
        // A size that is not a power of two is aligned to the largest power of two that divides it.
        let lane = 1 << lane.trailing_zeros();
        let limit = match self.state.pointers.get(&buffer.data) {
            Some(facts) => i64::try_from(facts.align).unwrap_or(lane),
            None => buffer.data_alignment,
        };
        let elements = self.state.modular.of(index).power_of_two(64);
        let lanes = i64::from(buffer.dtype.lanes());
        let multiple = lane.saturating_mul(elements).saturating_mul(1 << lanes.trailing_zeros().min(10));
        let limit = 1 << (63 - (limit.max(1) as u64).leading_zeros());
        multiple.min(limit).max(lane) as u32
    }

    /// Emits a load; lanes whose mask is false are undefined.
    pub(super) fn load(
        &mut self,
        buffer: &Buffer,
        index: &Expr,
        mask: Option<&Expr>,
        dtype: DataType,
    ) -> Result<Value<'ctx>> {
        let inner = buffer.dtype.lanes();
        if inner > 1 && (index.lanes() > 1 || mask.is_some()) {
            return self.load_by_lane(buffer, index, mask);
        }
        let value = match (place(index), mask) {
            (Place::Contiguous(base), None) => {
                let address = self.element_address(buffer, &base)?;
                let ty = self.memory_type(dtype)?;
                self.plain_load(buffer, ty, address, self.alignment(buffer, &base))?
            }
            (Place::Contiguous(base), Some(mask)) if index.lanes() > 1 => {
                let address = self.element_address(buffer, &base)?;
                let ty = self.memory_type(dtype)?;
                let align = self.alignment(buffer, &base);
                if is_in_registers(buffer, &base, index.lanes()) {
                    self.plain_load(buffer, ty, address, align)?
                } else {
                    let mask = self.value(mask)?;
                    self.masked_load(buffer, ty, address, mask, align)?
                }
            }
            (Place::Reversed(base), mask) => {
                let lanes = index.lanes();
                let address = self.element_address(buffer, &(base - i64::from(lanes - 1)))?;
                let ty = self.memory_type(dtype)?;
                let align = lane_alignment(buffer);
                let value = match mask {
                    None => self.plain_load(buffer, ty, address, align)?,
                    Some(mask) => {
                        let mask = self.value(mask)?;
                        let mask = self.reverse(mask.into_vector_value())?;
                        self.masked_load(buffer, ty, address, mask, align)?
                    }
                };
                self.reverse(value.into_vector_value())?
            }
            // Two loads that together read nothing beyond the last lane, and a shuffle.
            (Place::EverySecond(base), None) => {
                let lanes = u32::from(index.lanes());
                let ty = self.memory_type(dtype)?;
                let first = self.element_address(buffer, &base)?;
                let low = self.plain_load(buffer, ty, first, self.alignment(buffer, &base))?;
                let second = self.element_address(buffer, &(&base + i64::from(lanes - 1)))?;
                let high = self.plain_load(buffer, ty, second, lane_alignment(buffer))?;
                // Lane 2 i is in the first vector, or 2 i - (lanes - 1) lanes into the second.
                let pick = |lane: u32| if 2 * lane < lanes { 2 * lane } else { lanes + 2 * lane - (lanes - 1) };
                let indices: Vec<u32> = (0..lanes).map(pick).collect();
                self.shuffle(low.into_vector_value(), high.into_vector_value(), &indices)?
            }
            (Place::Same(base), None) => {
                let address = self.element_address(buffer, &base)?;
                let ty = self.memory_type(dtype.element())?;
                let value = self.plain_load(buffer, ty, address, self.alignment(buffer, &base))?;
                self.splat(value, index.lanes())?
            }
            (_, Some(mask)) if index.lanes() == 1 => return self.load_if(buffer, index, mask, dtype),
            (_, mask) => self.gather(buffer, index, mask, dtype)?,
        };
        self.register_form(dtype, value)
    }

    /// Emits a scalar load that is guarded by a truth value; 0 if it is false.
    fn load_if(&mut self, buffer: &Buffer, index: &Expr, mask: &Expr, dtype: DataType) -> Result<Value<'ctx>> {
        let (condition, is_likely) = self.condition(mask)?;
        let (loading, after) = (self.new_block("load"), self.new_block("loaded"));
        let before = self.current_block()?;
        self.branch_if(condition, loading, after, is_likely)?;
        self.builder.position_at_end(loading);
        let value = self.load(buffer, index, None, dtype)?;
        let end = self.jump(after)?;
        self.builder.position_at_end(after);
        let nothing = self.constant(dtype, 0)?;
        let phi = self.builder.build_phi(value.get_type(), "")?;
        phi.add_incoming(&[(&value, end), (&nothing, before)]);
        Ok(phi.as_basic_value())
    }

    fn gather(&mut self, buffer: &Buffer, index: &Expr, mask: Option<&Expr>, dtype: DataType) -> Result<Value<'ctx>> {
        let lanes = index.lanes();
        let base = self.data_pointer(buffer)?;
        let places = self.index_value(index)?;
        let scalar = self.memory_scalar(dtype)?;
        let is_fast = self.target.has_avx512() && matches!(dtype.bits(), 32 | 64) && lanes.is_power_of_two();
        if mask.is_none() && !is_fast {
            let mut values = Vec::with_capacity(usize::from(lanes));
            for lane in 0..lanes {
                let place = self.lane(places, lane)?;
                let address = self.offset(base, buffer.dtype, place)?;
                values.push(self.plain_load(buffer, scalar, address, lane_alignment(buffer))?);
            }
            return self.vector_of(&values);
        }
        let addresses = self.addresses(base, scalar, places)?;
        let mask = match mask {
            Some(mask) => self.value(mask)?,
            None => self.splat(self.context.bool_type().const_int(1, false).into(), lanes)?,
        };
        let ty = self.vector_type(scalar, lanes)?;
        let nothing: Value<'ctx> = ty.into_vector_type().const_zero().into();
        let types = [ty, addresses.get_type()];
        let args = [addresses, mask, nothing];
        let call = self.masked_call("llvm.masked.gather", &types, Some(ty), (0, lane_alignment(buffer)), &args)?;
        self.masked_value(call, buffer)
    }

    /// The addresses of elements, as a vector of pointers.
    pub(super) fn addresses(
        &self,
        base: PointerValue<'ctx>,
        scalar: BasicTypeEnum<'ctx>,
        places: Value<'ctx>,
    ) -> Result<Value<'ctx>> {
        let Value::VectorValue(mut places) = places else { return Err(confused("places", places)) };
        let lanes = places.get_type().get_size();
        let wide = self.context.i64_type().vec_type(lanes);
        if places.get_type() != wide {
            places = self.builder.build_int_s_extend(places, wide, "")?;
        }
        let bases = self.splat(base.into(), lanes as u16)?;
        // SAFETY: `base` is a pointer, and `places` a vector of integers as long as the bases.
        let address = unsafe {
            use inkwell::llvm_sys::core::LLVMBuildInBoundsGEP2;
            use inkwell::types::AsTypeRef;
            let mut index = [places.as_value_ref()];
            VectorValue::new(LLVMBuildInBoundsGEP2(
                self.builder.as_mut_ptr(),
                scalar.as_type_ref(),
                bases.as_value_ref(),
                index.as_mut_ptr(),
                1,
                c"".as_ptr(),
            ))
        };
        Ok(address.into())
    }

    fn load_by_lane(&mut self, buffer: &Buffer, index: &Expr, mask: Option<&Expr>) -> Result<Value<'ctx>> {
        if mask.is_some() {
            fail!(Target, "a masked load of `{}`, whose elements are vectors", buffer.name.as_str());
        }
        let base = self.data_pointer(buffer)?;
        let places = self.index_value(index)?;
        let ty = self.memory_type(buffer.dtype)?;
        let mut lanes = Vec::new();
        for lane in 0..index.lanes() {
            let place = self.lane(places, lane)?;
            let address = self.offset(base, buffer.dtype, place)?;
            let value = self.plain_load(buffer, ty, address, lane_alignment(buffer))?;
            for inner in 0..buffer.dtype.lanes() {
                lanes.push(self.lane(value, inner)?);
            }
        }
        let value = self.vector_of(&lanes)?;
        self.register_form(buffer.dtype, value)
    }

    /// A load instruction.
    pub(super) fn plain_load(
        &self,
        buffer: &Buffer,
        ty: BasicTypeEnum<'ctx>,
        address: PointerValue<'ctx>,
        align: u32,
    ) -> Result<Value<'ctx>> {
        let value = self.builder.build_load(ty, address, "")?;
        if let Some(access) = instruction(value) {
            set_alignment(access, align)?;
            self.annotate_access(access, &buffer.data)?;
        }
        Ok(value)
    }

    fn masked_load(
        &mut self,
        buffer: &Buffer,
        ty: BasicTypeEnum<'ctx>,
        address: PointerValue<'ctx>,
        mask: Value<'ctx>,
        align: u32,
    ) -> Result<Value<'ctx>> {
        let nothing: Value<'ctx> = ty.into_vector_type().const_zero().into();
        let types = [ty, self.pointer_type().into()];
        let args = [address.into(), mask, nothing];
        let call = self.masked_call("llvm.masked.load", &types, Some(ty), (0, align), &args)?;
        self.masked_value(call, buffer)
    }

    fn masked_value(&self, call: CallSiteValue<'ctx>, buffer: &Buffer) -> Result<Value<'ctx>> {
        if let Some(access) = call_instruction(call) {
            self.annotate_access(access, &buffer.data)?;
        }
        match call.try_as_basic_value().basic() {
            Some(value) => Ok(value),
            None => fail!(Internal, "a masked load without a value"),
        }
    }

    pub(super) fn masked_effect(&self, call: CallSiteValue<'ctx>, buffer: &Buffer) -> Result<()> {
        match call_instruction(call) {
            Some(access) => self.annotate_access(access, &buffer.data),
            None => Ok(()),
        }
    }

    pub(super) fn reverse(&self, vector: VectorValue<'ctx>) -> Result<Value<'ctx>> {
        let lanes = vector.get_type().get_size();
        let indices: Vec<u32> = (0..lanes).rev().collect();
        self.shuffle(vector, vector, &indices)
    }

    /// Converts a value to its form in a register: a byte that is not 0 is true.
    fn register_form(&self, dtype: DataType, value: Value<'ctx>) -> Result<Value<'ctx>> {
        if !dtype.is_bool() {
            return Ok(value);
        }
        let zero = match value {
            Value::IntValue(value) => value.get_type().const_zero().into(),
            Value::VectorValue(value) => value.get_type().const_zero().into(),
            _ => return Err(confused("truth value", value)),
        };
        self.compare_int(inkwell::IntPredicate::NE, value, zero)
    }

    /// Allocates memory on the stack of the function, once at its start.
    pub(super) fn stack_array(
        &self,
        ty: BasicTypeEnum<'ctx>,
        count: u64,
        align: u32,
        name: &str,
    ) -> Result<PointerValue<'ctx>> {
        let here = self.current_block()?;
        let entry = self.state.entry.ok_or_else(|| confused_state("an allocation outside of a function"))?;
        match entry.get_terminator() {
            Some(end) => self.builder.position_before(&end),
            None => self.builder.position_at_end(entry),
        }
        let count = self.context.i64_type().const_int(count.max(1), false);
        let pointer = self.builder.build_array_alloca(ty, count, name)?;
        if let Some(made) = instruction(pointer.into()) {
            set_alignment(made, align)?;
        }
        self.builder.position_at_end(here);
        self.mark_line();
        Ok(pointer)
    }

    /// Emits an allocation of constant size on the stack.
    pub(super) fn allocate(&mut self, buffer: &Buffer) -> Result<()> {
        let mut elements = 1i64;
        for extent in buffer.shape.iter() {
            let Some(extent) = extent.as_int() else {
                fail!(
                    Lower,
                    "the allocation `{}` has no constant size: LowerBuiltin takes it from the workspace",
                    buffer.name.as_str()
                )
            };
            elements = elements.saturating_mul(extent.max(0));
        }
        let lanes = elements.saturating_mul(i64::from(buffer.dtype.lanes()));
        let ty = self.memory_scalar(buffer.dtype)?;
        let align = if buffer.data_alignment > 0 { buffer.data_alignment } else { crate::ir::DEFAULT_ALIGNMENT };
        let align = u32::try_from(align).unwrap_or(64).max(lane_alignment(buffer));
        let pointer = self.stack_array(ty, lanes.unsigned_abs(), align, buffer.name.as_str())?;
        let region = self.new_region(buffer.name.as_str());
        self.state.regions.set(&buffer.data, Some(region));
        self.state.vars.insert(buffer.data.clone(), pointer.into());
        Ok(())
    }
}

fn confused_state(what: &str) -> crate::CompileError {
    crate::CompileError::new(crate::ErrorKind::Internal, what)
}

/// The alignment of the address of each lane.
pub(super) fn lane_alignment(buffer: &Buffer) -> u32 {
    let bytes = buffer.dtype.lane_bytes().max(1);
    1 << bytes.trailing_zeros().min(6)
}

pub(super) fn set_alignment(access: InstructionValue<'_>, align: u32) -> Result<()> {
    access
        .set_alignment(align)
        .map_err(|error| crate::CompileError::new(crate::ErrorKind::Internal, format!("alignment {align}: {error}")))
}
