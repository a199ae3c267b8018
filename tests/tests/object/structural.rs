//! Structural operations in Rust: on types of Rust and of another language, in our own host and in
//! the stock one, compared with the global functions if the host has them.

use std::cell::{Cell, RefCell};
use std::collections::HashMap;
use std::ffi::c_void;
use std::sync::Once;
use std::sync::atomic::{AtomicUsize, Ordering};

use kernpack::structural::{
    self, Flow, Mutate, Mutator, Options, Region, Replacement, Rewrite, StructuralKey, Walk, deep_copy, equal,
    first_mismatch, hash, paths_of_error, recursive_compare, recursive_equal, recursive_hash,
};
use kernpack::sys::abi::{
    TVMFFIAny, TVMFFIByteArray, TVMFFIFieldInfo, TVMFFITypeMetadata, field_flag, seq_hash_kind, type_index,
};
use kernpack::{
    Any, AnyView, Array, Error, Function, IntoAny, Map, ObjRef, Object, ObjectRoot, Result, sys::embedded,
    sys::provider,
};
use kernpack_tests::beside::tests_again;
use kernpack_tests::chain_length;
use kernpack_tests::stock::stock_library;

/// An expression; its source location is ignored.
#[derive(Object, Clone)]
#[object(key = "structural.Expr", child_slots = 8)]
#[repr(C)]
pub struct Expr {
    #[field(structural = "ignore")]
    pub line: i64,
}

/// A variable: equal to any other one, unless both are used together.
#[derive(Object, Clone)]
#[object(key = "structural.Var", structural = "var")]
#[repr(C)]
pub struct Var {
    #[base]
    pub expr: Expr,
    #[field(structural = "ignore")]
    pub name: String,
    pub bound: Option<ObjRef<Expr>>,
}

/// A number.
#[derive(Object, Clone)]
#[object(key = "structural.Num")]
#[repr(C)]
pub struct Num {
    #[base]
    pub expr: Expr,
    pub value: i64,
}

/// A sum.
#[derive(Object, Clone)]
#[object(key = "structural.Add")]
#[repr(C)]
pub struct Add {
    #[base]
    pub expr: Expr,
    pub left: ObjRef<Expr>,
    pub right: ObjRef<Expr>,
}

/// A function: defines its parameters.
#[derive(Object, Clone)]
#[object(key = "structural.Lambda")]
#[repr(C)]
pub struct Lambda {
    #[base]
    pub expr: Expr,
    #[field(structural = "def")]
    pub params: Array<ObjRef<Var>>,
    pub body: ObjRef<Expr>,
}

/// A node whose sharing matters for structural equality.
#[derive(Object, Clone)]
#[object(key = "structural.Shared", structural = "dag")]
#[repr(C)]
pub struct Shared {
    #[base]
    pub expr: Expr,
    pub inner: ObjRef<Expr>,
}

/// A link of a chain.
#[derive(Object, Clone)]
#[object(key = "structural.Link")]
#[repr(C)]
pub struct Link {
    pub value: i64,
    pub next: Option<ObjRef<Link>>,
}

/// A term: one type for each variant.
#[derive(Object, Clone)]
#[object(key = "structural.Term")]
#[repr(C, u32)]
pub enum Term {
    Leaf { value: i64 },
    Pair { left: ObjRef<Term>, right: ObjRef<Term> },
}

/// Has no structure.
#[derive(Object)]
#[object(key = "structural.Opaque", structural = "unsupported")]
#[repr(C)]
pub struct Opaque {
    pub value: i64,
}

const NOWHERE: Expr = Expr { line: 0 };

fn num(value: i64) -> ObjRef<Expr> {
    ObjRef::new(Num { expr: Expr { line: value }, value }).upcast()
}

fn var(name: &str) -> ObjRef<Var> {
    ObjRef::new(Var { expr: NOWHERE, name: name.to_owned(), bound: None })
}

fn add(left: ObjRef<Expr>, right: ObjRef<Expr>) -> ObjRef<Expr> {
    ObjRef::new(Add { expr: NOWHERE, left, right }).upcast()
}

fn lambda(params: &[&ObjRef<Var>], body: ObjRef<Expr>) -> ObjRef<Expr> {
    let params = params.iter().map(|var| (*var).clone()).collect();
    ObjRef::new(Lambda { expr: NOWHERE, params, body }).upcast()
}

fn shared(inner: ObjRef<Expr>) -> ObjRef<Expr> {
    ObjRef::new(Shared { expr: NOWHERE, inner }).upcast()
}

fn as_expr(var: &ObjRef<Var>) -> ObjRef<Expr> {
    var.clone().upcast()
}

fn down<T: Object>(node: &ObjRef<Expr>) -> ObjRef<T> {
    node.clone().try_cast().unwrap_or_else(|node| panic!("{} is not a {}", node.type_key(), T::TYPE_KEY))
}

fn chain(length: usize) -> ObjRef<Link> {
    let next = |next: Option<ObjRef<Link>>, value| Some(ObjRef::new(Link { value, next }));
    (0..length as i64).fold(None, next).unwrap()
}

/// A type as another language registers it: fields `a` and `b` of any type.
mod foreign {
    use super::*;

    #[repr(C)]
    #[derive(Clone, Default)]
    struct Body {
        a: Any,
        b: Any,
    }

    unsafe extern "C" fn get(field: *mut c_void, result: *mut TVMFFIAny) -> i32 {
        // SAFETY: the ABI's convention of getters.
        unsafe { result.write((*field.cast::<Any>()).clone().into_raw()) };
        0
    }

    unsafe extern "C" fn set(field: *mut c_void, value: *const TVMFFIAny) -> i32 {
        // SAFETY: the ABI's convention of setters.
        unsafe { *field.cast::<Any>() = AnyView::from_raw(*value).try_to_owned().unwrap() };
        0
    }

