//! The lifetime of an object: permissions to write, creation by other languages, weak references,
//! copies, long chains.

use core::cell::Cell;
use core::ffi::c_void;
use std::sync::atomic::{AtomicI64, Ordering};

use kernpack::reflect::{Field as TypeField, TypeInfo};
use kernpack::sys::abi::{TVMFFIAny, TVMFFIFieldSetter, field_flag};
use kernpack::{Any, Array, Field, Function, IntoAny, Map, ObjRef, Object, ObjectRoot, Result, Str, WeakRef};

thread_local! {
    /// Values of `Counted` that this thread made and has not dropped. Each test has a thread of its
    /// own.
    static LIVE: Cell<usize> = const { Cell::new(0) };
}

/// Counts the values that exist.
#[derive(Debug)]
pub struct Counted;

impl Counted {
    fn new() -> Self {
        LIVE.set(LIVE.get() + 1);
        Self
    }
}

impl Clone for Counted {
    fn clone(&self) -> Self {
        Self::new()
    }
}

impl Drop for Counted {
    fn drop(&mut self) {
        LIVE.set(LIVE.get() - 1);
    }
}

#[derive(Object, Debug)]
#[object(key = "core.Point")]
#[repr(C)]
pub struct Point {
    pub x: i64,
    pub name: String,
}

#[derive(Object, Debug)]
#[object(key = "core.Shape")]
#[repr(C)]
pub struct Shape {
    #[base]
    pub base: Point,
    pub corners: Vec<ObjRef<Point>>,
    pub next: Option<ObjRef<Shape>>,
    #[field(default = 3)]
    pub weight: i32,
    #[field(skip, default_factory = Counted::new)]
    counted: Counted,
}

#[derive(Object)]
#[object(key = "core.Live")]
#[repr(C)]
pub struct Live {
    #[field(writable)]
    pub title: Field<String>,
    #[field(writable)]
    pub count: AtomicI64,
}

#[derive(Object)]
#[object(key = "core.Node")]
#[repr(C)]
pub struct Node {
    pub next: Option<ObjRef<Node>>,
    pub value: i64,
}

fn field(key: &str, name: &str) -> TypeField {
    let info = TypeInfo::by_key(key.as_bytes()).unwrap();
    info.fields().find(|field| field.name() == name).unwrap()
}

fn object_of(value: &Any) -> *mut kernpack::sys::abi::TVMFFIObject {
    // SAFETY: the tests pass objects only.
    unsafe { value.as_view().as_raw().payload.v_obj }
}

/// Sets a field as a frontend does: without regard to flags and reference counts.
fn set(value: &Any, key: &str, name: &str, to: impl IntoAny) -> Result<()> {
    let to = to.into_any();
    // SAFETY: the object has the field; the setter checks whether other code uses it.
    unsafe { field(key, name).set(object_of(value), to.as_view()) }
}

fn create(key: &str) -> Any {
    let info = TypeInfo::by_key(key.as_bytes()).unwrap();
    let creator = info.metadata().unwrap().creator.unwrap();
    let mut object = core::ptr::null_mut();
    // SAFETY: the ABI's convention of creators.
    unsafe {
        assert_eq!(creator(&mut object), 0);
        Any::from_raw(TVMFFIAny::pointer(info.index(), object.cast()))
    }
}

fn shape() -> ObjRef<Shape> {
    let base = Point { x: 1, name: "base".to_owned() };
    ObjRef::new(Shape { base, corners: vec![], next: None, weight: 2, counted: Counted::new() })
}

#[test]
fn a_setter_writes_only_for_the_sole_owner() {
    let point = ObjRef::new(Point { x: 1, name: "a".to_owned() });
    let value = point.clone().into_any();
    let error = set(&value, "core.Point", "x", 2).unwrap_err();
    assert_eq!(error.kind(), "AttributeError");
    assert_eq!(
        error.message(),
        "field 'x' of core.Point is read-only, and others use the object; make a changed copy (copy.replace), or declare the \
         field in core.Point as `#[field(writable)]` with the type `Field<...>`"
    );
    assert_eq!(point.x, 1);
    drop(point);
    set(&value, "core.Point", "x", 2).unwrap();
    set(&value, "core.Point", "name", "b").unwrap();
    let weak = value.to::<ObjRef<Point>>().unwrap().downgrade();
    assert!(set(&value, "core.Point", "x", 3).is_err(), "a weak reference may become a strong one at any time");
    drop(weak);
    let point: ObjRef<Point> = value.to().unwrap();
    assert_eq!((point.x, point.name.as_str()), (2, "b"));

    let error = set(&shape().into_any(), "core.Shape", "weight", i64::MAX).unwrap_err();
    assert_eq!(error.kind(), "ValueError");
    assert!(
        error.message().starts_with("field 'weight' of core.Shape: 9223372036854775807 is out of range for i32"),
        "{error}"
    );
    let error = set(&shape().into_any(), "core.Shape", "corners", "none").unwrap_err();
    assert_eq!(error.message(), "field 'corners' of core.Shape: expected Array[core.Point], got str");
}

