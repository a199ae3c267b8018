//! A global function as data: all of them share one entry point, which a closure for each would not.

use core::ffi::c_void;

use crate::abi::TVMFFIAny;
use crate::function::{Function, FunctionInfo, ParamInfo, arg, call_packed_any_count};
use crate::module::Module;
use crate::value::{Any, AnyView, FromArg, Schema, TypeSchema};
use crate::{Result, embedded};

/// A global function of the embedded implementation.
pub(super) struct Builtin {
    /// Name in the global registry.
    pub(super) name: &'static str,
    /// One of the lists of parameters below.
    pub(super) info: &'static FunctionInfo,
    /// What it does.
    pub(super) run: fn(&Arguments<'_>) -> Result<Any>,
}

/// The arguments of a call, as many as the builtin has parameters.
pub(super) struct Arguments<'a> {
    info: &'static FunctionInfo,
    views: &'a [AnyView<'a>],
}

impl<'a> Arguments<'a> {
    fn get<T: FromArg<'a>>(&self, index: usize) -> Result<T> {
        const { assert!(!T::WRITES, "two conversions of one argument must be harmless") };
        // SAFETY: the type gives no write access.
        unsafe { arg(self.info, self.views, index) }
    }

    pub(super) fn module(&self, index: usize) -> Result<Module> {
        self.get(index)
    }

    pub(super) fn text(&self, index: usize) -> Result<&'a str> {
        self.get(index)
    }

    pub(super) fn flag(&self, index: usize) -> Result<bool> {
        self.get(index)
    }
}

impl Builtin {
    /// Registers the function.
    pub(super) fn register(&'static self) -> Result<()> {
        // SAFETY: a new function object; its one reference goes to the handle.
        let function = unsafe { Function::from_object(embedded::new_function(call, self)) };
        Function::register_global(self.name, &function)
    }
}

unsafe extern "C" fn call(this: *mut c_void, args: *const TVMFFIAny, num_args: i32, result: *mut TVMFFIAny) -> i32 {
    // SAFETY: the handle is a function object made by `register`; the rest is the ABI's calling convention.
    unsafe {
        let builtin: &'static Builtin = embedded::closure_of::<&'static Builtin>(this);
        call_packed_any_count(builtin.info, args, num_args, result, |views| {
            Ok((builtin.run)(&Arguments { info: builtin.info, views })?.into_raw())
        })
    }
}

/// What messages say about a builtin with these parameters.
const fn taking(params: &'static [ParamInfo]) -> FunctionInfo {
    FunctionInfo {
        name: "closure",
        global_name: None,
        doc: "",
        params,
        ret: TypeSchema::new("Any"),
        call,
        crate_name: "",
        file: "<closure>",
        line: 0,
    }
}

const fn parameter<T: Schema>() -> ParamInfo {
    ParamInfo { name: "", ty: T::TYPE }
}

const MODULE: ParamInfo = parameter::<Module>();
const TEXT: ParamInfo = parameter::<&str>();
const FLAG: ParamInfo = parameter::<bool>();

pub(super) static NOTHING: FunctionInfo = taking(&[]);
pub(super) static ONE_TEXT: FunctionInfo = taking(&[TEXT]);
pub(super) static TWO_TEXTS: FunctionInfo = taking(&[TEXT, TEXT]);
pub(super) static ONE_MODULE: FunctionInfo = taking(&[MODULE]);
pub(super) static TWO_MODULES: FunctionInfo = taking(&[MODULE, MODULE]);
pub(super) static MODULE_AND_TEXT: FunctionInfo = taking(&[MODULE, TEXT]);
pub(super) static MODULE_AND_TWO_TEXTS: FunctionInfo = taking(&[MODULE, TEXT, TEXT]);
pub(super) static MODULE_TEXT_AND_FLAG: FunctionInfo = taking(&[MODULE, TEXT, FLAG]);
