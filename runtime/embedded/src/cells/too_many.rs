//! Tests that too many references for a count end the process, whichever operation of the provider
//! adds them. `too_many.rs` of kernpack-core tests the safe operations of Rust in the same way, and
//! says why it is a test of its own.

use core::ffi::c_void;
use core::ptr::{null, null_mut};
use std::os::unix::process::ExitStatusExt;
use std::process::Command;
use std::sync::atomic::Ordering;

use super::list::shared as list;
use super::map::{self, shared as dict};
use super::object::{counts, inc_ref, inc_ref_in_order, inc_weak, try_promote};
use super::release::{self, Releasing};
use super::{new_error, new_function, seq, tensor};
use crate::FUNCTIONS as API;
use crate::abi::{
    DLDataType, DLDevice, TVMFFIAny, TVMFFIByteArray, TVMFFIFieldInfo, TVMFFIMethodInfo, TVMFFIObject, deleter_flag,
    field_flag, type_index,
};

/// The environment variables that pass to a child process the operation to try, and the initial
/// counts.
const WAY: &str = "TEST_OF_TOO_MANY_REFERENCES";
const COUNTS: &str = "TEST_OF_TOO_MANY_REFERENCES_COUNTS";

/// An operation that adds a reference to an object.
struct Way {
    name: &'static str,
    make: fn() -> *mut TVMFFIObject,
    add: fn(*mut TVMFFIObject),
}

/// Defines operations: a name, a constructor of the object, and an expression that adds a reference
/// to it, which fails the test if it does not succeed.
macro_rules! ways {
    ($object:ident: $($name:literal, $make:ident => $add:expr;)*) => {
        [$(Way {
            name: $name,
            make: $make,
            // SAFETY: the object is alive, of the type that `$make` makes, and as if references to
            // it had been made and forgotten.
            #[allow(unused_unsafe, reason = "a few ways are safe")]
            add: |$object: *mut TVMFFIObject| unsafe { $add.was_added() },
        }),*]
    };
}

/// The result of an expression that adds a reference.
trait WasAdded {
    fn was_added(self);
}

impl WasAdded for () {
    fn was_added(self) {}
}

impl WasAdded for i32 {
    fn was_added(self) {
        assert_eq!(self, 0);
    }
}

impl WasAdded for bool {
    fn was_added(self) {
        assert!(self);
    }
}

impl<T> WasAdded for *mut T {
    fn was_added(self) {
        assert!(!self.is_null());
    }
}

impl WasAdded for TVMFFIAny {
    fn was_added(self) {
        assert!(release::is_object(&self));
    }
}

impl<T> WasAdded for Option<T> {
    fn was_added(self) {
        core::mem::forget(self.unwrap());
    }
}

impl<T, E: core::fmt::Debug> WasAdded for Result<T, E> {
    fn was_added(self) {
        core::mem::forget(self.unwrap());
    }
}

