//! Tests of cases that the suites of the stock package do not cover: depth, cycles, values that
//! change under a traversal, copies of visitors. `tests/c/traversal.cc` covers the rest: visitors,
//! mutators and hooks of another language.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};

use super::error_context::{self, CONTEXT};
use super::outcome::{failed, is_error};
use super::visitor::VISITOR;
use crate::abi::{TVMFFIAny, TVMFFIErrorCell, TVMFFIFieldSetter, TVMFFIObject, type_index};
use crate::embedded::list::shared::Contents;
use crate::embedded::{self, dec_ref, list, map, new_string, seq};
use crate::value::{Any, IntoAny};
use crate::{Error, Function, Result};
use kernpack_core::reflect::call_function;

type Callbacks = Vec<(i64, Function)>;

/// Wraps a new object in a value.
fn owned(object: *mut TVMFFIObject) -> Any {
    // SAFETY: the only reference is transferred to the value.
    unsafe { Any::from_object(object) }
}

fn object(value: &Any) -> *mut TVMFFIObject {
    value.as_view().object().unwrap()
}

fn elements(value: &Any) -> &[TVMFFIAny] {
    // SAFETY: the tests ask sequences only, which they keep.
    unsafe { seq::elements(object(value)) }
}

fn walk(root: &Any, callbacks: Callbacks, order: i64) -> Result<Any> {
    Function::global("ffi.StructuralWalk").unwrap().call((root, callbacks, Callbacks::new(), order))
}

/// The root is a view, also an rvalue reference, which a `Function` would only borrow.
fn structural_map(root: TVMFFIAny, callbacks: Callbacks, order: i64) -> Result<Any> {
    let function = Function::global("ffi.StructuralMap").unwrap().into_any();
    let (callbacks, none) = (callbacks.into_any(), Callbacks::new().into_any());
    let args = [root, *callbacks.as_view().as_raw(), *none.as_view().as_raw(), TVMFFIAny::int(order)];
    // SAFETY: the function and the arguments outlive the call.
    unsafe { call_function(object(&function), &args) }
}

fn count_ints() -> (Callbacks, Arc<AtomicUsize>) {
    let count = Arc::new(AtomicUsize::new(0));
    let counter = count.clone();
    let callback = Function::from_fn(move |_: i64| {
        counter.fetch_add(1, Ordering::Relaxed);
    });
    (vec![(i64::from(type_index::INT), callback)], count)
}

fn increment() -> Callbacks {
    vec![(i64::from(type_index::INT), Function::from_fn(|value: i64| value + 1))]
}

/// `[[[... 0, 1], 1], 1]`, alternately arrays, lists, maps and dicts.
fn chain(length: usize) -> Any {
    let mut value = TVMFFIAny::int(0);
    for level in 0..length {
        let one = TVMFFIAny::int(1);
        value = match level % 4 {
            0 => owned(seq::new_array(vec![value, one])),
            1 => owned(seq::new_list(vec![value, one])),
            2 => owned(map::new_map(vec![(TVMFFIAny::int(0), value), (one, one)]).unwrap()),
            _ => owned(map::new_dict(vec![(TVMFFIAny::int(0), value), (one, one)]).unwrap()),
        }
        .into_raw();
    }
    // SAFETY: the value owns its content.
    unsafe { Any::from_raw(value) }
}

/// Runs a test on a stack that recursion into a long chain would overflow.
fn on_a_small_stack(test: impl FnOnce() + Send + 'static) {
    std::thread::Builder::new().stack_size(512 * 1024).spawn(test).unwrap().join().unwrap();
}

#[test]
fn a_long_chain() {
    const LENGTH: usize = 300_000;
    on_a_small_stack(|| {
        let root = chain(LENGTH);
        for order in [0, 1] {
            let (callbacks, count) = count_ints();
            assert!(walk(&root, callbacks, order).unwrap().is_none());
            assert_eq!(count.load(Ordering::Relaxed), LENGTH + 1);
        }
        // Shared, so that it is copied.
        let mapped = structural_map(*root.as_view().as_raw(), increment(), 1).unwrap();
        assert_ne!(object(&mapped), object(&root));
        let (callbacks, count) = count_ints();
        walk(&mapped, callbacks, 0).unwrap();
        assert_eq!(count.load(Ordering::Relaxed), LENGTH + 1);
        drop(root);
        // Given away, so that it is changed in place.
        let before = object(&mapped);
        let mut given = mapped.into_raw().payload;
        let rvalue = TVMFFIAny::pointer(type_index::OBJECT_RVALUE_REF, (&raw mut given.v_obj).cast());
        let again = structural_map(rvalue, increment(), 0).unwrap();
        assert_eq!(object(&again), before);
        // SAFETY: the outermost value is a dict.
        assert_eq!(unsafe { map::get(before, &TVMFFIAny::int(1)) }.unwrap().unwrap().bits(), 3);
        // An error records all values on the path.
        let fail = Function::from_fn(|value: i64| if value == 2 { Err(Error::value_error("two")) } else { Ok(()) });
        let error = walk(&again, vec![(i64::from(type_index::INT), fail)], 1).unwrap_err();
        assert_eq!(recorded(&error).len(), LENGTH);
    });
}

