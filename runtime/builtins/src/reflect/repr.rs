//! Values as one line of text.

use crate::engines::repr;
use crate::value::{AnyView, ToArg};
use crate::{Result, provider};

/// A value in one line, as Python prints it: the text of the global function `ffi.ReprPrint`.
///
/// Works on objects of all languages, through their registered fields and the hook `__ffi_repr__`
/// of their type. An object that contains itself is `...` inside. Objects may be nested a million
/// deep. A shared object is repeated, up to 4 MiB of text; beyond that it is `<its.Type, shown
/// before>`.
///
/// For several lines, and for large values, use [`Tree`](super::Tree).
///
/// # Errors
/// Any error of a field's getter or a hook.
///
/// ```
/// use kernpack::reflect::repr;
/// use kernpack::{ObjRef, Object};
///
/// #[derive(Object)]
/// #[object(key = "docs.repr.Size")]
/// #[repr(C)]
/// pub struct Size {
///     pub width: f64,
///     pub names: Vec<String>,
/// }
///
/// let size = ObjRef::new(Size { width: 2.5, names: vec!["w".into(), "x".into()] });
/// assert_eq!(repr(&size)?, r#"docs.repr.Size(width=2.5, names=("w", "x"))"#);
/// # Ok::<(), kernpack::Error>(())
/// ```
#[inline]
pub fn repr<T: ToArg + ?Sized>(value: &T) -> Result<String> {
    let arg = value.to_arg();
    // SAFETY: the argument lives to the end of the function.
    print(&unsafe { AnyView::from_raw(arg.as_raw()) })
}

#[inline]
fn print(value: &AnyView<'_>) -> Result<String> {
    provider::api();
    let text = repr::text_of(value)?;
    Ok(String::from_utf8(text).unwrap_or_else(|error| String::from_utf8_lossy(error.as_bytes()).into_owned()))
}
