//! Functions, methods and constructors that declare signatures.
//! `tests/python_extension/test_signatures.py` reads this file and calls each beside a function of
//! the same signature in Python: the results list the bound values.

use std::collections::{BTreeMap, HashMap};

use kernpack::{Any, Array, IntoAny, Map, Object, Str, constant, object_methods, packed_func};

/// The version of the library.
#[constant(name = "__version__")]
pub const VERSION: &str = env!("CARGO_PKG_VERSION");

/// The size of a key.
#[constant]
pub const KEY_SIZE: usize = 32;

/// A constant of a submodule.
#[constant(name = "extmod.text.SEPARATORS")]
pub const SEPARATORS: (&str, f64, Option<i64>) = (", ", 0.5, None);

macro_rules! signed {
    ($($name:ident $text:literal ($($(#[$default:meta])* $parameter:ident: $ty:ty),*);)*) => {
        $(
            /// Lists the bound values.
            #[packed_func(signature = $text)]
            #[allow(clippy::too_many_arguments, reason = "one of them takes many")]
            pub fn $name($($(#[$default])* $parameter: $ty),*) -> Vec<Any> {
                vec![$($parameter.into_any()),*]
            }
        )*
    };
}

signed! {
    signed_empty "()" ();
    signed_one "(a)" (a: Any);
    signed_two "(a, b)" (a: Any, b: Any);
    signed_default "(a, b=2)" (a: Any, b: i64);
    signed_all_defaults "(a=1, b=None, c='x')" (a: i64, b: Any, c: String);
    signed_positional "(a, /)" (a: Any);
    signed_positional_two "(a, b, /)" (a: Any, b: Any);
    signed_positional_default "(a, b=-1, /)" (a: Any, b: i64);
    signed_mixed "(a, /, b)" (a: Any, b: Any);
    signed_mixed_default "(a, /, b=2.5, c=True)" (a: Any, b: f64, c: Any);
    signed_all_positional_default "(a=None, /, b=None)" (a: Option<i64>, b: Option<i64>);
    signed_keyword "(*, key)" (key: Any);
    signed_keyword_default "(*, key=None)" (key: Option<String>);
    signed_keywords "(*, first, second)" (first: Any, second: Any);
    signed_keywords_some "(*, first=1, second, third=3)" (first: i64, second: Any, third: i64);
    signed_after_star "(a, *, key)" (a: Any, key: Any);
    signed_required_after_default "(a=1, *, key)" (a: i64, key: Any);
    signed_three_kinds "(a, /, b, *, key)" (a: Any, b: Any, key: Any);
    signed_three_defaults "(a, /, b=2, *, key=3)" (a: Any, b: i64, key: i64);
    signed_args "(*args)" (args: Vec<Any>);
    signed_args_behind "(a, *args)" (a: Any, args: Array<Any>);
    signed_args_default "(a=1, *args)" (a: i64, args: Vec<Any>);
    signed_args_key "(*args, key)" (args: Vec<Any>, key: Any);
    signed_args_key_default "(a, /, *args, key=None)" (a: Any, args: Vec<Any>, key: Any);
    signed_options "(**options)" (options: HashMap<String, Any>);
    signed_options_behind "(a, **options)" (a: Any, options: BTreeMap<String, Any>);
    signed_options_positional "(a, /, **options)" (a: Any, options: Map<Str, Any>);
    signed_options_default "(a, b=2, /, c=3, **options)" (a: Any, b: i64, c: i64, options: HashMap<String, Any>);
    signed_issue "(data, /, *, key=None, **options)" (data: Any, key: Any, options: HashMap<String, Any>);
    signed_args_options "(*args, **options)" (args: Vec<Any>, options: HashMap<String, Any>);
    signed_everything "(a, /, b, *args, key, other=5, **options)"
        (a: Any, b: Any, args: Vec<Any>, key: Any, other: i64, options: HashMap<String, Any>);
    signed_everything_default "(a=1, /, b='two', *args, key=3.0, other=[], **options)"
        (a: i64, b: &str, args: Vec<Any>, key: f64, other: Vec<Any>, options: HashMap<String, Any>);
    signed_many "(a, b, c, d, e, f, g, h, i, *, j=10, k=11)"
        (a: Any, b: Any, c: Any, d: Any, e: Any, f: Any, g: Any, h: Any, i: Any, j: i64, k: i64);
    signed_computed "(a=..., *, b=...)" (#[default(3)] a: i64, #[default(i64::from(4u8))] b: i64);
}

/// Adds integers by position, and multiplies the sum.
#[packed_func(name = "extmod.text.weigh", signature = "(*numbers, factor=1)")]
pub fn weigh(numbers: Vec<i64>, factor: i64) -> i64 {
    numbers.into_iter().sum::<i64>() * factor
}

/// An object whose constructor and methods declare signatures.
#[derive(Object)]
#[object(key = "extmod.Signed", init = false)]
#[repr(C)]
pub struct Signed {
    /// The bound values.
    pub values: Array<Any>,
}

#[object_methods]
impl Signed {
    /// The number of values.
    #[constant]
    pub const COUNT: i64 = 5;

    /// The name of the kind.
    #[constant(name = "KIND")]
    const NAME: &str = "signed";

    /// Keeps the bound values.
    #[init(signature = "(a, /, b=2, *args, key=None, **options)")]
    pub fn new(a: Any, b: i64, args: Vec<Any>, key: Any, options: HashMap<String, Any>) -> Self {
        let all = [a, b.into_any(), args.into_any(), key, options.into_any()];
        Self { values: all.into_iter().collect() }
    }

    /// Makes an object of the class that it is called on.
    #[method(class, signature = "(a, *, key=None)")]
    pub fn of(a: Any, key: Any) -> Self {
        Self { values: [a, key].into_iter().collect() }
    }

    /// Makes an object of the class that it is called on, or fails.
    #[method(class)]
    pub fn parse(text: &str, #[default(1)] times: usize) -> kernpack::Result<Self> {
        if text.is_empty() {
            kernpack::bail!(ValueError, "nothing to parse");
        }
        Ok(Self { values: (0..times).map(|_| text.into_any()).collect() })
    }

    /// Takes the object alone.
    #[method(signature = "()")]
    pub fn alone(&self) -> Vec<Any> {
        Vec::new()
    }

    /// Lists the bound values.
    #[method(signature = "(a, /, b, *, key=None)")]
    pub fn three(&self, a: Any, b: Any, key: Any) -> Vec<Any> {
        vec![a, b, key]
    }

    /// Lists the bound values.
    #[method(name = "rest", signature = "(*args, **options)")]
    pub fn take_rest(&self, args: Vec<Any>, options: HashMap<String, Any>) -> Vec<Any> {
        vec![args.into_any(), options.into_any()]
    }

    /// Lists the bound values.
    #[method(signature = "(a, /, *, key)")]
    pub fn shared(a: Any, key: Any) -> Vec<Any> {
        vec![a, key]
    }
}

/// An object that is copied through a constructor with a signature.
#[derive(Object)]
#[object(key = "extmod.Copied", init = false)]
#[repr(C)]
pub struct Copied {
    /// By position only.
    pub first: i64,
    /// By position or by name.
    pub second: Any,
    /// The further ones by position.
    pub rest: Array<Any>,
    /// By name only.
    pub key: Str,
    /// The further ones by name.
    pub options: Map<Str, Any>,
}

#[object_methods]
impl Copied {
    /// Keeps all.
    #[init(signature = "(first, /, second=None, *rest, key='none', **options)")]
    pub fn new(first: i64, second: Any, rest: Array<Any>, key: Str, options: Map<Str, Any>) -> Self {
        Self { first, second, rest, key, options }
    }

    /// Makes an object with a number alone.
    #[method(class)]
    pub fn other(first: i64) -> Self {
        Self::new(first, Any::NONE, Array::from(Vec::new()), Str::from("none"), Map::default())
    }
}
