//! `StorageFlatten`: replaces tensors by memory.
//!
//! Before: reads and writes of tensors, regions of memory for them, buffers of extern operations
//! bound to tensors. After: loads and stores with one index, allocations, aliases; no tensors.

use std::collections::HashMap;

use kernpack::{Any, Array, Map, Str};

use super::PassContext;
use crate::arith::Analyzer;
use crate::error::{CompileError, ErrorKind, Result};
use crate::ir::mutate::{Mutate, mutate_expr_parts, mutate_part, mutate_stmt_parts};
use crate::ir::refresh::fresh_copy;
use crate::ir::shared::Memo;
use crate::ir::{
    Buffer, DataTypeExt, Expr, ExprNode, ForKind, I32, POINTER, Range, Stmt, StmtNode, Tensor, Var, VarMap, builtin,
};
use crate::schedule::{bound_buffer, bound_region};

/// The size of a cache line that a prefetch loads, in bytes.
const LINE: i64 = 64;

/// Replaces tensors by memory: those of `args` by the caller's buffers, the others by allocations
/// in place of their regions.
///
/// # Errors
/// Returns an error for a tensor that is used outside of its memory's scope, or a buffer of an
/// extern operation that does not match the memory of its tensor.
pub fn storage_flatten(stmt: &Stmt, args: &[(Tensor, Buffer)], context: &PassContext) -> Result<Stmt> {
    let memory = args.iter().map(|(tensor, buffer)| {
        let mins = vec![Expr::int(0); tensor.shape.len()];
        (tensor.key(), Memory { buffer: buffer.clone(), mins, strides: buffer.full_strides() })
    });
    let alignment = context.options.data_alignment;
    StorageFlatten { memory: memory.collect(), alignment, analyzer: Analyzer::new(), memo: Memo::default() }
        .mutate_stmt(stmt)
}

/// The location of the elements of a tensor.
#[derive(Clone)]
struct Memory {
    buffer: Buffer,
    /// The index of the first element that exists, for each dimension.
    mins: Vec<Expr>,
    /// The stride of each dimension, in elements.
    strides: Vec<Expr>,
}

impl Memory {
    fn index(&self, indices: &Array<Expr>) -> Expr {
        let mut index = self.buffer.elem_offset.clone();
        for ((position, min), stride) in indices.iter().zip(&self.mins).zip(&self.strides) {
            index = index + (position - min) * stride;
        }
        index
    }
}

struct StorageFlatten {
    memory: HashMap<(usize, i64), Memory>,
    alignment: i64,
    analyzer: Analyzer,
    /// The rewritten shared parts of the statement.
    memo: Memo,
}

impl StorageFlatten {
    fn memory_of(&self, tensor: &Tensor) -> Result<&Memory> {
        self.memory.get(&tensor.key()).ok_or_else(|| {
            CompileError::new(ErrorKind::Lower, format!("tensor `{}` has no memory here", tensor.name()))
                .at(tensor.op.span())
                .note("inputs and outputs are among the arguments of the function")
        })
    }

    fn realize(&mut self, tensor: &Tensor, region: &Array<Range>, scope: &Str, annotations: &Map<Str, Any>) -> Stmt {
        let extents: Vec<Expr> = region.iter().map(|range| range.extent.clone()).collect();
        let aligned: Option<Array<i64>> = annotations.get(STORAGE_ALIGN).and_then(|value| value.to().ok());
        let (shape, strides) = match aligned {
            None => (extents.clone(), None),
            Some(aligned) => {
                let strides = aligned_strides(&extents, &aligned.to_vec());
                let count = match (extents.first(), strides.first()) {
                    (Some(extent), Some(stride)) => extent * stride,
                    _ => Expr::int(1),
                };
                // The gaps are a part of the memory.
                (vec![self.analyzer.simplify(&count)], Some(strides))
            }
        };
        let mut node = Buffer::new(&tensor.name(), tensor.dtype, shape, scope.as_str()).to_node();
        node.data_alignment = self.alignment;
        let buffer = Buffer::from_node(node);
        let strides = strides.unwrap_or_else(|| buffer.full_strides());
        let mins = region.iter().map(|range| range.min.clone()).collect();
        self.memory.insert(tensor.key(), Memory { buffer: buffer.clone(), mins, strides });
        let kept = annotations.iter().filter(|(key, _)| key.as_str() != STORAGE_ALIGN).collect();
        Stmt::from_node(StmtNode::Alloc { buffer, annotations: kept })
    }