#[test]
fn a_setter_during_a_call_is_refused() {
    // Rust code reads `point` while the callback, which has the caller's only reference, tries to
    // change it.
    let read = Function::from_fn(|point: ObjRef<Point>, change: Function| -> Result<(i64, bool)> {
        let before = point.x;
        let refused = change.call(()).is_err();
        assert_eq!(point.x, before);
        Ok((point.x, refused))
    });
    let value = std::sync::Arc::new(ObjRef::new(Point { x: 1, name: String::new() }).into_any());
    let shared = value.clone();
    let change = Function::from_fn(move || set(&shared, "core.Point", "x", 5));
    assert_eq!(read.call_as::<(i64, bool)>((&*value, &change)).unwrap(), (1, true));
    change.call(()).unwrap();
    assert_eq!(value.field("x").unwrap().to::<i64>().unwrap(), 5);
}

#[test]
fn writable_fields_change_whoever_looks() {
    let live = ObjRef::new(Live { title: Field::new("a".to_owned()), count: AtomicI64::new(1) });
    let value = live.clone().into_any();
    assert!(
        field("core.Live", "title").has(field_flag::WRITABLE) && field("core.Live", "count").has(field_flag::WRITABLE)
    );
    assert!(!field("core.Point", "x").has(field_flag::WRITABLE));
    set(&value, "core.Live", "title", "b").unwrap();
    set(&value, "core.Live", "count", 7).unwrap();
    assert_eq!((live.title.get().as_str(), live.count.load(Ordering::SeqCst)), ("b", 7));
    assert_eq!(value.field("count").unwrap().to::<i64>().unwrap(), 7);
    let error = set(&value, "core.Live", "title", 1).unwrap_err();
    assert_eq!(error.message(), "field 'title' of core.Live: expected str, got int");
}

#[test]
fn another_language_makes_an_object_field_by_field() {
    let before = LIVE.get();
    let value = create("core.Shape");
    assert_eq!(LIVE.get(), before + 1, "the hidden field has its default");
    assert_eq!(value.field("name").unwrap_err().message(), "field 'name' of core.Point has no value yet");
    let error = value.to::<ObjRef<Shape>>().unwrap_err();
    assert_eq!(
        error.message(),
        "the core.Shape is not complete: no value was given for 'corners', 'next', 'weight', 'x', 'name'"
    );
    assert!(value.to::<ObjRef<Point>>().is_err(), "nor as its base");
    let root: ObjRef<ObjectRoot> = value.to().unwrap();
    assert!(!root.is::<Shape>() && !root.is::<Point>());
    set(&value, "core.Shape", "x", 4).unwrap();
    set(&value, "core.Shape", "x", 5).unwrap();
    set(&value, "core.Shape", "name", "made").unwrap();
    set(&value, "core.Shape", "corners", vec![ObjRef::new(Point { x: 1, name: String::new() })]).unwrap();
    set(&value, "core.Shape", "next", Any::NONE).unwrap();
    assert!(set(&value, "core.Shape", "weight", "heavy").is_err());
    assert!(value.to::<ObjRef<Shape>>().unwrap_err().message().ends_with("no value was given for 'weight'"));
    set(&value, "core.Shape", "weight", 9).unwrap();
    let made: ObjRef<Shape> = value.to().unwrap();
    assert_eq!((made.x, made.name.as_str(), made.corners.len(), made.weight), (5, "made", 1, 9));
    assert!(root.is::<Shape>());
    assert!(set(&value, "core.Shape", "weight", 10).is_err(), "Rust code has seen it, and there are other owners");
    drop((value, made, root));
    assert_eq!(LIVE.get(), before);

    // An incomplete object drops the fields that it has.
    let kept = ObjRef::new(Point { x: 1, name: String::new() });
    let value = create("core.Shape");
    set(&value, "core.Shape", "corners", vec![kept.clone()]).unwrap();
    assert_eq!(kept.strong_count(), 2);
    drop(value);
    assert_eq!((kept.strong_count(), LIVE.get()), (1, before));
}

