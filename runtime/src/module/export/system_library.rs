//! What makes a library part of the system library: a constructor that registers its symbols.

use std::fmt::Write as _;

/// C code that registers the blob, and those of `functions` that the library defines, when the program starts. Code that registers its
/// functions itself (as Apache TVM's does) registers the same addresses again, which changes nothing.
pub(super) fn registration(blob: Option<&str>, functions: &[String]) -> String {
    let mut code = String::from(
        "/* Written by kernpack: registers the symbols of a system library. */\n\
         extern int TVMFFIEnvModRegisterSystemLibSymbol(const char* name, void* symbol);\n",
    );
    let mut body = String::new();
    // Writing to a String does not fail.
    if let Some(symbol) = blob {
        let _ = writeln!(code, "extern const unsigned char {symbol}[];");
        let _ = writeln!(body, "  TVMFFIEnvModRegisterSystemLibSymbol(\"{symbol}\", (void*){symbol});");
    }
    for name in functions.iter().filter(|name| is_identifier(name)) {
        let symbol = format!("__tvm_ffi_{name}");
        let _ = writeln!(code, "extern __attribute__((weak)) int {symbol}(void*, const void*, int, void*);");
        let _ = writeln!(body, "  if ({symbol}) TVMFFIEnvModRegisterSystemLibSymbol(\"{symbol}\", (void*){symbol});");
    }
    let _ = write!(code, "__attribute__((constructor)) static void kernpack_register_symbols(void) {{\n{body}}}\n");
    code
}

/// Whether C can say the name.
pub(super) fn is_identifier(name: &str) -> bool {
    name.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'_')
}
