//! Functions with hundreds of checks, such as the entry of a model with 200 arguments. For fast
//! compilation, a failed check branches to one shared block, which looks up its error in a table.

use std::collections::HashMap;

use inkwell::basic_block::BasicBlock;
use inkwell::module::Linkage;
use inkwell::values::{BasicValue, IntValue, PointerValue, UnnamedAddress};
use inkwell::{AddressSpace, IntPredicate};

use super::CodeGenLLVM;
use super::runtime::Runtime;
use crate::error::Result;

/// The number of parts of a message; the last ones may be missing.
const PARTS: usize = 8;

/// The offsets of an error's texts: its kind, and the parts of its message.
type Row = [u32; 1 + PARTS];

/// The marker of a missing part.
const MISSING: u32 = u32::MAX;

/// The checks of such a function.
pub(super) struct ManyChecks<'ctx> {
    /// The row of the next check.
    row: PointerValue<'ctx>,
    /// The block that raises the error of this row.
    raise: BasicBlock<'ctx>,
    errors: Errors,
}

/// The table of errors.
#[derive(Default)]
struct Errors {
    rows: Vec<Row>,
    /// All texts, each with a terminating NUL.
    texts: Vec<u8>,
    known: HashMap<String, u32>,
    /// The texts of the last row, by column: the signature, which may be long, is in every row.
    last: [(String, u32); 1 + PARTS],
}

impl Errors {
    /// Adds the texts of an error. Parts beyond the last column are joined with the last one.
    fn add(&mut self, kind: &str, parts: &[String]) -> usize {
        let mut row = [MISSING; 1 + PARTS];
        row[0] = self.text(kind, 0);
        let parts: Vec<&str> = parts.iter().map(String::as_str).filter(|part| !part.is_empty()).collect();
        let (own, joined) = parts.split_at(parts.len().min(if parts.len() > PARTS { PARTS - 1 } else { PARTS }));
        for (at, part) in own.iter().enumerate() {
            row[1 + at] = self.text(part, 1 + at);
        }
        if !joined.is_empty() {
            row[PARTS] = self.text(&joined.concat(), PARTS);
        }
        self.rows.push(row);
        self.rows.len() - 1
    }

    fn text(&mut self, text: &str, column: usize) -> u32 {
        let (last, start) = &self.last[column];
        if last == text && !text.is_empty() {
            return *start;
        }
        let start = self.known.get(text).copied().unwrap_or_else(|| {
            let start = self.texts.len() as u32;
            // In C, a text ends at its first NUL byte.
            self.texts.extend(text.bytes().take_while(|byte| *byte != 0).chain([0]));
            self.known.insert(text.to_owned(), start);
            start
        });
        self.last[column] = (text.to_owned(), start);
        start
    }
}