    /// Index of the type `structural.Foreign`.
    pub(super) fn index() -> i32 {
        static INDEX: Once = Once::new();
        let api = provider::api();
        let key = TVMFFIByteArray::new(b"structural.Foreign");
        // SAFETY: texts and values live for the calls; offsets are those of `Body` behind the
        // header of 24 bytes.
        unsafe {
            let index = (api.type_get_or_alloc_index)(&key, -1, 1, 0, 1, type_index::OBJECT);
            INDEX.call_once(|| {
                for (name, offset) in [("a", 24), ("b", 40)] {
                    let field = TVMFFIFieldInfo {
                        name: TVMFFIByteArray::new(name.as_bytes()),
                        doc: TVMFFIByteArray::EMPTY,
                        metadata: TVMFFIByteArray::EMPTY,
                        flags: field_flag::WRITABLE,
                        size: 16,
                        alignment: 8,
                        offset,
                        getter: Some(get),
                        setter: set as *mut c_void,
                        default_value_or_factory: TVMFFIAny::NONE,
                        field_static_type_index: type_index::ANY,
                    };
                    assert_eq!((api.type_register_field)(index, &field), 0);
                }
                let metadata = TVMFFITypeMetadata {
                    doc: TVMFFIByteArray::EMPTY,
                    creator: None,
                    total_size: 56,
                    structural_eq_hash_kind: seq_hash_kind::TREE_NODE,
                };
                assert_eq!((api.type_register_metadata)(index, &metadata), 0);
                let copy = Function::from_fn(|object: ObjRef<ObjectRoot>| {
                    let object = object.into_any();
                    new(object.field("a").unwrap(), object.field("b").unwrap())
                });
                register_attr(index, "__ffi_shallow_copy__", &copy.into_any());
            });
            index
        }
    }

    /// Registers an attribute of a type.
    pub(super) fn register_attr(index: i32, name: &str, value: &Any) {
        let name = TVMFFIByteArray::new(name.as_bytes());
        // SAFETY: name and value live for the call.
        assert_eq!(unsafe { (provider::api().type_register_attr)(index, &name, value.as_view().as_raw()) }, 0);
    }

    pub(super) fn new(a: Any, b: Any) -> Any {
        let object = embedded::new_object(index(), Body { a, b });
        // SAFETY: a new object, whose reference goes over to the value.
        unsafe { Any::from_raw(TVMFFIAny::pointer(index(), object.cast())) }
    }
}

/// Calls a global function of the host; `None` if it does not have the function.
fn global(name: &str, args: &[Any]) -> Option<Result<Any>> {
    let function = Function::find_global(name).unwrap()?;
    Some(match args {
        [a] => function.call((a,)),
        [a, b] => function.call((a, b)),
        [a, b, c] => function.call((a, b, c)),
        [a, b, c, d] => function.call((a, b, c, d)),
        _ => unreachable!("no function of the tests has so many parameters"),
    })
}

/// Runs a test on a stack that recursion into a long chain would overflow.
fn on_a_small_stack(size: usize, test: impl FnOnce() + Send + 'static) {
    std::thread::Builder::new().stack_size(size).spawn(test).unwrap().join().unwrap();
}

/// Values of all kinds, each made twice, and whether the two are structurally equal.
fn pairs() -> Vec<(&'static str, Any, Any, bool)> {
    let (x, y, u, v) = (var("x"), var("y"), var("u"), var("v"));
    let sum = |left: &ObjRef<Var>, right: &ObjRef<Var>| add(as_expr(left), as_expr(right));
    let twice = |node: ObjRef<Expr>| add(node.clone(), node);
    vec![
        ("integers", 1.into_any(), 1.into_any(), true),
        ("texts", "a text that is long".into_any(), "a text that is long".into_any(), true),
        ("numbers", num(1).into_any(), num(1).into_any(), true),
        ("other numbers", num(1).into_any(), num(2).into_any(), false),
        ("sums", add(num(1), num(2)).into_any(), add(num(1), num(2)).into_any(), true),
        ("other sums", add(num(1), num(2)).into_any(), add(num(1), num(3)).into_any(), false),
        ("functions", lambda(&[&x, &y], sum(&x, &y)).into_any(), lambda(&[&u, &v], sum(&u, &v)).into_any(), true),
        (
            "other functions",
            lambda(&[&x, &y], sum(&x, &y)).into_any(),
            lambda(&[&u, &v], sum(&v, &u)).into_any(),
            false,
        ),
        ("free variables", sum(&x, &x).into_any(), sum(&u, &u).into_any(), false),
        ("graphs", twice(shared(num(1))).into_any(), twice(shared(num(1))).into_any(), true),
        ("a graph and a tree", twice(shared(num(1))).into_any(), add(shared(num(1)), shared(num(1))).into_any(), false),
        ("foreign", foreign::new(1.into_any(), num(2).into_any()), foreign::new(1.into_any(), num(2).into_any()), true),
        (
            "other foreign",
            foreign::new(1.into_any(), num(2).into_any()),
            foreign::new(1.into_any(), num(3).into_any()),
            false,
        ),
        ("arrays", Array::from(vec![num(1), num(2)]).into_any(), Array::from(vec![num(1), num(2)]).into_any(), true),
        ("chains", chain(100).into_any(), chain(100).into_any(), true),
        ("longer chains", chain(100).into_any(), chain(101).into_any(), false),
    ]
}

