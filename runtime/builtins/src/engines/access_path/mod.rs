//! Paths from an object to a part of it: the attributes, items and keys on the way. A path refers
//! to its parent, so that paths with a common beginning share it.

use core::ffi::c_void;

mod definition;

pub(crate) use definition::{ACCESS_PATH, ACCESS_STEP, ARRAY_OF_ACCESS_PATHS, PATH, STEP};

use crate::abi::{TVMFFIAny, TVMFFIObject};
use crate::definition::field;
use crate::definition::function::Arguments;
use crate::definition::instance::new_instance;
use crate::definition::signature::{INT, STRING, type_key};
use crate::embedded::{self, any_hash, new_string, release, seq};
use crate::object::{ObjRef, ObjectRoot};
use crate::value::{Any, AnyView};
use crate::{Error, Result, bail, error};
use kernpack_core::reflect::call_function;

/// The kind of a step: it leads from an object to a part of it, or to a place where a part is
/// missing.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(i32)]
pub(crate) enum Kind {
    Attr = 0,
    ArrayItem = 1,
    MapItem = 2,
    AttrMissing = 3,
    ArrayItemMissing = 4,
    MapItemMissing = 5,
}

/// One step: the name of an attribute, the index of an item, or a key.
#[derive(Clone, Default)]
#[repr(C)]
struct StepBody {
    kind: i32,
    padding: u32,
    key: Any,
}

/// A path; the root has neither parent nor step.
#[derive(Clone, Default)]
#[repr(C)]
struct PathBody {
    parent: Option<ObjRef<ObjectRoot>>,
    step: Option<ObjRef<ObjectRoot>>,
    depth: i32,
}

const _: () = assert!(size_of::<StepBody>() == 24 && size_of::<PathBody>() == 24);

impl Drop for PathBody {
    fn drop(&mut self) {
        if let Some(parent) = self.parent.take() {
            let parent = parent.into_raw();
            // A long path is not dropped recursively.
            // SAFETY: the reference was this path's.
            unsafe { release::release_elements([TVMFFIAny::pointer((*parent).type_index, parent.cast())]) };
        }
    }
}

/// Creates a step, which takes over the key; the caller owns its one reference.
pub(crate) fn new_step(kind: Kind, key: TVMFFIAny) -> *mut TVMFFIObject {
    // SAFETY: the caller gives an owned value.
    let key = unsafe { Any::from_raw(key) };
    new_instance(StepBody { kind: kind as i32, padding: 0, key })
}

/// Creates a step to an attribute.
pub(crate) fn new_attr_step(kind: Kind, name: &[u8]) -> *mut TVMFFIObject {
    new_step(kind, new_string(name))
}

/// Creates a path without steps; the caller owns its one reference.
pub(crate) fn new_root() -> *mut TVMFFIObject {
    new_instance(PathBody::default())
}

/// Creates a path with one more step; the caller owns its one reference.
///
/// # Safety
/// `path` is a live path. `step` is a live step, and the caller's reference to it is transferred to
/// the path.
pub(crate) unsafe fn extend(path: *mut TVMFFIObject, step: *mut TVMFFIObject) -> *mut TVMFFIObject {
    // SAFETY: promised by the caller; the new path takes a second reference to its parent.
    unsafe {
        embedded::inc_ref(path);
        let depth = embedded::body::<PathBody>(path).depth.wrapping_add(1);
        let (parent, step) = (Some(ObjRef::from_raw(path)), Some(ObjRef::from_raw(step)));
        new_instance(PathBody { parent, step, depth })
    }
}

/// Creates a path of these steps, from the root; the caller owns its one reference.
///
/// # Safety
/// The steps are live, and the caller's references go over to the path.
pub(crate) unsafe fn of_steps(steps: impl Iterator<Item = *mut TVMFFIObject>) -> *mut TVMFFIObject {
    let mut path = new_root();
    for step in steps {
        // SAFETY: promised by the caller; our reference to the parent is given up when the child
        // has its own.
        unsafe {
            let longer = extend(path, step);
            embedded::dec_ref(path);
            path = longer;
        }
    }
    path
}

