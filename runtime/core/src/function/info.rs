use core::fmt;

use crate::abi::{SafeCall, TVMFFIAny, TVMFFIByteArray, TVMFFIMethodInfo, type_index};
use crate::value::{Access, ToArg, TypeSchema};
use crate::{Error, Function, Result, artifact, embedded, provider};

/// The description of a packed function by `#[packed_func]`.
pub struct FunctionInfo {
    /// Exported name: the symbol is `__tvm_ffi_<name>`.
    pub name: &'static str,
    /// Name in the global registry, if any.
    pub global_name: Option<&'static str>,
    /// Documentation.
    pub doc: &'static str,
    /// Parameters.
    pub params: &'static [ParamInfo],
    /// Default values of the last parameters, as JSON; an object with the member `rust` for a
    /// default that is only known at the call. Empty for a required parameter among them, which
    /// only a declared signature allows.
    pub defaults: &'static [&'static str],
    /// The members `arg_defaults` and `arg_kinds` of the metadata, which list the defaults and the
    /// kinds of the parameters, and those of a role, each preceded by a comma. The macro generates
    /// them, so that a library without defaults does not link code for them.
    pub more_metadata: &'static str,
    /// The kinds of the parameters, if the function declares a signature.
    pub kinds: Option<&'static [ParamKind]>,
    /// The item that a language with classes and constants makes of it.
    pub role: FunctionRole,
    /// Result.
    pub ret: TypeSchema,
    /// Entry point.
    pub call: SafeCall,
    /// True if a host with a global lock, such as Python, releases it for the duration of a call.
    /// `None`: the types of the parameters decide.
    pub detach: Option<bool>,
    /// Crate that defines the function.
    pub crate_name: &'static str,
    /// Source file of the function.
    pub file: &'static str,
    /// Line of the function in `file`.
    pub line: u32,
}

/// A parameter of a packed function.
pub struct ParamInfo {
    /// Name; empty for the parameters of closures, which are numbered.
    pub name: &'static str,
    /// Type.
    pub ty: TypeSchema,
    /// The function's access to the memory of its argument, if the argument is a tensor.
    pub access: Access,
}

/// The item that a language with classes and constants makes of a function.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum FunctionRole {
    /// A function or a method.
    Function,
    /// A constant: a function without parameters that returns its value.
    Constant,
    /// A class method: a static method that returns a new object of the class that it is called on.
    ClassMethod,
    /// A method that writes an attribute of its object: `set_x` writes `x`.
    Setter,
    /// A method for an operator of Python, which does not apply if an operand has another type than
    /// the parameter, or if it returns `None` for an `Option`.
    Operator,
}

/// The ways in which a caller in Python passes an argument, as in `inspect.Parameter.kind`. Calls
/// through the ABI pass all arguments by position: `*args` as one list, and `**kwargs` as one map.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub enum ParamKind {
    /// By position: before `/`.
    PositionalOnly,
    /// By position or by name.
    PositionalOrKeyword,
    /// The further arguments by position: `*args`.
    VarPositional,
    /// By name: after `*` or `*args`.
    KeywordOnly,
    /// The further arguments by name: `**kwargs`.
    VarKeyword,
}

impl FunctionInfo {
    /// The signature as text: `add(a: int, b: int)`.
    pub(crate) fn signature(&self) -> Signature<'_> {
        Signature { name: self.name, params: self.params }
    }

    /// Returns the TypeError of a call with wrong arguments: the function's signature, then the
    /// problem. The guard of the entry point appends the function's frame.
    #[doc(hidden)]
    #[cold]
    #[inline(never)]
    pub fn fault(&self, clause: &str) -> Error {
        Error::with_backtrace("TypeError", &format!("{}: {clause}", self.signature()), "")
    }

    /// The metadata in the stock format: a JSON object whose `type_schema` is a JSON string.
    pub(crate) fn metadata_json(&self) -> String {
        write_function_metadata(self.params, &self.ret, self.more_metadata)
    }

    pub(crate) fn register_global(&'static self) -> Result<()> {
        let Some(name) = self.global_name else { return Ok(()) };
        let call = artifact::own_entry_point(self.name, self.call);
        register_entry_point(name, self.doc, &self.metadata_json(), call, || {
            format!("{}:{} (crate {})", self.file, self.line, self.crate_name)
        })
    }
}

