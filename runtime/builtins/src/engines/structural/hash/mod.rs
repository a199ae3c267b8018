//! Structural hash, bit-identical to the stock library's.
//!
//! A walk with an explicit stack, so that depth is limited by memory only. It borrows the values
//! that it reads from objects; before a hook runs, which may change anything, it takes references
//! to all values that it still needs.

mod hooks;

use super::container_hashes::{ContainerHashes, Since};
use super::leaf::hash_leaf;
use super::region::Region;
use super::{Options, kind, tensor};
use crate::abi::{TVMFFIAny, TVMFFIObject, TVMFFITypeInfo, seq_hash_kind, type_index};
use crate::embedded::any_hash::combine;
use crate::embedded::{map, seq, shape};
use crate::walker::address_map::AddressMap;
use crate::walker::cycle::CycleCheck;
use crate::walker::field_value::{Read, give_up, read, type_info};
use crate::walker::frozen::Frozen;
use crate::walker::held_objects::HeldObjects;
use crate::walker::reentry::{Reentry, hook};
use crate::walker::stack::{Frame, Stack, Waiting};
use crate::{Result, abi::field_flag};
use kernpack_core::reflect::{AttrColumn, Fields, TypeInfo};

static HOOKS: AttrColumn = AttrColumn::new("__s_hash__");
const HOOK_SIGNATURE: &str = "(0: ffi.Object, 1: int, 2: (0: AnyView, 1: int, 2: int) -> int) -> int";

/// Computes the structural hash of a value.
///
/// # Safety
/// `value` is a valid value or view, but no rvalue reference, and stays alive for the call.
pub(crate) unsafe fn hash(value: &TVMFFIAny, options: Options) -> Result<u64> {
    if let Some(hash) = hash_leaf(value) {
        return Ok(hash);
    }
    let mut hasher = Hasher {
        skip_tensor_content: options.skip_tensor_content,
        region: Region::NONE,
        free_vars: 0,
        graph_nodes: 0,
        memo: AddressMap::default(),
        containers: ContainerHashes::default(),
        held: HeldObjects::default(),
        frames: Stack::new(),
        entries: Waiting::new(),
        cycles: CycleCheck::new(),
        reentry: None,
    };
    // SAFETY: promised by the caller.
    unsafe { hasher.run(*value, Region::initial(options.map_free_vars)) }
}

/// A walk.
struct Hasher {
    skip_tensor_content: bool,
    /// The region of the running hook.
    region: Region,
    free_vars: u32,
    graph_nodes: u32,
    /// Hashes of the finished objects.
    memo: AddressMap,
    /// Hashes of containers and tensors, which may change until they are needed again.
    containers: ContainerHashes,
    /// Keeps objects in the memo alive.
    held: HeldObjects,
    /// The objects that are being hashed, the root first.
    frames: Stack<1, Progress>,
    /// Entries of the maps on the stack: the key's hash and the value.
    entries: Waiting<u64, 1>,
    cycles: CycleCheck,
    reentry: Option<Reentry>,
}

/// The state of the walk for an object.
struct Progress {
    /// The hash so far.
    hash: u64,
    parts: Parts,
    /// The region of its parts.
    region: Region,
    /// The region that it is in.
    outer_region: Region,
    /// The state that the hash of a container depends on.
    since: Since,
}

/// The next part.
enum Parts {
    Elements(Frozen, usize),
    /// Positions among the entries: the first one of this map, and the next one.
    Entries(usize, usize),
    Fields(i32, Fields),
}

/// The hash of a value, if it is known at once; `None` if its parts are on the stack now.
type Entered = Option<u64>;

// SAFETY of all unsafe blocks below: the caller of `hash` keeps the root alive. The values that a
// frame borrows live as long as the frame below it keeps its object alive and unchanged, which only
// hooks can end: `retain_all` is called before them.

impl Hasher {
    /// Hashes a borrowed value.
    unsafe fn run(&mut self, value: TVMFFIAny, region: Region) -> Result<u64> {
        let base = self.frames.len();
        // SAFETY: see above.
        let outcome = unsafe {
            match self.enter(Read { value, owned: false }, region) {
                Ok(None) => self.walk(base),
                Ok(Some(hash)) => Ok(hash),
                Err(error) => Err(error),
            }
        };
        if outcome.is_err() {
            self.drop_frames(base);
        }
        outcome
    }

