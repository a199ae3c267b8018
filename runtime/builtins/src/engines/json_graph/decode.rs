//! Decodes nodes to the graph of objects that they describe.
//!
//! Nodes may refer to each other in any order; referenced nodes are decoded first, without
//! recursion.

use super::base64;
use super::plain::{device, expect, integers, plain, view};
use crate::abi::{TVMFFIAny, TVMFFIObject, type_index};
use crate::dataclass::{creation, enums};
use crate::definition::signature::{Accepts, INT, STRING, Type};
use crate::embedded::release::{release_elements, retain};
use crate::embedded::{map, new_bytes, new_string, seq, shape, text_of};
use crate::value::Any;
use crate::walker::field_value::type_of;
use crate::walker::frozen::Frozen;
use crate::walker::reentry::hook;
use crate::{Error, Result, bail, error};
use kernpack_core::reflect::{AttrColumn, Field, Fields, TypeInfo, call_function};

static HOOKS: AttrColumn = AttrColumn::new("__data_from_json__");

static JSON_OBJECT: Type =
    Type { schema: "", text: "Map<Any, Any>", accepts: Accepts::Either(type_index::MAP, type_index::DICT) };
static JSON_ARRAY: Type =
    Type { schema: "", text: "Array<Any>", accepts: Accepts::Either(type_index::ARRAY, type_index::LIST) };

/// Not a type index: the node has not been visited.
const UNKNOWN: i32 = -2;
/// Not a type index: the node's parts are being decoded.
const OPEN: i32 = -3;

/// Decodes the root of the graph.
#[inline]
pub(super) fn decode(graph: &Any) -> Result<Any> {
    let invalid = |what: &str| Err(error!(ValueError, "Invalid JSON Object Graph, expected {what}"));
    if graph.type_index() != type_index::MAP {
        return invalid("an object");
    }
    // SAFETY: the caller keeps the graph alive, and with it the values in it.
    unsafe {
        let graph = graph.as_view().as_raw().payload.v_obj;
        let root_index = match entry(graph, b"root_index")? {
            Some(index) if index.type_index == type_index::INT => index.bits().cast_signed(),
            _ => return invalid("`root_index` integer field"),
        };
        let nodes = match entry(graph, b"nodes")? {
            Some(nodes) if nodes.type_index == type_index::ARRAY => seq::elements(nodes.payload.v_obj),
            _ => return invalid("`nodes` array field"),
        };
        let unknown = TVMFFIAny { type_index: UNKNOWN, ..TVMFFIAny::NONE };
        let mut decoder = Decoder { nodes, decoded: vec![unknown; nodes.len()], frames: Vec::new(), parts: Vec::new() };
        decoder.run(root_index)
    }
}

/// A value of a map with text keys, borrowed.
///
/// # Safety
/// `object` is a live map or dict.
#[inline]
unsafe fn entry(object: *mut TVMFFIObject, name: &[u8]) -> Result<Option<TVMFFIAny>> {
    // SAFETY: promised by the caller; the new text is the key's own.
    unsafe {
        let key = Any::from_raw(new_string(name));
        Ok(map::get(object, key.as_view().as_raw())?)
    }
}

struct Decoder<'a> {
    nodes: &'a [TVMFFIAny],
    /// The nodes' values, owned.
    decoded: Vec<TVMFFIAny>,
    /// The nodes that are being decoded, the root first.
    frames: Vec<Frame>,
    /// The parts of the frames so far, borrowed from `decoded`.
    parts: Vec<TVMFFIAny>,
}

/// A node whose parts are being decoded.
struct Frame {
    node: usize,
    /// Its content: an array of indices, or a map of fields.
    data: Any,
    kind: Kind,
    /// The index of its first part.
    first: usize,
}

enum Kind {
    /// The type index of the sequence, and the next element.
    Sequence(i32, usize),
    /// The type index of the map, and the next index. Of a pair, the value comes first.
    Map(i32, usize),
    Object(Box<Object>),
}

/// An object whose fields are being set.
struct Object {
    object: Any,
    info: TypeInfo,
    fields: Fields,
    /// The field that waits for its value.
    waiting: Option<Field>,
    /// The position in the data at which the next field is expected.
    position: u64,
}

// SAFETY of all unsafe blocks below: the caller of `decode` keeps the graph alive; it consists of
// arrays and maps, which do not change. Of lists and dicts in it, copies are read, which the frames
// hold. What is decoded stays alive until the end.