/// Each operation that adds a strong reference.
const STRONG: [Way; 40] = ways! { object:
    "inc_ref", function => inc_ref(object);
    "inc_ref_in_order", function => inc_ref_in_order(object);
    "try_promote", function => try_promote(object);
    "retain", function => release::retain(&value(object));
    "to_owned", function => release::to_owned(&value(object));
    "TVMFFIObjectIncRef", function => (API.object_inc_ref)(object);
    "TVMFFIAnyViewToOwnedAny", function => {
        let mut owned = TVMFFIAny::NONE;
        (API.any_view_to_owned_any)(&value(object), &mut owned)
    };
    "TVMFFIErrorSetRaised", error => (API.error_set_raised)(object);
    "TVMFFIErrorCreateWithCauseAndExtraContext: cause", error => new_caused(object, null_mut());
    "TVMFFIErrorCreateWithCauseAndExtraContext: context", error => new_caused(null_mut(), object);
    "TVMFFIFunctionSetGlobal", function => set_global(object);
    "TVMFFIFunctionSetGlobal: another", function => {
        uncounted(object, || set_global(object));
        set_global(function())
    };
    "TVMFFIFunctionSetGlobalFromMethodInfo", function =>
        (API.function_set_global_from_method_info)(&method(object), 1);
    "TVMFFIFunctionGetGlobal", function => {
        uncounted(object, || set_global(object));
        (API.function_get_global)(&NAME, &mut null_mut())
    };
    "TVMFFIEnvModLookupFromImports", function => {
        uncounted(object, || set_global(object));
        (API.env_mod_lookup_from_imports)(null_mut(), c"test.too_many".as_ptr(), &mut null_mut())
    };
    "TVMFFITypeRegisterField: default", function =>
        register_field(field_flag::HAS_DEFAULT, value(object), null_mut());
    "TVMFFITypeRegisterField: setter", function =>
        register_field(field_flag::SETTER_IS_FUNCTION_OBJ, TVMFFIAny::NONE, object);
    "TVMFFITypeRegisterMethod", function => (API.type_register_method)(new_type(), &method(object));
    "TVMFFITypeRegisterAttr", function => (API.type_register_attr)(new_type(), &NAME, &value(object));
    "TVMFFITensorToDLPack", tensor => (API.tensor_to_dlpack)(object, &mut null_mut());
    "TVMFFITensorToDLPackVersioned", tensor => (API.tensor_to_dlpack_versioned)(object, &mut null_mut());
    "TVMFFITensorCreateUnsafeView", tensor =>
        (API.tensor_create_unsafe_view)(object, tensor::dl_tensor(object), &mut null_mut());
    "new_array_of_views", function => seq::new_array_of_views(&[value(object)]);
    "new_array_of_shared", function => seq::new_array_of_shared(&[value(object)]);
    "new_list_of_views", function => seq::new_list_of_views(&[value(object)]);
    "new_list_of_shared", function => seq::new_list_of_shared(&[value(object)]);
    "list::get", function => list::get(list_of(object), 0);
    "list::element", function => list::element(list_of(object), 0);
    "list::elements", function => core::mem::forget(list::elements(list_of(object)));
    "list::replace_slice", function => super::list::replace_slice(seq::new_list(Vec::new()), 0, 0, list_of(object));
    "new_map_of_views: key", function => map::new_map_of_views(&[value(object), TVMFFIAny::int(1)]);
    "new_map_of_views: value", function => map::new_map_of_views(&[TVMFFIAny::int(1), value(object)]);
    "new_dict_of_views: value", function => map::new_dict_of_views(&[TVMFFIAny::int(1), value(object)]);
    "map::copy: key", function => map::copy(dict_of(value(object), TVMFFIAny::int(1), 0));
    "map::copy: value", function => map::copy(dict_of(TVMFFIAny::int(-1), value(object), 0));
    "map::copy: key of many", function => map::copy(dict_of(value(object), TVMFFIAny::int(1), 100));
    "map::copy: value of many", function => map::copy(dict_of(TVMFFIAny::int(-1), value(object), 100));
    "dict::get", function => dict::get(dict_of(TVMFFIAny::int(-1), value(object), 0), &TVMFFIAny::int(-1)).unwrap();
    "dict::contents", function => core::mem::forget(dict::contents(dict_of(TVMFFIAny::int(-1), value(object), 0)));
    "dict::entry", function => {
        let dict = dict_of(value(object), TVMFFIAny::int(1), 0);
        dict::entry(dict, map::first(dict))
    };
};

/// Each operation that adds a weak reference.
const WEAK: [Way; 2] = ways! { object:
    "inc_weak", function => inc_weak(object);
    "a destructor that waits", function => {
        core::mem::forget([(); 64].map(|()| Releasing::begin()));
        assert!(release::descend(object.cast(), deleter_flag::STRONG, destroy_nothing).is_none());
    };
};

const NAME: TVMFFIByteArray = TVMFFIByteArray::new(b"test.too_many");

fn function() -> *mut TVMFFIObject {
    unsafe extern "C" fn nothing(_: *mut c_void, _: *const TVMFFIAny, _: i32, _: *mut TVMFFIAny) -> i32 {
        0
    }
    new_function(nothing, ())
}

fn error() -> *mut TVMFFIObject {
    // SAFETY: no cause and no context.
    unsafe { new_error(b"ValueError", b"too many", b"", null_mut(), null_mut()) }
}

fn tensor() -> *mut TVMFFIObject {
    let (cpu, int8) = (DLDevice { device_type: 1, device_id: 0 }, DLDataType { code: 0, bits: 8, lanes: 1 });
    tensor::new_tensor(null_mut(), cpu, int8, &[0], None, 0, ()).unwrap()
}

fn value(object: *mut TVMFFIObject) -> TVMFFIAny {
    // SAFETY: the object is alive.
    TVMFFIAny::pointer(unsafe { (*object).type_index }, object.cast())
}

/// A list that takes over the object's reference.
fn list_of(object: *mut TVMFFIObject) -> *mut TVMFFIObject {
    seq::new_list(vec![value(object)])
}

