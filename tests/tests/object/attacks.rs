//! Operations that foreign code may do within the ABI's contract, and that safe Rust code may do at
//! all: neither may break an object that Rust code uses.

use core::cell::{Cell, RefCell};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::{AtomicBool, Ordering};

use kernpack::reflect::{Field as TypeField, TypeInfo};
use kernpack::sys::abi::TVMFFIObject;
use kernpack::{
    Any, AnyView, Field, FromAny, Function, IntoAny, Mismatch, ObjRef, Object, ObjectRoot, Result, Schema, Str,
    TypeSchema, WeakRef,
};

fn field(key: &str, name: &str) -> TypeField {
    let info = TypeInfo::by_key(key.as_bytes()).unwrap();
    info.fields().find(|field| field.name() == name).unwrap()
}

fn object_of(value: &Any) -> *mut TVMFFIObject {
    // SAFETY: the tests pass objects only.
    unsafe { value.as_view().as_raw().payload.v_obj }
}

/// Sets a field as a frontend does: without regard to flags and reference counts.
fn set(value: &Any, key: &str, name: &str, to: impl IntoAny) -> Result<()> {
    let to = to.into_any();
    // SAFETY: the object has the field; the setter checks whether other code uses it.
    unsafe { field(key, name).set(object_of(value), to.as_view()) }
}

fn create(key: &str) -> Result<Any> {
    attribute("__ffi_new__", key).call(())
}

fn attribute(name: &'static str, key: &str) -> Function {
    let column = kernpack::reflect::AttrColumn::new(name);
    column.get(TypeInfo::by_key(key.as_bytes()).unwrap().index()).unwrap().get().unwrap()
}

fn on_a_small_stack(run: impl FnOnce() + Send + 'static) {
    std::thread::Builder::new().stack_size(128 * 1024).spawn(run).unwrap().join().unwrap();
}

thread_local! {
    static LIVE: Cell<isize> = const { Cell::new(0) };
    /// The action of the next clone or drop of a `Wild`.
    static ON_CLONE: Hook = const { RefCell::new(None) };
    static ON_DROP: Hook = const { RefCell::new(None) };
    static ON_DEFAULT: Hook = const { RefCell::new(None) };
}

/// An action that a `Wild` does once.
type Hook = RefCell<Option<Box<dyn FnOnce()>>>;

fn run(hook: &'static std::thread::LocalKey<Hook>) {
    if let Some(hook) = hook.take() {
        hook();
    }
}

/// A text whose `Clone`, `Drop` and `Default` run arbitrary code.
#[derive(Debug)]
pub struct Wild(String);

impl Wild {
    fn new(text: &str) -> Self {
        LIVE.set(LIVE.get() + 1);
        Self(text.to_owned())
    }
}

impl Default for Wild {
    fn default() -> Self {
        run(&ON_DEFAULT);
        Self::new("default")
    }
}

impl Clone for Wild {
    fn clone(&self) -> Self {
        let before = self.0.as_bytes();
        let address = before.as_ptr();
        run(&ON_CLONE);
        assert_eq!(self.0.as_ptr(), address, "a value changed under a reference");
        Self::new(&self.0)
    }
}

impl Drop for Wild {
    fn drop(&mut self) {
        LIVE.set(LIVE.get() - 1);
        run(&ON_DROP);
    }
}

impl Schema for Wild {
    const TYPE: TypeSchema = <String as Schema>::TYPE;
}

impl IntoAny for Wild {
    fn into_any(self) -> Any {
        self.0.clone().into_any()
    }
}

impl<'a> FromAny<'a> for Wild {
    fn from_any(value: &'a AnyView<'a>) -> core::result::Result<Self, Mismatch> {
        Ok(Self::new(&String::from_any(value)?))
    }
}

#[derive(Object, Debug)]
#[object(key = "attacks.Zoo")]
#[repr(C)]
pub struct Zoo {
    pub wild: Wild,
    pub also: Any,
    #[field(skip, default_factory = Wild::default)]
    first: Wild,
    #[field(skip, default_factory = Wild::default)]
    second: Wild,
}

