use crate::abi::TVMFFIAny;
use crate::value::{Any, AnyView, Arg, ToArg};

/// Arguments of a call: a tuple of up to 12 values, or a slice of views or owned values.
///
/// # Safety
/// `with_raw` passes views to `call` that are valid by the ABI's rules for the duration of `call`.
pub unsafe trait Args {
    /// Calls `call` with the arguments in the ABI's layout.
    fn with_raw<R>(&self, call: impl FnOnce(&[TVMFFIAny]) -> R) -> R;
}

// SAFETY: no arguments, no views.
unsafe impl Args for () {
    #[inline]
    fn with_raw<R>(&self, call: impl FnOnce(&[TVMFFIAny]) -> R) -> R {
        call(&[])
    }
}

macro_rules! tuple_args {
    ($($name:ident)+) => {
        // SAFETY: an `Arg` holds a valid view, and all of them live until `call` returns.
        unsafe impl<$($name: ToArg),+> Args for ($($name,)+) {
            #[inline]
            #[allow(non_snake_case, reason = "type parameters double as variable names")]
            fn with_raw<R>(&self, call: impl FnOnce(&[TVMFFIAny]) -> R) -> R {
                let ($($name,)+) = self;
                // Temporaries live until the call returns.
                $(let $name = $name.to_arg();)+
                call(&[$($name.as_raw()),+])
            }
        }
    };
}
tuple_args!(A);
tuple_args!(A B);
tuple_args!(A B C);
tuple_args!(A B C D);
tuple_args!(A B C D E);
tuple_args!(A B C D E F);
tuple_args!(A B C D E F G);
tuple_args!(A B C D E F G H);
tuple_args!(A B C D E F G H I);
tuple_args!(A B C D E F G H I J);
tuple_args!(A B C D E F G H I J K);
tuple_args!(A B C D E F G H I J K L);

// SAFETY: an `Arg` holds a valid view, and all of them live until `call` returns.
unsafe impl<const N: usize> Args for [Arg<'_>; N] {
    #[inline]
    fn with_raw<R>(&self, call: impl FnOnce(&[TVMFFIAny]) -> R) -> R {
        call(&self.each_ref().map(Arg::as_raw))
    }
}

// SAFETY: the slice holds valid views.
unsafe impl Args for &[AnyView<'_>] {
    #[inline]
    fn with_raw<R>(&self, call: impl FnOnce(&[TVMFFIAny]) -> R) -> R {
        if self.iter().any(AnyView::is_rvalue_ref) {
            let lent: Vec<TVMFFIAny> = self.iter().map(|view| *view.lent().as_raw()).collect();
            return call(&lent);
        }
        // SAFETY: a view is transparent over the raw struct.
        call(unsafe { core::slice::from_raw_parts(self.as_ptr().cast(), self.len()) })
    }
}

// SAFETY: an owned value is a valid view.
unsafe impl Args for &[Any] {
    #[inline]
    fn with_raw<R>(&self, call: impl FnOnce(&[TVMFFIAny]) -> R) -> R {
        // SAFETY: an owned value is transparent over the raw struct and is a valid view.
        call(unsafe { core::slice::from_raw_parts(self.as_ptr().cast(), self.len()) })
    }
}
