//! Encodes a graph of objects as nodes, for any kind of output.
//!
//! A walk with an explicit stack. It borrows the values that it reads from objects; before a hook
//! runs, which may change anything, it takes references to all values that it still needs.

use super::leaf;
use super::node_table::{NodeTable, hash, may_call_hooks};
use crate::abi::{TVMFFIAny, TVMFFIObject, type_index};
use crate::dataclass::{creation, enums};
use crate::definition::signature::type_key;
use crate::embedded::{map, seq};
use crate::value::{Any, AnyView};
use crate::walker::address_map::AddressMap;
use crate::walker::cycle::CycleCheck;
use crate::walker::field_value::{Read, give_up, read, type_of};
use crate::walker::frozen::Frozen;
use crate::walker::held_objects::HeldObjects;
use crate::walker::reentry::hook;
use crate::walker::stack::{Frame, Stack};
use crate::{Error, Result, bail, error};
use kernpack_core::reflect::{AttrColumn, Fields, TypeInfo, call_function};

static HOOKS: AttrColumn = AttrColumn::new("__data_to_json__");

/// The receiver of the nodes, one after the other.
pub(super) trait Output {
    /// Receives a node, of a type with this key.
    fn node(&mut self, key: &'static [u8], data: Data<'_>) -> Result<()>;
}