/// A dict that takes over the references of key and value, with `more` integers.
fn dict_of(key: TVMFFIAny, value: TVMFFIAny, more: i64) -> *mut TVMFFIObject {
    let others = (0..more).map(|number| (TVMFFIAny::int(number), TVMFFIAny::int(number)));
    map::new_dict([(key, value)].into_iter().chain(others).collect()).unwrap()
}

/// Runs code with its effect on the counts undone.
fn uncounted(object: *mut TVMFFIObject, run: impl FnOnce() -> i32) {
    // SAFETY: the object is alive.
    let counts = unsafe { counts(object) };
    let before = counts.swap((1 << 32) | 1, Ordering::Relaxed);
    assert_eq!(run(), 0);
    counts.store(before, Ordering::Relaxed);
}

fn set_global(function: *mut TVMFFIObject) -> i32 {
    // SAFETY: a live function.
    unsafe { (API.function_set_global)(&NAME, function, 1) }
}

fn method(function: *mut TVMFFIObject) -> TVMFFIMethodInfo {
    let (doc, metadata) = (TVMFFIByteArray::EMPTY, TVMFFIByteArray::EMPTY);
    TVMFFIMethodInfo { name: NAME, doc, metadata, flags: 0, method: value(function) }
}

fn new_type() -> i32 {
    // SAFETY: a valid name.
    unsafe { (API.type_get_or_alloc_index)(&NAME, -1, 1, 0, 1, type_index::OBJECT) }
}

fn register_field(flags: i64, default: TVMFFIAny, setter: *mut TVMFFIObject) -> i32 {
    let field = TVMFFIFieldInfo {
        name: NAME,
        doc: TVMFFIByteArray::EMPTY,
        metadata: TVMFFIByteArray::EMPTY,
        flags,
        size: 8,
        alignment: 8,
        offset: 24,
        getter: None,
        setter: setter.cast(),
        default_value_or_factory: default,
        field_static_type_index: type_index::ANY,
    };
    // SAFETY: the field's texts and values are valid.
    unsafe { (API.type_register_field)(new_type(), &field) }
}

fn new_caused(cause: *mut TVMFFIObject, context: *mut TVMFFIObject) -> i32 {
    let create = API.error_create_with_cause_and_extra_context;
    // SAFETY: NULL or live errors.
    unsafe { create(&NAME, &NAME, null(), cause, context, &mut null_mut()) }
}

unsafe extern "C" fn destroy_nothing(_: *mut c_void, _: i32) {}

#[test]
fn end_the_process() {
    if let Ok(chosen) = std::env::var(WAY) {
        no_core_files();
        let before = std::env::var(COUNTS).unwrap().parse().unwrap();
        let way = STRONG.iter().chain(&WEAK).find(|way| way.name == chosen).unwrap();
        let object = (way.make)();
        // SAFETY: the object is alive.
        unsafe { counts(object).store(before, Ordering::Relaxed) };
        println!("to be added");
        (way.add)(object);
        println!("added");
        return;
    }
    let strong = STRONG.iter().map(|way| (way, (1 << 32) | ((1 << 31) - 1), (1 << 32) | (1 << 31)));
    let weak = WEAK.iter().map(|way| (way, ((1 << 30) - 1) << 32 | 1, (1 << 62) | 1));
    for (way, below, limit) in strong.chain(weak) {
        assert_eq!(outcome(way, below), (None, true), "{}: one below the limit is allowed", way.name);
        assert_eq!(outcome(way, limit), (Some(libc::SIGABRT), false), "{}", way.name);
    }
}

/// Prevents a core dump of this process in the folder of the sources when it aborts.
fn no_core_files() {
    let nothing = libc::rlimit { rlim_cur: 0, rlim_max: 0 };
    // SAFETY: the structure lives for the call.
    assert_eq!(unsafe { libc::setrlimit(libc::RLIMIT_CORE, &nothing) }, 0);
}

/// Runs a process that adds a reference to these counts; returns the signal that ended it, after it
/// printed the reason, and whether the reference was added.
fn outcome(way: &Way, counts: u64) -> (Option<i32>, bool) {
    let mut child = Command::new(std::env::current_exe().unwrap());
    child.args(["--exact", "cells::too_many::end_the_process", "--nocapture"]);
    let output = child.env(WAY, way.name).env(COUNTS, counts.to_string()).output().unwrap();
    let [text, errors] = [output.stdout, output.stderr].map(|text| String::from_utf8_lossy(&text).into_owned());
    assert!(text.contains("to be added\n"), "{}: {text}{errors}", way.name);
    let said = errors.lines().any(|line| line == "kernpack: too many references to an object");
    (output.status.signal().filter(|_| said), output.status.success() && text.contains("\nadded\n"))
}
