//! The macros of [kernpack](https://docs.rs/kernpack). Use them through that crate, which re-exports them.
//!
//! The entry points here only hand over to `kernpack-macros-backend`, a normal library, so that parsing and expansion
//! have unit tests.

use kernpack_macros_backend::{Environment, expand_library, expand_object, expand_packed_func};
use proc_macro::TokenStream;

/// Exports a free function as a packed function, callable from every language that loads the library.
///
/// ```
/// use kernpack::packed_func;
///
/// /// Adds two integers.
/// #[packed_func(name = "macros.add")]
/// fn add(a: i64, b: i64) -> i64 {
///     a + b
/// }
///
/// let anyone = kernpack::Function::global("macros.add")?;
/// assert_eq!(anyone.call_as::<i64>((add(1, 2), 4))?, 7);
/// # Ok::<(), kernpack::Error>(())
/// ```
///
/// The library then has the symbol `__tvm_ffi_<name>`, metadata and documentation symbols beside it, and registers the
/// global function `<crate>.<name>` when it is loaded. The function itself stays as it is and can be called from Rust.
///
/// Options:
/// - `name = "..."`: the exported name. A name with a `.` is also the global name, as it is.
/// - `global = false`: register no global function.
/// - `crate = path`: where the `kernpack` crate is, when it is renamed or re-exported.
///
/// Parameters and results are the types that implement `FromAny` and `IntoReturn`: numbers, `bool`, text, bytes,
/// `Option`, `Vec`, tuples, maps, tensors, functions, modules, objects. A function may return `Result<T, E>` with any
/// error that converts to `kernpack::Error`. Lifetimes are fine; type parameters, `async`, `unsafe`, `extern` and
/// `self` are compile errors that say what to write instead.
#[proc_macro_attribute]
pub fn packed_func(options: TokenStream, item: TokenStream) -> TokenStream {
    expand_packed_func(options.into(), item.into(), &Environment::read()).into()
}

/// Makes a struct an object type, which other languages hold by reference and whose public fields they read.
///
/// ```
/// use kernpack::{Array, ObjRef, Object};
///
/// /// Brightness counts of an image.
/// #[derive(Object)]
/// #[object(key = "macros.Histogram")]
/// #[repr(C)]
/// pub struct Histogram {
///     pub total: i64,
///     pub bins: Array<i64>,
/// }
///
/// let histogram = ObjRef::new(Histogram { total: 3, bins: Array::from(vec![1, 2]) });
/// assert_eq!(histogram.total, 3);
/// ```
///
/// The type is registered when the library is loaded. `#[base]` on the first
/// field names the parent: `#[base] base: Shape2D`. `#[object(crate = path)]` says where the `kernpack` crate is.
#[proc_macro_derive(Object, attributes(object, base))]
pub fn object(item: TokenStream) -> TokenStream {
    expand_object(item.into(), &Environment::read()).into()
}

/// Makes the crate a library of packed functions, and takes in what its `build.rs` made. Write it once, in the crate
/// root: `kernpack::library!();`.
#[proc_macro]
pub fn library(input: TokenStream) -> TokenStream {
    expand_library(input.into(), &Environment::read()).into()
}