fn extend_by(kind: Kind, args: &Arguments<'_>) -> Result<Any> {
    let step = new_step(kind, args.owned(1)?.into_raw());
    // SAFETY: the first argument is a path, alive for the call; the step is new.
    Ok(value(unsafe { extend(args.object(0), step) }))
}

/// Wraps a new object in a value, which takes over its reference.
fn value(new: *mut TVMFFIObject) -> Any {
    // SAFETY: all callers pass a new object.
    unsafe { Any::from_object(new) }
}

const fn flag(flag: bool) -> Result<Any> {
    // SAFETY: a plain value.
    Ok(unsafe { Any::from_raw(TVMFFIAny::bool(flag)) })
}

/// The path's parent and its last step; `None` for the root. `name` is for messages.
///
/// # Safety
/// `path` is a live path.
unsafe fn last_step<'a>(path: *mut TVMFFIObject, name: &str) -> Result<Option<(*mut TVMFFIObject, &'a StepBody)>> {
    // SAFETY: promised by the caller. Fields are set through setters that check the step's type;
    // the parent's is checked here.
    unsafe {
        let PathBody { parent, step, .. } = embedded::body::<PathBody>(path);
        let Some(parent) = parent else { return Ok(None) };
        let Some(step) = step else { return Err(failed(name, "->step.has_value()")) };
        if parent.type_index() != PATH.host_index() {
            return Err(failed(name, " != nullptr"));
        }
        Ok(Some((parent.as_ptr(), embedded::body(step.as_ptr()))))
    }
}

#[cold]
fn failed(name: &str, condition: &str) -> Error {
    error!(InternalError, "Check failed: ({name}{condition}) is false: ")
}

/// # Safety
/// Both are live paths.
unsafe fn paths_equal(mut left: *mut TVMFFIObject, mut right: *mut TVMFFIObject) -> Result<bool> {
    // SAFETY: promised by the caller; a path keeps its parents and steps alive.
    unsafe {
        if left != right && embedded::body::<PathBody>(left).depth != embedded::body::<PathBody>(right).depth {
            return Ok(false);
        }
        while left != right {
            let Some((left_parent, left_step)) = last_step(left, "lhs")? else { return Ok(true) };
            let (right_parent, right_step) =
                last_step(right, "rhs")?.ok_or_else(|| failed("rhs", "->parent.has_value()"))?;
            if left_step.kind != right_step.kind || !equal(&left_step.key, &right_step.key)? {
                return Ok(false);
            }
            (left, right) = (left_parent, right_parent);
        }
        Ok(true)
    }
}

fn equal(left: &Any, right: &Any) -> Result<bool> {
    // SAFETY: two owned values.
    unsafe { any_hash::equal(left.as_view().as_raw(), right.as_view().as_raw()) }.map_err(Error::from)
}

/// # Safety
/// Both are live paths.
unsafe fn is_prefix_of(path: *mut TVMFFIObject, mut other: *mut TVMFFIObject) -> Result<bool> {
    // SAFETY: promised by the caller; a path keeps its parents alive.
    unsafe {
        let depth = embedded::body::<PathBody>(path).depth;
        if depth > embedded::body::<PathBody>(other).depth {
            return Ok(false);
        }
        while embedded::body::<PathBody>(other).depth > depth {
            (other, _) = last_step(other, "rhs_path")?.ok_or_else(|| failed("rhs_path", "->parent.has_value()"))?;
        }
        paths_equal(path, other)
    }
}

/// The steps of a path, from the root: the kind of each, and its name, index or key.
///
/// # Errors
/// TypeError for another value; an error about an invalid path if the path was changed.
pub(crate) fn read(path: &AnyView<'_>) -> Result<Vec<(Kind, Any)>> {
    let path = path.object().filter(|_| path.type_index() == PATH.host_index());
    let Some(mut path) = path else { bail!(TypeError, "expected {}", PATH.key) };
    let mut steps = Vec::new();
    // SAFETY: the value keeps the path alive, and a path its parents.
    unsafe {
        while let Some((parent, step)) = last_step(path, "current")? {
            let kind = match step.kind {
                0 => Kind::Attr,
                1 => Kind::ArrayItem,
                2 => Kind::MapItem,
                3 => Kind::AttrMissing,
                4 => Kind::ArrayItemMissing,
                5 => Kind::MapItemMissing,
                kind => bail!(InternalError, "an access step of unknown kind {kind}"),
            };
            steps.push((kind, step.key.clone()));
            path = parent;
        }
    }
    steps.reverse();
    Ok(steps)
}

