//! Stores.

use inkwell::values::PointerValue;
use kernpack::DataType;

use super::CodeGenLLVM;
use super::emit::Value;
use super::memory::{Place, is_in_registers, lane_alignment, place, set_alignment};
use crate::error::{Result, fail};
use crate::ir::{Buffer, DataTypeExt, Expr};

impl<'ctx> CodeGenLLVM<'ctx, '_> {
    /// Emits a store of the lanes for which the mask is true.
    pub(super) fn store(&mut self, buffer: &Buffer, index: &Expr, value: &Expr, mask: Option<&Expr>) -> Result<()> {
        let dtype = value.dtype();
        let lanes = index.lanes();
        if dtype.element() != buffer.dtype.element() || dtype.lanes() != lanes.saturating_mul(buffer.dtype.lanes()) {
            fail!(
                Lower,
                "a store of {} to {lanes} places of `{}`, whose elements are {}",
                dtype.short_name(),
                buffer.name.as_str(),
                buffer.dtype.short_name()
            );
        }
        if lanes == 1
            && let Some(mask) = mask
        {
            let (condition, is_likely) = self.condition(mask)?;
            let (storing, after) = (self.new_block("store"), self.new_block("stored"));
            self.branch_if(condition, storing, after, is_likely)?;
            self.builder.position_at_end(storing);
            self.store(buffer, index, value, None)?;
            self.jump(after)?;
            self.builder.position_at_end(after);
            return Ok(());
        }
        let value = self.data_value(value)?;
        let value = self.to_memory(dtype, value)?;
        if buffer.dtype.lanes() > 1 && lanes > 1 {
            return self.store_by_lane(buffer, index, value, mask);
        }
        match (place(index), mask) {
            (Place::Contiguous(base), None) => {
                let address = self.element_address(buffer, &base)?;
                self.plain_store(buffer, address, value, self.alignment(buffer, &base))
            }
            (Place::Contiguous(base), Some(mask)) => {
                let address = self.element_address(buffer, &base)?;
                let mask = self.value(mask)?;
                let align = self.alignment(buffer, &base);
                if is_in_registers(buffer, &base, lanes) {
                    let before = self.plain_load(buffer, value.get_type(), address, align)?;
                    let value = self.select(mask, value, before)?;
                    return self.plain_store(buffer, address, value, align);
                }
                self.masked_store(buffer, address, value, mask, align)
            }
            (Place::Reversed(base), mask) => {
                let address = self.element_address(buffer, &(base - i64::from(lanes - 1)))?;
                let value = self.reverse(value.into_vector_value())?;
                match mask {
                    None => self.plain_store(buffer, address, value, lane_alignment(buffer)),
                    Some(mask) => {
                        let mask = self.value(mask)?;
                        let mask = self.reverse(mask.into_vector_value())?;
                        self.masked_store(buffer, address, value, mask, lane_alignment(buffer))
                    }
                }
            }
            (_, None) => self.scatter_lanes(buffer, index, value),
            (_, Some(mask)) => {
                let base = self.data_pointer(buffer)?;
                let scalar = self.memory_scalar(dtype)?;
                let places = self.index_value(index)?;
                let addresses = self.addresses(base, scalar, places)?;
                let mask = self.value(mask)?;
                let types = [value.get_type(), addresses.get_type()];
                let align = lane_alignment(buffer);
                let args = [value, addresses, mask];
                let call = self.masked_call("llvm.masked.scatter", &types, None, (1, align), &args)?;
                self.masked_effect(call, buffer)
            }
        }
    }

    /// Stores lanes in order: for equal locations, the last lane remains.
    pub(super) fn scatter_lanes(&mut self, buffer: &Buffer, index: &Expr, value: Value<'ctx>) -> Result<()> {
        let base = self.data_pointer(buffer)?;
        let places = self.index_value(index)?;
        for lane in 0..index.lanes() {
            let place = self.lane(places, lane)?;
            let address = self.offset(base, buffer.dtype, place)?;
            let lane = self.lane(value, lane)?;
            self.plain_store(buffer, address, lane, lane_alignment(buffer))?;
        }
        Ok(())
    }

    pub(super) fn store_by_lane(
        &mut self,
        buffer: &Buffer,
        index: &Expr,
        value: Value<'ctx>,
        mask: Option<&Expr>,
    ) -> Result<()> {
        if mask.is_some() {
            fail!(Target, "a masked store to `{}`, whose elements are vectors", buffer.name.as_str());
        }
        let base = self.data_pointer(buffer)?;
        let places = self.index_value(index)?;
        let inner = buffer.dtype.lanes();
        for lane in 0..index.lanes() {
            let place = self.lane(places, lane)?;
            let address = self.offset(base, buffer.dtype, place)?;
            let mut parts = Vec::new();
            for part in 0..inner {
                parts.push(self.lane(value, lane * inner + part)?);
            }
            let element = self.vector_of(&parts)?;
            self.plain_store(buffer, address, element, lane_alignment(buffer))?;
        }
        Ok(())
    }

    pub(super) fn plain_store(
        &self,
        buffer: &Buffer,
        address: PointerValue<'ctx>,
        value: Value<'ctx>,
        align: u32,
    ) -> Result<()> {
        let access = self.builder.build_store(address, value)?;
        set_alignment(access, align)?;
        self.annotate_access(access, &buffer.data)
    }

    pub(super) fn masked_store(
        &mut self,
        buffer: &Buffer,
        address: PointerValue<'ctx>,
        value: Value<'ctx>,
        mask: Value<'ctx>,
        align: u32,
    ) -> Result<()> {
        let types = [value.get_type(), self.pointer_type().into()];
        let args = [value, address.into(), mask];
        let call = self.masked_call("llvm.masked.store", &types, None, (1, align), &args)?;
        self.masked_effect(call, buffer)
    }

    /// Converts a value to its representation in memory.
    pub(super) fn to_memory(&self, dtype: DataType, value: Value<'ctx>) -> Result<Value<'ctx>> {
        if !dtype.is_bool() {
            return Ok(value);
        }
        let bytes = self.vector_type(self.context.i8_type().into(), dtype.lanes())?;
        self.convert(inkwell::values::InstructionOpcode::ZExt, value, bytes)
    }
}
