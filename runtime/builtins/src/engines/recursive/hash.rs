//! Recursive hash, bit-identical to the stock library's: values that are equal field by field have
//! the same hash.
//!
//! A walk with an explicit stack. It borrows the values that it reads from objects; before a hook
//! runs, which may change anything, it takes references to all values that it still needs.

use core::ffi::c_void;

use super::leaf::hash_leaf;
use crate::abi::{TVMFFIAny, TVMFFIObject, field_flag, type_index};
use crate::definition::field::check;
use crate::definition::function::Arguments;
use crate::definition::signature::{ANY_VIEW, INT, Signature};
use crate::embedded::any_hash::combine;
use crate::embedded::{map, seq, shape};
use crate::value::{Any, AnyView};
use crate::walker::address_map::AddressMap;
use crate::walker::field_value::{Read, give_up, read, type_info, type_of};
use crate::walker::frozen::Frozen;
use crate::walker::held_objects::HeldObjects;
use crate::walker::reentry::{Reentry, call_hook, hook};
use crate::walker::stack::{Frame, Stack, check_depth};
use crate::{Result, bail};
use kernpack_core::reflect::{AttrColumn, Fields, TypeInfo};

static HOOKS: AttrColumn = AttrColumn::new("__ffi_hash__");
static EQUAL_HOOKS: AttrColumn = AttrColumn::new("__ffi_eq__");
static COMPARE_HOOKS: AttrColumn = AttrColumn::new("__ffi_compare__");
const HOOK_SIGNATURE: &str = "(0: ffi.Object, 1: (0: AnyView) -> int) -> int";
static CALLBACK: Signature = Signature::Typed(&[&ANY_VIEW], &INT);

/// Computes the recursive hash of a value.
///
/// # Safety
/// `value` is a valid value or view, but no rvalue reference, and stays alive for the call.
#[inline]
pub(crate) unsafe fn hash(value: &TVMFFIAny) -> Result<u64> {
    if let Some(hash) = hash_leaf(value) {
        return Ok(hash);
    }
    let mut hasher = Hasher {
        memo: AddressMap::default(),
        held: HeldObjects::default(),
        frames: Stack::new(),
        base: 0,
        entries: Vec::new(),
        reentry: None,
    };
    // SAFETY: promised by the caller.
    unsafe { hasher.run(*value) }
}

/// A walk.
struct Hasher {
    /// Hashes of the finished objects; for objects on the stack, the value that represents them
    /// inside themselves.
    memo: AddressMap,
    /// Keeps objects in the memo alive.
    held: HeldObjects,
    /// The objects that are being hashed, the root first.
    frames: Stack<1, Progress>,
    /// The index of the innermost run's first frame.
    base: usize,
    /// Hashes of the entries of the maps on the stack.
    entries: Vec<u64>,
    reentry: Option<Reentry>,
}

/// The state of the walk for an object.
struct Progress {
    /// The hash so far.
    hash: u64,
    parts: Parts,
}

/// The next part.
enum Parts {
    /// The index of the next element.
    Elements(Frozen, usize),
    /// The position of the next entry, the hash of the key whose value is next, and the index of
    /// this map's first hash among the entries.
    Entries(Frozen, u64, Option<u64>, usize),
    Fields(Fields),
}

// SAFETY of all unsafe blocks below: the caller of `hash` keeps the root alive. The values that a
// frame borrows live as long as the frame below it keeps its object alive and unchanged, which only
// hooks can end: `retain_all` is called before them.

impl Hasher {
    /// Hashes a borrowed value.
    #[inline]
    unsafe fn run(&mut self, value: TVMFFIAny) -> Result<u64> {
        let outer = core::mem::replace(&mut self.base, self.frames.len());
        // SAFETY: see above.
        let outcome = unsafe {
            match self.enter(Read { value, owned: false }) {
                Ok(None) => self.walk(),
                Ok(Some(hash)) => Ok(hash),
                Err(error) => Err(error),
            }
        };
        if outcome.is_err() {
            self.drop_frames(self.base);
        }
        self.base = outer;
        outcome
    }

