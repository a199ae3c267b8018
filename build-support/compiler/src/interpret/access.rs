//! Loads, stores, allocations, aliases.

use super::code::{Allocation, Place, Reg, Value};
use super::frame::Frame;
use super::grid::Thread;
use super::memory::Fault;
use super::packed::compact;
use super::run::Run;
use super::value::{element_bytes, lanes, of_lanes};
use crate::error::Result;
use crate::ir::DataTypeExt;

impl Run<'_> {
    /// The address of an element, inside of an alias if the buffer is one.
    pub(super) fn element(&self, frame: &Frame, place: &Place, index: i64) -> Result<u64, Fault> {
        let data = frame.bits(place.data)?;
        let address = data.wrapping_add(index.wrapping_mul(element_bytes(place.dtype)) as u64);
        let out = |range: &str| format!("out of bounds: `{}`[{index}] {range}", place.name);
        if let Some(view) = place.view {
            let [start, end] = lanes(frame.get(view)?) else { unreachable!("a view has two ends") };
            if address < *start || address >= *end {
                let size = element_bytes(place.dtype) as u64;
                let first = start.wrapping_sub(data) as i64 / size as i64;
                let last = end.wrapping_sub(data) as i64 / size as i64;
                return Err(out(&format!("is not in {first}..{last}")));
            }
        } else if let Some((_, offset)) = self.memory.describe(data) {
            let size = self.memory.size_at(data).unwrap_or(0) as i64;
            let (bytes, at) = (
                element_bytes(place.dtype),
                i128::from(offset) + i128::from(index) * i128::from(element_bytes(place.dtype)),
            );
            // Freed memory has no size; the later error is better.
            if size > 0 && !(0..=i128::from(size - bytes)).contains(&at) {
                return Err(out(&format!("is not in {}..{}", -offset / bytes, (size - offset) / bytes)));
            }
        }
        Ok(address)
    }

    /// The data pointer, if the buffer is not an alias or the element is inside of the alias.
    pub(super) fn quick_data(frame: &Frame, place: &Place, index: i64) -> Option<u64> {
        let Value::One(data) = &frame.registers[place.data] else { return None };
        if let Some(view) = place.view {
            let Value::Many(ends) = &frame.registers[view] else { return None };
            let address = data.wrapping_add(index.wrapping_mul(place.plain as i64) as u64);
            if address < ends[0] || address >= ends[1] {
                return None;
            }
        }
        Some(*data)
    }

    /// Loads a plain element: the fast path, or on any problem the slow path, which reports it.
    pub(super) fn load_one(&mut self, frame: &Frame, place: &Place, index: i64, stmt: u32) -> Result<u64, Fault> {
        if let Some(data) = Self::quick_data(frame, place, index)
            && let Some(bits) = self.memory.quick_read(data, index, place.plain, stmt)
        {
            return Ok(bits);
        }
        let address = self.element(frame, place, index)?;
        self.memory.read(address, place.dtype, stmt)
    }

    pub(super) fn store_one(
        &mut self,
        frame: &Frame,
        place: &Place,
        index: i64,
        bits: u64,
        stmt: u32,
    ) -> Result<(), Fault> {
        if let Some(data) = Self::quick_data(frame, place, index)
            && self.memory.quick_write(data, index, place.plain, bits, stmt).is_some()
        {
            return Ok(());
        }
        let address = self.element(frame, place, index)?;
        self.memory.write(address, place.dtype, bits, stmt)
    }

    pub(super) fn load(
        &mut self,
        frame: &Frame,
        place: &Place,
        index: Reg,
        mask: Option<Reg>,
        stmt: u32,
    ) -> Result<Value, Fault> {
        if let (Value::One(index), None) = (&frame.registers[index], mask)
            && place.plain > 0
        {
            return Ok(Value::One(self.load_one(frame, place, *index as i64, stmt)?));
        }
        let element = place.dtype.element();
        let size = element.lane_bytes() as u64;
        let indices = lanes(frame.get(index)?);
        let mask = mask.map(|mask| frame.get(mask)).transpose()?.map(lanes);
        let width = usize::from(place.dtype.lanes());
        let mut values = Vec::with_capacity(indices.len() * width);
        for (position, index) in indices.iter().enumerate() {
            for lane in 0..width {
                if is_masked(mask, indices.len(), position, lane, width)? {
                    values.push(0);
                    continue;
                }
                if place.plain > 0 {
                    values.push(self.load_one(frame, place, *index as i64, stmt)?);
                    continue;
                }
                let address = self.element(frame, place, *index as i64)? + lane as u64 * size;
                values.push(self.memory.read(address, element, stmt)?);
            }
        }
        Ok(of_lanes(values))
    }

    pub(super) fn store(
        &mut self,
        frame: &Frame,
        place: &Place,
        index: Reg,
        value: Reg,
        mask: Option<Reg>,
        stmt: u32,
    ) -> Result<(), Fault> {
        if let (Value::One(index), Value::One(value), None) = (&frame.registers[index], &frame.registers[value], mask)
            && place.plain > 0
        {
            return self.store_one(frame, place, *index as i64, *value, stmt);
        }
        let element = place.dtype.element();
        let size = element.lane_bytes() as u64;
        let indices = lanes(frame.get(index)?);
        let values = lanes(frame.get(value)?);
        let mask = mask.map(|mask| frame.get(mask)).transpose()?.map(lanes);
        let width = usize::from(place.dtype.lanes());
        if values.len() != indices.len() * width {
            return Err(format!("{} lanes are stored at {} places", values.len(), indices.len()));
        }
        for (position, index) in indices.iter().enumerate() {
            for lane in 0..width {
                if is_masked(mask, indices.len(), position, lane, width)? {
                    continue;
                }
                let value = values[position * width + lane];
                if place.plain > 0 {
                    self.store_one(frame, place, *index as i64, value, stmt)?;
                    continue;
                }
                let address = self.element(frame, place, *index as i64)? + lane as u64 * size;
                self.memory.write(address, element, value, stmt)?;
            }
        }
        Ok(())
    }

    pub(super) fn alloc(
        &mut self,
        frame: &mut Frame,
        allocation: &Allocation,
        thread: Option<&Thread>,
        stmt: u32,
    ) -> Result<u64, Fault> {
        let mut bytes = element_bytes(allocation.dtype);
        for extent in &allocation.shape {
            let extent = frame.bits(*extent)? as i64;
            if extent < 0 {
                return Err(format!("`{}` has a negative extent of {extent}", allocation.name));
            }
            bytes = bytes
                .checked_mul(extent)
                .filter(|bytes| *bytes < 1 << 32)
                .ok_or_else(|| format!("`{}` is larger than the 4 GiB that the interpreter gives", allocation.name))?;
        }
        if allocation.alignment > 0 && !(allocation.alignment as u64).is_power_of_two() {
            return Err(format!("an alignment of {} is not a power of two", allocation.alignment));
        }
        if let (Some(group), Some(thread), Some(block)) = (allocation.shared, thread, &mut self.block) {
            // A thread of the group gets the same memory each time.
            let key = thread.allocation_key(stmt, group);
            if let Some(address) = block.shared.get(&key) {
                return Ok(*address);
            }
            let address = self.memory.allocate(&allocation.name, bytes as usize, false)?;
            block.shared.insert(key, address);
            return Ok(address);
        }
        let address = self.memory.allocate(&allocation.name, bytes as usize, thread.is_some())?;
        frame.allocated.push(address);
        Ok(address)
    }

    /// Computes the first address and the end of an alias.
    pub(super) fn view(
        &mut self,
        frame: &Frame,
        place: &Place,
        shape: &[Reg],
        strides: &[Reg],
        offset: Reg,
        alignment: i64,
    ) -> Result<Value, Fault> {
        let data = frame.bits(place.data)?;
        if alignment > 0 && !data.is_multiple_of(alignment as u64) {
            return Err(format!("`{}` is not at a multiple of {alignment}, which it promises", place.name));
        }
        let read = |reg: &Reg| frame.bits(*reg).map(|bits| bits as i64);
        let shape = shape.iter().map(read).collect::<Result<Vec<_>, _>>()?;
        let strides = if strides.is_empty() {
            compact(&shape)
        } else {
            strides.iter().map(read).collect::<Result<Vec<_>, _>>()?
        };
        let offset = read(&offset)?;
        let (mut low, mut high) = (offset, offset);
        for (extent, stride) in shape.iter().zip(&strides) {
            let last = (extent - 1) * stride;
            if last < 0 { low += last } else { high += last }
        }
        if shape.iter().any(|extent| *extent <= 0) {
            return Ok(Value::Many([data, data].into()));
        }
        let size = element_bytes(place.dtype);
        let address = |index: i64| data.wrapping_add((index * size) as u64);
        Ok(Value::Many([address(low), address(high + 1)].into()))
    }
}

/// Returns true if a mask excludes a lane; the mask has a lane for each location, or for each lane
/// of the value.
fn is_masked(mask: Option<&[u64]>, places: usize, position: usize, lane: usize, width: usize) -> Result<bool, Fault> {
    let Some(mask) = mask else { return Ok(false) };
    match mask.len() {
        count if count == places => Ok(mask[position] == 0),
        count if count == places * width => Ok(mask[position * width + lane] == 0),
        count => Err(format!("a mask of {count} lanes for {places} places")),
    }
}