#[test]
fn equality_hash_and_mismatch_are_those_of_the_host() -> Result<()> {
    for (name, left, right, expected) in pairs() {
        for (map_free_vars, skip_tensor_content) in [(false, false), (true, false), (false, true)] {
            let options = Options::new().map_free_vars(map_free_vars).skip_tensor_content(skip_tensor_content);
            let equal = options.equal(&left, &right)?;
            let hashes = (options.hash(&left)?, options.hash(&right)?);
            let difference = options.first_mismatch(&left, &right)?;
            if !map_free_vars {
                assert_eq!(equal, expected, "{name}");
            }
            assert!(!equal || hashes.0 == hashes.1 || name == "free variables", "{name}");
            assert_eq!(difference.is_none(), equal, "{name}");
            let flags = [map_free_vars.into_any(), skip_tensor_content.into_any()];
            let both = [left.clone(), right.clone(), flags[0].clone(), flags[1].clone()];
            if let Some(theirs) = global("ffi.StructuralEqual", &both) {
                assert_eq!(theirs?.to::<bool>()?, equal, "{name}");
            }
            for (value, ours) in [(&left, hashes.0), (&right, hashes.1)] {
                let args = [value.clone(), flags[0].clone(), flags[1].clone()];
                if let Some(theirs) = global("ffi.StructuralHash", &args) {
                    assert_eq!(theirs?.to::<i64>()?.cast_unsigned(), ours, "{name}");
                }
            }
            if let Some(theirs) = global("ffi.GetFirstStructuralMismatch", &both)
                && let Some(ours) = &difference
                && let Some(text) = global("ffi.ReprPrint", &[theirs?])
            {
                assert_eq!(text?.to::<String>()?, format!("({}, {})", ours.left, ours.right), "{name}");
            }
        }
    }
    let difference = first_mismatch(&add(num(1), num(2)), &add(num(1), num(3)))?.unwrap();
    assert_eq!(difference.left.to_string(), "<root>.right.value");
    let error = hash(&Array::from(vec![ObjRef::new(Opaque { value: 1 })])).unwrap_err();
    assert_eq!(error.kind(), "TypeError");
    assert!(error.message().contains("structural.Opaque"), "{error}");
    Ok(())
}

#[test]
fn equality_order_and_hash_field_by_field() -> Result<()> {
    for (name, left, right, _) in pairs() {
        let equal = recursive_equal(&left, &right)?;
        assert!(
            recursive_equal(&left, &left)? && (!equal || recursive_hash(&left)? == recursive_hash(&right)?),
            "{name}"
        );
        if let Some(theirs) = global("ffi.RecursiveEq", &[left.clone(), right.clone()]) {
            assert_eq!(theirs?.to::<bool>()?, equal, "{name}");
        }
        if let Some(theirs) = global("ffi.RecursiveHash", std::slice::from_ref(&left)) {
            assert_eq!(theirs?.to::<i64>()?.cast_unsigned(), recursive_hash(&left)?, "{name}");
        }
    }
    assert!(recursive_compare(&Array::from(vec![1_i64, 2]), &Array::from(vec![1_i64, 3]))?.is_lt());
    let map = |value: i64| [("a".to_owned(), value)].into_iter().collect::<Map<String, i64>>();
    assert_eq!(recursive_compare(&map(1), &map(2)).unwrap_err().kind(), "TypeError");
    Ok(())
}

#[test]
fn structure_as_a_key() -> Result<()> {
    let (x, u) = (var("x"), var("u"));
    let mut names = HashMap::new();
    names.insert(StructuralKey::new(lambda(&[&x], as_expr(&x)))?, "identity");
    names.insert(StructuralKey::new(num(1))?, "one");
    assert_eq!(names[&StructuralKey::new(lambda(&[&u], as_expr(&u)))?], "identity");
    assert_eq!(names[&StructuralKey::new(num(1))?], "one");
    assert!(!names.contains_key(&StructuralKey::new(num(2))?));
    let key = StructuralKey::new(num(1))?;
    assert_eq!((key.line, key.structural_hash()), (1, hash(&num(1))?));
    assert!(StructuralKey::new(ObjRef::new(Opaque { value: 1 })).is_err());
    Ok(())
}

#[test]
fn walks_come_before_and_after_children() -> Result<()> {
    let root = add(add(num(1), num(2)), num(3));
    let (before, after) = (RefCell::new(Vec::new()), RefCell::new(Vec::new()));
    let name = |node: &ObjRef<Expr>| match node.clone().try_cast::<Num>() {
        Ok(num) => num.value.to_string(),
        Err(_) => "+".to_owned(),
    };
    let stopped = Walk::new()
        .pre(|node: &ObjRef<Expr>| before.borrow_mut().push(name(node)))
        .post(|node: &ObjRef<Expr>| after.borrow_mut().push(name(node)))
        .run(&root)?;
    assert_eq!(stopped, None);
    assert_eq!(before.into_inner(), ["+", "+", "1", "2", "3"]);
    assert_eq!(after.into_inner(), ["1", "2", "+", "3", "+"]);
    Ok(())
}

#[test]
fn closures_over_several_types_and_the_first_that_fits() -> Result<()> {
    let x = var("x");
    let root = lambda(&[&x], add(num(5), add(as_expr(&x), num(6))));
    let seen = RefCell::new(Vec::new());
    let note = |text: String| seen.borrow_mut().push(text);
    Walk::new()
        .pre(|num: &Num| note(format!("num {}", num.value)))
        .pre(|var: ObjRef<Var>, region: Region| note(format!("var {} {region:?}", var.name)))
        .pre(|expr: &Expr| note(format!("expr {}", expr.line)))
        .post(|_: &Add| note("end of add".to_owned()))
        .post(|number: i64| note(format!("int {number}")))
        .post(|array: Array<Any>| note(format!("array of {}", array.len())))
        .run(&root)?;
    assert_eq!(
        seen.into_inner(),
        [
            "expr 0",
            "var x Pattern",
            "array of 1",
            "expr 0",
            "num 5",
            "int 5",
            "expr 0",
            "var x Use",
            "num 6",
            "int 6",
            "end of add",
            "end of add",
        ]
    );
    Ok(())
}

