//! Generates the C header from Rust sources.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::path::Path;

use syn::parse::{Parse, ParseStream};
use syn::punctuated::Punctuated;
use syn::{Attribute, Expr, Fields, Ident, Item, Lit, Meta, ReturnType, Token, Type, braced, parenthesized};

/// The C names of constants: the Rust module, the prefix in C, and the spelling of words that are
/// not simply capitalized.
const ENUMS: [EnumNames; 9] = [
    (
        "type_index",
        "TVMFFITypeIndex",
        "kTVMFFI",
        &[
            ("DL_TENSOR_PTR", "DLTensorPtr"),
            ("OBJECT_RVALUE_REF", "ObjectRValueRef"),
            ("STATIC_OBJECT_BEGIN", "StaticObjectBegin"),
        ],
    ),
    ("deleter_flag", "TVMFFIObjectDeleterFlagBitMask", "kTVMFFIObjectDeleterFlagBitMask", &[]),
    ("backtrace_update", "TVMFFIBacktraceUpdateMode", "kTVMFFIBacktraceUpdateMode", &[]),
    (
        "field_flag",
        "TVMFFIFieldFlagBitMask",
        "kTVMFFIFieldFlagBitMask",
        &[
            ("SEQ_HASH_IGNORE", "SEqHashIgnore"),
            ("SEQ_HASH_DEF_PATTERN", "SEqHashDefPattern"),
            ("SEQ_HASH_DEF_SIMPLE", "SEqHashDefSimple"),
        ],
    ),
    ("seq_hash_kind", "TVMFFISEqHashKind", "kTVMFFISEqHashKind", &[("DAG_NODE", "DAGNode")]),
    (
        "device_type",
        "DLDeviceType",
        "kDL",
        &[
            ("CPU", "CPU"),
            ("CUDA", "CUDA"),
            ("CUDA_HOST", "CUDAHost"),
            ("OPENCL", "OpenCL"),
            ("VPI", "VPI"),
            ("ROCM", "ROCM"),
            ("ROCM_HOST", "ROCMHost"),
            ("CUDA_MANAGED", "CUDAManaged"),
            ("ONE_API", "OneAPI"),
            ("WEBGPU", "WebGPU"),
            ("MAIA", "MAIA"),
        ],
    ),
    (
        "dtype_code",
        "DLDataTypeCode",
        "kDL",
        &[
            ("UINT", "UInt"),
            ("FLOAT8_E3M4", "Float8_e3m4"),
            ("FLOAT8_E4M3", "Float8_e4m3"),
            ("FLOAT8_E4M3B11FNUZ", "Float8_e4m3b11fnuz"),
            ("FLOAT8_E4M3FN", "Float8_e4m3fn"),
            ("FLOAT8_E4M3FNUZ", "Float8_e4m3fnuz"),
            ("FLOAT8_E5M2", "Float8_e5m2"),
            ("FLOAT8_E5M2FNUZ", "Float8_e5m2fnuz"),
            ("FLOAT8_E8M0FNU", "Float8_e8m0fnu"),
            ("FLOAT6_E2M3FN", "Float6_e2m3fn"),
            ("FLOAT6_E3M2FN", "Float6_e3m2fn"),
            ("FLOAT4_E2M1FN", "Float4_e2m1fn"),
        ],
    ),
    (
        "dlpack_flags",
        "",
        "DLPACK_FLAG_BITMASK_",
        &[("READ_ONLY", "READ_ONLY"), ("IS_COPIED", "IS_COPIED"), ("IS_SUBBYTE_TYPE_PADDED", "IS_SUBBYTE_TYPE_PADDED")],
    ),
    ("map", "", "", &[]),
];

/// Module, C name of the type, prefix, irregular words.
type EnumNames = (&'static str, &'static str, &'static str, &'static [(&'static str, &'static str)]);

/// Constants whose C name does not follow from the module's prefix.
const IRREGULAR: [(&str, &str, &str); 1] =
    [("field_flag", "SETTER_IS_FUNCTION_OBJ", "kTVMFFIFieldFlagBitSetterIsFunctionObj")];