    /// Continues until the first frame of this run is done.
    #[inline]
    unsafe fn walk(&mut self) -> Result<u64> {
        'frames: loop {
            let top = self.frames.len() - 1;
            loop {
                // SAFETY: see above.
                unsafe {
                    let Frame { objects: [object], state: frame, .. } = &mut self.frames[top];
                    let object = *object;
                    let part = match &mut frame.parts {
                        Parts::Elements(sequence, next) => {
                            let Some(element) = seq::elements(sequence.get()).get(*next) else { break };
                            Read { value: *element, owned: false }
                        }
                        Parts::Entries(map, position, key_hash, _) => {
                            let Some((key, value)) = map::entry_at(map.get(), *position) else { break };
                            if key_hash.is_some() {
                                *position = map::next(map.get(), *position);
                            }
                            Read { value: if key_hash.is_none() { key } else { value }, owned: false }
                        }
                        Parts::Fields(fields) => {
                            let Some(field) = fields.next() else { break };
                            if field.as_raw().flags & (field_flag::HASH_OFF | field_flag::COMPARE_OFF) != 0 {
                                continue;
                            }
                            read(field, object)?
                        }
                    };
                    let hash = match hash_leaf(&part.value) {
                        Some(hash) => {
                            give_up(part);
                            hash
                        }
                        None => match self.enter(part)? {
                            Some(hash) => hash,
                            None => continue 'frames,
                        },
                    };
                    self.feed(top, hash);
                }
            }
            // SAFETY: see above.
            let hash = unsafe { self.leave() };
            if self.frames.len() == self.base {
                return Ok(hash);
            }
            self.feed(top - 1, hash);
        }
    }

    /// Adds the hash of a part to that of its parent.
    #[inline]
    fn feed(&mut self, frame: usize, hash: u64) {
        let frame = &mut self.frames[frame].state;
        match &mut frame.parts {
            Parts::Elements(_, index) => {
                frame.hash = combine(frame.hash, combine(hash, *index as u64));
                *index += 1;
            }
            Parts::Entries(_, _, key_hash, _) => match key_hash.take() {
                None => *key_hash = Some(hash),
                Some(key) => self.entries.push(combine(key, hash)),
            },
            Parts::Fields(_) => frame.hash = combine(frame.hash, hash),
        }
    }

    /// Hashes a value, which is not a leaf, or pushes it on the stack. Takes over the reader's
    /// reference.
    #[inline]
    unsafe fn enter(&mut self, part: Read) -> Result<Option<u64>> {
        // SAFETY: see above.
        unsafe {
            let object = part.value.payload.v_obj;
            if let Some(hash) = self.memo.get(object) {
                give_up(part);
                return Ok(Some(hash));
            }
            let index = (*object).type_index;
            let key_hash = type_info(index)?.type_key_hash;
            let sized = |size: usize| combine(key_hash, size as u64);
            let (hash, parts) = match index {
                type_index::SHAPE => {
                    let dimensions = shape::dimensions(object);
                    let hash = dimensions
                        .iter()
                        .fold(sized(dimensions.len()), |hash, dimension| combine(hash, dimension.cast_unsigned()));
                    give_up(part);
                    return Ok(Some(hash));
                }
                type_index::ARRAY | type_index::LIST => {
                    let sequence = self.freeze(object);
                    (sized(seq::elements(sequence.get()).len()), Parts::Elements(sequence, 0))
                }
                type_index::MAP | type_index::DICT => {
                    let map = self.freeze(object);
                    let (size, first) = (map::len(map.get()), map::first(map.get()));
                    (sized(size), Parts::Entries(map, first, None, self.entries.len()))
                }
                _ => return self.enter_object(part, index),
            };
            self.push(part, hash, parts, key_hash)?;
            Ok(None)
        }
    }

    /// Returns the container as it is now.
    #[inline]
    unsafe fn freeze(&mut self, container: *mut TVMFFIObject) -> Frozen {
        // SAFETY: see above.
        let frozen = unsafe { Frozen::of(container) };
        if frozen.is_copy() {
            self.retain_all();
        }
        frozen
    }

    #[inline]
    unsafe fn enter_object(&mut self, part: Read, index: i32) -> Result<Option<u64>> {
        // SAFETY: see above.
        unsafe {
            let (info, hook) = match prepare(index) {
                Ok(prepared) => prepared,
                Err(error) => {
                    give_up(part);
                    return Err(error);
                }
            };
            let key_hash = info.as_raw().type_key_hash;
            self.push(part, key_hash, Parts::Fields(info.fields()), key_hash)?;
            let Some(hook) = hook else { return Ok(None) };
            // The frame keeps the object alive, and is popped like one whose fields are done.
            self.call_hook(hook)?;
            Ok(Some(self.leave()))
        }
    }

    /// Pushes an object on the stack. `inside` is its hash as a part of itself.
    #[inline]
    unsafe fn push(&mut self, part: Read, hash: u64, parts: Parts, inside: u64) -> Result<()> {
        // SAFETY: see above.
        unsafe {
            if let Err(error) = check_depth(self.frames.len() - self.base) {
                give_up(part);
                return Err(error);
            }
            let object = part.value.payload.v_obj;
            self.memo.insert(object, inside);
            self.frames.push([part], Progress { hash, parts });
        }
        Ok(())
    }

    /// Pops the top frame, whose parts are all hashed.
    #[inline]
    unsafe fn leave(&mut self) -> u64 {
        // SAFETY: see above. There is a frame: the callers have just used it.
        unsafe {
            let frame = self.frames.pop().unwrap_unchecked();
            let mut hash = frame.state.hash;
            if let Parts::Entries(.., first) = frame.state.parts {
                self.entries[first..].sort_unstable();
                hash = self.entries.drain(first..).fold(hash, combine);
            }
            self.memo.insert(frame.objects[0], hash);
            let [part] = frame.parts();
            self.held.keep(part);
            hash
        }
    }

    #[inline]
    fn drop_frames(&mut self, base: usize) {
        while self.frames.len() > base {
            let Some(frame) = self.frames.pop() else { return };
            if let Parts::Entries(.., first) = frame.state.parts {
                self.entries.truncate(first);
            }
            // Its address is in the memo.
            let [part] = frame.parts();
            // SAFETY: see above.
            unsafe { self.held.keep(part) };
        }
    }

    /// Takes references to all borrowed values. A hook may release them.
    #[inline]
    fn retain_all(&mut self) {
        // SAFETY: see above.
        unsafe {
            self.frames.retain_all();
            self.held.before_hook(self.memo.iter().map(|(object, _)| object));
        }
    }

    /// Calls a hook for the object of the top frame.
    #[inline]
    unsafe fn call_hook(&mut self, hook: TVMFFIAny) -> Result<()> {
        self.retain_all();
        let top = self.frames.len() - 1;
        let object = self.frames[top].objects[0];
        let function = self.reentry.get_or_insert_with(|| Reentry::new(&CALLBACK, callback)).function();
        // SAFETY: see above; the column owns the hook; we are not used until the hook returns, but
        // through the function.
        let result = unsafe {
            let args = [TVMFFIAny::pointer((*object).type_index, object.cast()), TVMFFIAny::NONE];
            call_hook(hook.payload.v_obj, args, function, core::ptr::from_mut(self).cast())
        }?;
        check(result.as_view(), &INT)?;
        self.frames[top].state.hash = result.as_view().as_raw().bits();
        Ok(())
    }
}