#[test]
fn families_are_matched() -> Result<()> {
    let leaf = |value| ObjRef::new(Term::Leaf { value });
    let pair = |left, right| ObjRef::new(Term::Pair { left, right });
    let root = pair(pair(leaf(1), leaf(2)), leaf(3));
    assert!(equal(&root, &pair(pair(leaf(1), leaf(2)), leaf(3)))? && !equal(&root, &leaf(1))?);
    let mut sum = 0;
    Walk::new()
        .pre(|term: &Term| {
            if let Term::Leaf { value } = term {
                sum += value;
            }
        })
        .run(&root)?;
    assert_eq!(sum, 6);
    // Adds up pairs of leaves, innermost first.
    let folded = Rewrite::new()
        .post(|term: ObjRef<Term>| match &*term {
            Term::Pair { left, right } => match (&**left, &**right) {
                (Term::Leaf { value: left }, Term::Leaf { value: right }) => leaf(left + right),
                _ => term,
            },
            Term::Leaf { .. } => term,
        })
        .run(root)?;
    assert!(matches!(&*folded, Term::Leaf { value: 6 }));
    Ok(())
}

#[test]
fn a_walk_stops_with_a_value_and_skips_children() -> Result<()> {
    let root = add(add(num(1), num(2)), add(num(3), num(4)));
    let count = Cell::new(0);
    let found = Walk::returning()
        .pre(|num: &ObjRef<Num>| {
            count.set(count.get() + 1);
            if num.value == 3 { Flow::Stop(num.clone()) } else { Flow::Continue }
        })
        .run(&root)?;
    assert_eq!((found.unwrap().value, count.get()), (3, 3));

    let (numbers, sums) = (Cell::new(0), Cell::new(0));
    Walk::new()
        .pre(|sum: &Add| if sum.left.line == 1 { Flow::Skip } else { Flow::Continue })
        .pre(|_: &Num| numbers.set(numbers.get() + 1))
        .post(|_: &Add| sums.set(sums.get() + 1))
        .run(&root)?;
    // The two numbers of one sum are skipped; the sum itself is left as well as entered.
    assert_eq!((numbers.get(), sums.get()), (2, 3));

    // Control flow and results, in either order.
    let mut walk = Walk::returning().post(|num: &Num| -> Result<std::ops::ControlFlow<i64>> {
        Ok(if num.value > 1 { std::ops::ControlFlow::Break(num.value) } else { std::ops::ControlFlow::Continue(()) })
    });
    assert_eq!(walk.run(&root)?, Some(2));
    assert_eq!(walk.run(&num(1))?, None);
    Ok(())
}

#[test]
fn errors_pass_through_and_know_their_place() -> Result<()> {
    let root = lambda(&[], add(num(1), Array::from(vec![num(7)]).get(0).unwrap()));
    let original = Error::new("MyError", "no sevens");
    let raise = original.clone();
    let fail = move |num: &Num| if num.value == 7 { Err(raise.clone()) } else { Ok(()) };
    for after in [false, true] {
        let walk = Walk::new();
        let error = if after { walk.post(fail.clone()) } else { walk.pre(fail.clone()) }.run(&root).unwrap_err();
        assert_eq!((error.kind(), error.message()), ("MyError", "no sevens"));
        assert_eq!(error.backtrace(), original.backtrace());
        let paths: Vec<_> = paths_of_error(&root, &error)?.iter().map(ToString::to_string).collect();
        assert_eq!(paths, ["<root>.body.right"]);
    }
    assert!(paths_of_error(&root, &Error::value_error("from elsewhere"))?.is_empty());
    // Through containers, and to a value that is not an object.
    let nested: Map<String, Array<i64>> = [("key".to_owned(), Array::from(vec![7]))].into_iter().collect();
    let root = foreign::new(Any::NONE, nested.into_any());
    let error = Walk::new().pre(|_: i64| Err::<(), _>(Error::value_error("a number"))).run(&root).unwrap_err();
    assert_eq!(paths_of_error(&root, &error)?[0].to_string(), r#"<root>.b["key"]"#);
    let root = lambda(&[], add(num(1), num(7)));

    let fail = |num: ObjRef<Num>| -> Result<Replacement> {
        if num.value == 7 { Err(Error::value_error("no sevens")) } else { Ok(Replacement::Keep) }
    };
    let error = Rewrite::new().post(fail).run(root.clone()).map(drop).unwrap_err();
    assert_eq!(error.kind(), "ValueError");
    assert_eq!(paths_of_error(&root, &error)?[0].to_string(), "<root>.body.right");
    // A result of another type.
    let error = Rewrite::new().pre(|_: &Expr| Replacement::with(1)).run(root).map(drop).unwrap_err();
    assert_eq!(error.kind(), "TypeError");
    // A value that does not fit the field.
    let error = Rewrite::new().pre(|_: &Num| Replacement::with("x")).run(add(num(1), num(2))).map(drop).unwrap_err();
    assert_eq!(error.kind(), "TypeError");
    Ok(())
}

#[test]
fn a_panic_of_a_closure_goes_on() {
    let root = add(num(1), num(2));
    let mut walk = Walk::new().pre(|num: &Num| assert_ne!(num.value, 2, "two"));
    let panic = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| walk.run(&root))).unwrap_err();
    assert!(panic.downcast_ref::<String>().unwrap().contains("two"));
    // The same walk can be used again.
    assert!(walk.run(&num(1)).unwrap().is_none());
}