impl<'ctx> CodeGenLLVM<'ctx, '_> {
    /// Prepares the current function, which has just been started, for fast compilation.
    pub(super) fn begin_many_checks(&mut self) -> Result<()> {
        let row = self.stack_array(self.context.i32_type().into(), 1, 4, "check")?;
        let raise = self.new_block("check_fails");
        self.state.many_checks = Some(ManyChecks { row, raise, errors: Errors::default() });
        Ok(())
    }

    /// Continues if a condition holds, otherwise raises the error through the table. Returns
    /// `false` if this function has no table, or if workspaces have to be freed.
    pub(super) fn assert_by_table(&mut self, condition: IntValue<'ctx>, kind: &str, parts: &[String]) -> Result<bool> {
        if !self.state.cleanups.is_empty() {
            return Ok(false);
        }
        let Some(checks) = &mut self.state.many_checks else { return Ok(false) };
        let (number, row, raise) = (checks.errors.add(kind, parts), checks.row, checks.raise);
        self.builder.build_store(row, self.context.i32_type().const_int(number as u64, false))?;
        let next = self.new_block("assert_holds");
        self.branch_if(condition, next, raise, true)?;
        self.builder.position_at_end(next);
        Ok(true)
    }

    /// Emits the block that raises, and its table.
    pub(super) fn end_many_checks(&mut self, failure: BasicBlock<'ctx>) -> Result<()> {
        let Some(checks) = self.state.many_checks.take() else { return Ok(()) };
        let here = self.current_block()?;
        self.builder.position_at_end(checks.raise);
        let (number, byte, pointer) = (self.context.i32_type(), self.context.i8_type(), self.pointer_type());
        let texts = self.table(&self.context.const_string(&checks.errors.texts, false), "check_texts");
        let columns: Vec<_> =
            checks.errors.rows.iter().flatten().map(|start| number.const_int(u64::from(*start), false)).collect();
        let rows = self.table(&number.const_array(&columns), "check_errors");
        let row = self.builder.build_load(number, checks.row, "check")?.into_int_value();
        let first = self.builder.build_int_mul(row, number.const_int(1 + PARTS as u64, false), "")?;
        let parts = self.stack_array(pointer.into(), PARTS as u64, 8, "parts")?;
        let mut kind = pointer.const_null();
        for column in 0..=PARTS {
            let index = self.builder.build_int_add(first, number.const_int(column as u64, false), "")?;
            // SAFETY: the table has as many columns, and a row for each number that was written.
            let place = unsafe { self.builder.build_in_bounds_gep(number, rows, &[index], "")? };
            let start = self.builder.build_load(number, place, "")?.into_int_value();
            // SAFETY: the start of a text. For a missing part, the address is out of bounds, but it
            // is not selected.
            let text = unsafe { self.builder.build_in_bounds_gep(byte, texts, &[start], "")? };
            if column == 0 {
                kind = text;
                continue;
            }
            let missing = number.const_int(u64::from(MISSING), false);
            let is_missing = self.builder.build_int_compare(IntPredicate::EQ, start, missing, "")?;
            let text = self.builder.build_select(is_missing, pointer.const_null(), text, "")?;
            let index = number.const_int(column as u64 - 1, false);
            // SAFETY: the array has a place for each part.
            let place = unsafe { self.builder.build_in_bounds_gep(pointer, parts, &[index], "")? };
            self.builder.build_store(place, text)?;
        }
        let count = number.const_int(PARTS as u64, false);
        self.call_runtime(Runtime::RaiseParts, &[kind.into(), parts.into(), count.into()])?;
        self.builder.build_unconditional_branch(failure)?;
        self.builder.position_at_end(here);
        Ok(())
    }

    /// Adds a constant to the module.
    fn table(&self, value: &dyn BasicValue<'ctx>, name: &str) -> PointerValue<'ctx> {
        let value = value.as_basic_value_enum();
        let global = self.module.add_global(value.get_type(), Some(AddressSpace::default()), name);
        global.set_initializer(&value);
        global.set_constant(true);
        global.set_linkage(Linkage::Private);
        global.set_unnamed_address(UnnamedAddress::Global);
        global.as_pointer_value()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_row_has_all_of_a_message() {
        let mut errors = Errors::default();
        let mut expected = Vec::new();
        for count in 0..=2 * PARTS {
            for kind in ["TypeError", "ValueError"] {
                let parts: Vec<String> =
                    (0..count).map(|at| ["", "one", "a\0b", "two"][(at + count) % 4].to_owned()).collect();
                assert_eq!(errors.add(kind, &parts), expected.len());
                // C does not see text after a NUL; joined texts end at the first one.
                let parts: Vec<&str> = parts.iter().map(String::as_str).filter(|part| !part.is_empty()).collect();
                let own = if parts.len() > PARTS { PARTS - 1 } else { parts.len() };
                let until_nul = |text: &str| text.split('\0').next().unwrap_or_default().to_owned();
                let mut message: String = parts[..own].iter().map(|part| until_nul(part)).collect();
                message += &until_nul(&parts[own..].concat());
                expected.push((kind.to_owned(), message));
            }
        }
        let text = |start: u32| {
            let bytes = errors.texts[start as usize..].iter().copied().take_while(|byte| *byte != 0);
            String::from_utf8(bytes.collect()).unwrap()
        };
        for (row, (kind, message)) in errors.rows.iter().zip(&expected) {
            assert_eq!(&text(row[0]), kind);
            let found: String = row[1..].iter().filter(|start| **start != MISSING).map(|start| text(*start)).collect();
            assert_eq!(&found, message);
        }
    }
}
