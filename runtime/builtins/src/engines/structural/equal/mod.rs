//! Structural equality, and the first difference of two values.
//!
//! A walk with an explicit stack, so that depth is limited by memory only. It borrows the values
//! that it reads from objects; before a hook runs, which may change anything, it takes references
//! to all values that it still needs.

mod hooks;
mod maps;
mod pairs;

use core::ptr;

use self::pairs::EqualPairs;
use super::leaf::leaves_equal;
use super::region::Region;
use super::trace::Trace;
use super::{Options, kind, tensor};
use crate::abi::{TVMFFIAny, TVMFFIObject, field_flag, seq_hash_kind, type_index};
use crate::embedded::{map, seq, shape};
use crate::engines::access_path::Kind;
use crate::value::Any;
use crate::walker::address_map::AddressMap;
use crate::walker::cycle::CycleCheck;
use crate::walker::field_value::{Read, give_up, read_both};
use crate::walker::frozen::Frozen;
use crate::walker::held_objects::HeldObjects;
use crate::walker::reentry::{Reentry, hook};
use crate::walker::stack::{Frame, Stack};
use crate::{Result, bail};
use kernpack_core::reflect::{AttrColumn, Field, Fields, TypeInfo};

static HOOKS: AttrColumn = AttrColumn::new("__s_equal__");
const HOOK_SIGNATURE: &str = "(0: ffi.Object, 1: ffi.Object, \
    2: (0: AnyView, 1: AnyView, 2: int, 3: AnyView) -> bool) -> bool";

/// Returns true if two values are structurally equal.
///
/// # Safety
/// Both are valid values or views, but no rvalue references, and stay alive for the call.
pub(crate) unsafe fn equal(left: &TVMFFIAny, right: &TVMFFIAny, options: Options) -> Result<bool> {
    // SAFETY: promised by the caller.
    unsafe {
        if let Some(equal) = leaves_equal(left, right) {
            return Ok(equal);
        }
        let mut comparer = Comparer::new(options, None);
        comparer.run(*left, *right, Region::initial(options.map_free_vars))
    }
}

/// The paths to the first difference, in an array of two; `None` when there is no difference.
///
/// # Safety
/// As for [`equal`].
pub(crate) unsafe fn first_mismatch(left: &TVMFFIAny, right: &TVMFFIAny, options: Options) -> Result<Any> {
    let mut comparer = Comparer::new(options, Some(Trace::default()));
    // SAFETY: promised by the caller.
    let equal = unsafe { comparer.run(*left, *right, Region::initial(options.map_free_vars)) }?;
    Ok(comparer.trace.take().filter(|_| !equal).map_or(Any::NONE, Trace::into_paths))
}

/// A walk over two values at once.
struct Comparer {
    skip_tensor_content: bool,
    /// The region of the running hook.
    region: Region,
    /// The counterparts on the right of the variables and shared nodes on the left, and the
    /// reverse.
    to_right: AddressMap,
    to_left: AddressMap,
    /// Shared objects whose parts were compared already, and are equal.
    equal: EqualPairs,
    /// Keeps the objects in these three alive.
    held: HeldObjects,
    /// The objects that are being compared, the roots first.
    frames: Stack<2, Progress>,
    trace: Option<Trace>,
    cycles: CycleCheck,
    reentry: Option<Reentry>,
}

/// The state of the walk for a pair of objects.
struct Progress {
    parts: Parts,
    /// The region of their parts.
    region: Region,
    /// The region that they are in.
    outer_region: Region,
}

/// The next part, or the one that is being compared.
enum Parts {
    /// The sequences, and the index of the next element.
    Elements([Frozen; 2], usize),
    /// The maps; the position of the next entry on the left; the position of the current one, and
    /// the counterpart of its key on the right, if that is another object.
    Entries { maps: [Frozen; 2], next: u64, current: u64, right_key: *mut TVMFFIObject },
    /// The kind of the objects, the next fields, and the field that is being compared.
    Fields(i32, Fields, Option<Field>),
}

/// The result of comparing parts of the top frame.
enum Step {
    /// A part differs, and the trace has the path to it.
    Different,
    /// All parts are equal.
    Done,
    /// The parts of a part must be compared first.
    Deeper,
}

// SAFETY of all unsafe blocks below: the callers of `equal` and `first_mismatch` keep the roots
// alive. The values that a frame borrows live as long as the frame below it keeps its objects alive
// and unchanged, which only hooks can end: `retain_all` is called before them.

impl Comparer {
    fn new(options: Options, trace: Option<Trace>) -> Self {
        Self {
            skip_tensor_content: options.skip_tensor_content,
            region: Region::NONE,
            to_right: AddressMap::default(),
            to_left: AddressMap::default(),
            equal: EqualPairs::default(),
            held: HeldObjects::default(),
            frames: Stack::new(),
            trace,
            cycles: CycleCheck::new(),
            reentry: None,
        }
    }