/// The steps of a path, from the root; each is owned.
///
/// # Safety
/// `path` is a live path.
unsafe fn steps(mut path: *mut TVMFFIObject) -> Result<Vec<Any>> {
    let mut steps = Vec::new();
    // SAFETY: promised by the caller; a path keeps its parents alive.
    unsafe {
        while let Some((parent, _)) = last_step(path, "current")? {
            let step = embedded::body::<PathBody>(path).step.clone();
            steps.extend(step.map(|step| value(step.into_raw())));
            path = parent;
        }
    }
    steps.reverse();
    Ok(steps)
}

fn to_steps(args: &Arguments<'_>) -> Result<Any> {
    // SAFETY: the argument is a path, alive for the call.
    let steps = unsafe { steps(args.object(0)) }?;
    Ok(value(seq::new_array(steps.into_iter().map(Any::into_raw).collect())))
}

/// Appends the text that the printing function returns for a value.
fn printed(print: *mut c_void, value: &AnyView<'_>, text: &mut Vec<u8>) -> Result<()> {
    // SAFETY: the callers pass the hook's second argument, a function, and a value that they keep
    // alive.
    let printed = unsafe { call_function(print.cast(), &[*value.as_raw()]) }?;
    append_text(printed.as_view(), text)
}

fn append_text(value: &AnyView<'_>, text: &mut Vec<u8>) -> Result<()> {
    field::check(value, &STRING)?;
    // SAFETY: the value follows the ABI's rules for its type index.
    text.extend_from_slice(unsafe { embedded::text_of(value.as_raw()) }.unwrap_or_default());
    Ok(())
}

fn repr_step(args: &Arguments<'_>) -> Result<Any> {
    if !ACCESS_STEP.accepts(args.view(0)) {
        bail!(TypeError, "Cannot treat type `{}` as type `{}`", type_key(args.view(0)), STEP.key);
    }
    let print = args.object(1).cast();
    // SAFETY: the first argument is a step, alive for the call.
    let StepBody { kind, key, .. } = unsafe { embedded::body(args.object(0)) };
    let key = key.as_view();
    let mut text = Vec::new();
    let index = |text: &mut Vec<u8>| -> Result<()> {
        field::check(key, &INT)?;
        text.extend_from_slice(key.as_raw().bits().cast_signed().to_string().as_bytes());
        Ok(())
    };
    let (before, after): (&[u8], &[u8]) = match kind {
        0 => (b".", b""),
        1 | 2 => (b"[", b"]"),
        3..=5 => (b"[<missing:", b">]"),
        _ => bail!(InternalError, "an access step of unknown kind {kind}"),
    };
    text.extend_from_slice(before);
    match kind {
        0 => append_text(key, &mut text)?,
        1 | 4 => index(&mut text)?,
        _ => printed(print, key, &mut text)?,
    }
    text.extend_from_slice(after);
    Ok(text_value(&text))
}

fn repr_path(args: &Arguments<'_>) -> Result<Any> {
    if !ACCESS_PATH.accepts(args.view(0)) {
        bail!(TypeError, "Cannot treat type `{}` as type `{}`", type_key(args.view(0)), PATH.key);
    }
    let mut text = b"<root>".to_vec();
    // SAFETY: the first argument is a path, alive for the call.
    for step in unsafe { steps(args.object(0)) }? {
        printed(args.object(1).cast(), step.as_view(), &mut text)?;
    }
    Ok(text_value(&text))
}

fn text_value(text: &[u8]) -> Any {
    // SAFETY: a new text, whose reference is transferred to the value.
    unsafe { Any::from_raw(new_string(text)) }
}