#[test]
fn objects_of_another_language_are_walked_through() -> Result<()> {
    let root = foreign::new(foreign::new("text".into_any(), num(1).into_any()), Array::from(vec![num(2)]).into_any());
    let (mut numbers, mut texts, mut keys) = (0, Vec::new(), Vec::new());
    Walk::new()
        .pre(|num: &Num| numbers += num.value)
        .pre(|text: String| texts.push(text))
        .pre(|node: &AnyView<'_>| keys.push(node.type_name()))
        .run(&root)?;
    assert_eq!((numbers, texts), (3, vec!["text".to_owned()]));
    assert_eq!(keys[..2], ["structural.Foreign", "structural.Foreign"]);

    let rewritten = Rewrite::new()
        .post(|num: ObjRef<Num>| ObjRef::new(Num { value: num.value + 10, ..(*num).clone() }))
        .run(root.clone())?;
    assert_eq!(rewritten.type_name(), "structural.Foreign");
    let inner: ObjRef<Num> = rewritten.field("a")?.field("b")?.to()?;
    assert_eq!(inner.value, 11);
    assert_eq!(root.field("a")?.field("b")?.to::<ObjRef<Num>>()?.value, 1);
    Ok(())
}

#[test]
fn a_rewrite_copies_what_changes_and_shares_the_rest() -> Result<()> {
    let root = add(add(num(1), num(2)), add(num(3), num(4)));
    let rewritten = Rewrite::new()
        .post(|num: ObjRef<Num>| -> Result<Replacement> {
            Ok(if num.value == 3 {
                Replacement::with(ObjRef::new(Num { expr: NOWHERE, value: 30 }))
            } else {
                Replacement::Keep
            })
        })
        .run(root.clone())?;
    let (old, new) = (down::<Add>(&root), down::<Add>(&rewritten));
    assert!(!old.ptr_eq(&new) && old.left.ptr_eq(&new.left) && !old.right.ptr_eq(&new.right));
    assert_eq!(down::<Num>(&down::<Add>(&new.right).left).value, 30);
    assert_eq!(down::<Num>(&down::<Add>(&old.right).left).value, 3);
    assert!(down::<Add>(&old.right).right.ptr_eq(&down::<Add>(&new.right).right));
    // Without changes, the result is the same object.
    assert!(Rewrite::new().post(|node: ObjRef<Expr>| node).run(root.clone())?.ptr_eq(&root));
    assert!(Rewrite::new().run(root.clone())?.ptr_eq(&root));
    Ok(())
}

#[test]
fn rewrites_go_top_down_and_bottom_up() -> Result<()> {
    // Folds sums of numbers, innermost first.
    let fold = |sum: &ObjRef<Add>| match (sum.left.clone().try_cast::<Num>(), sum.right.clone().try_cast::<Num>()) {
        (Ok(left), Ok(right)) => Replacement::with(num(left.value + right.value)),
        _ => Replacement::Keep,
    };
    let root = || add(add(num(1), num(2)), add(num(3), num(4)));
    assert_eq!(down::<Num>(&Rewrite::new().post(fold).run(root())?).value, 10);
    // Top-down, the sums below are folded, but not the results.
    let half = down::<Add>(&Rewrite::new().pre(fold).run(root())?);
    assert_eq!((down::<Num>(&half.left).value, down::<Num>(&half.right).value), (3, 7));
    // The result of the callback for before is entered, and then the callback for after runs.
    let seen = RefCell::new(Vec::new());
    let both = Rewrite::new()
        .pre(|num: ObjRef<Num>| if num.value == 1 { add(self::num(5), self::num(6)) } else { num.upcast() })
        .post(|expr: &ObjRef<Expr>| {
            seen.borrow_mut().push(expr.type_key());
            Replacement::Keep
        })
        .run(add(num(1), num(2)))?;
    assert_eq!(down::<Num>(&down::<Add>(&down::<Add>(&both).left).right).value, 6);
    let keys = ["Num", "Num", "Add", "Num", "Add"].map(|name| format!("structural.{name}"));
    assert_eq!(seen.into_inner(), keys);
    Ok(())
}

#[test]
fn rewrites_are_those_of_the_host() -> Result<()> {
    for (name, value, _, _) in pairs() {
        for order in [0, 1] {
            let change = |num: ObjRef<Num>| ObjRef::new(Num { expr: NOWHERE, value: num.value + 1 });
            let rewrite = Rewrite::new();
            let ours = if order == 0 { rewrite.pre(change) } else { rewrite.post(change) }.run(value.clone())?;
            let Some(map) = Function::find_global("ffi.StructuralMap")? else { return Ok(()) };
            let callbacks = vec![(i64::from(<Num as Object>::type_index()), Function::from_fn(change))];
            let theirs = map.call((&value, callbacks, Vec::<(i64, Function)>::new(), order))?;
            assert!(Options::new().map_free_vars(true).equal(&ours, &theirs)?, "{name}");
        }
    }
    Ok(())
}

#[test]
fn containers_are_changed_in_place_when_nobody_else_has_them() -> Result<()> {
    let address = |array: &Array<Any>| array.clone().into_any().into_raw();
    let address = |array: &Array<Any>| {
        let raw = address(array);
        // SAFETY: the value is taken back.
        let value = unsafe { Any::from_raw(raw) };
        value.as_view().as_raw().bits()
    };
    let increment = |number: i64| number + 1;
    let array = Array::from(vec![1.into_any(), Array::from(vec![2_i64]).into_any()]);
    let before = address(&array);
    let array = Rewrite::new().post(increment).run(array)?;
    assert_eq!(address(&array), before);
    assert_eq!(array.get(1).unwrap().to::<Vec<i64>>()?, [3]);
    // With another owner, the array is copied.
    let other = array.clone();
    let changed = Rewrite::new().post(increment).run(array)?;
    assert_ne!(address(&changed), before);
    assert_eq!((other.get(0).unwrap().to::<i64>()?, changed.get(0).unwrap().to::<i64>()?), (2, 3));
    drop((other, changed));
    // A closure that keeps the array keeps its old value; one that only reads does not prevent
    // changes in place.
    for keep in [false, true] {
        let array = Array::from(vec![1.into_any(), 2.into_any()]);
        let before = address(&array);
        let kept = RefCell::new(Vec::new());
        let changed = Rewrite::new()
            .pre(|array: Array<Any>| {
                if keep {
                    kept.borrow_mut().push(array.clone());
                }
                array
            })
            .pre(increment)
            .run(array)?;
        assert_eq!(address(&changed) == before, !keep);
        assert!(kept.borrow().iter().all(|array| array.get(0).unwrap().to::<i64>().unwrap() == 1));
        assert_eq!(changed.get(0).unwrap().to::<i64>()?, 2);
    }
    Ok(())
}

#[test]
fn graphs_stay_graphs() -> Result<()> {
    let increment = |count: &Cell<i32>, num: ObjRef<Num>| {
        count.set(count.get() + 1);
        ObjRef::new(Num { expr: NOWHERE, value: num.value + 1 })
    };
    let halves = |root: &ObjRef<Expr>| {
        let sum = down::<Add>(root);
        sum.left.ptr_eq(&sum.right)
    };
    // Nodes of graphs by their kind.
    let node = shared(num(1));
    let count = Cell::new(0);
    let rewritten = Rewrite::new().post(|num: ObjRef<Num>| increment(&count, num)).run(add(node.clone(), node))?;
    assert!(halves(&rewritten) && count.get() == 1);
    // Other shared objects are visited at each of their places, or once.
    let node = add(num(1), num(2));
    for keep_sharing in [false, true] {
        let count = Cell::new(0);
        let rewrite = Rewrite::new().post(|num: ObjRef<Num>| increment(&count, num));
        let mut rewrite = if keep_sharing { rewrite.keep_sharing() } else { rewrite };
        let rewritten = rewrite.run(add(node.clone(), node.clone()))?;
        assert_eq!((halves(&rewritten), count.get()), if keep_sharing { (true, 2) } else { (false, 4) });
    }
    // A graph with 2^60 paths.
    let root = (0..60).fold(num(1), |node, _| add(node.clone(), node));
    let count = Cell::new(0);
    let mut rewritten = Rewrite::new().post(|num: ObjRef<Num>| increment(&count, num)).keep_sharing().run(root)?;
    assert_eq!(count.get(), 1);
    for _ in 0..60 {
        assert!(halves(&rewritten));
        rewritten = down::<Add>(&rewritten).left.clone();
    }
    assert_eq!(down::<Num>(&rewritten).value, 2);
    Ok(())
}

#[test]
fn a_variable_becomes_the_same_wherever_it_is_used() -> Result<()> {
    let x = ObjRef::new(Var { expr: NOWHERE, name: "x".to_owned(), bound: Some(num(1)) });
    let body = add(as_expr(&x), as_expr(&x));
    for keep_sharing in [false, true] {
        let count = Cell::new(0);
        let rewrite = Rewrite::new().post(|num: ObjRef<Num>| {
            count.set(count.get() + 1);
            ObjRef::new(Num { expr: NOWHERE, value: num.value + 1 })
        });
        let mut rewrite = if keep_sharing { rewrite.keep_sharing() } else { rewrite };
        // Two functions define the variable and share their body.
        let root = add(lambda(&[&x], body.clone()), lambda(&[&x], body.clone()));
        let sum = down::<Add>(&rewrite.run(root.clone())?);
        let functions = [down::<Lambda>(&sum.left), down::<Lambda>(&sum.right)];
        let renamed = functions[0].params.get(0).unwrap();
        assert!(!renamed.ptr_eq(&x) && count.get() == 1);
        assert_eq!(down::<Num>(renamed.bound.as_ref().unwrap()).value, 2);
        for function in &functions {
            let body = down::<Add>(&function.body);
            assert!(function.params.get(0).unwrap().ptr_eq(&renamed));
            assert!(body.left.ptr_eq(&renamed) && body.right.ptr_eq(&renamed));
        }
        assert_eq!(functions[0].body.ptr_eq(&functions[1].body), keep_sharing);
    }
    Ok(())
}

#[test]
fn callbacks_that_go_on_by_themselves() -> Result<()> {
    let (x, y) = (var("x"), var("y"));
    // Renames definitions and records the new names; uses follow. The parts of a sum are mutated
    // from right to left.
    let (count, order) = (Cell::new(0), RefCell::new(Vec::new()));
    let mut mutate = Mutate::new()
        .on(|var: ObjRef<Var>, mutator: &Mutator<'_>| -> Result<ObjRef<Var>> {
            if !mutator.region().defines() {
                return mutator.remembered(&var)?.map_or(Ok(var), |renamed| renamed.to());
            }
            count.set(count.get() + 1);
            let name = format!("{}{}", var.name, count.get());
            let renamed = ObjRef::new(Var { name, ..(*var).clone() });
            mutator.remember(&var, &renamed)?;
            Ok(renamed)
        })
        .on(|sum: &ObjRef<Add>, mutator: &Mutator<'_>| -> Result<ObjRef<Add>> {
            let right = mutator.mutate(&sum.right)?;
            let left = mutator.mutate(&sum.left)?;
            Ok(ObjRef::new(Add { expr: NOWHERE, left, right }))
        })
        .on(|num: &Num, _: &Mutator<'_>| {
            order.borrow_mut().push(num.value);
            Replacement::Keep
        });
    let root = lambda(&[&x], add(add(num(1), as_expr(&x)), add(num(2), as_expr(&y))));
    let mutated = down::<Lambda>(&mutate.run(root.clone())?);
    let renamed = mutated.params.get(0).unwrap();
    assert_eq!(renamed.name, "x1");
    let body = down::<Add>(&mutated.body);
    assert!(down::<Add>(&body.left).right.ptr_eq(&renamed) && down::<Add>(&body.right).right.ptr_eq(&y));
    assert_eq!(order.take(), [2, 1]);
    // Only the parts: the callback for the node itself is not called again.
    let depth = Cell::new(0);
    let mut mutate = Mutate::new().on(|sum: ObjRef<Add>, mutator: &Mutator<'_>| {
        depth.set(depth.get() + 1);
        mutator.mutate_children(&sum)
    });
    assert!(mutate.run(root.clone())?.ptr_eq(&root));
    assert_eq!(depth.get(), 3);
    // A definition region for a call.
    let regions = RefCell::new(Vec::new());
    Mutate::new()
        .on(|_: &Num, mutator: &Mutator<'_>| {
            regions.borrow_mut().push(mutator.region());
            mutator.with_region(Region::Simple, || regions.borrow_mut().push(mutator.region()));
            regions.borrow_mut().push(mutator.region());
            Replacement::Keep
        })
        .run(num(1))?;
    assert_eq!(regions.into_inner(), [Region::Use, Region::Simple, Region::Use]);
    // Errors and panics.
    let error = Mutate::new()
        .on(
            |num: &Num, _: &Mutator<'_>| {
                if num.value == 2 { Err(Error::value_error("two")) } else { Ok(Replacement::Keep) }
            },
        )
        .run(root.clone())
        .map(drop)
        .unwrap_err();
    assert_eq!(paths_of_error(&root, &error)?[0].to_string(), "<root>.body.right.left");
    let mut mutate = Mutate::new().on(|_: &Num, _: &Mutator<'_>| -> Replacement { panic!("no numbers") });
    assert!(std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| mutate.run(root).map(drop))).is_err());
    // A recursion that is too deep for the thread.
    on_a_small_stack(512 * 1024, || {
        let error = Mutate::new()
            .on(|link: ObjRef<Link>, mutator: &Mutator<'_>| mutator.mutate_children(&link))
            .run(chain(100_000))
            .map(drop)
            .unwrap_err();
        assert_eq!(error.kind(), "RecursionError");
    });
    Ok(())
}

