//! Enums with data: one object type for each variant, matched in Rust by `match`.

use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicI64, Ordering};

use kernpack::reflect::{AttrVisitor, VisitAttrs};
use kernpack::{Any, AnyView, Array, Field, Function, IntoAny, ObjRef, Object, ObjectRoot, Result, Str, structural};

/// An expression.
#[derive(Object)]
#[object(key = "families.Expr")]
#[repr(C, u32)]
pub enum Expr {
    /// A number.
    Const { value: i64 },
    /// A sum.
    Add {
        /// The left side.
        lhs: ObjRef<Expr>,
        rhs: ObjRef<Self>,
    },
    #[object(key = "families.Negative")]
    Neg {
        #[field(name = "operand")]
        of: ObjRef<Expr>,
    },
    /// Nothing.
    Nil,
    /// Fields of all sizes, in an order with gaps.
    Mixed {
        small: u8,
        text: String,
        flag: bool,
        wide: f64,
        #[field(skip, default = 7)]
        secret: u16,
        numbers: Vec<i32>,
        r#type: Option<Str>,
        tiny: i8,
    },
}

fn constant(value: i64) -> ObjRef<Expr> {
    ObjRef::new(Expr::Const { value })
}

fn add(lhs: ObjRef<Expr>, rhs: ObjRef<Expr>) -> ObjRef<Expr> {
    ObjRef::new(Expr::Add { lhs, rhs })
}

fn mixed() -> ObjRef<Expr> {
    ObjRef::new(Expr::Mixed {
        small: 200,
        text: "abc".to_owned(),
        flag: true,
        wide: 0.5,
        secret: 99,
        numbers: vec![1, -2],
        r#type: Some(Str::new("t")),
        tiny: -3,
    })
}

fn evaluate(expr: &ObjRef<Expr>) -> i64 {
    match &**expr {
        Expr::Const { value } => *value,
        Expr::Add { lhs, rhs } => evaluate(lhs) + evaluate(rhs),
        Expr::Neg { of } => -evaluate(of),
        Expr::Nil => 0,
        Expr::Mixed { small, numbers, tiny, .. } => {
            i64::from(*small) + i64::from(*tiny) + numbers.iter().map(|number| i64::from(*number)).sum::<i64>()
        }
    }
}

#[test]
fn an_object_has_the_type_of_its_variant() {
    for (expr, key) in [
        (constant(1), "families.Expr.Const"),
        (add(constant(1), constant(2)), "families.Expr.Add"),
        (ObjRef::new(Expr::Neg { of: constant(1) }), "families.Negative"),
        (ObjRef::new(Expr::Nil), "families.Expr.Nil"),
        (mixed(), "families.Expr.Mixed"),
    ] {
        assert_eq!(expr.type_key(), key);
        assert!(expr.is::<Expr>() && expr.is::<ObjectRoot>());
        assert_ne!(expr.type_index(), Expr::type_index());
        let root = expr.clone().upcast();
        let again = root.try_cast::<Expr>().ok().unwrap();
        assert!(again.ptr_eq(&expr));
    }
}

#[test]
fn matched_as_an_enum() -> Result<()> {
    let expr = add(constant(40), ObjRef::new(Expr::Neg { of: add(constant(-1), ObjRef::new(Expr::Nil)) }));
    assert_eq!(evaluate(&expr), 41);
    assert_eq!(evaluate(&mixed()), 196);
    let function = Function::from_fn(|expr: ObjRef<Expr>| evaluate(&expr));
    assert_eq!(function.call_as::<i64>((expr.clone(),))?, 41);
    let error = function.call((Array::from(vec![expr]),)).unwrap_err();
    assert_eq!(error.message(), "closure(0: families.Expr): argument 0: expected families.Expr, got Array");
    Ok(())
}

#[test]
fn fields_are_where_other_languages_look() -> Result<()> {
    assert_eq!(constant(5).into_any().field("value")?.to::<i64>()?, 5);
    let sum = add(constant(1), constant(2));
    let any = sum.clone().into_any();
    assert_eq!(evaluate(&any.field("lhs")?.to::<ObjRef<Expr>>()?), 1);
    assert_eq!(evaluate(&any.field("rhs")?.to::<ObjRef<Expr>>()?), 2);
    assert!(any.field("value").is_err());
    assert_eq!(evaluate(&ObjRef::new(Expr::Neg { of: sum }).into_any().field("operand")?.to::<ObjRef<Expr>>()?), 3);

    let any = mixed().into_any();
    assert_eq!(any.field("small")?.to::<u8>()?, 200);
    assert_eq!(any.field("text")?.to::<String>()?, "abc");
    assert!(any.field("flag")?.to::<bool>()?);
    assert_eq!(any.field("wide")?.to::<f64>()?, 0.5);
    assert_eq!(any.field("numbers")?.to::<Vec<i32>>()?, [1, -2]);
    assert_eq!(any.field("type")?.to::<String>()?, "t");
    assert_eq!(any.field("tiny")?.to::<i8>()?, -3);
    assert!(any.field("secret").is_err());
    Ok(())
}