    /// Makes a buffer a view of the memory of a tensor, or of a part of it.
    fn bind_buffer(&self, buffer: &Buffer, tensor: &Tensor, region: Option<&[Range]>) -> Result<Vec<Stmt>> {
        let memory = self.memory_of(tensor)?;
        let whole: Vec<Range> = tensor.shape.iter().map(Range::until).collect();
        let region = region.unwrap_or(&whole);
        // Dimensions before those of the buffer have one element.
        let extra = region.len().saturating_sub(buffer.shape.len());
        let mut stmts = Vec::new();
        let mut same = |what: String, wanted: &Expr, found: &Expr| -> Result<()> {
            match Var::of(wanted) {
                Some(var) if *var != *found => stmts.push(Stmt::bind(var, found)),
                Some(_) => {}
                None if self.analyzer.can_prove_equal(wanted, found) => {}
                None if wanted.as_int().is_some() && found.as_int().is_some() => {
                    return Err(CompileError::new(
                        ErrorKind::Lower,
                        format!(
                            "{what} of buffer `{}` is {wanted}, but that of tensor `{}` is {found}",
                            buffer.name,
                            tensor.name()
                        ),
                    )
                    .at(tensor.op.span())
                    .note("give the buffer a variable there, which takes what is found"));
                }
                None => {
                    let message = format!("{what} of tensor {} is not that of buffer {}", tensor.name(), buffer.name);
                    stmts.push(Stmt::assert(wanted.equals(found), "ValueError", [message.as_str().into()]));
                }
            }
            Ok(())
        };
        for (dimension, (wanted, range)) in buffer.shape.iter().zip(&region[extra..]).enumerate() {
            same(format!("extent {dimension}"), &wanted, &range.extent)?;
        }
        let wanted = buffer.full_strides();
        for (dimension, (wanted, found)) in wanted.iter().zip(memory.strides.iter().skip(extra)).enumerate() {
            // The stride of a dimension with one element is unused.
            if !region[extra + dimension].extent.is_int(1) || Var::of(wanted).is_some() {
                same(format!("stride {dimension}"), wanted, found)?;
            }
        }
        let first: Array<Expr> = region.iter().map(|range| range.min.clone()).collect();
        let offset = self.analyzer.simplify(&memory.index(&first));
        let data = memory.buffer.data.expr().clone();
        let data = if Var::of(&buffer.elem_offset).is_some() {
            if buffer.offset_factor > 1 {
                same("remainder of the offset".to_owned(), &Expr::int(0), &offset.floor_mod(buffer.offset_factor))?;
            }
            same("offset".to_owned(), &buffer.elem_offset, &offset)?;
            data
        } else {
            match &offset - &buffer.elem_offset {
                offset if offset.is_int(0) => data,
                offset => {
                    let bytes = offset * (memory.buffer.dtype.lane_bytes() as i64);
                    Expr::builtin(builtin::HANDLE_ADD_BYTE_OFFSET, POINTER, [data, bytes])
                }
            }
        };
        stmts.push(Stmt::from_node(StmtNode::Alias { buffer: buffer.clone(), data }));
        Ok(stmts)
    }