#[test]
fn copies_share_what_is_shared() -> Result<()> {
    let inner = add(num(1), num(2));
    let root = add(inner.clone(), inner.clone());
    let copy = deep_copy(&root)?;
    assert!(equal(&root, &copy)? && !copy.ptr_eq(&root));
    let sum = down::<Add>(&copy);
    assert!(sum.left.ptr_eq(&sum.right) && !sum.left.ptr_eq(&inner));
    let foreign = foreign::new(inner.clone().into_any(), inner.into_any());
    assert!(equal(&deep_copy(&foreign)?, &foreign)?);
    assert_eq!(deep_copy(&"text".to_owned())?, "text");
    let error = deep_copy(&Function::from_fn(|| ())).map(drop).unwrap_err();
    assert!(error.message().contains("ffi.Function"), "{error}");
    Ok(())
}

#[test]
fn a_hook_that_keeps_the_visitor_cannot_use_it_later() -> Result<()> {
    let Some(visit) = Function::find_global("ffi.StructuralVisitorVisit")? else { return Ok(()) };
    thread_local!(static KEPT: RefCell<Option<Any>> = const { RefCell::new(None) });
    let key = TVMFFIByteArray::new(b"structural.Hooked");
    // SAFETY: the key lives for the call.
    let index = unsafe { (provider::api().type_get_or_alloc_index)(&key, -1, 1, 0, 1, type_index::OBJECT) };
    let hook = Function::from_fn({
        let visit = visit.clone();
        move |visitor: Any, _: Any| -> Result<Any> {
            KEPT.set(Some(visitor.clone()));
            visit.call((visitor, num(1)))
        }
    });
    foreign::register_attr(index, "__s_visit__", &hook.into_any());
    let object = embedded::new_object(index, ());
    // SAFETY: a new object, whose reference the value takes over.
    let hooked = unsafe { Any::from_raw(TVMFFIAny::pointer(index, object.cast())) };

    let count = Cell::new(0);
    let mut walk = Walk::returning().pre(|num: &ObjRef<Num>| {
        count.set(count.get() + 1);
        if count.get() == 2 { Flow::Stop(num.value) } else { Flow::Continue }
    });
    assert_eq!(walk.run(&hooked)?, None);
    assert_eq!(count.get(), 1);
    // The value comes through the hook.
    assert_eq!(walk.run(&hooked)?, Some(1));
    let visitor = KEPT.take().unwrap();
    let error = visit.call((&visitor, num(2))).unwrap_err();
    assert!(error.message().contains("only while the walk or rewrite runs"), "{error}");
    assert_eq!(count.get(), 2);

    // A hook that stops the walk.
    let Some(interrupt) = Function::find_global("ffi.VisitInterrupt")? else { return Ok(()) };
    let key = TVMFFIByteArray::new(b"structural.Stops");
    // SAFETY: as above.
    let index = unsafe { (provider::api().type_get_or_alloc_index)(&key, -1, 1, 0, 1, type_index::OBJECT) };
    let hook = Function::from_fn(move |_: Any, _: Any| interrupt.call((42,)));
    foreign::register_attr(index, "__s_visit__", &hook.into_any());
    let object = embedded::new_object(index, ());
    // SAFETY: as above.
    let stops = unsafe { Any::from_raw(TVMFFIAny::pointer(index, object.cast())) };
    let error = Walk::new().pre(|_: &Num| ()).run(&stops).unwrap_err();
    assert!(error.message().contains("a value of type int"), "{error}");
    let found =
        Walk::returning().interrupted(|value| value.to::<i64>()).pre(|_: &Num| Flow::<i64>::Continue).run(&stops)?;
    assert_eq!(found, Some(42));
    Ok(())
}