fn zoo() -> Any {
    let value = create("attacks.Zoo").unwrap();
    set(&value, "attacks.Zoo", "wild", "a text of the first value").unwrap();
    set(&value, "attacks.Zoo", "also", Any::NONE).unwrap();
    value
}

#[derive(Object, Debug)]
#[object(key = "attacks.Pair")]
#[repr(C)]
pub struct Pair {
    pub first: Any,
    pub second: Any,
}

#[test]
fn a_chain_of_incomplete_objects_is_dropped_on_a_small_stack() {
    on_a_small_stack(|| {
        let mut value = Any::NONE;
        for _ in 0..kernpack_tests::chain_length() / 5 {
            let next = create("attacks.Pair").unwrap();
            set(&next, "attacks.Pair", "first", value).unwrap();
            value = next;
        }
        assert!(value.to::<ObjRef<Pair>>().is_err());
        drop(value);
    });
}

#[test]
fn a_getter_whose_clone_sets_the_same_field() {
    for seen in [false, true] {
        let live = LIVE.get();
        let value = zoo();
        if seen {
            // Rust code has held a reference: from now on only the sole owner may set fields.
            drop(value.to::<ObjRef<Zoo>>().unwrap());
        }
        // The caller's reference, which the callback uses as well: in Python both are the same
        // variable.
        let object = object_of(&value) as usize;
        let refused = std::rc::Rc::new(Cell::new(None));
        let seen_by_hook = refused.clone();
        ON_CLONE.set(Some(Box::new(move || {
            let text = "another text, and a longer one than before".into_any();
            // SAFETY: the object has the field; the caller of the getter owns a reference.
            let result = unsafe { field("attacks.Zoo", "wild").set(object as *mut TVMFFIObject, text.as_view()) };
            seen_by_hook.set(Some(result.is_err()));
        })));
        assert_eq!(value.field("wild").unwrap().to::<String>().unwrap(), "a text of the first value");
        assert_eq!(refused.get(), Some(true));
        set(&value, "attacks.Zoo", "wild", "now it can be set").unwrap();
        assert_eq!(value.field("wild").unwrap().to::<String>().unwrap(), "now it can be set");
        drop(value);
        assert_eq!(LIVE.get(), live);
    }
}

#[test]
fn a_setter_whose_drop_sets_the_same_field() {
    let live = LIVE.get();
    let value = zoo();
    let object = object_of(&value) as usize;
    ON_DROP.set(Some(Box::new(move || {
        let text = "from the destructor".into_any();
        // SAFETY: the object has the field; the caller of the setter owns a reference.
        unsafe { field("attacks.Zoo", "wild").set(object as *mut TVMFFIObject, text.as_view()) }.unwrap();
    })));
    set(&value, "attacks.Zoo", "wild", "second").unwrap();
    assert_eq!(value.field("wild").unwrap().to::<String>().unwrap(), "from the destructor");
    drop(value);
    assert_eq!(LIVE.get(), live);
}