/// The objects that an error's context recorded.
fn recorded(error: &Error) -> Contents<'_> {
    let raw = error.clone().into_raw();
    // SAFETY: the error keeps its context alive, and ours is a second reference.
    unsafe {
        let context = embedded::body::<TVMFFIErrorCell>(raw).extra_context;
        dec_ref(raw);
        assert!(!context.is_null() && (*context).type_index == CONTEXT.index.get());
        error_context::pattern(context)
    }
}

#[test]
fn a_list_in_itself() {
    let list = owned(seq::new_list(vec![]));
    // SAFETY: the list is ours.
    unsafe { list::push(object(&list), list.clone().into_raw()).unwrap() };
    on_a_small_stack({
        let list = list.clone();
        move || {
            let (callbacks, _) = count_ints();
            let error = walk(&list, callbacks.clone(), 0).unwrap_err();
            assert_eq!(error.kind(), "RecursionError");
            assert!(error.message().contains("nested deeper than"), "{error}");
            let error = structural_map(*list.as_view().as_raw(), callbacks, 0).unwrap_err();
            assert_eq!(error.kind(), "RecursionError");
        }
    });
    // SAFETY: as above. Without this it would never be released.
    unsafe { seq::clear(object(&list)) };
}

#[test]
fn lists_and_dicts_may_change_under_a_traversal() {
    let texts = || (0..6).map(|number| new_string(format!("text number {number}").as_bytes())).collect::<Vec<_>>();
    let list = owned(seq::new_list(texts()));
    let dict = owned(map::new_dict((0..).map(TVMFFIAny::int).zip(texts()).collect()).unwrap());
    for (container, order) in [(&list, 0), (&list, 1), (&dict, 0), (&dict, 1)] {
        for change in 0..3 {
            let (seen, changed) = (Arc::new(Mutex::new(Vec::new())), container.clone());
            let callback = Function::from_fn({
                let seen = seen.clone();
                move |text: String| {
                    seen.lock().unwrap().push(text);
                    let container = object(&changed);
                    // SAFETY: the test runs on one thread; the container's kind is checked.
                    unsafe {
                        match ((*container).type_index, change) {
                            (type_index::LIST, 0) => seq::clear(container),
                            (type_index::LIST, 1) => _ = list::push(container, new_string(b"a new text")),
                            (type_index::LIST, _) => drop(Any::from_raw(seq::remove(container, 0).unwrap())),
                            (_, 0) => map::clear(container),
                            (_, 1) => _ = map::set(container, TVMFFIAny::int(0), new_string(b"another text")),
                            (_, _) => {
                                drop(map::erase(container, &TVMFFIAny::int(0)).unwrap().map(|old| Any::from_raw(old)))
                            }
                        }
                    }
                }
            });
            let texts_only = vec![(i64::from(type_index::STR), callback)];
            walk(container, texts_only.clone(), order).unwrap();
            assert!(!seen.lock().unwrap().is_empty());
            // Mutations ensure that this is harmless, too.
            structural_map(*container.as_view().as_raw(), texts_only, order).unwrap();
            // SAFETY: the containers are ours.
            unsafe {
                seq::clear(object(&list));
                texts().into_iter().for_each(|text| list::push(object(&list), text).unwrap());
                map::clear(object(&dict));
                for (key, text) in texts().into_iter().enumerate() {
                    map::set(object(&dict), TVMFFIAny::int(key as i64), text).unwrap();
                }
            }
        }
    }
}