    /// Compares two borrowed values.
    unsafe fn run(&mut self, left: TVMFFIAny, right: TVMFFIAny, region: Region) -> Result<bool> {
        let base = self.frames.len();
        let [left, right] = [left, right].map(|value| Read { value, owned: false });
        // SAFETY: see above.
        let outcome = unsafe {
            match self.enter(left, right, region) {
                Ok(None) => self.walk(base),
                Ok(Some(equal)) => Ok(equal),
                Err(error) => Err(error),
            }
        };
        if outcome.is_err() {
            self.drop_frames(base);
        }
        outcome
    }

    /// Drops the frames above `base`. The hook that has requested their comparison may request
    /// others.
    fn drop_frames(&mut self, base: usize) {
        let held = &mut self.held;
        // SAFETY: see above.
        self.frames.truncate(base, |frame| unsafe {
            frame.parts().into_iter().for_each(|part| held.keep_made(part));
        });
    }

    /// Continues until the frame above `base` is done.
    unsafe fn walk(&mut self, base: usize) -> Result<bool> {
        loop {
            // SAFETY: see above. There is a frame: this only goes on while there is one above
            // `base`.
            unsafe {
                let step = match self.frames.last().unwrap_unchecked().state.parts {
                    Parts::Elements(..) => self.compare_elements()?,
                    Parts::Entries { .. } => self.compare_entries()?,
                    Parts::Fields(..) => self.compare_fields()?,
                };
                let equal = match step {
                    Step::Deeper => continue,
                    Step::Done => self.leave(),
                    Step::Different => {
                        self.drop_frames(self.frames.len() - 1);
                        false
                    }
                };
                if !equal {
                    self.unwind(base)?;
                    return Ok(false);
                }
            }
            if self.frames.len() == base {
                return Ok(true);
            }
        }
    }

    unsafe fn compare_elements(&mut self) -> Result<Step> {
        let top = self.frames.len() - 1;
        loop {
            // SAFETY: see above.
            unsafe {
                let Frame { state: frame, .. } = &mut self.frames[top];
                let Parts::Elements(sequences, next) = &mut frame.parts else { return Ok(Step::Done) };
                let [left, right] = sequences.each_ref().map(|sequence| seq::elements(sequence.get()));
                let rest = left.iter().zip(right).skip(*next);
                // Skips to the first pair that is not equal as leaves.
                let Some((at, (left, right))) =
                    (*next..).zip(rest).find(|(_, (left, right))| leaves_equal(left, right) != Some(true))
                else {
                    *next = left.len().min(right.len());
                    let sizes = (left.len(), right.len());
                    return Ok(self.compare_sizes(sizes.0, sizes.1));
                };
                *next = at + 1;
                let region = frame.region;
                if leaves_equal(left, right).is_some() {
                    return self.differ(top);
                }
                let parts = [left, right].map(|value| Read { value: *value, owned: false });
                if let Some(step) = self.compare_parts(top, parts, region)? {
                    return Ok(step);
                }
            }
        }
    }

    /// Compares two parts of the objects of the top frame; `None` when they are equal. Takes over
    /// the readers' references.
    unsafe fn compare_parts(&mut self, top: usize, [left, right]: [Read; 2], region: Region) -> Result<Option<Step>> {
        // SAFETY: see above.
        unsafe {
            match self.enter(left, right, region)? {
                Some(true) => Ok(None),
                Some(false) => self.differ(top).map(Some),
                None => Ok(Some(Step::Deeper)),
            }
        }
    }

    /// Records that the parts of the top frame's objects that are being compared differ.
    unsafe fn differ(&mut self, top: usize) -> Result<Step> {
        // SAFETY: see above.
        unsafe { self.record_current(top)? };
        Ok(Step::Different)
    }

    /// Compares the lengths of two sequences when all elements that both have are equal.
    fn compare_sizes(&mut self, left: usize, right: usize) -> Step {
        if left == right {
            return Step::Done;
        }
        if let Some(trace) = &mut self.trace {
            trace.missing_element(left, right);
        }
        Step::Different
    }