/// Types of function pointers that have a name in C: the Rust alias and the name.
const CALLBACKS: [(&str, &str); 7] = [
    ("ObjectDeleter", "TVMFFIObjectDeleter"),
    ("SafeCall", "TVMFFISafeCallType"),
    ("TVMFFIFieldGetter", "TVMFFIFieldGetter"),
    ("TVMFFIFieldSetter", "TVMFFIFieldSetter"),
    ("TVMFFIObjectCreator", "TVMFFIObjectCreator"),
    ("DLPackSetError", "DLPackSetError"),
    ("DLPackManagedTensorAllocator", "DLPackManagedTensorAllocator"),
];

const PRELUDE: &str = "/* The C interface of a TVM FFI runtime: types, constants and the 50 functions of libtvm_ffi.so.
 *
 * Generated from Kernpack's Rust sources; do not edit (tests/tests/abi/c_header.rs describes how
 * to regenerate it). A program that includes this header does not need Apache TVM: it links or
 * loads the libtvm_ffi.so that Kernpack builds. Names and layouts are those of the ABI, so the
 * header works with the stock library, too. The stock C++ headers define the same types: if they
 * are included first, this header adds only the missing declarations.
 *
 * Ownership. Arguments are borrowed. The caller owns every TVMFFIAny and every handle that a
 * function writes, and releases it with TVMFFIObjectDecRef if
 * `type_index >= kTVMFFIStaticObjectBegin`. Functions with the result int return 0, or -1 after
 * they raised an error on this thread, which TVMFFIErrorMoveFromRaised takes.
 */
#ifndef KERNPACK_C_API_H_
#define KERNPACK_C_API_H_

#if defined(KERNPACK_KERNEL_H_) && !defined(TVM_FFI_C_API_H_)
#error \"include <kernpack/c_api.h> before <kernpack/kernel.h>, which defines only some of these types\"
#endif

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern \"C\" {
#endif
";