impl Decoder<'_> {
    #[inline]
    unsafe fn run(&mut self, root: i64) -> Result<Any> {
        // SAFETY: see above.
        unsafe {
            let mut known = self.enter(root)?;
            while !self.frames.is_empty() {
                known = self.go_on(known)?;
            }
            let value = known.unwrap_or(TVMFFIAny::NONE);
            Ok(Any::from_raw(retain(&value)))
        }
    }

    /// Returns the value of a node; `None` when its parts must be decoded first.
    #[inline]
    unsafe fn enter(&mut self, index: i64) -> Result<Option<TVMFFIAny>> {
        let node = usize::try_from(index).ok().filter(|index| *index < self.nodes.len());
        let Some(node) = node else {
            bail!(ValueError, "Invalid JSON Object Graph: invalid node index {index}");
        };
        match self.decoded[node].type_index {
            UNKNOWN => {}
            OPEN => bail!(ValueError, "Invalid JSON Object Graph: node {index} is a part of itself"),
            _ => return Ok(Some(self.decoded[node])),
        }
        // SAFETY: see above.
        unsafe {
            let value = self.nodes[node];
            expect(&value, &JSON_OBJECT)?;
            let frozen = Frozen::of(value.payload.v_obj);
            match Self::start(frozen.get())? {
                Started::Done(value) => {
                    let value = value.into_raw();
                    self.decoded[node] = value;
                    Ok(Some(value))
                }
                Started::Parts(data, kind) => {
                    self.decoded[node].type_index = OPEN;
                    self.frames.push(Frame { node, data, kind, first: self.parts.len() });
                    Ok(None)
                }
            }
        }
    }

    /// Decodes a node without parts, or prepares one with parts.
    #[inline]
    unsafe fn start(object: *mut TVMFFIObject) -> Result<Started> {
        // SAFETY: see above.
        unsafe {
            let key = required(object, b"type")?;
            expect(&key, &STRING)?;
            let index = type_index_of(text_of(&key).unwrap_or_default())?;
            if index == type_index::NONE {
                return Ok(Started::Done(Any::NONE));
            }
            let data = required(object, b"data")?;
            let is_container = matches!(data.type_index, type_index::LIST | type_index::DICT);
            let frozen = is_container.then(|| Frozen::of(data.payload.v_obj));
            let data = frozen.as_ref().map_or(data, |frozen| TVMFFIAny::pointer(data.type_index, frozen.get().cast()));
            let done = |value| Ok(Started::Done(Any::from_raw(value)));
            let parts = |kind| Ok(Started::Parts(Any::from_raw(retain(&data)), kind));
            match index {
                type_index::BOOL | type_index::INT | type_index::FLOAT | type_index::DATA_TYPE => {
                    done(plain(index, &data)?)
                }
                type_index::DEVICE => done(device(&data)?),
                type_index::STR => {
                    expect(&data, &STRING)?;
                    done(retain(&data))
                }
                type_index::BYTES => {
                    expect(&data, &STRING)?;
                    done(new_bytes(&base64::decode(text_of(&data).unwrap_or_default())?))
                }
                type_index::SHAPE => {
                    let dimensions = integers(&data)?;
                    Ok(Started::Done(Any::from_object(shape::new_shape(&dimensions))))
                }
                type_index::ARRAY | type_index::LIST => {
                    expect(&data, &JSON_ARRAY)?;
                    parts(Kind::Sequence(index, 0))
                }
                type_index::MAP | type_index::DICT => {
                    expect(&data, &JSON_ARRAY)?;
                    let size = seq::elements(data.payload.v_obj).len();
                    if size % 2 != 0 {
                        bail!(
                            ValueError,
                            "Invalid JSON Object Graph: Map/Dict data must contain an even number of [key, value] \
                             entries, got {size}"
                        );
                    }
                    parts(Kind::Map(index, 0))
                }
                _ => Self::start_object(index, data),
            }
        }
    }

    #[inline]
    unsafe fn start_object(index: i32, data: TVMFFIAny) -> Result<Started> {
        // SAFETY: see above.
        unsafe {
            let info = type_of(index)?;
            // Creators of objects may change the graph.
            let held = Any::from_raw(retain(&data));
            if enums::is_enum(info) {
                let of_integers = enums::is_int_enum(info);
                expect(&data, if of_integers { &INT } else { &STRING })?;
                let key = if of_integers { TVMFFIAny::int(data.bits().cast_signed()) } else { data };
                return Ok(Started::Done(enums::instance_with(info, &key)?));
            }
            if let Some(hook) = hook(&HOOKS, index, "(0: AnyView) -> Any")? {
                return Ok(Started::Done(call_function(hook.payload.v_obj, &[data])?));
            }
            let object = creation::create_empty(info)?;
            expect(&data, &JSON_OBJECT)?;
            let position = map::first(data.payload.v_obj);
            let object = Object { object, info, fields: info.fields(), waiting: None, position };
            Ok(Started::Parts(held, Kind::Object(Box::new(object))))
        }
    }

    /// Continues the top frame, which gets the value of a part if it waits for one. Returns the
    /// value of the frame when it is done, or of a part below.
    #[inline]
    unsafe fn go_on(&mut self, mut part: Option<TVMFFIAny>) -> Result<Option<TVMFFIAny>> {
        loop {
            // SAFETY: see above. There is a frame: the caller has looked.
            unsafe {
                let frame = self.frames.last_mut().unwrap_unchecked();
                let data = frame.data.as_view().as_raw().payload.v_obj;
                let next = match &mut frame.kind {
                    Kind::Sequence(_, next) => {
                        if let Some(value) = part.take() {
                            self.parts.push(value);
                        }
                        let element = seq::elements(data).get(*next).copied();
                        *next += 1;
                        element
                    }
                    Kind::Map(_, next) => {
                        if let Some(value) = part.take() {
                            self.parts.push(value);
                            let end = self.parts.len();
                            if next.is_multiple_of(2) {
                                self.parts.swap(end - 2, end - 1);
                            }
                        }
                        let elements = seq::elements(data);
                        if next.is_multiple_of(2) {
                            // Both indices are read before their nodes.
                            for index in elements.iter().skip(*next).take(2) {
                                expect(index, &INT)?;
                            }
                        }
                        let element = elements.get(*next ^ 1).copied();
                        *next += 1;
                        element
                    }
                    Kind::Object(object) => object.go_on(data, part.take())?,
                };
                let Some(next) = next else { return self.leave().map(Some) };
                expect(&next, &INT)?;
                part = self.enter(next.bits().cast_signed())?;
                if part.is_none() {
                    return Ok(None);
                }
            }
        }
    }

    /// Finishes the top frame.
    #[inline]
    unsafe fn leave(&mut self) -> Result<TVMFFIAny> {
        // SAFETY: see above. There is a frame: the caller has just used it.
        unsafe {
            let Frame { node, kind, first, .. } = self.frames.pop().unwrap_unchecked();
            let parts = &self.parts[first..];
            let value = match kind {
                Kind::Sequence(type_index::ARRAY, _) => Any::from_object(seq::new_array_of_shared(parts)),
                Kind::Sequence(..) => Any::from_object(seq::new_list_of_shared(parts)),
                Kind::Map(type_index::MAP, _) => Any::from_object(map::new_map_of_views(parts)?),
                Kind::Map(..) => Any::from_object(map::new_dict_of_views(parts)?),
                Kind::Object(object) => object.object,
            };
            self.parts.truncate(first);
            let value = value.into_raw();
            self.decoded[node] = value;
            Ok(value)
        }
    }
}

