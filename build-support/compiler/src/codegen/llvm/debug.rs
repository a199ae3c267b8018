//! Line tables: the statement of each instruction. The source file is the program's own text form
//! at code generation, so that a profiler or debugger shows the loops of the schedule.

use std::collections::HashMap;
use std::path::Path;

use inkwell::debug_info::{
    AsDIScope, DICompileUnit, DIFlags, DIFlagsConstants, DISubprogram, DWARFEmissionKind, DWARFSourceLanguage,
    DebugInfoBuilder, debug_metadata_version,
};
use inkwell::module::{FlagBehavior, Module};
use inkwell::values::FunctionValue;

use super::CodeGenLLVM;
use crate::ir::{IrModule, Stmt};
use crate::text::Listing;

/// The attribute of a module with the path of the text, which ends in `.kir`.
pub const DEBUG_FILE: &str = "debug_file";

/// The file name without that attribute.
const DEFAULT_FILE: &str = "kernels.kir";

/// The DWARF version, which all current debuggers and profilers support.
const DWARF_VERSION: u64 = 4;

/// Line tables during generation.
pub(super) struct DebugInfo<'ctx> {
    builder: DebugInfoBuilder<'ctx>,
    unit: DICompileUnit<'ctx>,
    /// The line of each statement, starting from 1.
    lines: HashMap<Stmt, u32>,
    /// The line of each function, by name.
    functions: HashMap<String, u32>,
}

impl<'ctx> DebugInfo<'ctx> {
    /// Creates the line tables of an LLVM module for the text of a program.
    pub(super) fn new(module: &Module<'ctx>, program: &IrModule, listing: &Listing) -> Self {
        let path = super::text_attribute(program, DEBUG_FILE).unwrap_or_else(|| DEFAULT_FILE.to_owned());
        let path = Path::new(&path);
        let text = |part: Option<&std::ffi::OsStr>| part.unwrap_or_default().to_string_lossy().into_owned();
        let (file, folder) = (text(path.file_name()), text(path.parent().map(Path::as_os_str)));
        let producer = concat!("kernpack ", env!("CARGO_PKG_VERSION"));
        let (language, kind) = (DWARFSourceLanguage::C, DWARFEmissionKind::Full);
        let (builder, unit) = module.create_debug_info_builder(
            true, language, &file, &folder, producer, true, "", 0, "", kind, 0, false, false, "", "",
        );
        let number = |value: u64| module.get_context().i32_type().const_int(value, false);
        let version = u64::from(debug_metadata_version());
        module.add_basic_value_flag("Debug Info Version", FlagBehavior::Warning, number(version));
        module.add_basic_value_flag("Dwarf Version", FlagBehavior::Warning, number(DWARF_VERSION));
        let line = |line: usize| u32::try_from(line + 1).unwrap_or(0);
        Self {
            builder,
            unit,
            lines: listing.lines.iter().map(|(stmt, at)| (stmt.clone(), line(*at))).collect(),
            functions: listing.functions.iter().map(|(name, at)| (name.clone(), line(*at))).collect(),
        }
    }

    fn function(&self, function: FunctionValue<'ctx>, name: &str, line: u32) -> DISubprogram<'ctx> {
        let file = self.unit.get_file();
        let signature = self.builder.create_subroutine_type(file, None, &[], DIFlags::ZERO);
        let symbol = function.get_name().to_string_lossy().into_owned();
        let is_local = function.get_linkage() != inkwell::module::Linkage::External;
        let scope = self.unit.as_debug_info_scope();
        let flags = DIFlags::ZERO;
        self.builder.create_function(
            scope,
            name,
            Some(&symbol),
            file,
            line,
            signature,
            is_local,
            true,
            line,
            flags,
            true,
        )
    }
}

impl<'ctx> CodeGenLLVM<'ctx, '_> {
    /// Enables line tables that refer to the lines of a listing.
    pub(super) fn set_debug_info(&mut self, program: &IrModule, listing: &Listing) {
        self.debug = Some(DebugInfo::new(self.module, program, listing));
    }

    /// Must be called at the start of a function: its code gets the line of its head, or of the
    /// statement for which it was generated.
    pub(super) fn begin_lines(&mut self, function: FunctionValue<'ctx>, name: &str, outer_line: u32) {
        let Some(debug) = &self.debug else { return };
        let line = debug.functions.get(name).copied().filter(|_| outer_line == 0).unwrap_or(outer_line);
        let subprogram = debug.function(function, name, line);
        function.set_subprogram(subprogram);
        self.state.subprogram = Some(subprogram);
        self.state.line = line;
        self.mark_line();
    }

    /// Sets the current line for the following instructions; no line outside of functions with
    /// lines.
    pub(super) fn mark_line(&self) {
        let Some(debug) = &self.debug else { return };
        match self.state.subprogram {
            Some(subprogram) => {
                let scope = subprogram.as_debug_info_scope();
                let location = debug.builder.create_debug_location(self.context, self.state.line, 0, scope, None);
                self.builder.set_current_debug_location(location);
            }
            None => self.builder.unset_current_debug_location(),
        }
    }

    /// Clears the line for the following instructions: those of functions without statements.
    pub(super) fn unmark_line(&self) {
        if self.debug.is_some() {
            self.builder.unset_current_debug_location();
        }
    }

    /// Sets the line of a statement; returns the previous line.
    pub(super) fn enter_line(&mut self, stmt: &Stmt) -> u32 {
        let outer = self.state.line;
        if let Some(line) = self.debug.as_ref().and_then(|debug| debug.lines.get(stmt)) {
            self.state.line = *line;
            self.mark_line();
        }
        outer
    }

    /// Restores a line.
    pub(super) fn leave_line(&mut self, outer: u32) {
        if self.debug.is_some() && self.state.line != outer {
            self.state.line = outer;
            self.mark_line();
        }
    }

    /// Completes the line tables.
    pub(super) fn finish_lines(&self) {
        if let Some(debug) = &self.debug {
            debug.builder.finalize();
        }
    }
}