/// Writes the metadata of a function: a JSON object with `type_schema`, a JSON string as in the
/// stock library, and `arg_names`, the names of the parameters, unless they are unnamed; `more` are
/// additional members.
pub(crate) fn write_function_metadata(params: &[ParamInfo], ret: &TypeSchema, more: &str) -> String {
    let mut schema = String::from("{\"type\":\"ffi.Function\",\"named_args\":{\"return\":[");
    ret.write_json(&mut schema);
    schema.push_str("],\"params\":[");
    let mut members = String::from(",\"arg_names\":[");
    for (i, param) in params.iter().enumerate() {
        if i > 0 {
            schema.push(',');
            members.push(',');
        }
        param.ty.write_json(&mut schema);
        write_json_string(&mut members, param.name);
    }
    schema.push_str("]}}");
    members.push(']');
    // The parameters of closures are numbered.
    if params.first().is_some_and(|param| param.name.is_empty()) {
        members.clear();
    }
    members.push_str(more);
    schema_metadata(&schema, &members)
}

/// The metadata of a function or field with this type schema in the stock format; `more` are
/// additional members of the JSON object.
pub(crate) fn schema_metadata(schema: &str, more: &str) -> String {
    let mut metadata = String::from("{\"type_schema\":");
    write_json_string(&mut metadata, schema);
    metadata.push_str(more);
    metadata.push('}');
    metadata
}

impl Function {
    /// Registers the function as a new global function, with the types of its parameters and its
    /// result.
    pub(crate) fn register_with_schema(
        &self,
        name: &str,
        doc: &str,
        params: &[ParamInfo],
        ret: &TypeSchema,
    ) -> Result<()> {
        let metadata = write_function_metadata(params, ret, "");
        let info = TVMFFIMethodInfo {
            name: TVMFFIByteArray::new(name.as_bytes()),
            doc: TVMFFIByteArray::new(doc.as_bytes()),
            metadata: TVMFFIByteArray::new(metadata.as_bytes()),
            flags: 0,
            method: self.to_arg().as_raw(),
        };
        // SAFETY: the table copies the strings and takes its own reference; everything lives for
        // the call.
        Error::check(unsafe { (provider::api().function_set_global_from_method_info)(&info, 0) })
    }
}

/// Registers an entry point of this artifact as a global function.
pub(crate) fn register_entry_point(
    name: &str,
    doc: &str,
    metadata: &str,
    call: SafeCall,
    place: impl FnOnce() -> String,
) -> Result<()> {
    let api = provider::api();
    let function = embedded::new_function(call, ());
    let info = TVMFFIMethodInfo {
        name: TVMFFIByteArray::new(name.as_bytes()),
        doc: TVMFFIByteArray::new(doc.as_bytes()),
        metadata: TVMFFIByteArray::new(metadata.as_bytes()),
        flags: 0,
        method: TVMFFIAny::pointer(type_index::FUNCTION, function.cast()),
    };
    // SAFETY: the table copies the strings and takes its own reference; this reference is released.
    // The check above keeps the stock library from printing the conflict in addition to reporting
    // it.
    let status = unsafe {
        let mut existing = core::ptr::null_mut();
        (api.function_get_global)(&info.name, &mut existing);
        let taken = !existing.is_null();
        if taken {
            embedded::dec_ref(existing);
        }
        let status = if taken { None } else { Some((api.function_set_global_from_method_info)(&info, 0)) };
        embedded::dec_ref(function);
        status
    };
    match status {
        Some(status) => Error::check(status),
        None => Err(crate::error!(
            RuntimeError,
            "global function '{name}' of {} is already registered in this process by another library or crate; the first one \
             stays; rename one of them, or use #[packed_func(global = false)]",
            place()
        )),
    }
}

/// A function's name and parameters, formatted for messages.
pub(crate) struct Signature<'a> {
    name: &'a str,
    params: &'a [ParamInfo],
}

impl<'a> Signature<'a> {
    pub(crate) fn new(name: &'a str, params: &'a [ParamInfo]) -> Self {
        Self { name, params }
    }
}

impl fmt::Display for Signature<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}(", self.name)?;
        for (i, param) in self.params.iter().enumerate() {
            if i > 0 {
                f.write_str(", ")?;
            }
            if param.name.is_empty() {
                write!(f, "{i}: {}", param.ty)?;
            } else {
                write!(f, "{}: {}", param.name, param.ty)?;
            }
        }
        f.write_str(")")
    }
}

/// Appends `text` as a JSON string literal.
#[doc(hidden)]
pub fn write_json_string(out: &mut String, text: &str) {
    out.push('"');
    for c in text.chars() {
        let mut encoded = [0; 4];
        let formatted;
        out.push_str(match c {
            '"' => "\\\"",
            '\\' => "\\\\",
            '\n' => "\\n",
            '\r' => "\\r",
            '\t' => "\\t",
            c if c.is_control() => {
                // `write!` would link the traits of `String` as a writer.
                formatted = format!("\\u{:04x}", u32::from(c));
                &formatted
            }
            c => c.encode_utf8(&mut encoded),
        });
    }
    out.push('"');
}