#[test]
fn a_list_that_a_callback_kept_may_change_while_it_is_mutated_in_place() {
    let list =
        owned(seq::new_list(vec![new_string(b"the first text"), new_string(b"the second text"), TVMFFIAny::int(1)]));
    let kept = Arc::new(Mutex::new(Any::NONE));
    let keep = Function::from_fn({
        let kept = kept.clone();
        move |list: Any| {
            *kept.lock().unwrap() = list.clone();
            list
        }
    });
    let shorten = Function::from_fn({
        let kept = kept.clone();
        move |text: String| {
            // SAFETY: the test runs on one thread.
            unsafe { seq::clear(object(&kept.lock().unwrap())) };
            text + "!"
        }
    });
    let mut given = list.into_raw().payload;
    let rvalue = TVMFFIAny::pointer(type_index::OBJECT_RVALUE_REF, (&raw mut given.v_obj).cast());
    let callbacks = vec![(i64::from(type_index::LIST), keep), (i64::from(type_index::STR), shorten)];
    let mapped = structural_map(rvalue, callbacks, 0).unwrap();
    assert!(elements(&mapped).is_empty());
}

#[test]
fn a_copy_of_a_visitor_visits_by_default() {
    let copies = Arc::new(Mutex::new(Vec::new()));
    let copy = Function::from_fn({
        let copies = copies.clone();
        move |_: Any, visitor: Any| -> Result<()> {
            static COPIES: kernpack_core::reflect::AttrColumn =
                kernpack_core::reflect::AttrColumn::new("__ffi_shallow_copy__");
            let function: Function = COPIES.get(VISITOR.index.get()).unwrap().get()?;
            copies.lock().unwrap().push(function.call((visitor,))?);
            Ok(())
        }
    });
    let array = owned(seq::new_array(vec![TVMFFIAny::int(1)]));
    let callbacks: Callbacks = vec![(i64::from(type_index::ANY), copy)];
    Function::global("ffi.StructuralVisit").unwrap().call((&array, callbacks)).unwrap();
    let copies = copies.lock().unwrap();
    assert_eq!(copies.len(), 1);
    for name in ["ffi.StructuralVisitorVisit", "ffi.StructuralVisitorDefaultVisit"] {
        assert!(Function::global(name).unwrap().call((&copies[0], &array)).unwrap().is_none());
    }
    // A visitor without a table fails with an error.
    let empty = owned(embedded::new_object(VISITOR.index.get(), [0_u64; 2]));
    let error = Function::global("ffi.StructuralVisitorVisit").unwrap().call((&empty, 1)).unwrap_err();
    assert_eq!(error.message(), "a StructuralVisitor without a function table cannot visit");
}

#[test]
fn what_an_error_had_before_is_kept() {
    let payload = owned(seq::new_array(vec![]));
    let node = owned(seq::new_array(vec![TVMFFIAny::int(7)]));
    // SAFETY: the values outlive the calls.
    unsafe {
        let error = embedded::new_error(b"ValueError", b"x", b"", core::ptr::null_mut(), object(&payload));
        let outcome = failed(Error::from_raw(error));
        assert!(is_error(&outcome));
        error_context::record(&outcome, node.as_view().as_raw());
        error_context::record(&outcome, &TVMFFIAny::int(1));
        error_context::record(&outcome, payload.as_view().as_raw());
        let context = Any::from_object(embedded::body::<TVMFFIErrorCell>(error).extra_context);
        let [pattern, previous] = ["reverse_visit_pattern", "prev_error_context"].map(|name| {
            let info = kernpack_core::reflect::TypeInfo::find(CONTEXT.index.get()).unwrap();
            let field = info.fields().find(|field| field.name() == name).unwrap();
            (field, field.get(object(&context)).unwrap())
        });
        let recorded: Vec<_> = elements(&pattern.1).iter().map(|node| node.payload.v_obj).collect();
        assert_eq!(recorded, [object(&node), object(&payload)]);
        assert_eq!(object(&previous.1), object(&payload));
        // An array becomes a list, because the record grows.
        let setter: TVMFFIFieldSetter = core::mem::transmute(pattern.0.as_raw().setter);
        let nodes = owned(seq::new_array(vec![node.clone().into_raw()]));
        assert_eq!(setter(pattern.0.address(object(&context)), nodes.as_view().as_raw()), 0);
        assert_eq!(pattern.0.get(object(&context)).unwrap().type_index(), type_index::LIST);
        assert_ne!(setter(pattern.0.address(object(&context)), &TVMFFIAny::int(1)), 0);
        assert_eq!(Error::take_raised().message(), "Cannot convert from type `int` to `List<ffi.Object>`");
        // The error owns its context.
        core::mem::forget(context);
        drop(Any::from_raw(outcome));
    }
}
