//! The text form of any value, like Python's `repr`.

mod leaf;
mod number;
mod printer;
mod text;
mod visitor;

use printer::Printer;

use crate::definition::function::{Arguments, Builtin};
use crate::definition::signature::{ANY, STRING, Signature};
use crate::value::{Any, AnyView};
use crate::{Result, embedded};

#[cfg(feature = "all")]
pub(crate) const BUILTINS: &[Builtin] =
    &[Builtin { name: "ffi.ReprPrint", signature: Signature::Typed(&[&ANY], &STRING), run: print }];

#[inline]
fn print(args: &Arguments<'_>) -> Result<Any> {
    let value = args.lookup(0)?;
    let mut printer = Printer::new();
    // SAFETY: the caller keeps the value alive.
    unsafe { printer.print(&value)? };
    // SAFETY: a new text, whose reference is transferred to the value.
    Ok(unsafe { Any::from_raw(embedded::new_string(printer.text())) })
}

/// The text of a value.
#[inline]
pub(crate) fn text_of(value: &AnyView<'_>) -> Result<Vec<u8>> {
    let mut printer = Printer::new();
    // SAFETY: the view keeps the value alive.
    unsafe { printer.print(value.lent().as_raw())? };
    Ok(printer.into_text())
}
