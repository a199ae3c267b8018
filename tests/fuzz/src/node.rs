//! Types with fields, for graphs of objects: a tree, variables and nodes that bind them, shared
//! nodes.

use core::ffi::{c_int, c_void};
use core::mem::offset_of;
use core::sync::atomic::{AtomicI32, Ordering};
use std::sync::Once;

use kernpack::sys::abi::{
    TVMFFIAny, TVMFFIByteArray, TVMFFIFieldInfo, TVMFFIObjectHandle, TVMFFITypeMetadata, field_flag, seq_hash_kind,
    type_index,
};
use kernpack::sys::embedded::{HEADER_SIZE, body, new_object};
use kernpack::{Any, AnyView, Function, IntoAny, Result, bail, sys::provider};

/// The fields that all of these types have: anything, an array or another object, and a number.
#[repr(C)]
struct Node {
    first: Any,
    second: Any,
    number: i64,
}

/// A type: its key, how it is compared, and the names and flags of its fields.
struct Type {
    key: &'static str,
    kind: i32,
    creator: unsafe extern "C" fn(*mut TVMFFIObjectHandle) -> c_int,
    first: (&'static str, i64),
    second: (&'static str, i64),
}

static TYPES: [Type; 4] = [
    Type {
        key: "fuzz.Tree",
        kind: seq_hash_kind::TREE_NODE,
        creator: create::<0>,
        first: ("left", 0),
        second: ("right", field_flag::HAS_DEFAULT),
    },
    Type {
        key: "fuzz.Var",
        kind: seq_hash_kind::FREE_VAR,
        creator: create::<1>,
        first: ("name", field_flag::SEQ_HASH_IGNORE),
        second: ("type", field_flag::HAS_DEFAULT),
    },
    Type {
        key: "fuzz.Lambda",
        kind: seq_hash_kind::TREE_NODE,
        creator: create::<2>,
        first: ("params", field_flag::SEQ_HASH_DEF_SIMPLE),
        second: ("body", 0),
    },
    Type {
        key: "fuzz.Dag",
        kind: seq_hash_kind::DAG_NODE,
        creator: create::<3>,
        first: ("a", 0),
        second: ("b", field_flag::HAS_DEFAULT),
    },
];

static INDICES: [AtomicI32; 4] = [const { AtomicI32::new(0) }; 4];

/// Registers the types, once.
pub(crate) fn register() {
    static REGISTERED: Once = Once::new();
    REGISTERED.call_once(|| TYPES.iter().zip(&INDICES).for_each(|(ty, index)| register_type(ty, index)));
}

fn register_type(ty: &Type, index: &AtomicI32) {
    let api = provider::api();
    let field = |name: &'static str, offset: usize, size: usize, flags: i64, declared: i32| {
        let (getter, setter): (_, unsafe extern "C" fn(*mut c_void, *const TVMFFIAny) -> c_int) =
            if declared == type_index::INT { (get_number as _, set_number) } else { (get_any as _, set_any) };
        TVMFFIFieldInfo {
            name: text(name),
            doc: text(""),
            metadata: text(r#"{"type_schema":"{\"type\":\"Any\"}"}"#),
            flags: flags | field_flag::WRITABLE,
            size: size as i64,
            alignment: 8,
            offset: (HEADER_SIZE + offset) as i64,
            getter: Some(getter),
            setter: setter as *mut c_void,
            default_value_or_factory: if declared == type_index::INT { TVMFFIAny::int(7) } else { TVMFFIAny::NONE },
            field_static_type_index: declared,
        }
    };
    let fields = [
        field(ty.first.0, offset_of!(Node, first), size_of::<Any>(), ty.first.1, type_index::ANY),
        field(ty.second.0, offset_of!(Node, second), size_of::<Any>(), ty.second.1, type_index::ANY),
        field("number", offset_of!(Node, number), 8, field_flag::HAS_DEFAULT, type_index::INT),
    ];
    let metadata = TVMFFITypeMetadata {
        doc: text(""),
        creator: Some(ty.creator),
        total_size: (HEADER_SIZE + size_of::<Node>()) as i32,
        structural_eq_hash_kind: ty.kind,
    };
    // SAFETY: all arguments live for the call; the fields are at the offsets of `Node`.
    unsafe {
        let key = text(ty.key);
        let depth_of_objects = 1;
        let own = (api.type_get_or_alloc_index)(&key, -1, depth_of_objects, 0, -1, type_index::OBJECT);
        assert!(own > 0, "{} cannot be registered", ty.key);
        for field in &fields {
            assert_eq!((api.type_register_field)(own, field), 0);
        }
        assert_eq!((api.type_register_metadata)(own, &metadata), 0);
        let copy = Function::from_packed(shallow_copy).into_any();
        assert_eq!((api.type_register_attr)(own, &text("__ffi_shallow_copy__"), copy.as_view().as_raw()), 0);
        index.store(own, Ordering::Release);
    }
}

fn text(text: &'static str) -> TVMFFIByteArray {
    TVMFFIByteArray { data: text.as_ptr().cast(), size: text.len() }
}

unsafe extern "C" fn create<const TYPE: usize>(out: *mut TVMFFIObjectHandle) -> c_int {
    let node = Node { first: Any::NONE, second: Any::NONE, number: 0 };
    // SAFETY: the caller passes a place for the new object.
    unsafe { out.write(new_object(INDICES[TYPE].load(Ordering::Acquire), node)) };
    0
}

/// A new node with the same fields.
fn shallow_copy(arguments: &[AnyView<'_>]) -> Result<Any> {
    let [node] = arguments else { bail!(TypeError, "expected one node") };
    // SAFETY: the method of a type gets objects of this type; the copy is new.
    unsafe {
        let Node { first, second, number } = body::<Node>(node.as_raw().payload.v_obj);
        let copy = Node { first: first.clone(), second: second.clone(), number: *number };
        Ok(Any::from_raw(TVMFFIAny::pointer(node.type_index(), new_object(node.type_index(), copy).cast())))
    }
}

unsafe extern "C" fn get_any(field: *mut c_void, result: *mut TVMFFIAny) -> c_int {
    // SAFETY: the field is one of a `Node`.
    unsafe { result.write((*field.cast::<Any>()).clone().into_raw()) };
    0
}

unsafe extern "C" fn set_any(field: *mut c_void, value: *const TVMFFIAny) -> c_int {
    // SAFETY: the field is one of a `Node`, the value a valid view.
    unsafe {
        let Ok(value) = AnyView::from_raw(*value).try_to_owned() else { return raise(c"a value that cannot be kept") };
        *field.cast::<Any>() = value;
    }
    0
}

unsafe extern "C" fn get_number(field: *mut c_void, result: *mut TVMFFIAny) -> c_int {
    // SAFETY: the field is the number of a `Node`.
    unsafe { result.write(TVMFFIAny::int(*field.cast::<i64>())) };
    0
}

unsafe extern "C" fn set_number(field: *mut c_void, value: *const TVMFFIAny) -> c_int {
    // SAFETY: the field is the number of a `Node`, the value a valid view.
    unsafe {
        let Ok(value) = AnyView::from_raw(*value).get::<i64>() else { return raise(c"expected int") };
        *field.cast::<i64>() = value;
    }
    0
}

fn raise(message: &core::ffi::CStr) -> c_int {
    // SAFETY: both are C strings.
    unsafe { (provider::api().error_set_raised_from_c_str)(c"TypeError".as_ptr(), message.as_ptr()) };
    -1
}