/// The text of the header.
pub(crate) fn header(root: &Path) -> String {
    let mut sources = Sources::default();
    for file in ["type_index", "object", "any", "dlpack", "cells", "type_info", "table"] {
        let path = root.join(format!("runtime/formats/src/abi/{file}.rs"));
        let text = std::fs::read_to_string(&path).unwrap_or_else(|error| panic!("{}: {error}", path.display()));
        let parsed = syn::parse_file(&text).unwrap_or_else(|error| panic!("{}: {error}", path.display()));
        sources.read(file, parsed.items, &docs(&parsed.attrs));
    }
    let path = root.join("runtime/formats/src/abi/table.rs");
    let functions = functions(&std::fs::read_to_string(&path).unwrap());
    assert_eq!(functions.len(), 50, "functions in {}", path.display());

    let mut out = String::from(PRELUDE);
    let dlpack = ["DLPackVersion", "DLDevice", "DLDataType", "DLTensor", "DLManagedTensor", "DLManagedTensorVersioned"];
    section(&mut out, "DLPack: tensors that libraries exchange");
    out.push_str("\n#ifndef DLPACK_DLPACK_H_\n#define DLPACK_DLPACK_H_\n");
    for module in ["device_type", "dtype_code"] {
        sources.write_enum(&mut out, module);
    }
    sources.write_enum(&mut out, "dlpack_flags");
    for name in dlpack {
        sources.write_struct(&mut out, name);
    }
    sources.write_callback(&mut out, "DLPackSetError");
    sources.write_callback(&mut out, "DLPackManagedTensorAllocator");
    out.push_str("\n#endif /* DLPACK_DLPACK_H_ */\n");

    section(&mut out, "Values and objects");
    out.push_str("\n#ifndef TVM_FFI_C_API_H_\n#define TVM_FFI_C_API_H_\n");
    sources.write_enum(&mut out, "type_index");
    out.push_str("\n/* A live object: the address of its header. */\ntypedef void* TVMFFIObjectHandle;\n");
    sources.write_enum(&mut out, "deleter_flag");
    sources.write_callback(&mut out, "ObjectDeleter");
    sources.write_struct(&mut out, "TVMFFIObject");
    sources.write_any(&mut out);
    for name in ["TVMFFIByteArray", "TVMFFIObjectAllocHeader", "TVMFFICustomAllocator"] {
        sources.write_struct(&mut out, name);
    }
    sources.write_callback(&mut out, "SafeCall");
    section(&mut out, "Objects whose layout the ABI fixes: the parts after the header");
    for name in ["TVMFFIShapeCell", "TVMFFISeqCell"] {
        sources.write_struct(&mut out, name);
    }
    sources.write_enum(&mut out, "backtrace_update");
    for name in ["TVMFFIErrorCell", "TVMFFIFunctionCell", "TVMFFIOpaqueObjectCell"] {
        sources.write_struct(&mut out, name);
    }
    section(&mut out, "Types: fields, methods, attributes");
    for name in ["TVMFFIFieldGetter", "TVMFFIFieldSetter", "TVMFFIObjectCreator"] {
        sources.write_callback(&mut out, name);
    }
    sources.write_enum(&mut out, "field_flag");
    sources.write_enum(&mut out, "seq_hash_kind");
    let types = ["TVMFFIFieldInfo", "TVMFFIMethodInfo", "TVMFFITypeMetadata", "TVMFFITypeInfo", "TVMFFITypeAttrColumn"];
    for name in types.into_iter().chain(["TVMFFIVersion"]) {
        sources.write_struct(&mut out, name);
    }
    section(&mut out, "Functions");
    for function in functions.iter().filter(|function| !is_environment(function)) {
        function.write(&mut out);
    }
    out.push_str("\n#endif /* TVM_FFI_C_API_H_ */\n");

    section(&mut out, "Functions of the environment: streams, allocators, signals, modules");
    out.push_str("\n#ifndef TVM_FFI_EXTRA_C_ENV_API_H_\n#define TVM_FFI_EXTRA_C_ENV_API_H_\n");
    out.push_str("\n/* A device's work queue. */\ntypedef void* TVMFFIStreamHandle;\n");
    for function in functions.iter().filter(|function| is_environment(function)) {
        function.write(&mut out);
    }
    out.push_str("\n#endif /* TVM_FFI_EXTRA_C_ENV_API_H_ */\n\n#ifdef __cplusplus\n} /* extern \"C\" */\n#endif\n\n#endif /* KERNPACK_C_API_H_ */\n");
    out
}

/// Returns whether the stock headers declare the function in `extra/c_env_api.h`.
fn is_environment(function: &Function) -> bool {
    function.name.to_string().starts_with("TVMFFIEnv")
}

fn section(out: &mut String, title: &str) {
    let _ = write!(out, "\n/* ---- {title} {} */\n", "-".repeat(110_usize.saturating_sub(title.len())));
}

/// The documentation of an item, and its members: documentation, name and type or value.
type Documented<T> = (Vec<String>, Vec<(Vec<String>, Ident, T)>);

/// The items of the Rust sources.
#[derive(Default)]
struct Sources {
    structs: BTreeMap<String, Documented<Type>>,
    callbacks: BTreeMap<String, (Vec<String>, syn::TypeFnPtr)>,
    enums: BTreeMap<String, Documented<String>>,
}