#[test]
fn a_closure_that_walks_again() -> Result<()> {
    let root = add(num(1), add(num(2), num(3)));
    let mut pairs = Vec::new();
    Walk::new()
        .pre(|outer: &Num| {
            let mut inner = 0;
            let walked = Walk::new().pre(|_: &Num| inner += 1).run(&root);
            pairs.push((outer.value, inner));
            walked.map(drop)
        })
        .run(&root)?;
    assert_eq!(pairs, [(1, 3), (2, 3), (3, 3)]);
    Ok(())
}

/// Objects of type [`Counted`] that are alive.
static ALIVE: AtomicUsize = AtomicUsize::new(0);

/// Counts its object.
pub struct Presence(());

impl Default for Presence {
    fn default() -> Self {
        ALIVE.fetch_add(1, Ordering::Relaxed);
        Self(())
    }
}

impl Clone for Presence {
    fn clone(&self) -> Self {
        Self::default()
    }
}

impl Drop for Presence {
    fn drop(&mut self) {
        ALIVE.fetch_sub(1, Ordering::Relaxed);
    }
}

/// An object that is counted.
#[derive(Object, Clone)]
#[object(key = "structural.Counted")]
#[repr(C)]
pub struct Counted {
    pub value: i64,
    pub parts: Array<ObjRef<Counted>>,
    presence: Presence,
}