#[test]
fn panics_leave_nothing_behind() {
    let live = LIVE.get();
    // During the second default, when the first hidden field has its value.
    ON_DEFAULT.set(Some(Box::new(|| ON_DEFAULT.set(Some(Box::new(|| panic!("no default")))))));
    assert!(create("attacks.Zoo").unwrap_err().message().contains("no default"));
    assert_eq!(LIVE.get(), live);

    let value = zoo();
    ON_CLONE.set(Some(Box::new(|| panic!("no clone"))));
    assert!(value.field("wild").unwrap_err().message().contains("no clone"));
    ON_CLONE.set(Some(Box::new(|| panic!("no copy"))));
    let copy = attribute("__ffi_shallow_copy__", "attacks.Zoo");
    assert!(copy.call((&value,)).unwrap_err().message().contains("no copy"));
    let mut object: ObjRef<Zoo> = value.to().unwrap();
    ON_CLONE.set(Some(Box::new(|| panic!("no duplicate"))));
    assert!(catch_unwind(AssertUnwindSafe(|| object.make_mut().map(drop))).is_err());
    assert_eq!(object.wild.0, "a text of the first value");
    drop(object);
    ON_DROP.set(Some(Box::new(|| panic!("no end"))));
    drop(value);
    assert_eq!(LIVE.get(), live, "a destructor that panics does not keep the other fields");

    // Also when the object is incomplete.
    let value = create("attacks.Zoo").unwrap();
    set(&value, "attacks.Zoo", "wild", "x").unwrap();
    ON_DROP.set(Some(Box::new(|| panic!("no end"))));
    drop(value);
    assert_eq!(LIVE.get(), live);
}

#[derive(Object, Debug)]
#[object(key = "attacks.Phoenix")]
#[repr(C)]
pub struct Phoenix {
    pub next: Option<ObjRef<Phoenix>>,
    #[field(skip, default_factory = Ashes::default)]
    ashes: Ashes,
}

/// Tries to get a reference to its own object while it is dropped.
#[derive(Default, Debug)]
struct Ashes(std::sync::Mutex<Option<WeakRef<Phoenix>>>);

thread_local! {
    static RISEN: Cell<usize> = const { Cell::new(0) };
    static BURNT: Cell<usize> = const { Cell::new(0) };
}

impl Drop for Ashes {
    fn drop(&mut self) {
        BURNT.set(BURNT.get() + 1);
        if self.0.get_mut().unwrap().as_ref().is_some_and(|own| own.upgrade().is_some()) {
            RISEN.set(RISEN.get() + 1);
        }
    }
}

#[test]
fn nothing_rises_from_its_own_destructor() {
    on_a_small_stack(|| {
        let mut next = None;
        for at in 0..500 {
            let phoenix = ObjRef::new(Phoenix { next: next.take(), ashes: Ashes::default() });
            if at % 3 != 0 {
                *phoenix.ashes.0.lock().unwrap() = Some(phoenix.downgrade());
            }
            next = Some(phoenix);
        }
        drop(next);
        assert_eq!((BURNT.get(), RISEN.get()), (500, 0));
    });
}

#[test]
fn objects_are_destroyed_when_the_thread_ends() {
    thread_local!(static KEPT: RefCell<Vec<ObjRef<Phoenix>>> = const { RefCell::new(Vec::new()) });
    std::thread::spawn(|| {
        KEPT.with_borrow_mut(Vec::clear);
        // Uses the queue of deferred drops after this thread-local was created, so that it is
        // destroyed first or last.
        for length in [200, 300] {
            let chain = (0..length).fold(None, |next, _| Some(ObjRef::new(Phoenix { next, ashes: Ashes::default() })));
            KEPT.with_borrow_mut(|kept| kept.extend(chain.clone()));
            drop(chain);
        }
    })
    .join()
    .unwrap();
}

#[derive(Object, Debug)]
#[object(key = "attacks.Empty")]
#[repr(C)]
pub struct Empty {}

#[derive(Object, Debug)]
#[object(key = "attacks.OnlyHidden")]
#[repr(C)]
pub struct OnlyHidden {
    #[field(skip, default_factory = Wild::default)]
    wild: Wild,
    #[field(skip, default = ())]
    nothing: (),
}

#[derive(Object, Debug)]
#[object(key = "attacks.Bytes")]
#[repr(C)]
pub struct Bytes {
    pub a: u8,
    pub b: bool,
    pub c: u8,
    #[field(skip, default = [7; 4096])]
    big: [u8; 4096],
    pub d: u8,
}

#[derive(Object, Debug)]
#[object(key = "attacks.Above")]
#[repr(C)]
pub struct Above {
    #[base]
    base: Bytes,
    pub text: String,
    #[field(writable)]
    pub live: Field<Str>,
}

