//! Types as a language with classes defines them: created, set, printed, copied and destroyed
//! through the global functions.

use core::ffi::c_void;

use crate::abi::{TVMFFIAny, TVMFFIByteArray, TVMFFIFieldGetter, TVMFFIFieldInfo, field_flag, type_index};
use crate::embedded::type_table::{self, NewType};
use crate::embedded::{self, failure::Failure, list, map, raised, release, seq, type_members};
use crate::function::Function;
use crate::functions::values;
use crate::value::{Any, IntoAny};
use crate::{Error, Result};
use kernpack_core::reflect::AttrColumn;

static INIT: AttrColumn = AttrColumn::new("__ffi_init__");

/// A field: name, declared type index, flags, default.
type NewField<'a> = (&'a str, i32, i64, TVMFFIAny);

/// A conversion that accepts everything but text as a number.
unsafe extern "C" fn convert(converter: *mut c_void, value: *const TVMFFIAny, result: *mut TVMFFIAny) -> i32 {
    // SAFETY: the convention of conversions; the converter is an index as a pointer.
    unsafe {
        let is_text = matches!((*value).type_index, type_index::SMALL_STR | type_index::STR);
        if is_text && converter.addr() == type_index::INT as usize {
            raised::raise(b"TypeError", b"expected int,\ngot str", b"");
            return -1;
        }
        match release::to_owned(&*value) {
            Ok(owned) => result.write(owned),
            Err(_) => return -1,
        }
    }
    0
}

fn global(name: &str) -> Function {
    Function::global(name).unwrap()
}

