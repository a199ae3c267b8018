//! Types of objects for the tests of operations that walk through graphs.

use core::cell::RefCell;
use std::sync::Once;

use crate::abi::{field_flag, seq_hash_kind};
use crate::definition::field::BuiltinField;
use crate::definition::function::{Arguments, Builtin};
use crate::definition::instance::{Body, instance, metadata_of};
use crate::definition::signature::{ANY, BOOL, FUNCTION, INT, OBJECT, Signature, Type};
use crate::definition::type_def::{Attr, BuiltinType};
use crate::embedded::{self, list, release, seq};
use crate::function::Function;
use crate::value::{Any, IntoAny};
use crate::{Result, provider};

/// The fields of all of them.
#[repr(C)]
#[derive(Default)]
struct NodeBody {
    a: Any,
    b: Any,
    number: i64,
}

impl Drop for NodeBody {
    fn drop(&mut self) {
        let fields = [&mut self.a, &mut self.b].map(|field| core::mem::take(field).into_raw());
        // A long chain is not dropped recursively.
        // SAFETY: the values were the fields'.
        unsafe { release::release_elements(fields) };
    }
}

macro_rules! types {
    ($($name:ident $type:ident: $key:literal, $kind:ident, $flags:expr, $attrs:expr;)*) => {
        $(
            #[repr(transparent)]
            #[derive(Default)]
            struct $type(NodeBody);

            impl Body for $type {
                const SELF: &'static [&'static Type] = &[&OBJECT];

                fn definition() -> &'static BuiltinType {
                    &$name
                }
            }

            static $name: BuiltinType = BuiltinType {
                metadata: Some(metadata_of::<$type>(seq_hash_kind::$kind)),
                fields: &[
                    BuiltinField { name: "a", flags: $flags[0], ..BuiltinField::ANY },
                    BuiltinField { name: "b", flags: $flags[1], offset: 40, ..BuiltinField::ANY },
                    BuiltinField { name: "number", flags: $flags[2], offset: 56, ..BuiltinField::I64 },
                ],
                attrs: $attrs,
                ..BuiltinType::new($key)
            };
        )*

        fn register() {
            static DONE: Once = Once::new();
            provider::api();
            DONE.call_once(|| {
                let all = [$(&$name),*];
                all.iter().for_each(|builtin| builtin.allocate().unwrap());
                all.iter().for_each(|builtin| builtin.register().unwrap());
            });
        }
    };
}

const VARIABLE: i64 = field_flag::SEQ_HASH_IGNORE;
const PATTERN: i64 = field_flag::SEQ_HASH_DEF_PATTERN;
const SIMPLE: i64 = field_flag::SEQ_HASH_DEF_SIMPLE;

types! {
    TREE TreeBody: "tests.graphs.Tree", TREE_NODE, [0, 0, 0], &[];
    DAG DagBody: "tests.graphs.Dag", DAG_NODE, [0, 0, 0], &[];
    VAR VarBody: "tests.graphs.Var", FREE_VAR, [0, 0, VARIABLE], &[];
    SCOPE ScopeBody: "tests.graphs.Scope", TREE_NODE, [PATTERN, 0, 0], &[];
    SIMPLE_SCOPE SimpleScopeBody: "tests.graphs.SimpleScope", TREE_NODE, [SIMPLE, 0, 0], &[];
    UNIQUE UniqueBody: "tests.graphs.Unique", UNIQUE_INSTANCE, [0, 0, 0], &[];
    PLAIN PlainBody: "tests.graphs.Plain", UNSUPPORTED, [0, 0, 0], &[];
    HOOKED HookedBody: "tests.graphs.Hooked", TREE_NODE, [0, 0, 0], &[
        ("__s_equal__", hook("s_equal", &[&OBJECT, &OBJECT, &FUNCTION], &BOOL, |args| both(args, true))),
        ("__s_hash__", hook("s_hash", &[&OBJECT, &INT, &FUNCTION], &INT, |args| {
            misbehave(args, 0, 2)?;
            let [a, b] = fields(args, 0);
            let function: Function = args.view(2).get()?;
            let hash: i64 = function.call_as((a, args.int(1), 0))?;
            function.call((b, hash, 0))
        })),
        ("__ffi_eq__", hook("eq", &[&OBJECT, &OBJECT, &FUNCTION], &BOOL, |args| both(args, false))),
        ("__ffi_hash__", hook("hash", &[&OBJECT, &FUNCTION], &INT, |args| {
            misbehave(args, 0, 1)?;
            args.view(1).get::<Function>()?.call((&fields(args, 0)[0],))
        })),
        ("__data_to_json__", hook("to_json", &[&ANY], &ANY, |args| Ok(fields(args, 0)[0].clone()))),
        ("__data_from_json__", hook("from_json", &[&ANY], &ANY, |args| Ok(hooked(args.owned(0)?, Any::NONE, 0)))),
    ];
}

const fn hook(
    name: &'static str,
    params: &'static [&'static Type],
    result: &'static Type,
    run: fn(&Arguments<'_>) -> Result<Any>,
) -> Attr {
    Attr::Function(Builtin { name, signature: Signature::Typed(params, result), run })
}

