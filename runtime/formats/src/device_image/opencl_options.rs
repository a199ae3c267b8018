//! Compiler options of a device that are stored with OpenCL C code: in a comment on its first line,
//! because the format does not have a field for them.

const MARK: &str = "// kernpack-options: ";

/// Prepends the options to the code; without options, returns the code unchanged.
pub fn with_opencl_options(options: &[String], code: &str) -> String {
    if options.is_empty() { code.to_owned() } else { format!("{MARK}{}\n{code}", options.join(" ")) }
}

/// Returns the options that are stored with the code.
pub fn opencl_options(code: &[u8]) -> &str {
    let line = code.split(|byte| *byte == b'\n').next().unwrap_or_default();
    let line = str::from_utf8(line).unwrap_or_default();
    // The text is passed to a C function.
    line.strip_prefix(MARK).filter(|options| !options.contains('\0')).map_or("", str::trim_end)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn options_travel_with_the_code() {
        let code = "__kernel void f() {}\n";
        let options = ["-cl-fast-relaxed-math".to_owned(), "-DN=2".to_owned()];
        let written = with_opencl_options(&options, code);
        assert_eq!(written, "// kernpack-options: -cl-fast-relaxed-math -DN=2\n__kernel void f() {}\n");
        assert_eq!(opencl_options(written.as_bytes()), "-cl-fast-relaxed-math -DN=2");
        assert_eq!(with_opencl_options(&[], code), code);
        for code in [code, "", "\u{fffd}", "// kernpack-options: a\0b\n"] {
            assert_eq!(opencl_options(code.as_bytes()), "", "{code}");
        }
        assert_eq!(opencl_options(b"\xff\n"), "");
    }
}
