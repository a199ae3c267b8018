//! Makes a library part of the system library: generates a constructor that registers its symbols.

use std::fmt::Write as _;

/// Generates C code that registers the blob, and those of `functions` that the library defines,
/// when the program starts. Code that registers its functions itself (like Apache TVM's) registers
/// the same addresses again, which has no effect.
#[inline]
pub(super) fn registration(blob: Option<&str>, functions: &[String]) -> String {
    let mut code = String::from(
        "/* Written by kernpack: registers the symbols of a system library. */\n\
         extern int TVMFFIEnvModRegisterSystemLibSymbol(const char* name, void* symbol);\n",
    );
    let mut body = String::new();
    // Writing to a `String` does not fail.
    if let Some(symbol) = blob {
        let _ = writeln!(code, "extern const unsigned char {symbol}[];");
        let _ = writeln!(body, "  TVMFFIEnvModRegisterSystemLibSymbol(\"{symbol}\", (void*){symbol});");
    }
    // Names that are not C identifiers, such as `math.add`, are passed to the assembler; a name
    // that the assembler cannot express either is not a symbol.
    let in_assembly =
        |name: &&String| !name.bytes().any(|byte| byte.is_ascii_control() || matches!(byte, b'"' | b'\\' | b'%'));
    if functions.iter().any(|name| !is_identifier(name)) {
        code.push_str("#define KERNPACK_TEXT(x) #x\n#define KERNPACK_PREFIX(x) KERNPACK_TEXT(x)\n");
    }
    for (number, name) in functions.iter().filter(in_assembly).enumerate() {
        let symbol = format!("__tvm_ffi_{name}");
        let (variable, label) = match is_identifier(name) {
            true => (symbol.clone(), String::new()),
            false => (
                format!("kernpack_function_{number}"),
                format!(" __asm__(KERNPACK_PREFIX(__USER_LABEL_PREFIX__) \"{symbol}\")"),
            ),
        };
        let _ = writeln!(code, "extern int {variable}(void*, const void*, int, void*){label} __attribute__((weak));");
        let _ =
            writeln!(body, "  if ({variable}) TVMFFIEnvModRegisterSystemLibSymbol(\"{symbol}\", (void*){variable});");
    }
    let _ = write!(code, "__attribute__((constructor)) static void kernpack_register_symbols(void) {{\n{body}}}\n");
    code
}

/// Returns whether the name is a C identifier.
#[inline]
pub(super) fn is_identifier(name: &str) -> bool {
    name.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'_')
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_function_is_registered() {
        let names = ["plain", "math.add", "no\"symbol"].map(str::to_owned);
        let code = registration(None, &names);
        for line in [
            "extern int __tvm_ffi_plain(void*, const void*, int, void*) __attribute__((weak));",
            "  if (__tvm_ffi_plain) TVMFFIEnvModRegisterSystemLibSymbol(\"__tvm_ffi_plain\", (void*)__tvm_ffi_plain);",
            "extern int kernpack_function_1(void*, const void*, int, void*) \
             __asm__(KERNPACK_PREFIX(__USER_LABEL_PREFIX__) \"__tvm_ffi_math.add\") __attribute__((weak));",
            "  if (kernpack_function_1) TVMFFIEnvModRegisterSystemLibSymbol(\"__tvm_ffi_math.add\", (void*)kernpack_function_1);",
        ] {
            assert!(code.lines().any(|found| found == line), "{line}\n{code}");
        }
        assert!(!code.contains("no\""));
    }
}