    /// Generates a prefetch for each cache line of a region. After the end of a row comes the next
    /// one; indices outside of the tensor are clamped to its first or last element.
    fn prefetch(&self, tensor: &Tensor, region: &Array<Range>) -> Result<Stmt> {
        let memory = self.memory_of(tensor)?;
        let step = (LINE / tensor.dtype.lane_bytes().max(1) as i64).max(1);
        let last = region.len().saturating_sub(1);
        let (mut indices, mut ends, mut loops) = (Vec::<Expr>::new(), Vec::<Expr>::new(), Vec::new());
        for (dimension, (range, whole)) in region.iter().zip(tensor.shape.iter()).enumerate() {
            let step = if dimension == last { step } else { 1 };
            let count = self.analyzer.simplify(&range.extent.ceil_div(step));
            let position = if count.is_int(1) {
                range.min.clone()
            } else {
                let var = Var::index(format!("{}.line{dimension}", tensor.name()));
                let position = &range.min + &var * step;
                loops.push((var, count));
                position
            };
            indices.push(position);
            ends.push(whole - 1);
        }
        let first = memory.index(&ends.iter().map(|_| Expr::int(0)).collect());
        let index = memory.index(&indices.into()).min(memory.index(&ends.into())).max(first);
        let load = Expr::load(&memory.buffer, index);
        let address = Expr::builtin(builtin::ADDRESS_OF, POINTER, [load]);
        let hint = Expr::builtin(builtin::PREFETCH, I32, [address, Expr::int(0), Expr::int(3), Expr::int(1)]);
        Ok(loops
            .into_iter()
            .rev()
            .fold(Stmt::evaluate(hint), |body, (var, count)| Stmt::for_loop(var, 0, count, ForKind::Serial, body)))
    }
}

/// The key of the annotation of a region: dimension, factor and offset, for each dimension whose
/// stride is aligned.
const STORAGE_ALIGN: &str = "storage_align";

/// The strides, from the innermost dimension out; an aligned stride is a multiple of its factor
/// plus its offset.
fn aligned_strides(extents: &[Expr], aligned: &[i64]) -> Vec<Expr> {
    let mut strides = vec![Expr::int(1); extents.len()];
    let mut stride = Expr::int(1);
    for dimension in (0..extents.len()).rev() {
        if let Some([_, factor, offset]) = aligned.chunks_exact(3).find(|entry| entry[0] == dimension as i64)
            && *factor > 0
        {
            let missing = (factor + offset - stride.floor_mod(*factor)).floor_mod(*factor);
            stride = stride + missing;
        }
        strides[dimension] = stride.clone();
        stride = stride * &extents[dimension];
    }
    strides
}

impl Mutate for StorageFlatten {
    fn memo(&mut self) -> Option<&mut Memo> {
        Some(&mut self.memo)
    }

    fn mutate_expr(&mut self, expr: &Expr) -> Result<Expr> {
        let expr = mutate_expr_parts(self, expr)?;
        match &*expr {
            ExprNode::TensorRead { tensor, indices } => {
                let memory = self.memory_of(tensor)?;
                Ok(Expr::load(&memory.buffer, memory.index(indices)))
            }
            _ => Ok(expr),
        }
    }

    fn mutate_stmt(&mut self, stmt: &Stmt) -> Result<Stmt> {
        // The memory of a tensor may differ in another statement.
        self.memo.clear();
        if let Some((buffer, tensor)) = bound_buffer(stmt) {
            let StmtNode::Attr { body, .. } = &**stmt else { return Ok(stmt.clone()) };
            let region = bound_region(stmt);
            let mut stmts = self.bind_buffer(&buffer, &tensor, region.as_deref())?;
            stmts.push(self.mutate_stmt(body)?);
            let bound = Stmt::seq(stmts);
            // An instruction can occur at several places, with different buffers at each.
            return Ok(if region.is_some() { fresh_copy(&bound, VarMap::new()) } else { bound });
        }
        match &**stmt {
            StmtNode::Realize { tensor, region, scope, annotations } => {
                // Ends of regions do not read tensors.
                Ok(self.realize(tensor, region, scope, annotations))
            }
            StmtNode::Prefetch { tensor, region } => self.prefetch(tensor, region),
            StmtNode::TensorWrite { tensor, indices, value } => {
                let value = mutate_part(self, value)?;
                let indices: Array<Expr> =
                    indices.iter().map(|index| self.mutate_expr(&index)).collect::<Result<Vec<_>>>()?.into();
                let memory = self.memory_of(tensor)?;
                Ok(Stmt::store(memory.buffer.clone(), memory.index(&indices), value))
            }
            StmtNode::Attr { key, node, value, body } if key.as_str() == "extern_scope" => {
                // The operation would keep its tensors alive; its name is sufficient.
                let name = node.to::<crate::ir::Operation>().map_or_else(|_| Str::from(""), |op| op.name().into());
                Ok(Stmt::attr("extern_scope", name, value, self.mutate_stmt(body)?))
            }
            _ => mutate_stmt_parts(self, stmt),
        }
    }
}