    unsafe fn compare_fields(&mut self) -> Result<Step> {
        let top = self.frames.len() - 1;
        loop {
            // SAFETY: see above.
            unsafe {
                let Frame { objects: [left, right], state: frame, .. } = &mut self.frames[top];
                let Parts::Fields(_, fields, current) = &mut frame.parts else { return Ok(Step::Done) };
                let Some(field) = fields.next() else { return Ok(Step::Done) };
                if field.has(field_flag::SEQ_HASH_IGNORE) {
                    continue;
                }
                *current = Some(field);
                let region = frame.region.of_field(field.as_raw().flags);
                let [left, right] = read_both(field, [*left, *right])?;
                let step = match leaves_equal(&left.value, &right.value) {
                    None => self.compare_parts(top, [left, right], region)?,
                    Some(equal) => {
                        give_up(left);
                        give_up(right);
                        if equal { None } else { Some(self.differ(top)?) }
                    }
                };
                if let Some(step) = step {
                    return Ok(step);
                }
            }
        }
    }

    /// Compares two values, or pushes them on the stack. Takes over the readers' references.
    unsafe fn enter(&mut self, left: Read, right: Read, region: Region) -> Result<Option<bool>> {
        // SAFETY: see above.
        unsafe {
            match self.prepare(&left.value, &right.value, region) {
                Ok(Prepared::Parts(parts, own_region, None)) => {
                    self.push([left, right], Progress { parts, region: own_region, outer_region: region })?;
                    Ok(None)
                }
                Ok(Prepared::Parts(parts, own_region, Some(hook))) => {
                    self.retain_all();
                    let [left, right] = [left, right].map(|part| part.retained());
                    let kind = if let Parts::Fields(kind, ..) = parts { kind } else { seq_hash_kind::TREE_NODE };
                    match self.call_hook(hook, [left, right], own_region) {
                        Ok(true) => Ok(Some(self.finish(left, right, kind, region))),
                        outcome => {
                            give_up(left);
                            give_up(right);
                            outcome.map(Some)
                        }
                    }
                }
                outcome => {
                    give_up(left);
                    give_up(right);
                    match outcome {
                        Err(error) => Err(error),
                        Ok(prepared) => Ok(Some(matches!(prepared, Prepared::Equal))),
                    }
                }
            }
        }
    }

    /// Compares two values as far as possible before their parts are visited.
    unsafe fn prepare(&mut self, left: &TVMFFIAny, right: &TVMFFIAny, region: Region) -> Result<Prepared> {
        // SAFETY: see above.
        unsafe {
            if let Some(equal) = leaves_equal(left, right) {
                return Ok(if equal { Prepared::Equal } else { Prepared::Different });
            }
            let index = left.type_index;
            let (left, right) = (left.payload.v_obj, right.payload.v_obj);
            let equal = match index {
                type_index::ARRAY | type_index::LIST | type_index::MAP | type_index::DICT
                    if self.equal.contains(left, right) =>
                {
                    true
                }
                type_index::ARRAY | type_index::LIST => {
                    // The path to a missing element is needed only with a trace.
                    let sequences = self.freeze([left, right]);
                    let [left, right] = sequences.each_ref().map(|sequence| seq::elements(sequence.get()).len());
                    if self.trace.is_some() || left == right {
                        return Ok(Prepared::Parts(Parts::Elements(sequences, 0), region, None));
                    }
                    false
                }
                type_index::MAP | type_index::DICT => {
                    let maps = self.freeze([left, right]);
                    let [left, right] = maps.each_ref().map(Frozen::get);
                    if self.trace.is_some() || map::len(left) == map::len(right) {
                        let next = map::first(left);
                        let parts = Parts::Entries { maps, next, current: next, right_key: ptr::null_mut() };
                        return Ok(Prepared::Parts(parts, region, None));
                    }
                    false
                }
                type_index::SHAPE => shape::dimensions(left) == shape::dimensions(right),
                type_index::TENSOR => tensor::equal(left, right, self.skip_tensor_content)?,
                _ => return self.prepare_objects(left, right, region, index),
            };
            Ok(if equal { Prepared::Equal } else { Prepared::Different })
        }
    }

    /// Returns the two containers as they are now.
    unsafe fn freeze(&mut self, containers: [*mut TVMFFIObject; 2]) -> [Frozen; 2] {
        // SAFETY: see above.
        let frozen = containers.map(|container| unsafe { Frozen::of(container) });
        if frozen.iter().any(Frozen::is_copy) {
            self.retain_all();
        }
        frozen
    }

