//! Loads and stores.

use super::body::{Body, Text};
use super::half;
use super::vocabulary::Vectors;
use crate::codegen::c::vector_memory;
use crate::error::{Result, fail, require};
use crate::ir::{Buffer, DataType, DataTypeExt, Expr, ExprNode};

/// The memory locations of the lanes of an access.
pub(crate) enum Place {
    /// Consecutive, starting at this address.
    Contiguous(String),
    /// At these indices, a vector of this type, relative to an address.
    Scattered(String, String, DataType),
}

impl Body<'_> {
    /// Writes a load.
    pub(crate) fn load(&mut self, buffer: &Buffer, index: &Expr, mask: Option<&Expr>, dtype: DataType) -> Result<Text> {
        self.unit.check(dtype)?;
        let pointer = self.pointer(buffer)?;
        if dtype.lanes() == 1 {
            return self.load_scalar(&pointer, index, mask.filter(|mask| !mask.is_true()), dtype);
        }
        if self.unit.words.vectors == Vectors::Extension {
            let place = self.place(buffer, &pointer, index)?;
            let mask = self.wide_mask(mask, dtype)?;
            let text = vector_memory::load(self.unit, dtype, &place, mask.as_deref())?;
            return Ok(Text { text, depth: 2 });
        }
        let mask = self.mask(mask, dtype)?;
        let place = self.place(buffer, &pointer, index)?;
        if let (Place::Contiguous(address), None, true) = (&place, &mask, self.unit.has_operators(dtype)) {
            return Ok(Text { text: format!("vload{}(0, {address})", dtype.lanes()), depth: 2 });
        }
        let mut lanes = Vec::new();
        for (lane, element) in self.elements(&place, dtype).into_iter().enumerate() {
            let read = half::from_memory(self.unit, dtype.element(), element)?;
            let zero = self.unit.words.scalar(dtype);
            lanes.push(match &mask {
                Some(mask) => format!("({} ? {read} : ({zero})0)", mask[lane]),
                None => read,
            });
        }
        let value = self.unit.vector(dtype, &lanes)?;
        // Its text is long: it is written once.
        Ok(Text::flat(self.bind("v", dtype, &value)?))
    }

    /// Writes a load of a scalar; 0 if the mask is false. The index is evaluated only where the
    /// mask is true.
    fn load_scalar(&mut self, pointer: &str, index: &Expr, mask: Option<&Expr>, dtype: DataType) -> Result<Text> {
        let Some(mask) = mask else {
            let index = self.index(index)?;
            let read = half::from_memory(self.unit, dtype, format!("{pointer}[{index}]"))?;
            return Ok(Text { text: read, depth: 2 });
        };
        let mask = self.value(mask)?;
        let (index, lines) = self.apart_inside(|body| body.index(index))?;
        let read = half::from_memory(self.unit, dtype, format!("{pointer}[{index}]"))?;
        let ty = self.unit.value_type(dtype)?;
        let zero = match self.unit.words.is_host {
            true => if dtype.is_float() { "0.0f" } else { "0" }.to_owned(),
            false => format!("({ty})0"),
        };
        if lines.is_empty() {
            return Ok(Text { text: format!("({mask} ? {read} : {zero})"), depth: 4 });
        }
        let name = self.names.unique("t");
        self.line(format!("{ty} {name} = {zero};"));
        let open = format!("if {} {{", self.condition(&mask));
        self.block_of(&open, lines, &format!("{name} = {read};"));
        self.line("}");
        Ok(Text::flat(name))
    }

    /// Writes a store.
    pub(crate) fn store(&mut self, buffer: &Buffer, index: &Expr, value: &Expr, mask: Option<&Expr>) -> Result<()> {
        let dtype = value.dtype();
        self.unit.check(dtype)?;
        let pointer = self.pointer(buffer)?;
        let lanes = usize::from(index.lanes()) * usize::from(buffer.dtype.lanes());
        require!(
            dtype.element() == buffer.dtype.element() && lanes == usize::from(dtype.lanes()),
            Type,
            "a {} is stored at {lanes} places of buffer `{}` of {}",
            dtype.short_name(),
            buffer.name.as_str(),
            buffer.dtype.short_name()
        );
        if dtype.lanes() == 1 {
            return self.store_scalar(&pointer, index, value, mask.filter(|mask| !mask.is_true()));
        }
        if self.unit.words.vectors == Vectors::Extension {
            let mask = self.wide_mask(mask, dtype)?;
            let place = self.place(buffer, &pointer, index)?;
            let value = self.value(value)?;
            let text = vector_memory::store(self.unit, dtype, &place, &value, mask.as_deref())?;
            self.line(format!("{text};"));
            return Ok(());
        }
        let mask = self.mask(mask, dtype)?;
        let place = self.place(buffer, &pointer, index)?;
        let value = self.value(value)?;
        if let (Place::Contiguous(address), None, true) = (&place, &mask, self.unit.has_operators(dtype)) {
            self.line(format!("vstore{}({value}, 0, {address});", dtype.lanes()));
            return Ok(());
        }
        let value = self.bind("v", dtype, &value)?;
        for (lane, element) in self.elements(&place, dtype).into_iter().enumerate() {
            let guard = mask.as_ref().map(|mask| format!("if {} ", self.condition(&mask[lane]))).unwrap_or_default();
            let written = self.unit.lane(dtype, &value, lane);
            let written = half::to_memory(self.unit, dtype.element(), written)?;
            self.line(format!("{guard}{element} = {written};"));
        }
        Ok(())
    }

    /// Writes a store of a scalar. Index and value are evaluated only where the mask is true.
    fn store_scalar(&mut self, pointer: &str, index: &Expr, value: &Expr, mask: Option<&Expr>) -> Result<()> {
        let mask = mask.map(|mask| self.value(mask)).transpose()?;
        let parts = |body: &mut Self| Ok((body.index(index)?, body.value(value)?));
        let ((place, text), lines) = match &mask {
            Some(_) => self.apart_inside(parts)?,
            None => (parts(self)?, Vec::new()),
        };
        let text = half::to_memory(self.unit, value.dtype(), text)?;
        let store = format!("{pointer}[{place}] = {text};");
        match mask.map(|mask| self.condition(&mask)) {
            None => self.line(store),
            Some(mask) if lines.is_empty() => self.line(format!("if {mask} {store}")),
            Some(mask) => {
                self.block_of(&format!("if {mask} {{"), lines, &store);
                self.line("}");
            }
        }
        Ok(())
    }

    /// The mask of a load or store as a vector, if it has one.
    fn wide_mask(&mut self, mask: Option<&Expr>, dtype: DataType) -> Result<Option<String>> {
        let Some(mask) = checked_mask(mask, dtype)? else { return Ok(None) };
        let mask = mask.broadcast(if mask.lanes() == 1 { dtype.lanes() } else { 1 });
        self.value(&mask).map(Some)
    }

    /// The mask of each lane of a load or store, if it has one.
    fn mask(&mut self, mask: Option<&Expr>, dtype: DataType) -> Result<Option<Vec<String>>> {
        let Some(mask) = checked_mask(mask, dtype)? else { return Ok(None) };
        let text = self.value(mask)?;
        let name = self.bind("m", mask.dtype(), &text)?;
        Ok(Some((0..usize::from(dtype.lanes())).map(|lane| self.unit.lane(mask.dtype(), &name, lane)).collect()))
    }

    /// The memory locations of the lanes of an access.
    fn place(&mut self, buffer: &Buffer, pointer: &str, index: &Expr) -> Result<Place> {
        let own = buffer.dtype.lanes();
        let first = match &**index {
            _ if index.lanes() == 1 => Some(index),
            ExprNode::Ramp { base, stride, .. } if stride.is_int(1) => Some(base),
            _ => None,
        };
        if let Some(first) = first {
            return Ok(Place::Contiguous(self.element_address(pointer, first, own)?));
        }
        if own > 1 {
            fail!(
                Target,
                "{} has no scattered access to buffer `{}`, whose elements are vectors; give it scalar elements",
                self.unit.words.name,
                buffer.name.as_str()
            )
        }
        let mut text = self.index(index)?;
        if self.unit.words.vectors != Vectors::Extension {
            text = self.bind("at", index.dtype(), &text)?;
        }
        Ok(Place::Scattered(pointer.to_owned(), text, index.dtype()))
    }

    /// The address of an element with this number of lanes, without parentheses.
    pub(crate) fn element_address(&mut self, pointer: &str, index: &Expr, lanes: u16) -> Result<String> {
        let index = self.index(index)?;
        let scale = if lanes > 1 { format!(" * {lanes}") } else { String::new() };
        Ok(format!("{pointer} + {index}{scale}"))
    }

    /// The element of each lane of an access.
    fn elements(&self, place: &Place, dtype: DataType) -> Vec<String> {
        let lanes = 0..usize::from(dtype.lanes());
        match place {
            Place::Contiguous(address) => lanes.map(|lane| format!("({address})[{lane}]")).collect(),
            Place::Scattered(pointer, indices, index) => {
                lanes.map(|lane| format!("{pointer}[{}]", self.unit.lane(*index, indices, lane))).collect()
            }
        }
    }
}

/// The mask of a load or store that may be false.
fn checked_mask(mask: Option<&Expr>, dtype: DataType) -> Result<Option<&Expr>> {
    let mask = mask.filter(|mask| !mask.is_true());
    if let Some(lanes) = mask.map(|mask| mask.lanes())
        && lanes != dtype.lanes()
        && lanes != 1
    {
        fail!(Type, "a mask of {lanes} lanes for {}", dtype.short_name());
    }
    Ok(mask)
}