/// Defines a type whose fields follow those of its parent, which end at `start`; returns its index.
fn define(key: &str, parent: i32, start: i64, fields: &[NewField<'_>]) -> i32 {
    crate::provider::api();
    let depth = if parent == type_index::OBJECT { 1 } else { 2 };
    let key = key.as_bytes();
    let new = NewType { key, static_index: -1, depth, num_child_slots: 0, can_overflow: true, parent };
    let index = type_table::get_or_allocate(new).unwrap();
    let mut offset = start;
    for (name, declared, flags, default) in fields {
        let address = convert as *const c_void as i64;
        let getter: i64 = global("ffi.MakeFieldGetter").call_as((*declared,)).unwrap();
        let setter: Function =
            global("ffi.MakeFieldSetter").call_as((*declared, i64::from(*declared), address)).unwrap();
        let size = if *declared == type_index::ANY { 16 } else { 8 };
        let info = TVMFFIFieldInfo {
            name: TVMFFIByteArray::new(name.as_bytes()),
            doc: TVMFFIByteArray::EMPTY,
            metadata: TVMFFIByteArray::EMPTY,
            flags: flags | field_flag::WRITABLE | field_flag::SETTER_IS_FUNCTION_OBJ,
            size,
            alignment: 8,
            offset,
            // SAFETY: the global function gives the address of a getter.
            getter: Some(unsafe {
                core::mem::transmute::<*const c_void, TVMFFIFieldGetter>(core::ptr::with_exposed_provenance(
                    getter as usize,
                ))
            }),
            setter: setter.as_ptr().cast(),
            default_value_or_factory: *default,
            field_static_type_index: *declared,
        };
        // SAFETY: the record is valid; the table takes references of its own.
        unsafe { type_members::register_field(index, &info).unwrap() };
        offset += size;
    }
    global("ffi._PyClassRegisterTypeAttrColumns").call((index, offset)).unwrap();
    index
}

fn init(index: i32, args: &[Any]) -> Result<Any> {
    let init = INIT.get(index).unwrap();
    init.get::<Function>()?.call(args)
}

fn print(value: &Any) -> String {
    global("ffi.ReprPrint").call_as((value,)).unwrap()
}

fn copy(value: &Any) -> Any {
    global("ffi.DeepCopy").call((value,)).unwrap()
}

fn count(value: &Any) -> u32 {
    // SAFETY: the value is an object.
    unsafe { embedded::strong_count(value.as_view().object().unwrap()) }
}

fn any(value: impl IntoAny) -> Any {
    value.into_any()
}

fn message(outcome: Result<Any>) -> String {
    outcome.unwrap_err().to_string()
}

fn of_object(object: *mut crate::abi::TVMFFIObject) -> Any {
    // SAFETY: the callers pass a new object, whose reference is transferred.
    unsafe { Any::from_object(object) }
}

fn owned(outcome: Result<*mut crate::abi::TVMFFIObject, Failure>) -> Any {
    of_object(outcome.map_err(Error::from).unwrap())
}

const DEFAULT: i64 = field_flag::HAS_DEFAULT;

#[test]
fn constructors_bind_arguments() {
    let none = TVMFFIAny::NONE;
    let index = define(
        "dataclass.Bound",
        type_index::OBJECT,
        24,
        &[
            ("x", type_index::INT, DEFAULT, TVMFFIAny::int(7)),
            ("y", type_index::INT, 0, none),
            ("k", type_index::ANY, field_flag::KW_ONLY, none),
            ("w", type_index::ANY, DEFAULT | field_flag::INIT_OFF, TVMFFIAny::float(0.5)),
            ("o", type_index::OBJECT, field_flag::INIT_OFF, none),
        ],
    );
    let names = values::keyword_arguments;
    let check = |args: Vec<Any>, expected: &str| {
        let text = init(index, &args).map_or_else(|error| error.to_string(), |object| print(&object));
        let expected = expected.replace("INIT", "TypeError: dataclass.Bound.__ffi_init__()");
        assert_eq!(text, expected);
    };
    // Those without a default come first.
    check(vec![any(1), names(), any("k"), any("a")], "dataclass.Bound(x=7, y=1, k=\"a\", w=0.5, o=None)");
    check(vec![any(1), any(2), names(), any("k"), any(())], "dataclass.Bound(x=2, y=1, k=None, w=0.5, o=None)");
    check(vec![names(), any("k"), any(3), any("y"), any(4)], "dataclass.Bound(x=7, y=4, k=3, w=0.5, o=None)");
    check(vec![], "INIT missing required argument: 'y'");
    check(vec![any(1)], "INIT missing required keyword-only argument: 'k'");
    check(vec![any(1), any(2), any(3)], "INIT takes at most 2 positional argument(s), but 3 were given");
    check(vec![any(1), any(2), any(3), names()], "INIT takes at most 2 positional argument(s), but 3 were given");
    check(vec![names(), any("k")], "INIT KWARGS requires an even number of key-value arguments");
    check(vec![names(), any("w"), any(1)], "INIT got an unexpected keyword argument 'w'");
    check(vec![any(1), names(), any("y"), any(1)], "INIT got multiple values for argument 'y'");
    check(vec![names(), any(1), any(1)], "TypeError: Cannot convert from type `int` to `str`");
    check(vec![any("text")], "INIT field 'y':\n  expected int,\n  got str");
    check(vec![any(1.5)], "INIT field 'y':\n  Cannot convert from type `float` to `int`");
    let again = global("ffi._RegisterFFIInit").call((index,));
    assert!(message(again).starts_with("RuntimeError: TypeAttr `__ffi_init__` is already registered for type index"));
}

#[test]
fn fields_own_what_they_hold() {
    let none = TVMFFIAny::NONE;
    let parent = define("dataclass.Owner", type_index::OBJECT, 24, &[("any", type_index::ANY, 0, none)]);
    let child = define(
        "dataclass.OwnerChild",
        parent,
        40,
        &[("number", type_index::FLOAT, 0, none), ("object", type_index::OBJECT, 0, none)],
    );
    let part = of_object(seq::new_array(vec![]));
    let object = init(child, &[part.clone(), any(2), part.clone()]).unwrap();
    assert_eq!(print(&object), "dataclass.OwnerChild(any=(), number=2, object=())");
    assert_eq!(count(&part), 3);
    let shallow: Function = AttrColumn::new("__ffi_shallow_copy__").get(child).unwrap().get().unwrap();
    let second = shallow.call((&object,)).unwrap();
    assert_eq!((print(&second), count(&part)), (print(&object), 5));
    // A weak reference keeps the storage, but not the values of the fields.
    let raw = second.as_view().object().unwrap();
    // SAFETY: the weak reference is given up once.
    unsafe {
        embedded::inc_weak(raw);
        drop(second);
        assert_eq!(count(&part), 3);
        assert!(!embedded::try_promote(raw));
        embedded::dec_weak(raw);
    }
    drop(object);
    assert_eq!(count(&part), 1);
    let other = of_object(seq::new_list(vec![]));
    let wrong = message(shallow.call((&other,)));
    assert_eq!(wrong, "TypeError: Cannot convert from type `ffi.List` to `dataclass.OwnerChild`");
    assert!(
        message(shallow.call((1,)))
            .contains("calling: `(0: ffi.Object) -> ffi.Object`. Expected `ffi.Object` but got `int`")
    );
}

#[test]
fn objects_from_packed_arguments() {
    let fields = [("a", type_index::INT, 0, TVMFFIAny::NONE), ("b", type_index::ANY, DEFAULT, TVMFFIAny::int(5))];
    let index = define("dataclass.Packed", type_index::OBJECT, 24, &fields);
    let make = global("ffi.MakeObjectFromPackedArgs");
    assert_eq!(print(&make.call((index, "b", "x", "a", 1)).unwrap()), "dataclass.Packed(a=1, b=\"x\")");
    assert_eq!(print(&make.call(("dataclass.Packed", "a", 1)).unwrap()), "dataclass.Packed(a=1, b=5)");
    let table: [(Result<Any>, &str); 6] = [
        (make.call((index,)), "TypeError: Required field `a` not set in type `dataclass.Packed`"),
        (make.call((index, "a", 1, "c", 2)), "TypeError: Type `dataclass.Packed` does not have field `c`"),
        (make.call((index, "a", 1, "a", 2)), "TypeError: Type `dataclass.Packed` does not have field `a`"),
        (make.call((index, "a")), "InternalError: Check failed: (args.size() % 2 == 1) is false: "),
        (make.call((1.5,)), "TypeError: Cannot convert from type `float` to `str`"),
        (
            make.call(("ffi.Array",)),
            "RuntimeError: Type `ffi.Array` does not support reflection creation (no native creator or __ffi_new__ type attr)",
        ),
    ];
    for (outcome, expected) in table {
        assert_eq!(message(outcome), expected);
    }
}

#[test]
fn printing_shows_sharing_and_cycles() {
    let list = of_object(seq::new_list(vec![TVMFFIAny::int(1)]));
    let raw = list.as_view().object().unwrap();
    // SAFETY: the list is alive; the new reference is stored in it, and removed in the end.
    unsafe {
        list::push(raw, release::retain(list.as_view().as_raw())).unwrap();
        let shared = any(vec![any("a"), any(())]);
        let dict = owned(map::new_dict(vec![(any("k").into_raw(), shared.clone().into_raw())]));
        let array = any(vec![any(vec![1]), shared, dict, list.clone()]);
        assert_eq!(print(&array), r#"((1,), ("a", None), {"k": ("a", None)}, [1, ...])"#);
        drop(Any::from_raw(seq::remove(raw, 1).unwrap()));
    }
    let table = [
        (any(()), "None"),
        (any(true), "True"),
        (any(-5), "-5"),
        (any(1e10), "1e+10"),
        (any("a\"b"), r#""a\"b""#),
        (any(&b"\x01long bytes"[..]), r#"b"\x01long bytes""#),
        (any(crate::DataType::scalar(2, 32)), "float32"),
        (any(crate::Device::cuda(1)), "cuda:1"),
        (any(crate::container::Shape::new(&[1, -2])), "Shape(1, -2)"),
        (values::missing(), "<MISSING>"),
        (values::keyword_arguments(), "<KWARGS>"),
        (any(global("ffi.Array")), "ffi.Function"),
    ];
    for (value, expected) in table {
        assert_eq!(print(&value), expected);
    }
}

#[test]
fn copies_keep_sharing_and_cycles() {
    let fields = [("v", type_index::ANY, 0, TVMFFIAny::NONE), ("n", type_index::OBJECT, DEFAULT, TVMFFIAny::NONE)];
    let index = define("dataclass.Node", type_index::OBJECT, 24, &fields);
    let shared = of_object(seq::new_list(vec![TVMFFIAny::int(1)]));
    let first = init(index, core::slice::from_ref(&shared)).unwrap();
    let second = init(index, &[shared.clone(), first.clone()]).unwrap();
    let original = any(vec![second, first.clone(), shared.clone()]);
    let references = (count(&shared), count(&first));
    let copied = copy(&original);
    assert_eq!((count(&shared), count(&first)), references);
    let text = "(dataclass.Node(v=[1], n=dataclass.Node(v=[1], n=None)), dataclass.Node(v=[1], n=None), [1])";
    assert_eq!(print(&copied), text);
    // SAFETY: the copy is a live array of two objects and a list.
    unsafe {
        let elements = seq::elements(copied.as_view().object().unwrap());
        list::push(elements[2].payload.v_obj, TVMFFIAny::int(2)).unwrap();
    }
    assert_eq!(print(&copied), text.replace("[1]", "[1, 2]"));
    assert_eq!(print(&shared), "[1]");

    // An array that contains itself through a list: the list of the copy refers to the copy.
    let inner = of_object(seq::new_list(vec![]));
    let outer = any(vec![inner.clone(), any(1)]);
    let raw = inner.as_view().object().unwrap();
    // SAFETY: the lists are alive; pushed values are removed again.
    unsafe {
        list::push(raw, release::retain(outer.as_view().as_raw())).unwrap();
        let copied = copy(&outer);
        assert_eq!((print(&copied), count(&outer)), ("([...], 1)".to_owned(), 2));
        let copied_list = seq::elements(copied.as_view().object().unwrap())[0].payload.v_obj;
        let back = seq::elements(copied_list)[0];
        assert_eq!(back.bits(), copied.as_view().as_raw().bits());
        drop(Any::from_raw(seq::remove(copied_list, 0).unwrap()));
        drop(Any::from_raw(seq::remove(raw, 0).unwrap()));
    }
    let refused = message(global("ffi.DeepCopy").call((&any(vec![global("ffi.Array")]),)));
    assert!(refused.ends_with("Cannot deep copy object of type \"ffi.Function\" because it is not copy-constructible"));
}

#[test]
fn deep_values_need_no_stack() {
    let work = || {
        let mut value = any(());
        for _ in 0..200_000 {
            value = of_object(seq::new_array(vec![value.into_raw()]));
        }
        let copied = copy(&value);
        assert_eq!(print(&copied).len(), 3 * 200_000 + 4);
    };
    std::thread::Builder::new().stack_size(256 * 1024).spawn(work).unwrap().join().unwrap();
}

#[test]
fn accessors_by_type_index() {
    let getter = global("ffi.MakeFieldGetter");
    for index in [-1, 0, 1, 2, 3, 4, 5, 6, 64, 71, 1000] {
        assert_ne!(getter.call_as::<i64>((index,)).unwrap(), 0);
    }
    for index in [-2, 7, 11, 63] {
        let expected = format!("ValueError: Unsupported field type index for getter: {index}");
        assert_eq!(message(getter.call((index,))), expected);
    }
    let setter: Function = global("ffi.MakeFieldSetter").call_as((7, 0, convert as *const c_void as i64)).unwrap();
    let mut place = 0_i64;
    let field: *mut c_void = (&raw mut place).cast();
    assert_eq!(message(setter.call((field, 1))), "ValueError: Unsupported field type index for setter: 7");
    assert!(message(setter.call((1, 1))).ends_with("Cannot convert from type `int` to `void*`"));
    assert!(message(setter.call((field,))).contains("takes an address and a value, got 1 argument(s)"));
    let kinds: [(i32, Any, i64); 5] = [
        (type_index::INT, any(true), 1),
        (type_index::FLOAT, any(2), 2.0_f64.to_bits() as i64),
        (type_index::BOOL, any(7), 1),
        (type_index::DATA_TYPE, any("float32x2"), 0x0002_2002),
        (type_index::OPAQUE_PTR, any(()), 0),
    ];
    for (index, value, expected) in kinds {
        place = 0;
        let setter: Function =
            global("ffi.MakeFieldSetter").call_as((index, 0, convert as *const c_void as i64)).unwrap();
        setter.call((field, &value)).unwrap();
        assert_eq!(place, expected, "{index}");
    }
}