#[test]
fn nothing_is_kept() -> Result<()> {
    let counted = |value, parts: Vec<ObjRef<Counted>>| {
        ObjRef::new(Counted { value, parts: Array::from(parts), presence: Presence::default() })
    };
    let tree = || {
        let shared = counted(1, vec![]);
        counted(2, vec![shared.clone(), counted(3, vec![shared.clone()]), shared])
    };
    let fail = |node: &Counted| if node.value == 1 { Err(Error::value_error("one")) } else { Ok(()) };
    let change = |node: ObjRef<Counted>| -> Result<ObjRef<Counted>> {
        match node.value {
            1 => Ok(ObjRef::new(Counted { value: 10, ..(*node).clone() })),
            3 => Err(Error::value_error("three")),
            _ => Ok(node),
        }
    };
    assert!(equal(&tree(), &tree())? && recursive_equal(&tree(), &tree())?);
    assert_eq!((hash(&tree())?, recursive_hash(&tree())?), (hash(&tree())?, recursive_hash(&tree())?));
    first_mismatch(&tree(), &counted(2, vec![]))?.unwrap();
    drop(StructuralKey::new(tree())?);
    drop(deep_copy(&tree())?);
    Walk::returning().post(|node: ObjRef<Counted>| Flow::Stop(node)).run(&tree())?.unwrap();
    let root = tree();
    let error = Walk::new().pre(fail).run(&root).unwrap_err();
    assert_eq!(paths_of_error(&root, &error)?[0].to_string(), "<root>.parts[0]");
    drop((root, error));
    let mut panics = Walk::new().pre(|node: ObjRef<Counted>| assert_eq!(node.value, 0));
    std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| panics.run(&tree()))).unwrap_err();
    for keep_sharing in [false, true] {
        for fails in [false, true] {
            let rewrite = Rewrite::new().post(|node: ObjRef<Counted>| if fails { change(node) } else { Ok(node) });
            let mut rewrite = if keep_sharing { rewrite.keep_sharing() } else { rewrite };
            assert_eq!(rewrite.run(tree()).is_err(), fails);
            let mut rewrite = Rewrite::new().pre(change);
            assert!(rewrite.run(tree()).is_err());
        }
    }
    let mut mutate = Mutate::new().on(|node: ObjRef<Counted>, mutator: &Mutator<'_>| {
        let node = mutator.mutate_children(&node)?;
        mutator.remember(&node, &node)?;
        change(node)
    });
    assert!(mutate.run(tree()).is_err());
    drop((panics, mutate));
    assert_eq!(ALIVE.load(Ordering::Relaxed), 0);
    Ok(())
}

#[test]
fn dropping_a_long_chain() {
    on_a_small_stack(256 * 1024, || drop(chain(chain_length())));
}

#[test]
fn long_chains_on_small_stacks() {
    let root = chain(chain_length());
    let same = deep_copy(&root).unwrap();
    on_a_small_stack(128 * 1024, move || {
        assert!(!root.ptr_eq(&same));
        assert!(equal(&root, &same).unwrap());
        assert_eq!(hash(&root).unwrap(), hash(&same).unwrap());
        assert!(first_mismatch(&root, &same).unwrap().is_none());
        assert!(recursive_equal(&root, &same).unwrap());
        assert_eq!(recursive_hash(&root).unwrap(), recursive_hash(&same).unwrap());

        let (mut sum, mut count) = (0, 0);
        let last = Walk::returning()
            .pre(|link: &Link| sum += link.value)
            .post(|link: &ObjRef<Link>| {
                count += 1;
                if count == chain_length() { Flow::Stop(link.clone()) } else { Flow::Continue }
            })
            .run(&root)
            .unwrap();
        assert!(last.unwrap().ptr_eq(&root));
        assert_eq!(sum, (chain_length() * (chain_length() - 1) / 2) as i64);

        let innermost = |link: ObjRef<Link>| {
            if link.next.is_some() { link } else { ObjRef::new(Link { value: -1, next: None }) }
        };
        let rewritten = Rewrite::new().post(innermost).run(root.clone()).unwrap();
        let difference = first_mismatch(&root, &rewritten).unwrap().unwrap();
        assert_eq!(difference.left.steps.len(), chain_length());
        let rewritten = Rewrite::new().pre(innermost).keep_sharing().run(rewritten).unwrap();
        assert!(!equal(&root, &rewritten).unwrap());
        drop(rewritten);

        let copy = deep_copy(&root).unwrap();
        assert!(!copy.next.as_ref().unwrap().ptr_eq(root.next.as_ref().unwrap()));
        drop(copy);
        // An error is recorded at each link.
        let fail = |link: &Link| if link.next.is_none() { Err(Error::value_error("the end")) } else { Ok(()) };
        let error = Walk::new().pre(fail).run(&root).unwrap_err();
        assert_eq!(paths_of_error(&root, &error).unwrap()[0].steps.len(), chain_length() - 1);
        // The stock library takes minutes for it.
        if provider::origin() == provider::Origin::Embedded
            && let Some(text) = global("ffi.ReprPrint", &[root.into_any()])
        {
            assert!(
                text.unwrap()
                    .to::<String>()
                    .unwrap()
                    .starts_with(&format!("structural.Link(value={}", chain_length() - 1))
            );
        }
    });
}

const INSIDE: &str = "KERNPACK_TEST_INSIDE_STOCK_HOST";

/// Runs all other tests again with the stock library loaded first.
#[test]
fn under_the_stock_library() {
    if std::env::var_os(INSIDE).is_some() {
        assert_eq!(provider::origin(), provider::Origin::Process);
        return;
    }
    let Some(stock) = stock_library() else { return };
    let output =
        tests_again(module_path!()).arg("--test-threads=2").env("LD_PRELOAD", stock).env(INSIDE, "1").output().unwrap();
    let text = format!("{}{}", String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
    assert!(output.status.success() && text.contains("0 failed"), "{text}");
}

/// The module's own name, so that this test detects a change of it.
#[test]
fn the_module_is_public() {
    assert!(structural::equal(&1, &1).unwrap());
}
