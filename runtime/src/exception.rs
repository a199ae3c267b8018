//! `exception!`: a library's own kinds of errors.

/// Declares a kind of errors: a constant for [`bail!`](crate::bail!) and similar macros, and an
/// exception class in Python, derived from that of another kind.
///
/// ```
/// use kernpack::{Result, bail};
///
/// kernpack::exception! {
///     /// A filter that cannot be applied.
///     pub FilterError: ValueError
/// }
///
/// fn blur(radius: i64) -> Result<i64> {
///     if radius < 0 {
///         bail!(FilterError, "a radius of {radius}");
///     }
///     Ok(radius)
/// }
/// assert_eq!(blur(-1).unwrap_err().kind(), FilterError);
/// ```
///
/// The other kind is one of [`error_kind`](mod@crate::error_kind), or one that is declared in the
/// same way. If Python imports the library, the class is an attribute of its module, so `except
/// mylib.FilterError` and `except ValueError` both catch it. In other languages the error has this
/// name.
#[macro_export]
macro_rules! exception {
    ($(#[$attribute:meta])* $visibility:vis $name:ident: $base:ident $(;)?) => {
        $(#[$attribute])*
        #[allow(non_upper_case_globals, reason = "it is the name of a Python class")]
        $visibility const $name: $crate::ErrorKind = $crate::ErrorKind::new(::core::stringify!($name));

        const _: () = {
            use $crate::__private_v0_1 as __k;

            #[__k::linkme::distributed_slice(__k::KERNPACK_EXCEPTIONS_V1)]
            #[linkme(crate = __k::linkme)]
            static __KERNPACK_EXCEPTION: __k::ExceptionInfo = __k::ExceptionInfo {
                kind: $name,
                base: {
                    #[allow(unused_imports)]
                    use $crate::error_kind::*;
                    $base
                },
                register: __k::register_exception,
            };
        };
    };
}