impl Sources {
    fn read(&mut self, module: &str, items: Vec<Item>, module_docs: &[String]) {
        for item in items {
            match item {
                Item::Struct(item) if is_repr_c(&item.attrs) => {
                    self.add_struct(item.ident.to_string(), docs(&item.attrs), item.fields)
                }
                Item::Union(item) => {
                    self.add_struct(item.ident.to_string(), docs(&item.attrs), Fields::Named(item.fields))
                }
                Item::Type(item) => {
                    if let Type::FnPtr(function) = *item.ty {
                        self.callbacks.insert(item.ident.to_string(), (docs(&item.attrs), function));
                    }
                }
                Item::Const(item) => {
                    let entry =
                        self.enums.entry(module.to_owned()).or_insert_with(|| (module_docs.to_vec(), Vec::new()));
                    entry.1.push((docs(&item.attrs), item.ident, value(&item.expr)));
                }
                Item::Mod(item) => {
                    let docs = docs(&item.attrs);
                    self.read(&item.ident.to_string(), item.content.map_or_else(Vec::new, |content| content.1), &docs);
                }
                _ => {}
            }
        }
    }

    fn add_struct(&mut self, name: String, docs_of_struct: Vec<String>, fields: Fields) {
        let fields =
            fields.into_iter().filter_map(|field| Some((docs(&field.attrs), field.ident?, field.ty))).collect();
        self.structs.insert(name, (docs_of_struct, fields));
    }

    fn write_enum(&self, out: &mut String, module: &str) {
        let (_, name, prefix, irregular) = ENUMS.iter().find(|known| known.0 == module).unwrap();
        let (docs, constants) = &self.enums[module];
        out.push('\n');
        comment(out, "", docs);
        let c_name = |rust: &str| match IRREGULAR.iter().find(|known| known.0 == module && known.1 == rust) {
            Some((_, _, name)) => (*name).to_owned(),
            None => match irregular.iter().find(|known| known.0 == rust) {
                Some((_, word)) => format!("{prefix}{word}"),
                None => format!("{prefix}{}", camel_case(rust)),
            },
        };
        if name.is_empty() {
            for (docs, constant, value) in constants {
                comment(out, "", docs);
                let _ = writeln!(out, "#define {} ({value}UL)", c_name(&constant.to_string()));
            }
            return;
        }
        out.push_str("typedef enum {\n");
        for (docs, constant, value) in constants {
            comment(out, "  ", docs);
            let _ = writeln!(out, "  {} = {value},", c_name(&constant.to_string()));
        }
        // A trailing comma is invalid in C++98 and C89, which this header does not support.
        let _ = writeln!(out, "}} {name};");
    }

    fn write_struct(&self, out: &mut String, name: &str) {
        let (docs, fields) = &self.structs[name];
        out.push('\n');
        comment(out, "", docs);
        // Declared before the members: some of them point to this struct.
        let _ = writeln!(out, "typedef struct {name} {name};\nstruct {name} {{");
        for (docs, field, ty) in fields {
            comment(out, "  ", docs);
            let c_field =
                if name == "TVMFFIObject" && field == "padding" { "__padding".to_owned() } else { field.to_string() };
            // Bytes in Rust; in C they mostly are text.
            let declaration = if name == "TVMFFIByteArray" && field == "data" {
                "const char* data".to_owned()
            } else {
                declare(ty, &c_field)
            };
            let _ = writeln!(out, "  {declaration};");
        }
        out.push_str("};\n");
    }

    /// The payload is an unnamed union in C, and the length of a small text shares its place with
    /// the padding.
    fn write_any(&self, out: &mut String) {
        let (docs, fields) = &self.structs["TVMFFIAny"];
        out.push('\n');
        comment(out, "", docs);
        out.push_str("typedef struct TVMFFIAny {\n");
        for (docs, field, ty) in fields {
            comment(out, "  ", docs);
            match field.to_string().as_str() {
                "small_len" => {
                    out.push_str("  union {\n    uint32_t zero_padding;\n    uint32_t small_str_len;\n  };\n")
                }
                "payload" => {
                    out.push_str("  union {\n");
                    for (docs, member, ty) in &self.structs["TVMFFIAnyPayload"].1 {
                        comment(out, "    ", docs);
                        let c_type = if member == "v_bytes" {
                            "char v_bytes[8]".to_owned()
                        } else {
                            declare(ty, &member.to_string())
                        };
                        let _ = writeln!(out, "    {c_type};");
                    }
                    out.push_str("  };\n");
                }
                name => {
                    let _ = writeln!(out, "  {};", declare(ty, name));
                }
            }
        }
        out.push_str("} TVMFFIAny;\n");
    }

