use core::ffi::c_void;
use core::{fmt, slice};

/// The type of a value in the ABI's metadata and in error messages.
///
/// The JSON form is that of the stock library: `{"type":"ffi.Array","args":[{"type":"int"}]}`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TypeSchema {
    /// The type's key: `int`, `ffi.String`, `Optional`, `Tuple`, an object's type key.
    pub key: &'static str,
    /// Type arguments.
    pub args: &'static [TypeSchema],
}

/// A type that can be expressed in the ABI's type schema.
pub trait Schema {
    /// The type's schema.
    const TYPE: TypeSchema;

    /// The memory representation of a value.
    #[doc(hidden)]
    const STORAGE: Storage = Storage::Rust;

    /// Returns whether a place holds a value. Returns false for zeros in a type where zeros mean
    /// that there is no value.
    ///
    /// # Safety
    /// The place holds a value, or zeros if the storage allows them.
    #[doc(hidden)]
    unsafe fn is_set(place: *const c_void) -> bool {
        let _ = place;
        true
    }

    /// True if the type is an unsigned integer of 32 bits or more, which the schema does not
    /// express.
    #[doc(hidden)]
    const IS_UNSIGNED: bool = false;

    /// The access that a parameter of the type has to its argument, which the schema does not
    /// express.
    #[doc(hidden)]
    const ACCESS: Access = Access::Keeps;

    /// Returns the bytes of a value that is a string and is read in place; `None` for other types.
    #[doc(hidden)]
    const AS_TEXT: Option<fn(&Self) -> &[u8]> = None;
}

/// The access of a parameter to the memory of its argument, if the argument is a tensor.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Access {
    /// The function may keep the argument, so it needs a counted reference.
    Keeps,
    /// The function reads during the call.
    Reads,
    /// The function reads and writes during the call.
    Writes,
}

/// The memory representation of a value, for code that handles fields of other languages' types as
/// bytes.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Storage {
    /// Bytes that do not own anything; zeros are a valid value.
    Plain,
    /// Like the ABI's `TVMFFIAny`: 16 bytes that may own an object; zeros are not a value.
    Any,
    /// A pointer to an object that the field owns; zero means no object.
    Object,
    /// A representation that only Rust code understands.
    Rust,
}

impl TypeSchema {
    /// A type without arguments.
    pub const fn new(key: &'static str) -> Self {
        Self { key, args: &[] }
    }

    /// Returns whether this is the type with this key or has it among its type arguments.
    pub const fn mentions(&self, key: &str) -> bool {
        let (own, other) = (self.key.as_bytes(), key.as_bytes());
        let mut same = 0;
        while own.len() == other.len() && same < own.len() && own[same] == other[same] {
            same += 1;
        }
        if own.len() == other.len() && same == own.len() {
            return true;
        }
        let mut index = 0;
        while index < self.args.len() {
            if self.args[index].mentions(key) {
                return true;
            }
            index += 1;
        }
        false
    }

    /// Appends the JSON form to `out`.
    pub fn write_json(&self, out: &mut String) {
        out.push_str("{\"type\":\"");
        out.push_str(self.key);
        let mut before = "\",\"args\":[";
        for arg in self.args {
            out.push_str(before);
            arg.write_json(out);
            before = ",";
        }
        out.push_str(if self.args.is_empty() { "\"}" } else { "]}" });
    }
}

/// Python-like names for messages: `int`, `str`, `Optional[float]`, `Array[int]`.
impl fmt::Display for TypeSchema {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if let ("ffi.Function", [result, params @ ..]) = (self.key, self.args) {
            f.write_str("Callable[[")?;
            listed(params, f, "")?;
            listed(slice::from_ref(result), f, "], ")?;
            return f.write_str("]");
        }
        f.write_str(readable(self.key))?;
        listed(self.args, f, "[")?;
        f.write_str(if self.args.is_empty() { "" } else { "]" })
    }
}

/// Writes types separated by commas, with `before` in front of the first.
fn listed(types: &[TypeSchema], f: &mut fmt::Formatter<'_>, mut before: &str) -> fmt::Result {
    for ty in types {
        f.write_str(before)?;
        fmt::Display::fmt(ty, f)?;
        before = ", ";
    }
    Ok(())
}

/// The readable form of a type key.
pub(crate) fn readable(key: &str) -> &str {
    match key.strip_prefix("ffi.") {
        Some("String" | "SmallStr") => "str",
        Some("Bytes" | "SmallBytes") => "bytes",
        Some("BigInt") => "int",
        Some("OpaquePyObject") if cfg!(feature = "python_numbers") => "object",
        Some(name) => name,
        None => match key {
            "const char*" | "std::string" => "str",
            "TVMFFIByteArray*" => "bytes",
            "DLTensor*" => "Tensor",
            _ => key,
        },
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn json_and_display() {
        const ITEM: TypeSchema = TypeSchema::new("ffi.String");
        let list = TypeSchema { key: "ffi.Array", args: &[ITEM] };
        let mut json = String::new();
        list.write_json(&mut json);
        assert_eq!(json, r#"{"type":"ffi.Array","args":[{"type":"ffi.String"}]}"#);
        assert_eq!(list.to_string(), "Array[str]");
        for (key, is_there) in
            [("ffi.Array", true), ("ffi.String", true), ("ffi.Strin", false), ("int", false), ("", false)]
        {
            assert_eq!(list.mentions(key), is_there, "{key}");
        }
    }
}
