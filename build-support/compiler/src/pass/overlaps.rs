//! The checks of `MakePackedAPI` that involve several tensors: an output must not overlap other
//! arguments.

use super::make_packed_api::{Entry, Handle, Tensor};
use crate::error::Result;
use crate::ir::builtin::REINTERPRET;
use crate::ir::{Buffer, Expr, ForKind, I64, Stmt, Var};

/// The number of pairs of an output and another argument up to which each pair is compared by its
/// own code, whose error names both.
pub(super) const PAIRS_ONE_BY_ONE: usize = 64;

impl Entry {
    /// Checks that outputs do not overlap other arguments.
    pub(super) fn overlaps(&mut self, tensors: &[Tensor]) {
        for (position, output) in tensors.iter().enumerate().filter(|(_, tensor)| tensor.output) {
            for (other_position, other) in tensors.iter().enumerate() {
                // Two outputs are compared once.
                if position == other_position || other.output && other_position > position {
                    continue;
                }
                let apart = self.apart(output, other);
                let apart = output.size.equals(0).or(other.size.equals(0)).or(apart);
                self.check_overlap(apart, output, &format!("memory apart from {}", other.buffer.name));
            }
        }
    }

    /// The condition that two tensors do not overlap. Handles are different memory, or the same
    /// one.
    fn apart(&self, a: &Tensor, b: &Tensor) -> Expr {
        let ranges = |ours: Expr, theirs: Expr| {
            (&ours + bytes(a)).less_equal(&theirs).or((&theirs + bytes(b)).less_equal(&ours))
        };
        match (&a.offset, &b.offset) {
            (Some(ours), Some(theirs)) if self.has_handles() => {
                let offsets = ranges(ours.expr().clone(), theirs.expr().clone());
                address(&a.buffer).differs(address(&b.buffer)).or(offsets)
            }
            _ => ranges(a.start(), b.start()),
        }
    }

    fn check_overlap(&mut self, apart: Expr, output: &Tensor, expected: &str) {
        let problem = format!("{} overlaps another argument", output.buffer.name);
        self.check(apart, "ValueError", &problem, Some((output.index, expected)));
    }

    /// Checks many tensors, one after the other: code for each pair would take minutes to compile,
    /// and so would values that are live across all checks.
    pub(super) fn many(&mut self, values: Vec<Handle>) -> Result<()> {
        // Outputs come first in the table, so that each is compared with the rest of the table.
        let (outputs, inputs): (Vec<&Handle>, Vec<&Handle>) = values.iter().partition(|value| value.output);
        let outputs: Vec<usize> = outputs.iter().map(|value| value.index).collect();
        let all: Vec<usize> = outputs.iter().copied().chain(inputs.iter().map(|value| value.index)).collect();
        let ranges = Ranges::new(all.len());
        self.stmts.extend([&ranges.starts, &ranges.ends, &ranges.found].map(|table| Stmt::alloc(table.clone())));
        let (mut named, mut later) = (Vec::new(), Vec::new());
        for value in values {
            // Read again, for the same reason.
            let pointer = self.handle(value.buffer.name.as_ref(), value.index);
            let tensor = self.tensor(Handle { pointer, ..value })?;
            // Another argument may determine the sizes in an offset.
            if tensor.buffer.elem_offset.as_int().is_none() {
                later.push(tensor);
                continue;
            }
            self.located(tensor, &all, &ranges, &mut named);
        }
        self.late()?;
        for tensor in later {
            self.located(tensor, &all, &ranges, &mut named);
        }
        self.stmts.extend(ranges.search(outputs.len(), all.len()));
        let before = std::mem::take(&mut self.stmts);
        let which = self.bind("overlapping", Expr::load(&ranges.found, 0));
        for (row, output) in &named {
            self.check_overlap(which.differs(*row), output, "memory apart from all other arguments");
        }
        let errors = std::mem::replace(&mut self.stmts, before);
        self.stmts.push(Stmt::if_then(Expr::load(&ranges.found, 0).greater_equal(0), Stmt::seq(errors), None));
        Ok(())
    }

    /// Binds the data of a tensor, and writes its row of the table; outputs are identified by their
    /// rows.
    fn located(&mut self, tensor: Tensor, all: &[usize], ranges: &Ranges, named: &mut Vec<(usize, Tensor)>) {
        let tensor = self.data(tensor);
        let row = all.iter().position(|index| *index == tensor.index).unwrap_or(0);
        self.stmts.extend(ranges.set(row, &tensor));
        if tensor.output {
            named.push((row, tensor));
        }
    }
}

/// The addresses at which tensors start and end, in a table on the stack of the call.
struct Ranges {
    starts: Buffer,
    ends: Buffer,
    /// The row of an output that overlaps another tensor, or -1.
    found: Buffer,
}

impl Ranges {
    fn new(count: usize) -> Self {
        let table = |name: &str, count: usize| Buffer::new(name, I64, [Expr::int(count as i64)], "local");
        Self { starts: table("starts", count), ends: table("ends", count), found: table("found", 1) }
    }

    /// Writes a row. A tensor without elements is at 0, before all others.
    fn set(&self, row: usize, tensor: &Tensor) -> [Stmt; 2] {
        let is_empty = tensor.size.equals(0);
        let start = Expr::select(is_empty.clone(), 0, tensor.start());
        let end = Expr::select(is_empty, 0, tensor.start() + bytes(tensor));
        [Stmt::store(self.starts.clone(), row as i64, start), Stmt::store(self.ends.clone(), row as i64, end)]
    }

    /// Compares each of the first rows with all rows after it.
    fn search(&self, outputs: usize, all: usize) -> [Stmt; 2] {
        let Self { starts, ends, found } = self;
        let (output, offset) = (Var::new("output", I64), Var::new("offset", I64));
        let other = output.expr() + offset.expr() + 1;
        let meets = Expr::load(starts, output.expr())
            .less(Expr::load(ends, &other))
            .and(Expr::load(starts, &other).less(Expr::load(ends, output.expr())));
        let inner = Stmt::if_then(meets, Stmt::store(found.clone(), 0, output.expr()), None);
        let rest = Expr::int(all as i64 - 1) - output.expr();
        let inner = Stmt::for_loop(offset, 0, rest, ForKind::Serial, inner);
        let outer = Stmt::for_loop(output, 0, outputs as i64, ForKind::Serial, inner);
        [Stmt::store(found.clone(), 0, -1), outer]
    }
}

/// The number of bytes from the first to the last element of a tensor.
fn bytes(tensor: &Tensor) -> Expr {
    tensor.span.expr() * (tensor.buffer.dtype.size() as i64)
}

/// The address of a tensor's data.
pub(super) fn address(buffer: &Buffer) -> Expr {
    Expr::builtin(REINTERPRET, I64, [buffer.data.expr().clone()])
}