/// The actions that a hook of [`hooked`] does first, by the object's number.
pub(crate) mod behaviour {
    /// Keeps the function that it gets; see [`super::KEPT`].
    pub(crate) const KEEP: i64 = 1;
    /// Empties the list in [`super::SHARED`].
    pub(crate) const EMPTY: i64 = 2;
    /// Calls the function on another thread.
    pub(crate) const OTHER_THREAD: i64 = 3;
    /// Fails.
    pub(crate) const FAIL: i64 = 4;
}

thread_local! {
    /// The last function that a hook kept.
    pub(crate) static KEPT: RefCell<Option<Function>> = const { RefCell::new(None) };
    /// The list that a hook empties.
    pub(crate) static SHARED: RefCell<Any> = const { RefCell::new(Any::NONE) };
}

fn misbehave(args: &Arguments<'_>, object: usize, function: usize) -> Result<()> {
    let function: Function = args.view(function).get()?;
    // SAFETY: an object of this file's types.
    match unsafe { embedded::body::<NodeBody>(args.object(object)) }.number {
        behaviour::KEEP => KEPT.set(Some(function)),
        behaviour::EMPTY => {
            let shared = SHARED.with_borrow(Clone::clone);
            // SAFETY: a live list.
            unsafe { seq::clear(shared.as_view().as_raw().payload.v_obj) };
        }
        behaviour::OTHER_THREAD => {
            let (one, two) = (1.into_any(), 1.into_any());
            let call = move || function.call((&one, &two)).map(drop);
            std::thread::spawn(call).join().unwrap()?;
        }
        behaviour::FAIL => crate::bail!(KeyError, "the hook failed"),
        _ => {}
    }
    Ok(())
}

fn fields(args: &Arguments<'_>, object: usize) -> [Any; 2] {
    // SAFETY: an object of this file's types.
    let body = unsafe { embedded::body::<NodeBody>(args.object(object)) };
    [body.a.clone(), body.b.clone()]
}

/// Compares first `b`, then `a`; an error of the comparison counts as a difference.
fn both(args: &Arguments<'_>, structural: bool) -> Result<Any> {
    misbehave(args, 0, 2)?;
    let ([left_a, left_b], [right_a, right_b]) = (fields(args, 0), fields(args, 1));
    let function: Function = args.view(2).get()?;
    for (left, right, name) in [(left_b, right_b, "second"), (left_a, right_a, "first")] {
        let equal = if structural {
            function.call_as::<bool>((left, right, 0, name))
        } else {
            function.call_as::<bool>((left, right))
        };
        if !equal.unwrap_or(false) {
            return Ok(false.into_any());
        }
    }
    Ok(true.into_any())
}

macro_rules! constructors {
    ($($name:ident $type:ident;)*) => {$(
        /// A new object.
        pub(crate) fn $name(a: impl IntoAny, b: impl IntoAny, number: i64) -> Any {
            register();
            instance($type(NodeBody { a: a.into_any(), b: b.into_any(), number }))
        }
    )*};
}

constructors! {
    tree TreeBody;
    dag DagBody;
    var VarBody;
    scope ScopeBody;
    simple_scope SimpleScopeBody;
    unique UniqueBody;
    plain PlainBody;
    hooked HookedBody;
}

/// A chain of `length` objects.
pub(crate) fn chain(length: usize) -> Any {
    (0..length).fold(Any::NONE, |rest, number| tree(rest, Any::NONE, number as i64))
}

/// `depth` nested arrays.
pub(crate) fn nested(depth: usize) -> Any {
    (0..depth).fold(1.into_any(), |inner, _| array([inner]))
}

/// A new array.
pub(crate) fn array<const N: usize>(elements: [Any; N]) -> Any {
    // SAFETY: a new array of owned values.
    unsafe { Any::from_object(seq::new_array(elements.map(Any::into_raw).to_vec())) }
}

/// A new list.
pub(crate) fn list<const N: usize>(elements: [Any; N]) -> Any {
    // SAFETY: a new list of owned values.
    unsafe { Any::from_object(seq::new_list(elements.map(Any::into_raw).to_vec())) }
}

/// A new list that contains itself, after a number. It must be [`emptied`](empty) in the end.
pub(crate) fn circle(number: i64) -> Any {
    let circle = list([number.into_any()]);
    // SAFETY: a live list; the value that it gets is owned.
    unsafe { list::push(circle.as_view().as_raw().payload.v_obj, circle.clone().into_raw()).unwrap() };
    circle
}

/// Empties a list.
pub(crate) fn empty(list: &Any) {
    // SAFETY: a live list.
    unsafe { seq::clear(list.as_view().as_raw().payload.v_obj) }
}

/// Calls a global function.
pub(crate) fn call(name: &str, arguments: &[&Any]) -> Result<Any> {
    register();
    let views: Vec<_> = arguments.iter().map(|value| *value.as_view()).collect();
    Function::global(name)?.call(&views[..])
}

/// The message of an error, after its kind.
pub(crate) fn problem(outcome: Result<Any>) -> String {
    outcome.map(|value| value.type_name()).unwrap_err().to_string()
}