/// An object's type and its hook.
#[inline]
fn prepare(index: i32) -> Result<(TypeInfo, Option<TVMFFIAny>)> {
    let info = type_of(index)?;
    let hook = hook(&HOOKS, index, HOOK_SIGNATURE)?;
    if hook.is_none()
        && index >= type_index::STATIC_OBJECT_END
        && (EQUAL_HOOKS.get(index).is_some() || COMPARE_HOOKS.get(index).is_some())
    {
        bail!(
            ValueError,
            "RecursiveHash: type '{}' defines __ffi_eq__ or __ffi_compare__ but not __ffi_hash__. Add a __ffi_hash__ hook \
             to maintain the invariant RecursiveEq(a,b) => RecursiveHash(a)==RecursiveHash(b).",
            info.key()
        );
    }
    Ok((info, hook))
}

/// The function that a hook calls with a value.
#[inline]
unsafe fn callback(hasher: *mut c_void, args: &[AnyView<'_>]) -> Result<Any> {
    // SAFETY: the hasher waits for the hook and lends itself; the value is alive for the call.
    Arguments::of(args).look_at(|[value]| unsafe {
        let hash = match hash_leaf(value) {
            Some(hash) => hash,
            None => (*hasher.cast::<Hasher>()).run(*value)?,
        };
        Ok(Any::from_raw(TVMFFIAny::int(hash.cast_signed())))
    })
}
