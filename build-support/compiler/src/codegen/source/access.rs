//! Loads and stores.

use super::body::{Body, Text, condition};
use super::half;
use super::vocabulary::is_half;
use crate::error::{Result, fail, require};
use crate::ir::{Buffer, DataType, DataTypeExt, Expr, ExprNode};

/// The memory locations of the lanes of an access.
enum Place {
    /// Consecutive, starting at this address.
    Contiguous(String),
    /// At these indices relative to an address: the indices of the lanes.
    Scattered(String, Vec<String>),
}

impl Place {
    /// The element of a lane.
    fn lane(&self, lane: usize) -> String {
        match self {
            Self::Contiguous(address) => format!("({address})[{lane}]"),
            Self::Scattered(pointer, indices) => format!("{pointer}[{}]", indices[lane]),
        }
    }
}

impl Body<'_> {
    /// Writes a load.
    pub(super) fn load(&mut self, buffer: &Buffer, index: &Expr, mask: Option<&Expr>, dtype: DataType) -> Result<Text> {
        self.unit.check(dtype)?;
        let pointer = self.pointer(buffer)?;
        if dtype.lanes() == 1 {
            let Some(mask) = mask.filter(|mask| !mask.is_true()) else {
                let index = self.index(index)?;
                let read = half::from_memory(self.unit, dtype, format!("{pointer}[{index}]"))?;
                return Ok(Text { text: read, depth: 2 });
            };
            let mask = self.value(mask)?;
            self.indent += 1;
            let index = self.apart(|body| body.index(index));
            self.indent -= 1;
            let (index, lines) = index?;
            let read = half::from_memory(self.unit, dtype, format!("{pointer}[{index}]"))?;
            let ty = self.unit.value_type(dtype)?;
            if lines.is_empty() {
                return Ok(Text { text: format!("({mask} ? {read} : ({ty})0)"), depth: 4 });
            }
            let name = self.names.unique("t");
            self.line(format!("{ty} {name} = ({ty})0;"));
            self.line(format!("if {} {{", condition(&mask)));
            self.lines.extend(lines);
            self.line(format!("  {name} = {read};"));
            self.line("}");
            return Ok(Text::flat(name));
        }
        let mask = self.mask(mask, dtype)?;
        let place = self.place(buffer, &pointer, index)?;
        if let (Place::Contiguous(address), None, true) = (&place, &mask, self.is_whole(dtype)) {
            return Ok(Text { text: format!("vload{}(0, {address})", dtype.lanes()), depth: 2 });
        }
        let mut lanes = Vec::new();
        for lane in 0..usize::from(dtype.lanes()) {
            let read = half::from_memory(self.unit, dtype.element(), place.lane(lane))?;
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

    /// Writes a store.
    pub(super) fn store(&mut self, buffer: &Buffer, index: &Expr, value: &Expr, mask: Option<&Expr>) -> Result<()> {
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
            let mask = mask.filter(|mask| !mask.is_true()).map(|mask| self.value(mask)).transpose()?;
            self.indent += usize::from(mask.is_some());
            let written = self.apart(|body| Ok((body.index(index)?, body.value(value)?)));
            self.indent -= usize::from(mask.is_some());
            let ((place, value), lines) = written?;
            let value = half::to_memory(self.unit, dtype, value)?;
            let store = format!("{pointer}[{place}] = {value};");
            match mask {
                Some(mask) if lines.is_empty() => self.line(format!("if {} {store}", condition(&mask))),
                Some(mask) => {
                    self.line(format!("if {} {{", condition(&mask)));
                    self.lines.extend(lines);
                    self.line(format!("  {store}"));
                    self.line("}");
                }
                None => {
                    self.lines.extend(lines);
                    self.line(store);
                }
            }
            return Ok(());
        }
        let mask = self.mask(mask, dtype)?;
        let place = self.place(buffer, &pointer, index)?;
        let value = self.value(value)?;
        if let (Place::Contiguous(address), None, true) = (&place, &mask, self.is_whole(dtype)) {
            self.line(format!("vstore{}({value}, 0, {address});", dtype.lanes()));
            return Ok(());
        }
        let value = self.bind("v", dtype, &value)?;
        for lane in 0..usize::from(dtype.lanes()) {
            let guard = mask.as_ref().map(|mask| format!("if {} ", condition(&mask[lane]))).unwrap_or_default();
            let written = self.unit.lane(dtype, &value, lane);
            let written = half::to_memory(self.unit, dtype.element(), written)?;
            self.line(format!("{guard}{} = {written};", place.lane(lane)));
        }
        Ok(())
    }

    /// Returns true if the language accesses the memory as one vector.
    fn is_whole(&self, dtype: DataType) -> bool {
        self.unit.words.has_vectors && !is_half(dtype) && !dtype.is_bool()
    }

    /// The mask of each lane of a load or store, if it has one.
    fn mask(&mut self, mask: Option<&Expr>, dtype: DataType) -> Result<Option<Vec<String>>> {
        let Some(mask) = mask.filter(|mask| !mask.is_true()) else { return Ok(None) };
        let lanes = mask.lanes();
        if lanes != dtype.lanes() && lanes != 1 {
            fail!(Type, "a mask of {lanes} lanes for {}", dtype.short_name());
        }
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
            let first = self.index(first)?;
            let scale = if own > 1 { format!(" * {own}") } else { String::new() };
            return Ok(Place::Contiguous(format!("{pointer} + {first}{scale}")));
        }
        if own > 1 {
            fail!(
                Target,
                "{} has no scattered access to buffer `{}`, whose elements are vectors; give it scalar elements",
                self.unit.words.name,
                buffer.name.as_str()
            )
        }
        let text = self.index(index)?;
        let name = self.bind("at", index.dtype(), &text)?;
        let indices = (0..usize::from(index.lanes())).map(|lane| self.unit.lane(index.dtype(), &name, lane)).collect();
        Ok(Place::Scattered(pointer.to_owned(), indices))
    }
}