#[test]
fn an_object_that_rust_has_not_seen_may_still_be_set() {
    let value = create("core.Node");
    let second = value.clone();
    set(&value, "core.Node", "next", Any::NONE).unwrap();
    set(&value, "core.Node", "value", 1).unwrap();
    set(&second, "core.Node", "value", 2).unwrap();
    assert_eq!(value.field("value").unwrap().to::<i64>().unwrap(), 2);
    // In a field of another object, Rust code can reach it.
    let outer = create("core.Node");
    set(&outer, "core.Node", "next", second.clone()).unwrap();
    assert!(set(&value, "core.Node", "value", 5).is_err());
    let node: ObjRef<Node> = value.to().unwrap();
    let copy = attribute("__ffi_shallow_copy__", "core.Node").call((&node,)).unwrap();
    let shared = copy.clone();
    set(&copy, "core.Node", "value", 3).unwrap();
    let copy: ObjRef<Node> = shared.to().unwrap();
    assert_eq!((node.value, copy.value), (2, 3));
    assert!(set(&shared, "core.Node", "value", 4).is_err());
}

#[test]
fn the_generated_constructor_and_copies() {
    let init = attribute("__ffi_init__", "core.Shape");
    let args = (7, "seven", Array::from(vec![ObjRef::new(Point { x: 1, name: String::new() })]), Any::NONE);
    let made: ObjRef<Shape> = init.call_as(args).unwrap();
    assert_eq!((made.x, made.name.as_str(), made.weight), (7, "seven", 3));
    let error = init.call((1,)).unwrap_err();
    assert_eq!(error.message(), "core.Shape.__ffi_init__() missing required argument: 'name'");
    let copy: ObjRef<Shape> = attribute("__ffi_shallow_copy__", "core.Shape").call_as((&made,)).unwrap();
    assert!(!copy.ptr_eq(&made));
    assert!(copy.corners[0].ptr_eq(&made.corners[0]), "a copy shares what fields refer to");
    let error = attribute("__ffi_shallow_copy__", "core.Shape").call((copy.corners[0].clone(),)).unwrap_err();
    assert_eq!(error.message(), "expected core.Shape, got core.Point");
}

fn attribute(name: &'static str, key: &str) -> Function {
    let column = kernpack::reflect::AttrColumn::new(name);
    column.get(TypeInfo::by_key(key.as_bytes()).unwrap().index()).unwrap().get().unwrap()
}

#[test]
fn exclusive_access_and_copy_on_write() {
    let mut shape = shape();
    shape.get_mut().unwrap().weight = 5;
    let mut other = shape.clone();
    assert!(shape.get_mut().is_none());
    other.make_mut().unwrap().base.x = 77;
    assert_eq!((shape.x, other.x, other.weight), (1, 77, 5));
    let same: *const Shape = &*other;
    other.make_mut().unwrap().weight = 6;
    assert!(core::ptr::eq(same, &*other), "the sole owner's object is not copied");

    // Through a reference to its base, a copy has the object's own type.
    let shared = shape.clone();
    let mut base: ObjRef<Point> = shape.upcast();
    base.make_mut().unwrap().x = 8;
    assert!(base.type_index() == Shape::type_index() && !base.ptr_eq(&shared));
    let Ok(shape) = base.try_cast::<Shape>() else { panic!("it is a Shape") };
    assert_eq!((shape.x, shape.weight), (8, 5));

    let weak = shape.downgrade();
    let mut shape = shape;
    assert!(shape.get_mut().is_none(), "a weak reference may become a strong one at any time");
    assert!(weak.upgrade().unwrap().ptr_eq(&shape));
    drop(weak);
    assert!(shape.get_mut().is_some());
}

#[test]
fn weak_references() {
    let before = LIVE.get();
    let shape = shape();
    let weak: WeakRef<Shape> = shape.downgrade();
    let second = weak.clone();
    assert!(weak.ptr_eq(&second));
    drop(shape);
    assert_eq!(LIVE.get(), before, "the value goes with the last strong reference");
    assert!(weak.upgrade().is_none() && second.upgrade().is_none());
}

#[test]
fn long_chains_are_dropped_on_a_small_stack() {
    fn chain(length: i64) -> ObjRef<Node> {
        (0..length).fold(ObjRef::new(Node { next: None, value: 0 }), |next, value| {
            ObjRef::new(Node { next: Some(next), value })
        })
    }
    let dropped = std::thread::Builder::new().stack_size(128 * 1024).spawn(|| {
        let length = kernpack_tests::chain_length();
        drop(chain(length as i64));
        // Objects with weak references are also destroyed iteratively.
        let mut node = chain(1_000);
        let mut weak = Vec::new();
        for _ in 0..length / 5 {
            weak.push(node.downgrade());
            node = ObjRef::new(Node { next: Some(node), value: 1 });
        }
        drop(node);
        assert!(weak.iter().all(|weak| weak.upgrade().is_none()));
        // With containers in between.
        let mut value = Any::NONE;
        for _ in 0..length / 10 {
            let map: Map<Str, Any> = [(Str::new("next"), value)].into_iter().collect();
            value = ObjRef::new(Holder { content: map.into_any() }).into_any();
        }
        drop(value);
    });
    dropped.unwrap().join().unwrap();
}

#[derive(Object, Debug)]
#[object(key = "core.Holder")]
#[repr(C)]
pub struct Holder {
    pub content: Any,
}