    fn write_callback(&self, out: &mut String, name: &str) {
        let (docs, function) = &self.callbacks[name];
        out.push('\n');
        comment(out, "", docs);
        let (_, c_name) = CALLBACKS.iter().find(|known| known.0 == name).unwrap();
        let _ = writeln!(out, "typedef {};", declare_function(function, &format!("(*{c_name})")));
    }
}

fn is_repr_c(attrs: &[Attribute]) -> bool {
    attrs.iter().any(|attr| attr.path().is_ident("repr"))
}

/// The lines of a doc comment, without the markup of Rust's documentation.
fn docs(attrs: &[Attribute]) -> Vec<String> {
    let lines = attrs.iter().filter_map(|attr| match &attr.meta {
        Meta::NameValue(pair) if pair.path.is_ident("doc") => match &pair.value {
            Expr::Lit(lit) => match &lit.lit {
                Lit::Str(text) => Some(text.value()),
                _ => None,
            },
            _ => None,
        },
        _ => None,
    });
    lines.map(|line| line.trim().replace("[`", "`").replace("`]", "`").replace("`None`", "NULL")).collect()
}

fn comment(out: &mut String, indent: &str, docs: &[String]) {
    if docs.is_empty() {
        return;
    }
    let lines: Vec<String> = docs.iter().map(|line| format!("{indent} * {line}").trim_end().to_owned()).collect();
    let text = lines.join("\n");
    let _ = writeln!(out, "{indent}/*{} */", &text[indent.len() + 2..]);
}

/// `SMALL_STR` as `SmallStr`.
fn camel_case(constant: &str) -> String {
    let capital = |word: &str| {
        word.chars().enumerate().map(|(at, c)| if at == 0 { c } else { c.to_ascii_lowercase() }).collect::<String>()
    };
    constant.split('_').map(capital).collect()
}

/// The value of a constant: a number, a negative one, or a shift.
fn value(expr: &Expr) -> String {
    match expr {
        Expr::Lit(lit) => match &lit.lit {
            Lit::Int(number) => number.base10_digits().to_owned(),
            _ => String::new(),
        },
        Expr::Unary(unary) => format!("-{}", value(&unary.expr)),
        Expr::Binary(binary) => format!("{} << {}", value(&binary.left), value(&binary.right)),
        Expr::Path(path) => path.path.segments.last().map_or_else(String::new, |segment| segment.ident.to_string()),
        _ => String::new(),
    }
}

/// A declaration of `name` with a Rust type, in C.
fn declare(ty: &Type, name: &str) -> String {
    match ty {
        Type::Ptr(pointer) => {
            let inner = declare(&pointer.elem, "");
            let inner = inner.trim_end();
            let constant = if matches!(pointer.mutability, syn::PointerMutability::Const(_)) && !inner.ends_with('*') {
                "const "
            } else {
                ""
            };
            format!("{constant}{inner}* {name}").trim_end().to_owned()
        }
        Type::FnPtr(function) => declare_function(function, &format!("(*{name})")),
        Type::Path(path) => {
            let segment = path.path.segments.last().unwrap();
            let known = segment.ident.to_string();
            if known == "Option" {
                let syn::PathArguments::AngleBracketed(arguments) = &segment.arguments else { unreachable!() };
                let Some(syn::GenericArgument::Type(inner)) = arguments.args.first() else { unreachable!() };
                return declare(inner, name);
            }
            let c_type = match known.as_str() {
                "c_void" => "void",
                "c_char" => "char",
                "c_int" => "int",
                "i32" => "int32_t",
                "i64" => "int64_t",
                "u8" => "uint8_t",
                "u16" => "uint16_t",
                "u32" => "uint32_t",
                "u64" => "uint64_t",
                "usize" => "size_t",
                "f64" => "double",
                other => CALLBACKS.iter().find(|callback| callback.0 == other).map_or(other, |callback| callback.1),
            };
            format!("{c_type} {name}").trim_end().to_owned()
        }
        _ => panic!("no C for the type of {name}"),
    }
}