#[test]
fn unusual_layouts() {
    let live = LIVE.get();
    create("attacks.Empty").unwrap().to::<ObjRef<Empty>>().unwrap();
    let hidden: ObjRef<OnlyHidden> = create("attacks.OnlyHidden").unwrap().to().unwrap();
    assert_eq!((hidden.wild.0.as_str(), hidden.nothing), ("default", ()));
    drop(hidden);
    let value = create("attacks.Above").unwrap();
    for (name, byte) in [("d", 255), ("a", 1), ("c", 3)] {
        set(&value, "attacks.Bytes", name, byte).unwrap();
        set(&value, "attacks.Bytes", name, byte).unwrap();
    }
    assert!(set(&value, "attacks.Bytes", "a", 256).is_err() && set(&value, "attacks.Bytes", "b", 7.5).is_err());
    set(&value, "attacks.Above", "text", "first").unwrap();
    set(&value, "attacks.Above", "text", "second").unwrap();
    set(&value, "attacks.Above", "live", "alive").unwrap();
    assert!(value.to::<ObjRef<Above>>().is_err() && value.to::<ObjRef<Bytes>>().is_err());
    // Dropped once while incomplete, and completed once.
    let half = create("attacks.Above").unwrap();
    set(&half, "attacks.Above", "text", "half").unwrap();
    drop(half);
    set(&value, "attacks.Bytes", "b", true).unwrap();
    let above: ObjRef<Above> = value.to().unwrap();
    assert_eq!((above.a, above.b, above.c, above.d, above.text.as_str()), (1, true, 3, 255, "second"));
    assert!(above.big.iter().all(|byte| *byte == 7));
    drop((value, above));
    assert_eq!(LIVE.get(), live);
}

#[test]
fn a_weak_reference_to_what_is_not_complete() {
    let value = create("attacks.Zoo").unwrap();
    let root: ObjRef<ObjectRoot> = value.to().unwrap();
    let weak = root.downgrade();
    assert!(root.clone().try_cast::<Zoo>().is_err() && root.downcast_ref::<Zoo>().is_none());
    drop((root, value));
    assert!(weak.upgrade().is_none());
}

/// A thread that only reads, through a reference to any value, while another one sets the fields of
/// an object that no Rust code has seen with its type.
#[test]
fn a_reader_on_another_thread_sees_no_changes() {
    for _ in 0..5 {
        let value = create("attacks.Text").unwrap();
        set(&value, "attacks.Text", "text", "0".repeat(100)).unwrap();
        set(&value.clone(), "attacks.Text", "text", "1".repeat(100)).unwrap();
        let theirs = value.clone();
        let (begun, stop) = (AtomicBool::new(false), AtomicBool::new(false));
        std::thread::scope(|scope| {
            let reader = scope.spawn(|| {
                while !stop.load(Ordering::Relaxed) {
                    let text: String = theirs.field("text").unwrap().to().unwrap();
                    assert!(text.len() >= 100 && text.bytes().all(|byte| byte == text.as_bytes()[0]), "{text}");
                    begun.store(true, Ordering::Relaxed);
                }
            });
            while !begun.load(Ordering::Relaxed) && !reader.is_finished() {
                std::thread::yield_now();
            }
            let mut written = 0;
            for number in 0..5_000 {
                let digit = (b'0' + number as u8 % 10) as char;
                let text = String::from(digit).repeat(100 + number % 7 * 50);
                written += usize::from(set(&value, "attacks.Text", "text", text).is_ok());
            }
            stop.store(true, Ordering::Relaxed);
            reader.join().unwrap();
            assert_eq!(written, 0);
        });
        drop(theirs);
        set(&value, "attacks.Text", "text", "alone").unwrap();
    }
}

#[derive(Object, Debug)]
#[object(key = "attacks.Text")]
#[repr(C)]
pub struct Text {
    pub text: String,
}