/// The data of a node.
pub(super) enum Data<'a> {
    /// No data.
    Absent,
    /// A flag, a number, or a text.
    Value(&'a TVMFFIAny),
    /// A text.
    Text(&'a [u8]),
    /// Integers.
    List(&'a [TVMFFIAny]),
    /// The fields of an object: indices of nodes, and values that are written in place.
    Fields(Fields, &'a [TVMFFIAny]),
    /// The value that a hook has returned.
    Made(Any),
}

/// Writes all nodes to the output; the last one is the root.
#[inline]
pub(super) fn encode(root: &Any, output: &mut dyn Output) -> Result<i64> {
    let mut encoder = Encoder {
        output,
        nodes: NodeTable::default(),
        held: HeldObjects::default(),
        frames: Stack::new(),
        items: Vec::new(),
        open_lists: AddressMap::default(),
        cycles: CycleCheck::new(),
    };
    // SAFETY: the caller keeps the root alive.
    unsafe { encoder.run(*root.as_view().as_raw()) }
}

struct Encoder<'a> {
    output: &'a mut dyn Output,
    nodes: NodeTable,
    /// Keeps the nodes' values alive.
    held: HeldObjects,
    /// The objects that are being encoded, the root first.
    frames: Stack<1, Progress>,
    /// The data of the frames so far: plain values.
    items: Vec<TVMFFIAny>,
    /// Maps lists and dicts on the stack to 1.
    open_lists: AddressMap,
    cycles: CycleCheck,
}

/// The state of the walk for an object.
struct Progress {
    hash: u32,
    parts: Parts,
    /// The index of its first data item.
    first: usize,
}

/// The next part.
enum Parts {
    /// The index of the next element.
    Elements(Frozen, usize),
    /// The position of the next entry; true if its key is done.
    Entries(Frozen, u64, bool),
    Fields(Fields),
}

/// The state of a value.
enum Seen {
    /// It is this node.
    Known(i64),
    /// Its node has been written; this is its hash.
    Written(u32),
    /// The hash and the parts, which must be encoded first.
    Parts(u32, Parts),
}

// SAFETY of all unsafe blocks below: the caller of `encode` keeps the root alive. The values that a
// frame borrows live as long as the frame below it keeps its object alive and unchanged, which only
// hooks can end: `retain_all` is called before them.

impl Encoder<'_> {
    #[inline]
    unsafe fn run(&mut self, root: TVMFFIAny) -> Result<i64> {
        // SAFETY: see above.
        unsafe {
            if let Some(index) = self.enter(Read { value: root, owned: false })? {
                return Ok(index);
            }
            'frames: loop {
                let top = self.frames.len() - 1;
                loop {
                    let Frame { objects: [object], state: frame, .. } = &mut self.frames[top];
                    let object = *object;
                    let part = match &mut frame.parts {
                        Parts::Elements(sequence, next) => {
                            let Some(element) = seq::elements(sequence.get()).get(*next) else { break };
                            *next += 1;
                            Read { value: *element, owned: false }
                        }
                        Parts::Entries(map, position, key_is_done) => {
                            let Some((key, value)) = map::entry_at(map.get(), *position) else { break };
                            if *key_is_done {
                                *position = map::next(map.get(), *position);
                            }
                            *key_is_done = !*key_is_done;
                            Read { value: if *key_is_done { key } else { value }, owned: false }
                        }
                        Parts::Fields(fields) => {
                            let Some(field) = fields.next() else { break };
                            let part = read(field, object)?;
                            let declared = field.as_raw().field_static_type_index;
                            if is_written_in_place(declared) {
                                self.items.push(in_place(declared, part)?);
                                continue;
                            }
                            part
                        }
                    };
                    match self.enter(part)? {
                        Some(index) => self.items.push(TVMFFIAny::int(index)),
                        None => continue 'frames,
                    }
                }
                let index = self.leave()?;
                if self.frames.len() == 0 {
                    return Ok(index);
                }
                self.items.push(TVMFFIAny::int(index));
            }
        }
    }

    /// Returns the node of a value, which is new or known; `None` when its parts must be encoded
    /// first. Takes over the reader's reference.
    #[inline]
    unsafe fn enter(&mut self, mut part: Read) -> Result<Option<i64>> {
        // SAFETY: see above.
        unsafe {
            match self.look_at(&mut part) {
                Ok(Seen::Known(index)) => {
                    give_up(part);
                    Ok(Some(index))
                }
                Ok(Seen::Written(hash)) => Ok(Some(self.add(hash, part))),
                Ok(Seen::Parts(hash, parts)) => {
                    self.frames.push([part], Progress { hash, parts, first: self.items.len() });
                    if self.cycles.is_due(self.frames.len()) {
                        let places = self.frames.from(0).iter().map(|frame| (frame.objects[0].addr(), 0));
                        self.cycles.run("ToJSONGraph", places)?;
                    }
                    Ok(None)
                }
                Err(error) => {
                    give_up(part);
                    Err(error)
                }
            }
        }
    }

    /// Looks up a value, and writes its node if it is a new one without parts.
    #[inline]
    unsafe fn look_at(&mut self, part: &mut Read) -> Result<Seen> {
        let value = part.value;
        // SAFETY: see above.
        unsafe {
            if may_call_hooks(&value) {
                self.retain_all(part);
            }
            let hash = hash(&value)?;
            if let Some(index) = self.nodes.find(hash, &value)? {
                return Ok(Seen::Known(index));
            }
            let parts = match value.type_index {
                type_index::ARRAY | type_index::LIST => {
                    if value.type_index == type_index::LIST {
                        self.retain_all(part);
                        self.open(value.payload.v_obj, "List")?;
                    }
                    Parts::Elements(Frozen::of(value.payload.v_obj), 0)
                }
                type_index::MAP | type_index::DICT => {
                    if value.type_index == type_index::DICT {
                        self.retain_all(part);
                        self.open(value.payload.v_obj, "Dict")?;
                    }
                    let map = Frozen::of(value.payload.v_obj);
                    let first = map::first(map.get());
                    Parts::Entries(map, first, false)
                }
                index if index >= type_index::STATIC_OBJECT_BEGIN && !is_leaf(index) => {
                    let info = type_of(index)?;
                    if let Some(data) = self.data_at_once(part, info)? {
                        self.output.node(info.key_bytes(), Data::Made(data))?;
                        return Ok(Seen::Written(hash));
                    }
                    Parts::Fields(info.fields())
                }
                _ => {
                    leaf::write(&value, self.output)?;
                    return Ok(Seen::Written(hash));
                }
            };
            Ok(Seen::Parts(hash, parts))
        }
    }

    /// Finishes the top frame.
    #[inline]
    unsafe fn leave(&mut self) -> Result<i64> {
        // SAFETY: see above. There is a frame: the callers have just used it.
        unsafe {
            let frame = self.frames.pop().unwrap_unchecked();
            let object = frame.objects[0];
            let index = (*object).type_index;
            let [part] = frame.parts();
            let part = Read { value: TVMFFIAny::pointer(index, object.cast()), ..part };
            if matches!(index, type_index::LIST | type_index::DICT) {
                self.open_lists.insert(object, 0);
            }
            let written = self.write(index, &frame.state);
            self.items.truncate(frame.state.first);
            match written {
                Ok(()) => Ok(self.add(frame.state.hash, part)),
                Err(error) => {
                    give_up(part);
                    Err(error)
                }
            }
        }
    }

    /// Writes the node of an object whose parts are all done.
    #[inline]
    fn write(&mut self, index: i32, progress: &Progress) -> Result<()> {
        let info = type_of(index)?;
        let items = &self.items[progress.first..];
        let data = match progress.parts {
            Parts::Fields(_) => Data::Fields(info.fields(), items),
            _ => Data::List(items),
        };
        self.output.node(info.key_bytes(), data)
    }

    /// Records the last written node. Takes over the reader's reference.
    #[inline]
    unsafe fn add(&mut self, hash: u32, part: Read) -> i64 {
        if part.value.type_index >= type_index::STATIC_OBJECT_BEGIN {
            // SAFETY: see above.
            unsafe { self.held.keep(part) };
        }
        self.nodes.add(hash, part.value)
    }

    #[inline]
    fn open(&mut self, list: *mut TVMFFIObject, what: &str) -> Result<()> {
        if self.open_lists.insert(list, 1) == Some(1) {
            bail!(ValueError, "Cycle detected during serialization: a {what} contains itself");
        }
        Ok(())
    }

    /// The data of an object that is not written field by field.
    #[inline]
    unsafe fn data_at_once(&mut self, part: &mut Read, info: TypeInfo) -> Result<Option<Any>> {
        // SAFETY: see above.
        unsafe {
            if enums::is_enum(info) {
                return Ok(Some(enums::index_of(part.value.payload.v_obj, info)));
            }
            if let Some(hook) = hook(&HOOKS, info.index(), "(0: AnyView) -> Any")? {
                self.retain_all(part);
                return call_function(hook.payload.v_obj, &[part.value]).map(Some);
            }
        }
        if !creation::has_creator(info) {
            return Err(no_creator(info));
        }
        Ok(None)
    }

    /// Takes references to all borrowed values, and to the part that is being looked up. A hook may
    /// release them.
    #[inline]
    fn retain_all(&mut self, part: &mut Read) {
        // SAFETY: see above.
        unsafe {
            if part.value.type_index >= type_index::STATIC_OBJECT_BEGIN {
                *part = part.retained();
            }
            self.frames.retain_all();
            self.held.before_hook(self.nodes.objects());
        }
    }
}