#[test]
fn objects_that_another_language_derives() {
    // As `@py_class` does: zeros, then setters.
    let derive = |key: &str, parent: &str, size: usize| {
        let parent = TypeInfo::by_key(parent.as_bytes()).unwrap();
        let api = kernpack::sys::provider::api();
        let name = kernpack::sys::abi::TVMFFIByteArray::new(key.as_bytes());
        // SAFETY: the parent is registered, and the pointers are valid for the calls.
        unsafe {
            let index = (api.type_get_or_alloc_index)(&name, -1, parent.depth() + 1, 0, 1, parent.index());
            let object = zeros(index, size);
            (TypeInfo::find(index).unwrap(), Any::from_raw(TVMFFIAny::pointer(index, object.cast())))
        }
    };
    let (info, holder) = derive("core.foreign.Holder", "core.Holder", 40);
    assert!(holder.to::<ObjRef<Holder>>().is_ok(), "a field for any value may hold none");
    let setter = info.fields().next().unwrap();
    // SAFETY: the object has the field.
    unsafe { setter.set(object_of(&holder), vec![1, 2].into_any().as_view()).unwrap() };
    assert_eq!(holder.to::<ObjRef<Holder>>().unwrap().content.to::<Vec<i64>>().unwrap(), [1, 2]);
    release_field(&holder, 32);

    let (info, point) = derive("core.foreign.Point", "core.Point", 56);
    let error = point.to::<ObjRef<Point>>().unwrap_err();
    assert_eq!(
        error.message(),
        "expected core.Point, got core.foreign.Point, whose objects another language makes: a type cannot be derived from core.Point \
         there, because only Rust code can make its field 'name'"
    );
    let name = info.fields().find(|field| field.name() == "name").unwrap();
    // SAFETY: the object has the field.
    let error = unsafe { name.set(object_of(&point), "x".into_any().as_view()) }.unwrap_err();
    assert_eq!(error.kind(), "TypeError");
    assert!(error.message().starts_with("type core.foreign.Point cannot be derived from core.Point:"), "{error}");

    let (_, link) = derive("core.foreign.Link", "core.Link", 32);
    let error = link.to::<ObjRef<Link>>().unwrap_err();
    assert_eq!(error.message(), "expected core.Link, got core.foreign.Link whose field 'to' has no value yet");
    let to = ObjRef::new(Holder { content: Any::NONE });
    set(&link, "core.Link", "to", to.clone()).unwrap();
    assert!(link.to::<ObjRef<Link>>().unwrap().to.ptr_eq(&to));
    release_field(&link, 24);
    drop(to);
}

#[derive(Object, Debug)]
#[object(key = "core.Link")]
#[repr(C)]
pub struct Link {
    pub to: ObjRef<Holder>,
}

/// A zeroed object, as a frontend allocates it. Its deleter does not know the fields.
fn zeros(index: i32, size: usize) -> *mut kernpack::sys::abi::TVMFFIObject {
    unsafe extern "C" fn delete(this: *mut c_void, flags: i32) {
        if flags & kernpack::sys::abi::deleter_flag::WEAK != 0 {
            // SAFETY: the memory is from `calloc`, and there are no references to it any more.
            unsafe { libc::free(this) }
        }
    }
    // SAFETY: the memory is new and large enough for a header.
    unsafe {
        let object = libc::calloc(1, size).cast::<kernpack::sys::abi::TVMFFIObject>();
        (*object).combined_ref_count = 1 << 32 | 1;
        (*object).type_index = index;
        (*object).deleter = Some(delete);
        object
    }
}

/// Releases the value of a foreign object's field, as its deleter would do.
fn release_field(value: &Any, offset: usize) {
    // SAFETY: the field contains an object reference.
    unsafe {
        let place = object_of(value).byte_add(offset).cast::<*mut kernpack::sys::abi::TVMFFIObject>();
        let target = place.replace(core::ptr::null_mut());
        drop(Any::from_raw(TVMFFIAny::pointer((*target).type_index, target.cast())));
    }
}

#[test]
fn setters_are_there_for_every_field_that_converts() {
    for (key, name) in [("core.Point", "x"), ("core.Point", "name"), ("core.Shape", "corners"), ("core.Live", "count")]
    {
        let raw = field(key, name).as_raw();
        assert!(!raw.setter.is_null(), "{key}.{name}");
        // A setter gets only the field's address.
        let setter: TVMFFIFieldSetter = unsafe_setter(raw.setter);
        assert_ne!(setter as *const c_void, core::ptr::null());
    }
}

fn unsafe_setter(setter: *mut c_void) -> TVMFFIFieldSetter {
    // SAFETY: without the flag for function objects, a setter is such a function.
    unsafe { core::mem::transmute(setter) }
}