impl Drop for Decoder<'_> {
    #[inline]
    fn drop(&mut self) {
        // SAFETY: the values are ours and not used any more; marks are not objects.
        unsafe { release_elements(self.decoded.drain(..)) };
    }
}

enum Started {
    Done(Any),
    Parts(Any, Kind),
}

impl Object {
    /// Sets fields up to one whose value is another node, and returns its index, which need not be
    /// an integer; `None` when all are set.
    #[inline]
    unsafe fn go_on(&mut self, data: *mut TVMFFIObject, part: Option<TVMFFIAny>) -> Result<Option<TVMFFIAny>> {
        // SAFETY: see above; the object is new, and no other code knows it.
        unsafe {
            let object = self.object.as_view().as_raw().payload.v_obj;
            if let (Some(field), Some(part)) = (self.waiting.take(), part) {
                field.set(object, &view(part))?;
            }
            for field in self.fields.by_ref() {
                let Some(value) = find(&mut self.position, data, field)? else {
                    if !field.set_default(object)? {
                        return Err(required_field(field, self.info));
                    }
                    continue;
                };
                let declared = field.as_raw().field_static_type_index;
                match declared {
                    type_index::NONE => field.set(object, &view(TVMFFIAny::NONE))?,
                    type_index::BOOL | type_index::INT | type_index::FLOAT | type_index::DATA_TYPE => {
                        field.set(object, &view(plain(declared, &value)?))?;
                    }
                    _ => {
                        self.waiting = Some(field);
                        return Ok(Some(value));
                    }
                }
            }
        }
        Ok(None)
    }
}

/// Finds a field's value in the data, in which fields usually are in order.
#[inline]
unsafe fn find(position: &mut u64, data: *mut TVMFFIObject, field: Field) -> Result<Option<TVMFFIAny>> {
    // SAFETY: see above; positions may be any numbers.
    unsafe {
        if let Some((key, value)) = map::entry_at(data, *position)
            && matches!(key.type_index, type_index::SMALL_STR | type_index::STR)
            && text_of(&key) == Some(field.name_bytes())
        {
            *position = map::next(data, *position);
            return Ok(Some(value));
        }
        entry(data, field.name_bytes())
    }
}

#[cold]
#[inline]
fn required_field(field: Field, info: TypeInfo) -> Error {
    error!(TypeError, "Required field `{}` not set in type `{}`", field.name(), info.key())
}

/// The index of the type with this key.
#[inline]
fn type_index_of(key: &[u8]) -> Result<i32> {
    #[cfg(feature = "embedded")]
    if crate::provider::origin_while_binding() == crate::provider::Origin::Embedded {
        // Uses our own table directly, without the provider's C interface.
        return Ok(crate::embedded::type_table::index_of(key)?);
    }
    TypeInfo::by_key(key).map(TypeInfo::index)
}

/// A required entry of a node, borrowed.
#[inline]
unsafe fn required(object: *mut TVMFFIObject, name: &[u8]) -> Result<TVMFFIAny> {
    // SAFETY: see above.
    unsafe {
        let key = Any::from_raw(new_string(name));
        Ok(map::at(object, key.as_view().as_raw())?)
    }
}
