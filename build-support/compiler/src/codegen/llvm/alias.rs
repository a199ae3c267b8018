//! Aliasing of memory accesses: scoped alias metadata, with a scope for each allocation and for
//! each parameter that the caller guarantees not to overlap with another. Unlike `noalias` on
//! parameters, it also applies in the closures of parallel loops.

use inkwell::values::{InstructionValue, MetadataValue};

use super::CodeGenLLVM;
use crate::error::Result;
use crate::ir::{CallKind, Expr, ExprNode, Var, builtin};

/// Memory that does not overlap with any other region, by number.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Region(usize);

/// The regions of a host function, including the functions that it is split into.
#[derive(Clone, Default)]
pub(super) struct Regions<'ctx> {
    domain: Option<MetadataValue<'ctx>>,
    scopes: Vec<MetadataValue<'ctx>>,
    by_pointer: std::collections::HashMap<Var, Region>,
}

impl Regions<'_> {
    /// The region of a pointer, if it is known.
    pub(super) fn of(&self, pointer: &Var) -> Option<Region> {
        self.by_pointer.get(pointer).copied()
    }

    /// Sets the region of a pointer.
    pub(super) fn set(&mut self, pointer: &Var, region: Option<Region>) {
        match region {
            Some(region) => self.by_pointer.insert(pointer.clone(), region),
            None => self.by_pointer.remove(pointer),
        };
    }
}

impl<'ctx> CodeGenLLVM<'ctx, '_> {
    /// Creates a region.
    pub(super) fn new_region(&mut self, name: &str) -> Region {
        let context = self.context;
        let number = self.unique();
        let domain = *self.state.regions.domain.get_or_insert_with(|| {
            let name = context.metadata_string(&format!("{}.{number}", self.state.name));
            context.metadata_node(&[name.into()])
        });
        let scope = context.metadata_string(&format!("{}.{name}.{number}", self.state.name));
        let regions = &mut self.state.regions;
        regions.scopes.push(context.metadata_node(&[scope.into(), domain.into()]));
        Region(regions.scopes.len() - 1)
    }

    /// The region to which a pointer expression refers. `name` is the name of a new region.
    pub(super) fn region_of(&mut self, pointer: &Expr, name: &str) -> Option<Region> {
        match &**pointer {
            ExprNode::Var { .. } => self.state.regions.of(&Var::of(pointer)?),
            ExprNode::Cast { value, .. } => self.region_of(value, name),
            ExprNode::Call { kind: CallKind::Builtin, name: callee, args, .. } => match callee.as_str() {
                builtin::REINTERPRET | builtin::HANDLE_ADD_BYTE_OFFSET => self.region_of(&args.get(0)?, name),
                builtin::ADDRESS_OF => match &*args.get(0)? {
                    ExprNode::Load { buffer, .. } => self.state.regions.of(&buffer.data),
                    _ => None,
                },
                builtin::ALLOC_WORKSPACE | builtin::STACK_ALLOCA => Some(self.new_region(name)),
                // The data of an argument, which the caller guarantees not to overlap with others.
                builtin::STRUCT_GET if args.get(2)?.is_int(builtin::StructField::Data as i64) => {
                    self.state.noalias.then(|| self.new_region(name))
                }
                _ => None,
            },
            _ => None,
        }
    }

    /// Annotates a load or a store with its region, and with the regions that it does not alias.
    pub(super) fn annotate_access(&self, access: InstructionValue<'ctx>, pointer: &Var) -> Result<()> {
        let regions = &self.state.regions;
        let Some(Region(own)) = regions.of(pointer) else { return Ok(()) };
        let others: Vec<_> =
            (0..regions.scopes.len()).filter(|index| *index != own).map(|index| regions.scopes[index].into()).collect();
        let set = |kind: &str, list: &[_]| {
            let node = self.context.metadata_node(list);
            // This could fail only for a value that is not an instruction.
            let _ = access.set_metadata(node, self.context.get_kind_id(kind));
        };
        set("alias.scope", &[regions.scopes[own].into()]);
        if !others.is_empty() {
            set("noalias", &others);
        }
        Ok(())
    }
}