/// The addresses of the fields, by their names.
fn addresses(object: &ObjRef<Expr>) -> HashMap<String, usize> {
    let info = kernpack::reflect::TypeInfo::find(object.type_index()).unwrap();
    let handle = std::ptr::from_ref(&**object) as usize - 24;
    info.fields().map(|field| (field.name().into_owned(), handle + field.as_raw().offset as usize)).collect()
}

#[test]
fn registered_offsets_are_those_of_the_compiler() {
    fn at<T>(field: &T) -> usize {
        std::ptr::from_ref(field) as usize
    }
    let expr = mixed();
    let Expr::Mixed { small, text, flag, wide, secret: _, numbers, r#type, tiny } = &*expr else { panic!() };
    let expected = [
        ("small", at(small)),
        ("text", at(text)),
        ("flag", at(flag)),
        ("wide", at(wide)),
        ("numbers", at(numbers)),
        ("type", at(r#type)),
        ("tiny", at(tiny)),
    ];
    assert_eq!(addresses(&expr), expected.into_iter().map(|(name, at)| (name.to_owned(), at)).collect());
    let sum = add(constant(1), constant(2));
    let Expr::Add { lhs, rhs } = &*sum else { panic!() };
    assert_eq!(addresses(&sum), HashMap::from([("lhs".to_owned(), at(lhs)), ("rhs".to_owned(), at(rhs))]));
}

/// Names of the fields that a visitor sees.
#[derive(Default)]
struct Names(Vec<String>);

impl AttrVisitor for Names {
    fn visit_other(&mut self, name: &str, _: &AnyView<'_>) -> Result<()> {
        self.0.push(name.to_owned());
        Ok(())
    }
}

#[test]
fn visitors_see_the_fields_of_the_variant() -> Result<()> {
    let names = |expr: &Expr| -> Result<Vec<String>> {
        let mut names = Names::default();
        expr.visit_attrs(&mut names)?;
        Ok(names.0)
    };
    assert_eq!(names(&Expr::Nil)?, [""; 0]);
    assert_eq!(names(&add(constant(1), constant(2)))?, ["lhs", "rhs"]);
    assert_eq!(names(&mixed())?, ["small", "text", "flag", "wide", "numbers", "type", "tiny"]);
    Ok(())
}

fn attr(name: &'static str, index: i32) -> Option<Any> {
    kernpack::reflect::AttrColumn::new(name).get(index).map(|value| value.try_to_owned().unwrap())
}

#[test]
fn other_languages_construct_and_copy() -> Result<()> {
    let new = |expr: &ObjRef<Expr>| attr("__ffi_init__", expr.type_index()).unwrap().to::<Function>();
    let init = new(&constant(0))?;
    let five: ObjRef<Expr> = init.call_as((5,))?;
    assert!(matches!(&*five, Expr::Const { value: 5 }));
    let sum: ObjRef<Expr> = new(&add(constant(0), constant(0)))?.call_as((five.clone(), five.clone()))?;
    assert_eq!((sum.type_key().as_str(), evaluate(&sum)), ("families.Expr.Add", 10));
    let nil: ObjRef<Expr> = new(&ObjRef::new(Expr::Nil))?.call_as(())?;
    assert!(matches!(&*nil, Expr::Nil));
    let made: ObjRef<Expr> = new(&mixed())?.call_as((1, "x", false, 2.5, vec![3], None::<Str>, 4))?;
    let Expr::Mixed { small: 1, secret: 7, tiny: 4, text, .. } = &*made else { panic!("another variant") };
    assert_eq!(text, "x");
    assert!(init.call(("five",)).unwrap_err().message().contains("value"));
    let parent: Function = attr("__ffi_init__", Expr::type_index()).unwrap().to()?;
    assert_eq!(
        parent.call((1,)).unwrap_err().message(),
        "families.Expr is one of its variants; construct one of these: families.Expr.Const, families.Expr.Add, families.Negative, \
         families.Expr.Nil, families.Expr.Mixed"
    );

    let copy: Function = attr("__ffi_shallow_copy__", sum.type_index()).unwrap().to()?;
    let twin: ObjRef<Expr> = copy.call_as((sum.clone(),))?;
    assert!(!twin.ptr_eq(&sum));
    assert_eq!(evaluate(&twin), 10);
    let Expr::Add { lhs, .. } = &*twin else { panic!("another variant") };
    assert!(lhs.ptr_eq(&five));
    Ok(())
}

#[test]
fn an_object_under_construction_is_its_variant_once_it_is_complete() -> Result<()> {
    let info = kernpack::reflect::TypeInfo::find(add(constant(0), constant(0)).type_index()).unwrap();
    let creator = info.metadata().unwrap().creator.unwrap();
    let evaluate = Function::from_fn(|expr: ObjRef<Expr>| evaluate(&expr));
    let mut handle = std::ptr::null_mut();
    // SAFETY: the ABI's convention of creators: the value takes over the new object's only
    // reference. Its fields are set before other code knows it.
    unsafe {
        assert_eq!(creator(&raw mut handle), 0);
        let object: *mut kernpack::sys::abi::TVMFFIObject = handle.cast();
        let sum = Any::from_raw(kernpack::sys::abi::TVMFFIAny::pointer(info.index(), handle.cast()));
        let message = evaluate.call((sum.clone(),)).unwrap_err().message().to_owned();
        assert!(
            message.contains("families.Expr.Add is not complete: no value was given for 'lhs', 'rhs'"),
            "{message}"
        );
        let fields: Vec<_> = info.fields().collect();
        fields[0].set(object, constant(1).into_any().as_view())?;
        assert!(evaluate.call((sum.clone(),)).unwrap_err().message().contains("for 'rhs'"));
        assert!(
            fields[1]
                .set(object, 3.into_any().as_view())
                .unwrap_err()
                .message()
                .contains("expected families.Expr, got int")
        );
        fields[1].set(object, constant(2).into_any().as_view())?;
        assert_eq!(evaluate.call_as::<i64>((sum.clone(),))?, 3);
    }
    Ok(())
}

/// Counts its values.
pub struct Counted(Arc<AtomicI64>);

impl Counted {
    fn new(count: &Arc<AtomicI64>) -> Self {
        count.fetch_add(1, Ordering::Relaxed);
        Self(count.clone())
    }
}

impl Drop for Counted {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::Relaxed);
    }
}

/// Variants with hidden values, and one that all languages may change.
#[derive(Object)]
#[object(key = "families.Guarded", structural = "unsupported")]
#[repr(C, u32)]
pub enum Guarded {
    Empty {},
    Holding {
        #[field(skip)]
        counted: Counted,
        #[field(writable)]
        label: Field<String>,
    },
}

#[test]
fn values_are_dropped_once() {
    let count = Arc::new(AtomicI64::new(0));
    let object = ObjRef::new(Guarded::Holding { counted: Counted::new(&count), label: Field::new("a".to_owned()) });
    let again = object.clone();
    drop(object);
    assert_eq!(count.load(Ordering::Relaxed), 1);
    drop(again);
    assert_eq!(count.load(Ordering::Relaxed), 0);
    drop(ObjRef::new(Guarded::Empty {}));
}

#[test]
fn what_only_rust_can_make_is_not_created_elsewhere() -> Result<()> {
    let count = Arc::new(AtomicI64::new(0));
    let object = ObjRef::new(Guarded::Holding { counted: Counted::new(&count), label: Field::new("a".to_owned()) });
    for hook in ["__ffi_new__", "__ffi_shallow_copy__"] {
        assert!(attr(hook, object.type_index()).is_none(), "{hook}");
    }
    let init: Function = attr("__ffi_init__", object.type_index()).unwrap().to()?;
    assert_eq!(
        init.call(("a",)).unwrap_err().message(),
        "families.Guarded.Holding cannot be constructed: nothing says what its private field 'counted' of \
         families.Guarded.Holding is then; Rust code says it with #[field(skip, default = ...)]"
    );
    let empty = ObjRef::new(Guarded::Empty {});
    let made: ObjRef<Guarded> = attr("__ffi_init__", empty.type_index()).unwrap().to::<Function>()?.call_as(())?;
    assert!(matches!(&*made, Guarded::Empty {}));
    let Guarded::Holding { label, .. } = &*object else { panic!("another variant") };
    label.set("b".to_owned());
    assert_eq!(object.clone().into_any().field("label")?.to::<String>()?, "b");
    Ok(())
}

/// Terms with variables.
#[derive(Object)]
#[object(key = "families.Term")]
#[repr(C, u32)]
pub enum Term {
    /// A variable, whose name is ignored.
    #[object(structural = "var")]
    Var {
        #[field(structural = "ignore")]
        name: String,
    },
    /// A function of one parameter.
    Lambda {
        #[field(structural = "def")]
        parameter: ObjRef<Term>,
        body: ObjRef<Term>,
    },
    /// A pair.
    Pair { left: ObjRef<Term>, right: ObjRef<Term> },
}

#[test]
fn a_variant_has_a_structural_kind_of_its_own() -> Result<()> {
    let lambda = |name: &str, other: Option<&str>| {
        let parameter = ObjRef::new(Term::Var { name: name.to_owned() });
        let right = other.map_or_else(|| parameter.clone(), |name| ObjRef::new(Term::Var { name: name.to_owned() }));
        let body = ObjRef::new(Term::Pair { left: parameter.clone(), right });
        ObjRef::new(Term::Lambda { parameter, body })
    };
    assert!(structural::equal(&lambda("x", None), &lambda("y", None))?, "the same but for the name of the parameter");
    assert_eq!(structural::hash(&lambda("x", None))?, structural::hash(&lambda("y", None))?);
    assert!(!structural::equal(&lambda("x", None), &lambda("x", Some("x")))?, "another variable of the same name");
    Ok(())
}
