//! `ffi.VisitErrorContext.FindAccessPaths`: the places in a value of the objects that an error's
//! context recorded.

use super::error_context::{is_context, pattern};
use super::frames::{MAX_DEPTH, too_deep};
use crate::abi::{TVMFFIAny, TVMFFIErrorCell, TVMFFIObject, type_index};
use crate::definition::function::Arguments;
use crate::definition::signature::{Accepts, OBJECT, Type};
use crate::embedded::access::Access;
use crate::embedded::map::{self, END};
use crate::embedded::release::{is_object, release, retain};
use crate::embedded::{self, dec_ref, inc_ref, list, seq};
use crate::engines::access_path::{self, Kind};
use crate::value::{Any, AnyView, IntoAny};
use crate::{Error, Result};
use kernpack_core::reflect::{Field, Fields, TypeInfo};

/// An object or `None`; messages do not mention the latter.
pub(super) static ROOT: Type = Type { accepts: Accepts::Optional(&OBJECT), ..OBJECT };

/// A step from a value to a part of it.
enum Place {
    Field(Field),
    Index(i64),
    /// Owned.
    Key(TVMFFIAny),
}

/// A value that is being searched. All objects in it are borrowed from `value`.
struct Frame {
    // Owned.
    value: TVMFFIAny,
    inside: Inside,
    // Whether the value is the next recorded object, and how many paths there were before.
    matched: bool,
    paths_before: usize,
}

enum Inside {
    Object { fields: Fields },
    Sequence { index: i64 },
    Map { position: Option<u64> },
}

/// A search. It visits each place of the value, and shared objects again at each of their places.
struct Search<'a> {
    // The recorded objects, the innermost first, without those that follow themselves.
    records: Vec<*mut TVMFFIObject>,
    prefix_is_enough: bool,
    // Whether containers are searched for as well; the stock library ignores them.
    with_containers: bool,
    // The number of recorded objects on the path to here.
    matched: usize,
    frames: Vec<Frame>,
    // The steps to here, and the paths to the first of these places: owned.
    steps: Vec<Place>,
    paths: Vec<*mut TVMFFIObject>,
    found: &'a mut Vec<TVMFFIAny>,
}

impl Search<'_> {
    /// # Safety
    /// `root` is an owned value, whose content is not changed meanwhile.
    unsafe fn run(&mut self, root: TVMFFIAny) -> Result<()> {
        // SAFETY: promised by the caller: the value keeps its content alive, and each frame its own
        // value.
        unsafe {
            if self.with_containers {
                self.enter(root)?;
            } else {
                self.enter_object(root);
            }
            while let Some(frame) = self.frames.last_mut() {
                if let Some((place, child)) = frame.step()? {
                    self.steps.push(place);
                    self.enter(child)?;
                } else {
                    self.leave();
                }
            }
            Ok(())
        }
    }

    /// Begins to search an owned value.
    unsafe fn enter(&mut self, value: TVMFFIAny) -> Result<()> {
        if self.frames.len() >= MAX_DEPTH {
            // SAFETY: the value is ours.
            unsafe { release(value) };
            return Err(too_deep());
        }
        let inside = match value.type_index {
            type_index::ARRAY | type_index::LIST => Inside::Sequence { index: -1 },
            type_index::MAP | type_index::DICT => Inside::Map { position: None },
            _ => {
                // SAFETY: the value is ours.
                unsafe { self.enter_object(value) };
                return Ok(());
            }
        };
        if self.with_containers {
            // SAFETY: the value is ours, and a container is an object.
            unsafe { self.go_into(value, value.payload.v_obj, inside) };
        } else {
            self.frames.push(Frame { value, inside, matched: false, paths_before: 0 });
        }
        Ok(())
    }

    unsafe fn enter_object(&mut self, value: TVMFFIAny) {
        let info = TypeInfo::find(value.type_index).filter(|info| info.metadata().is_some());
        // SAFETY: an owned value; only objects have metadata.
        let (true, Some(info)) = (is_object(&value), info) else {
            // SAFETY: the value is ours.
            unsafe { release(value) };
            self.forget_step();
            return;
        };
        // SAFETY: just checked that it is an object.
        unsafe { self.go_into(value, value.payload.v_obj, Inside::Object { fields: info.fields() }) };
    }

    /// Enters an owned value, which is this object, unless it is the last recorded one.
    unsafe fn go_into(&mut self, value: TVMFFIAny, object: *mut TVMFFIObject, inside: Inside) {
        let matched =
            self.matched < self.records.len() && self.records[self.records.len() - 1 - self.matched] == object;
        if matched && self.matched + 1 == self.records.len() {
            self.report();
            // SAFETY: the value is ours.
            unsafe { release(value) };
            self.forget_step();
            return;
        }
        self.matched += usize::from(matched);
        self.frames.push(Frame { value, inside, matched, paths_before: self.found.len() });
    }

    /// Leaves the last frame.
    unsafe fn leave(&mut self) {
        let Some(frame) = self.frames.pop() else { return };
        if matches!(frame.inside, Inside::Object { .. }) {
            let is_prefix = self.matched > 0 && self.matched < self.records.len();
            if self.prefix_is_enough && is_prefix && !self.steps.is_empty() && self.found.len() == frame.paths_before {
                self.report();
            }
        }
        self.matched -= usize::from(frame.matched);
        // SAFETY: the frame owned it.
        unsafe { release(frame.value) };
        self.forget_step();
    }

    /// Goes back one step.
    fn forget_step(&mut self) {
        // SAFETY: the key and the path were ours.
        unsafe {
            if let Some(Place::Key(key)) = self.steps.pop() {
                release(key);
            }
            for path in self.paths.drain(self.steps.len().min(self.paths.len())..) {
                dec_ref(path);
            }
        }
    }

    /// Adds the path to here to the results.
    fn report(&mut self) {
        // SAFETY: paths and keys are ours and alive.
        unsafe {
            for step in &self.steps[self.paths.len()..] {
                let step = match step {
                    Place::Field(field) => access_path::new_attr_step(Kind::Attr, field.name_bytes()),
                    Place::Index(index) => access_path::new_step(Kind::ArrayItem, TVMFFIAny::int(*index)),
                    Place::Key(key) => access_path::new_step(Kind::MapItem, retain(key)),
                };
                self.paths.push(match self.paths.last() {
                    Some(parent) => access_path::extend(*parent, step),
                    None => {
                        let root = access_path::new_root();
                        let path = access_path::extend(root, step);
                        dec_ref(root);
                        path
                    }
                });
            }
            let path = match self.paths.last() {
                Some(path) => {
                    inc_ref(*path);
                    *path
                }
                None => access_path::new_root(),
            };
            self.found.push(TVMFFIAny::pointer((*path).type_index, path.cast()));
        }
    }
}