    /// Continues until the frame above `base` is done.
    unsafe fn walk(&mut self, base: usize) -> Result<u64> {
        'frames: loop {
            let top = self.frames.len() - 1;
            loop {
                // SAFETY: see above.
                unsafe {
                    let Frame { objects: [object], state: frame, .. } = &mut self.frames[top];
                    let object = *object;
                    let (part, region) = match &mut frame.parts {
                        Parts::Elements(sequence, next) => {
                            let Some(element) = seq::elements(sequence.get()).get(*next) else { break };
                            *next += 1;
                            (Read { value: *element, owned: false }, frame.region)
                        }
                        Parts::Entries(_, next) => {
                            let rest = self.entries.from(*next);
                            let Some(&(key, [value])) = rest.first() else { break };
                            let same = rest.iter().take_while(|entry| entry.0 == key).count();
                            *next += same;
                            frame.hash = combine(frame.hash, key);
                            if same > 1 {
                                // Their order is undefined, so their values are ignored.
                                continue;
                            }
                            (Read { value, owned: false }, frame.region)
                        }
                        Parts::Fields(_, fields) => {
                            let Some(field) = fields.next() else { break };
                            if field.has(field_flag::SEQ_HASH_IGNORE) {
                                continue;
                            }
                            (read(field, object)?, frame.region.of_field(field.as_raw().flags))
                        }
                    };
                    if part.value.type_index < type_index::STATIC_OBJECT_BEGIN
                        && let Some(hash) = hash_leaf(&part.value)
                    {
                        frame.hash = combine(frame.hash, hash);
                        continue;
                    }
                    match self.enter(part, region)? {
                        Some(hash) => {
                            let frame = &mut self.frames[top].state;
                            frame.hash = combine(frame.hash, hash);
                        }
                        None => continue 'frames,
                    }
                }
            }
            let hash = self.leave();
            if self.frames.len() == base {
                return Ok(hash);
            }
            let below = &mut self.frames[top - 1].state;
            below.hash = combine(below.hash, hash);
        }
    }

    /// Hashes a value, or pushes it on the stack. Takes over the reader's reference.
    unsafe fn enter(&mut self, part: Read, region: Region) -> Result<Entered> {
        // SAFETY: see above.
        unsafe {
            if let Some(hash) = hash_leaf(&part.value) {
                give_up(part);
                return Ok(Some(hash));
            }
            let object = part.value.payload.v_obj;
            let index = (*object).type_index;
            if let Some((hash, since)) = self.containers.get(object) {
                give_up(part);
                self.depend(since);
                return Ok(Some(hash));
            }
            let mut since = self.containers.now();
            let (hash, parts) = match index {
                type_index::ARRAY | type_index::LIST => {
                    let sequence = self.freeze(object);
                    since.may_be_changed = sequence.is_copy();
                    let size = seq::elements(sequence.get()).len() as u64;
                    (combine(type_info(index)?.type_key_hash, size), Parts::Elements(sequence, 0))
                }
                type_index::MAP | type_index::DICT => {
                    let map = self.freeze(object);
                    let hash = combine(type_info(index)?.type_key_hash, map::len(map.get()) as u64);
                    let (first, has_all) = self.add_entries(&map);
                    since.may_be_changed = map.is_copy();
                    since.lacks_keys = !has_all;
                    (hash, Parts::Entries(first, first))
                }
                type_index::SHAPE => {
                    let dimensions = shape::dimensions(object);
                    let hash = combine(type_info(index)?.type_key_hash, dimensions.len() as u64);
                    let hash = dimensions.iter().fold(hash, |hash, dimension| combine(hash, dimension.cast_unsigned()));
                    give_up(part);
                    return Ok(Some(hash));
                }
                type_index::TENSOR => {
                    let hash = tensor::hash(object, type_info(index)?.type_key_hash, self.skip_tensor_content);
                    if let Ok(hash) = hash {
                        since.may_be_changed = true;
                        self.containers.note(part, hash, since);
                        self.depend(since);
                    }
                    give_up(part);
                    return hash.map(Some);
                }
                _ => return self.enter_object(part, region, index),
            };
            self.push(part, Progress { hash, parts, region, outer_region: region, since })?;
            Ok(None)
        }
    }

    /// Returns the container as it is now.
    unsafe fn freeze(&mut self, container: *mut TVMFFIObject) -> Frozen {
        // SAFETY: see above.
        let frozen = unsafe { Frozen::of(container) };
        if frozen.is_copy() {
            self.retain_all();
        }
        frozen
    }

    unsafe fn enter_object(&mut self, part: Read, region: Region, index: i32) -> Result<Entered> {
        // SAFETY: see above.
        unsafe {
            let object = part.value.payload.v_obj;
            let prepared = self.prepare(object, index);
            let (info, kind, hook) = match prepared {
                Ok(Prepared::Known(hash)) => {
                    give_up(part);
                    return Ok(Some(hash));
                }
                Ok(Prepared::Parts(info, kind, hook)) => (info, kind, hook),
                Err(error) => {
                    give_up(part);
                    return Err(error);
                }
            };
            let inner = if kind == seq_hash_kind::FREE_VAR { region.inside_variable() } else { region };
            let Some(hook) = hook else {
                // The record is the type table's.
                let parts = Parts::Fields(kind, TypeInfo::from_raw(info).fields());
                let since = self.containers.now();
                let hash = info.type_key_hash;
                self.push(part, Progress { hash, parts, region: inner, outer_region: region, since })?;
                return Ok(None);
            };
            self.retain_all();
            let part = part.retained();
            match self.call_hook(hook, object, info.type_key_hash, inner) {
                Ok(hash) => Ok(Some(self.finish(part, kind, hash, region))),
                Err(error) => {
                    give_up(part);
                    Err(error)
                }
            }
        }
    }

    /// Looks an object up in the memo and finds its hook, before its fields are visited.
    unsafe fn prepare(&self, object: *mut TVMFFIObject, index: i32) -> Result<Prepared> {
        let (info, kind) = kind::of(index)?;
        if let Some(hash) = self.memo.get(object) {
            return Ok(Prepared::Known(hash));
        }
        Ok(Prepared::Parts(info, kind, hook(&HOOKS, index, HOOK_SIGNATURE)?))
    }

    fn push(&mut self, part: Read, progress: Progress) -> Result<()> {
        self.frames.push([part], progress);
        if self.cycles.is_due(self.frames.len()) {
            let places = self.frames.from(0).iter().map(|frame| (frame.objects[0].addr(), 0));
            self.cycles.run("StructuralHash", places)?;
        }
        Ok(())
    }

    /// Pops the top frame, whose parts are all hashed.
    fn leave(&mut self) -> u64 {
        // SAFETY: see above. There is a frame: the callers have just used it.
        unsafe {
            let frame = self.frames.pop().unwrap_unchecked();
            let Progress { hash, parts, outer_region, since, .. } = &frame.state;
            let [part] = frame.parts();
            match parts {
                Parts::Fields(kind, _) => {
                    return self.finish(part, *kind, *hash, *outer_region);
                }
                Parts::Entries(first, _) => self.entries.truncate(*first),
                Parts::Elements(..) => {}
            }
            self.containers.note(part, *hash, *since);
            self.depend(*since);
            self.held.keep_made(part);
            frame.give_up();
            *hash
        }
    }

    /// Computes the hash of an object from that of its fields. Takes over the reader's reference.
    unsafe fn finish(&mut self, part: Read, kind: i32, fields: u64, region: Region) -> u64 {
        // SAFETY: see above.
        unsafe {
            let object = part.value.payload.v_obj;
            let hash = match kind {
                seq_hash_kind::FREE_VAR if region.defines() => {
                    let number = self.free_vars;
                    self.free_vars = number.wrapping_add(1);
                    combine(fields, u64::from(number))
                }
                seq_hash_kind::FREE_VAR => object.addr() as u64,
                seq_hash_kind::DAG_NODE => {
                    let number = self.graph_nodes;
                    self.graph_nodes = number.wrapping_add(1);
                    combine(fields, u64::from(number))
                }
                _ => fields,
            };
            self.memo.insert(object, hash);
            self.containers.object_is_done();
            self.held.keep(part);
            hash
        }
    }

    /// Adds the dependencies of a part's hash to the container at the top of the stack, if there is
    /// one.
    fn depend(&mut self, part: Since) {
        if let Some(at) = self.frames.len().checked_sub(1) {
            let whole = &mut self.frames[at].state.since;
            whole.may_be_changed |= part.may_be_changed;
            whole.lacks_keys |= part.lacks_keys;
        }
    }

    /// Appends the entries of a map to those of the maps below, sorted by the hashes of their keys;
    /// returns the index of the first one. Keys whose hash depends on the order of visits are
    /// ignored; the flag is true if there are none.
    unsafe fn add_entries(&mut self, map: &Frozen) -> (usize, bool) {
        let first = self.entries.len();
        let mut has_all = true;
        // SAFETY: see above.
        unsafe {
            self.entries.reserve(map::len(map.get()));
            for (key, value) in map::iter(map.get()) {
                let hash = match key.type_index {
                    // Unlike a value, a key is hashed without normalization.
                    type_index::FLOAT => Some(combine(type_index::FLOAT as u64, key.bits())),
                    _ => hash_leaf(&key).or_else(|| self.memo.get(key.payload.v_obj)),
                };
                match hash {
                    Some(hash) => self.entries.push(hash, [value]),
                    None => has_all = false,
                }
            }
        }
        self.entries.sort_from(first);
        if map.is_copy() {
            // The copy is dropped before they are.
            // SAFETY: the copy keeps its values, and the maps below keep theirs.
            unsafe { self.entries.retain_all() };
        }
        (first, has_all)
    }

    fn drop_frames(&mut self, base: usize) {
        self.frames.truncate(base, |frame| {
            if let Parts::Entries(first, _) = frame.state.parts {
                self.entries.truncate(first);
            }
            let [part] = frame.parts();
            // The hook that has requested the hash may request others.
            // SAFETY: see above.
            unsafe { self.held.keep_made(part) };
        });
    }
}

enum Prepared {
    Known(u64),
    Parts(&'static TVMFFITypeInfo, i32, Option<TVMFFIAny>),
}