fn declare_function(function: &syn::TypeFnPtr, name: &str) -> String {
    let arguments: Vec<String> = function
        .inputs
        .iter()
        .map(|argument| {
            let name = argument.name.as_ref().map_or_else(String::new, |(name, _)| c_identifier(name));
            declare(&argument.ty, &name)
        })
        .collect();
    prototype(&function.output, name, &arguments)
}

fn prototype(output: &ReturnType, name: &str, arguments: &[String]) -> String {
    let result = match output {
        ReturnType::Default => "void".to_owned(),
        ReturnType::Type(_, ty) => declare(ty, ""),
    };
    let arguments = if arguments.is_empty() { "void".to_owned() } else { arguments.join(", ") };
    format!("{} {name}({arguments})", result.trim_end())
}

/// `this` is a keyword of C++.
fn c_identifier(name: &Ident) -> String {
    if name == "this" { "self".to_owned() } else { name.to_string() }
}

/// One of the exported functions.
struct Function {
    docs: Vec<String>,
    name: Ident,
    arguments: Vec<(Ident, Type)>,
    output: ReturnType,
}

impl Function {
    fn write(&self, out: &mut String) {
        out.push('\n');
        comment(out, "", &self.docs);
        let arguments: Vec<String> = self.arguments.iter().map(|(name, ty)| declare(ty, &c_identifier(name))).collect();
        let _ = writeln!(out, "{};", prototype(&self.output, &self.name.to_string(), &arguments));
    }
}

impl Parse for Function {
    fn parse(input: ParseStream<'_>) -> syn::Result<Self> {
        let attrs = input.call(Attribute::parse_outer)?;
        let name = input.parse()?;
        input.parse::<Token![:]>()?;
        input.parse::<Ident>()?;
        let content;
        parenthesized!(content in input);
        let mut arguments = Vec::new();
        while !content.is_empty() {
            let name = content.call(syn::ext::IdentExt::parse_any)?;
            content.parse::<Token![:]>()?;
            arguments.push((name, content.parse()?));
            if !content.is_empty() {
                content.parse::<Token![,]>()?;
            }
        }
        Ok(Self { docs: docs(&attrs), name, arguments, output: input.parse()? })
    }
}

/// The functions of `macro_rules! for_each_function`:
/// `($make:ident) => { $make! { required { ... } optional { ... } } };`.
struct Table(Vec<Function>);

impl Parse for Table {
    fn parse(input: ParseStream<'_>) -> syn::Result<Self> {
        let (parameters, result, call);
        parenthesized!(parameters in input);
        parameters.parse::<Token![$]>()?;
        parameters.parse::<Ident>()?;
        parameters.parse::<Token![:]>()?;
        parameters.parse::<Ident>()?;
        input.parse::<Token![=>]>()?;
        braced!(result in input);
        input.parse::<Token![;]>()?;
        result.parse::<Token![$]>()?;
        result.parse::<Ident>()?;
        result.parse::<Token![!]>()?;
        braced!(call in result);
        let mut functions = Vec::new();
        while !call.is_empty() {
            call.parse::<Ident>()?;
            let blocks;
            braced!(blocks in call);
            functions.extend(Punctuated::<Function, Token![;]>::parse_terminated(&blocks)?);
        }
        Ok(Self(functions))
    }
}

fn functions(source: &str) -> Vec<Function> {
    let file = syn::parse_file(source).unwrap();
    let table = file.items.into_iter().find_map(|item| match item {
        Item::Macro(item) if item.ident.as_ref().is_some_and(|name| name == "for_each_function") => Some(item.mac),
        _ => None,
    });
    let Table(functions) = table.expect("no macro for_each_function in kernpack::sys::abi").parse_body().unwrap();
    functions
}