impl Drop for Search<'_> {
    fn drop(&mut self) {
        // SAFETY: all of them are ours; after an error there may be some.
        unsafe {
            for frame in self.frames.drain(..) {
                release(frame.value);
            }
            while !self.steps.is_empty() {
                self.forget_step();
            }
        }
    }
}

impl Frame {
    /// The next part of the value that is an object, owned, and the step to it.
    unsafe fn step(&mut self) -> Result<Option<(Place, TVMFFIAny)>> {
        // SAFETY: the frame keeps the value alive, and the frame's kind determines its type.
        unsafe {
            let object = self.value.payload.v_obj;
            loop {
                let (place, child) = match &mut self.inside {
                    Inside::Object { fields } => match fields.next() {
                        Some(field) => (Place::Field(field), field.get(object)?.into_raw()),
                        None => return Ok(None),
                    },
                    Inside::Sequence { index } => {
                        *index += 1;
                        match list::shared::element(object, *index as usize) {
                            Some(element) => (Place::Index(*index), element),
                            None => return Ok(None),
                        }
                    }
                    Inside::Map { position } => {
                        let _access = Access::new(object);
                        let next = position.map_or_else(|| map::first(object), |position| map::next(object, position));
                        *position = Some(next);
                        match map::entry_at(object, next) {
                            Some((key, value)) if next != END => {
                                if key.type_index == type_index::NONE || !is_object(&value) {
                                    continue;
                                }
                                (Place::Key(retain(&key)), retain(&value))
                            }
                            _ => return Ok(None),
                        }
                    }
                };
                if is_object(&child) {
                    return Ok(Some((place, child)));
                }
            }
        }
    }
}

/// `ffi.VisitErrorContext.FindAccessPaths`.
pub(super) fn run(args: &Arguments<'_>) -> Result<Any> {
    // SAFETY: the signature requires a context; the caller keeps the arguments alive.
    unsafe {
        let found = find(args.object(0), args.object(1), args.flag(2), false)?;
        // A new array of our own paths; its one reference goes over to the value.
        Ok(Any::from_object(seq::new_array(found)))
    }
}

/// The paths in a value to the object, which may be a container, that an operation was visiting
/// when it failed. Empty when the value is not an object, or when the error has no such record.
pub(crate) fn places(root: &AnyView<'_>, error: &Error) -> Result<Vec<Any>> {
    let error = error.clone().into_any();
    // SAFETY: the caller keeps the root alive, and `error` its context; the found values are owned.
    unsafe {
        let cell = embedded::body::<TVMFFIErrorCell>(error.as_view().as_raw().payload.v_obj);
        match (root.object(), is_context(cell.extra_context)) {
            (Some(root), true) => {
                let found = find(root, cell.extra_context, false, true)?;
                Ok(found.into_iter().map(|path| Any::from_raw(path)).collect())
            }
            _ => Ok(Vec::new()),
        }
    }
}

/// # Safety
/// `root` is a live object or NULL, and `context` is a live context.
unsafe fn find(
    root: *mut TVMFFIObject,
    context: *mut TVMFFIObject,
    prefix_is_enough: bool,
    with_containers: bool,
) -> Result<Vec<TVMFFIAny>> {
    let mut found = Vec::new();
    if !root.is_null() {
        // SAFETY: promised by the caller.
        unsafe {
            let mut records: Vec<_> =
                pattern(context).iter().filter(|node| is_object(node)).map(|node| node.payload.v_obj).collect();
            records.dedup();
            inc_ref(root);
            let mut search = Search {
                records,
                prefix_is_enough,
                with_containers,
                matched: 0,
                frames: Vec::new(),
                steps: Vec::new(),
                paths: Vec::new(),
                found: &mut found,
            };
            let outcome = search.run(TVMFFIAny::pointer((*root).type_index, root.cast()));
            drop(search);
            if let Err(error) = outcome {
                found.into_iter().for_each(|path| release(path));
                return Err(error);
            }
        }
    }
    Ok(found)
}
