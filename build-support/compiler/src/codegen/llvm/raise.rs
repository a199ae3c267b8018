//! Errors of the program: checked conditions, and the cold functions that raise.

use inkwell::AddressSpace;
use inkwell::attributes::AttributeLoc;
use inkwell::module::Linkage;
use inkwell::values::{FunctionValue, PointerValue, UnnamedAddress};

use super::CodeGenLLVM;
use super::runtime::Runtime;
use crate::error::Result;
use crate::ir::Expr;

/// The numbers of parts of a message that the shared functions accept.
const PARTS: [usize; 3] = [4, 8, 16];

impl<'ctx> CodeGenLLVM<'ctx, '_> {
    /// The address of a text; equal texts share one constant.
    pub(super) fn string(&mut self, text: &str) -> PointerValue<'ctx> {
        if let Some(known) = self.strings.get(text) {
            return known.as_pointer_value();
        }
        // In C, a text ends at its first NUL byte.
        let text_bytes = text.split('\0').next().unwrap_or_default().as_bytes();
        let bytes = self.context.const_string(text_bytes, true);
        let global = self.module.add_global(bytes.get_type(), Some(AddressSpace::default()), ".str");
        global.set_initializer(&bytes);
        global.set_constant(true);
        global.set_linkage(Linkage::Private);
        global.set_unnamed_address(UnnamedAddress::Global);
        self.strings.insert(text.to_owned(), global);
        global.as_pointer_value()
    }

    /// Ends the function with an error unless a condition holds.
    pub(super) fn assert(&mut self, condition: &Expr, kind: &str, parts: &[String]) -> Result<()> {
        let (condition, _) = self.condition(condition)?;
        if self.assert_by_table(condition, kind, parts)? {
            return Ok(());
        }
        let (fails, next) = (self.new_block("assert_fails"), self.new_block("assert_holds"));
        self.branch_if(condition, next, fails, true)?;
        self.builder.position_at_end(fails);
        self.raise(kind, parts)?;
        let failure = self.failure_block()?;
        self.jump(failure)?;
        self.builder.position_at_end(next);
        Ok(())
    }

    /// Raises an error of a kind.
    pub(super) fn raise(&mut self, kind: &str, parts: &[String]) -> Result<()> {
        let mut parts: Vec<&str> = parts.iter().map(String::as_str).filter(|part| !part.is_empty()).collect();
        // Parts beyond the limit of the largest function are joined here.
        let joined;
        let most = PARTS[PARTS.len() - 1];
        if parts.len() > most {
            joined = parts.split_off(most - 1).concat();
            parts.push(&joined);
        }
        let count = PARTS.into_iter().find(|count| *count >= parts.len()).unwrap_or(most);
        let mut args = vec![self.string(kind).into()];
        for part in &parts {
            args.push(self.string(part).into());
        }
        args.resize(count + 1, self.pointer_type().const_null().into());
        let raiser = self.raiser(count)?;
        self.builder.build_direct_call(raiser, &args, "")?;
        Ok(())
    }

    /// The function that raises an error with this number of parts, of which the last ones may be
    /// null.
    fn raiser(&mut self, count: usize) -> Result<FunctionValue<'ctx>> {
        if let Some(raiser) = self.raisers.get(&count) {
            return Ok(*raiser);
        }
        let here = self.current_block()?;
        let pointer = self.pointer_type();
        let ty = self.context.void_type().fn_type(&vec![pointer.into(); count + 1], false);
        let function = self.module.add_function(&format!("__tvm_set_raised_{count}"), ty, Some(Linkage::Internal));
        self.set_function_attributes(function);
        for name in ["cold", "noinline"] {
            self.set_attribute(function, AttributeLoc::Function, name, 0);
        }
        self.raisers.insert(count, function);
        self.builder.position_at_end(self.context.append_basic_block(function, "entry"));
        self.unmark_line();
        let array = self.builder.build_alloca(pointer.array_type(count as u32), "parts")?;
        let params = function.get_params();
        for (index, part) in params.iter().skip(1).enumerate() {
            let index = self.context.i32_type().const_int(index as u64, false);
            // SAFETY: the array has `count` elements.
            let place = unsafe { self.builder.build_in_bounds_gep(pointer, array, &[index], "")? };
            self.builder.build_store(place, *part)?;
        }
        let number = self.context.i32_type().const_int(count as u64, false);
        self.call_runtime(Runtime::RaiseParts, &[params[0], array.into(), number.into()])?;
        self.builder.build_return(None)?;
        self.builder.position_at_end(here);
        self.mark_line();
        Ok(function)
    }
}