/// Returns true if no part of an object is a node.
#[inline]
const fn is_leaf(index: i32) -> bool {
    matches!(index, type_index::STR | type_index::BYTES | type_index::SHAPE)
}

/// Returns true if fields that are declared with this type index always hold a value of that type,
/// and JSON can represent it.
#[inline]
const fn is_written_in_place(index: i32) -> bool {
    matches!(index, type_index::NONE | type_index::BOOL | type_index::INT | type_index::FLOAT | type_index::DATA_TYPE)
}

/// A field's value that is written in place.
#[inline]
unsafe fn in_place(declared: i32, part: Read) -> Result<TVMFFIAny> {
    if declared == type_index::NONE {
        // SAFETY: the reader's reference is not needed any more.
        unsafe { give_up(part) };
        return Ok(TVMFFIAny::NONE);
    }
    if part.value.type_index != declared {
        // SAFETY: as above; only the type index of the value is looked at.
        let view = unsafe {
            give_up(part);
            AnyView::from_raw(TVMFFIAny::pointer(part.value.type_index, core::ptr::null_mut()))
        };
        bail!(TypeError, "a field whose type is number {declared} holds a value of type `{}`", type_key(&view));
    }
    Ok(part.value)
}

#[cold]
#[inline]
fn no_creator(info: TypeInfo) -> Error {
    error!(TypeError, "Type `{}` does not support ToJSONGraph (no native creator or __ffi_new__ type attr)", info.key())
}