    unsafe fn prepare_objects(
        &self,
        left: *mut TVMFFIObject,
        right: *mut TVMFFIObject,
        region: Region,
        index: i32,
    ) -> Result<Prepared> {
        let decided = |equal: bool| Ok(if equal { Prepared::Equal } else { Prepared::Different });
        let (info, kind) = kind::of(index)?;
        let mut own_region = region;
        match kind {
            seq_hash_kind::UNIQUE_INSTANCE => return decided(left == right),
            seq_hash_kind::CONST_TREE_NODE if left == right => return decided(true),
            seq_hash_kind::FREE_VAR | seq_hash_kind::DAG_NODE => {
                if let Some(known) = self.to_right.get(left) {
                    return decided(known == right.addr() as u64);
                }
                if self.to_left.get(right).is_some() {
                    return decided(false);
                }
                if kind == seq_hash_kind::FREE_VAR {
                    own_region = region.inside_variable();
                }
            }
            _ => {}
        }
        if self.equal.contains(left, right) {
            return decided(true);
        }
        let hook = hook(&HOOKS, index, HOOK_SIGNATURE)?;
        // SAFETY: the record is the type table's.
        let fields = unsafe { TypeInfo::from_raw(info) }.fields();
        Ok(Prepared::Parts(Parts::Fields(kind, fields, None), own_region, hook))
    }

    fn push(&mut self, objects: [Read; 2], progress: Progress) -> Result<()> {
        self.frames.push(objects, progress);
        if self.cycles.is_due(self.frames.len()) {
            let places = self.frames.from(0).iter().map(|frame| (frame.objects[0].addr(), frame.objects[1].addr()));
            self.cycles.run("StructuralEqual", places)?;
        }
        Ok(())
    }

    /// Pops the top frame, whose parts are all equal; returns false if its objects differ
    /// nevertheless.
    unsafe fn leave(&mut self) -> bool {
        // SAFETY: see above. There is a frame: the callers have just used it.
        unsafe {
            let frame = self.frames.pop().unwrap_unchecked();
            let [left, right] = frame.parts();
            let kind = if let Parts::Fields(kind, ..) = frame.state.parts { kind } else { seq_hash_kind::TREE_NODE };
            self.finish(left, right, kind, frame.state.outer_region)
        }
    }

    /// Returns true if two objects whose parts are equal are equal themselves. Takes over the
    /// readers' references.
    unsafe fn finish(&mut self, left: Read, right: Read, kind: i32, region: Region) -> bool {
        let is_same = left.value.bits() == right.value.bits();
        // SAFETY: see above.
        unsafe {
            match kind {
                seq_hash_kind::DAG_NODE => self.bind(left, right),
                seq_hash_kind::FREE_VAR if is_same || region.defines() => self.bind(left, right),
                seq_hash_kind::TREE_NODE | seq_hash_kind::CONST_TREE_NODE if EqualPairs::is_shared(&left, &right) => {
                    // Their contents have the same counterparts from here on: if the two occur
                    // again, they are equal, too.
                    self.equal.insert(left.value.payload.v_obj, right.value.payload.v_obj);
                    self.held.keep(left);
                    self.held.keep(right);
                }
                _ => {
                    for part in [left, right] {
                        self.held.keep_made(part);
                        give_up(part);
                    }
                    return kind != seq_hash_kind::FREE_VAR;
                }
            }
        }
        true
    }

    /// Records that two objects are counterparts. Takes over the frame's references.
    unsafe fn bind(&mut self, left: Read, right: Read) {
        // SAFETY: see above.
        unsafe {
            let (left_object, right_object) = (left.value.payload.v_obj, right.value.payload.v_obj);
            self.held.keep(left);
            self.held.keep(right);
            self.to_right.insert(left_object, right_object.expose_provenance() as u64);
            self.to_left.insert(right_object, left_object.expose_provenance() as u64);
        }
    }

    /// Pops the frames above `base` and records the path to the difference.
    unsafe fn unwind(&mut self, base: usize) -> Result<()> {
        if self.trace.is_some() {
            for at in (base..self.frames.len()).rev() {
                // SAFETY: see above.
                unsafe { self.record_current(at)? };
            }
        }
        self.drop_frames(base);
        Ok(())
    }

    /// Records the step from a frame's objects to the parts that are being compared.
    unsafe fn record_current(&mut self, at: usize) -> Result<()> {
        let Some(trace) = &mut self.trace else { return Ok(()) };
        match &self.frames[at].state.parts {
            Parts::Elements(_, next) => trace.element(next - 1),
            Parts::Fields(_, _, current) => trace.attribute(current.map_or(&[], Field::name_bytes)),
            // SAFETY: see above.
            Parts::Entries { maps: [left, _], current, right_key, .. } => unsafe {
                let Some((key, _)) = map::entry_at(left.get(), *current) else {
                    bail!(RuntimeError, "a map was changed while it was compared");
                };
                let right_key = match right_key.as_ref() {
                    None => key,
                    Some(header) => TVMFFIAny::pointer(header.type_index, right_key.cast()),
                };
                trace.entry((Kind::MapItem, &key), (Kind::MapItem, &right_key));
            },
        }
        Ok(())
    }
}

enum Prepared {
    Equal,
    Different,
    /// The parts, their region, and the hook that compares them.
    Parts(Parts, Region, Option<TVMFFIAny>),
}
