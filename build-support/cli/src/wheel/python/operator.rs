//! Operators with two operands, in wheels for `tvm_ffi`.

use std::fmt::Write;

use super::api::{Api, Method, Type};

/// The helper that lets operators return NotImplemented, as those of an extension module do: for an
/// operand that the method refuses, and for the result None if the method may return it. The
/// library marks the error about such an operand. It has one frame, that of the operator: an error
/// of another operator, which the method has called, has more.
const HELPER: &str = r#"

def _take_operators(cls, names, optional):
    for name in names:
        setattr(cls, name, _operator(getattr(cls, name), name, name in optional))


def _is_refusal(error):
    own = getattr(error, "__tvm_ffi_error__", None)
    return own is not None and own.extra_context == "NotImplemented" and own.backtrace.count("\n") == 1


def _operator(call, name, is_optional):
    def operator(self, *operands):
        try:
            result = call(self, *operands)
        except TypeError as error:
            if _is_refusal(error):
                return NotImplemented
            raise
        return NotImplemented if result is None and is_optional else result

    operator.__name__, operator.__qualname__, operator.__doc__ = name, name, call.__doc__
    return operator
"#;

/// Returns true for the name of an operator with two operands, in any form.
pub(super) fn is_operator(name: &str) -> bool {
    const OPERATORS: [&str; 14] = [
        "add", "sub", "mul", "matmul", "truediv", "floordiv", "mod", "divmod", "pow", "lshift", "rshift", "and", "xor",
        "or",
    ];
    let Some(inside) = name.strip_prefix("__").and_then(|rest| rest.strip_suffix("__")) else { return false };
    let forms = [Some(inside), inside.strip_prefix('r'), inside.strip_prefix('i')];
    forms.into_iter().flatten().any(|operator| OPERATORS.contains(&operator))
}

fn of(ty: &Type) -> impl Iterator<Item = &Method> {
    ty.methods.iter().filter(|method| !method.is_static && is_operator(&method.name))
}

/// Writes the helper if a type has operators.
pub(super) fn helper(out: &mut String, api: &Api) {
    if api.types.iter().any(|ty| of(ty).next().is_some()) {
        out.push_str(HELPER);
    }
}

/// Writes the statements after a class with operators.
pub(super) fn statements(out: &mut String, ty: &Type) -> std::fmt::Result {
    let names: Vec<&str> = of(ty).map(|method| method.name.as_str()).collect();
    if names.is_empty() {
        return Ok(());
    }
    let is_optional = |method: &&Method| {
        method.signature.as_ref().is_some_and(|schema| schema.result.get("type").is_some_and(|ty| ty == "Optional"))
    };
    let optional: Vec<&str> = of(ty).filter(is_optional).map(|method| method.name.as_str()).collect();
    writeln!(out, "_take_operators({}, {names:?}, {optional:?})", ty.name)
}

#[cfg(test)]
mod tests {
    use super::is_operator;

    #[test]
    fn names_of_operators() {
        for name in ["__add__", "__radd__", "__iadd__", "__or__", "__ror__", "__divmod__", "__rpow__", "__ixor__"] {
            assert!(is_operator(name), "{name}");
        }
        for name in ["__eq__", "__call__", "__contains__", "add", "__neg__", "__init__", "__reversed__"] {
            assert!(!is_operator(name), "{name}");
        }
    }
}
