use core::ffi::c_void;

use super::packed::{call_packed, views};
use super::panic::{guard, install_hook};
use super::{Function, FunctionInfo, FunctionRole, ParamInfo, arg};
use crate::abi::{SafeCall, TVMFFIAny};
use crate::value::{Access, Any, AnyView, FromAny, IntoReturn, ResultPlace, Schema, TypeSchema};
use crate::{Result, embedded};

/// A Rust closure with typed parameters that can become a [`Function`]: up to 16 parameters that do
/// not borrow.
///
/// # Safety
/// `CALL` is the entry point of a function object that holds a closure of exactly this type.
#[diagnostic::on_unimplemented(
    message = "`{Self}` cannot become a Function",
    label = "not a closure over convertible, owned types",
    note = "annotate every parameter (`|a: i64, b: String| ...`); borrowed ones such as `&str` are not possible: take `String`",
    note = "a closure has at most 16 parameters; `Function::from_packed` takes any number of arguments",
    note = "captured values must be `Send + Sync + 'static`: use `move`, `Arc` and `Mutex`"
)]
pub unsafe trait TypedClosure<P>: Send + Sync + Sized + 'static {
    /// Entry point for a function object that holds the closure.
    #[doc(hidden)]
    const CALL: SafeCall;
}

macro_rules! typed_closure {
    ($count:literal; $($param:ident $index:literal)*) => {
        // SAFETY: `CALL` treats its handle as a function object with an `F`.
        unsafe impl<F, R, $($param),*> TypedClosure<(R, $($param,)*)> for F
        where
            F: Fn($($param),*) -> R + Send + Sync + 'static,
            R: IntoReturn,
            $($param: for<'a> FromAny<'a>,)*
        {
            const CALL: SafeCall = {
                unsafe extern "C" fn call<F, R, $($param),*>(
                    this: *mut c_void,
                    args: *const TVMFFIAny,
                    num_args: i32,
                    result: *mut TVMFFIAny,
                ) -> i32
                where
                    F: Fn($($param),*) -> R + Send + Sync + 'static,
                    R: IntoReturn,
                    $($param: for<'a> FromAny<'a>,)*
                {
                    let info: &'static FunctionInfo = const {
                        &FunctionInfo {
                            name: "closure",
                            global_name: None,
                            doc: "",
                            params: &[$(ParamInfo { name: "", ty: <$param as Schema>::TYPE, access: Access::Keeps }),*],
                            defaults: &[],
more_metadata: "",
                            kinds: None,
                            role: FunctionRole::Function,
                            ret: R::TYPE,
                            call: call::<F, R, $($param),*>,
                            detach: None,
                            crate_name: "",
                            file: "<closure>",
                            line: 0,
                        }
                    };
                    // SAFETY: the handle is the function object that `from_fn` created with this
                    // closure type; the rest is the ABI's calling convention.
                    unsafe {
                        let closure = embedded::closure_of::<F>(this);
                        call_packed::<$count, _>(info, args, num_args, result, |_args, _| {
                            closure($(arg::<$param>(info, _args, $index)?),*).into_return()
                        })
                    }
                }
                call::<F, R, $($param),*>
            };
        }
    };
}
typed_closure!(0;);
typed_closure!(1; A 0);
typed_closure!(2; A 0 B 1);
typed_closure!(3; A 0 B 1 C 2);
typed_closure!(4; A 0 B 1 C 2 D 3);
typed_closure!(5; A 0 B 1 C 2 D 3 E 4);
typed_closure!(6; A 0 B 1 C 2 D 3 E 4 G 5);
typed_closure!(7; A 0 B 1 C 2 D 3 E 4 G 5 H 6);
typed_closure!(8; A 0 B 1 C 2 D 3 E 4 G 5 H 6 I 7);
typed_closure!(9; A 0 B 1 C 2 D 3 E 4 G 5 H 6 I 7 J 8);
typed_closure!(10; A 0 B 1 C 2 D 3 E 4 G 5 H 6 I 7 J 8 K 9);
typed_closure!(11; A 0 B 1 C 2 D 3 E 4 G 5 H 6 I 7 J 8 K 9 L 10);
typed_closure!(12; A 0 B 1 C 2 D 3 E 4 G 5 H 6 I 7 J 8 K 9 L 10 M 11);
typed_closure!(13; A 0 B 1 C 2 D 3 E 4 G 5 H 6 I 7 J 8 K 9 L 10 M 11 N 12);
typed_closure!(14; A 0 B 1 C 2 D 3 E 4 G 5 H 6 I 7 J 8 K 9 L 10 M 11 N 12 O 13);
typed_closure!(15; A 0 B 1 C 2 D 3 E 4 G 5 H 6 I 7 J 8 K 9 L 10 M 11 N 12 O 13 Q 14);
typed_closure!(16; A 0 B 1 C 2 D 3 E 4 G 5 H 6 I 7 J 8 K 9 L 10 M 11 N 12 O 13 Q 14 S 15);

static PACKED: FunctionInfo = FunctionInfo {
    name: "packed closure",
    global_name: None,
    doc: "",
    params: &[],
    defaults: &[],
    more_metadata: "",
    kinds: None,
    role: FunctionRole::Function,
    ret: TypeSchema::new("Any"),
    call: never_called,
    detach: None,
    crate_name: "",
    file: "<closure>",
    line: 0,
};

unsafe extern "C" fn never_called(_: *mut c_void, _: *const TVMFFIAny, _: i32, _: *mut TVMFFIAny) -> i32 {
    -1
}

unsafe extern "C" fn call_packed_closure<F>(
    this: *mut c_void,
    args: *const TVMFFIAny,
    num_args: i32,
    result: *mut TVMFFIAny,
) -> i32
where
    F: Fn(&[AnyView<'_>]) -> Result<Any> + Send + Sync + 'static,
{
    // SAFETY: the ABI's calling convention.
    guard(&PACKED, unsafe { ResultPlace::new(result) }, || {
        // SAFETY: the handle is the function object that `from_packed` created with this closure
        // type; the caller passes `num_args` valid views and a writable result.
        unsafe {
            let closure = embedded::closure_of::<F>(this);
            result.write(closure(views(args, num_args))?.into_raw());
        }
        Ok(())
    })
}

impl Function {
    /// Creates a function from a closure with typed parameters; arguments are checked and converted
    /// as for `#[packed_func]`.
    ///
    /// ```
    /// use kernpack::Function;
    /// let gain = 3.0;
    /// let scale = Function::from_fn(move |x: f64| x * gain);
    /// assert_eq!(scale.call_as::<f64>((2,)).unwrap(), 6.0);
    /// ```
    pub fn from_fn<P, F: TypedClosure<P>>(closure: F) -> Self {
        install_hook();
        // SAFETY: a new function object, whose one reference is this one.
        unsafe { Self::from_raw(embedded::new_function(F::CALL, closure)) }
    }

    /// Creates a function from a closure over any number of arguments of any type.
    ///
    /// ```
    /// use kernpack::{Any, Function};
    /// let count = Function::from_packed(|args| Ok(Any::from(args.len())));
    /// assert_eq!(count.call_as::<usize>((1, "two", 3.0)).unwrap(), 3);
    /// ```
    pub fn from_packed<F>(closure: F) -> Self
    where
        F: Fn(&[AnyView<'_>]) -> Result<Any> + Send + Sync + 'static,
    {
        install_hook();
        // SAFETY: as above.
        unsafe { Self::from_raw(embedded::new_function(call_packed_closure::<F>, closure)) }
    }
}
