//! Structural equality, and where two values differ first.
//!
//! A walk with a stack of its own, so that depth is limited by memory only. What it reads from objects it borrows; before a hook
//! runs, which may change anything, it takes references to all that it still needs.

use core::ffi::c_void;
use core::ptr;

use super::region::Region;
use super::{Options, kind, tensor};
use crate::abi::{TVMFFIAny, TVMFFIObject, field_flag, seq_hash_kind, type_index};
use crate::builtins::access_path::{self, Kind};
use crate::builtins::address_map::AddressMap;
use crate::builtins::builtin::Arguments;
use crate::builtins::cycle::CycleCheck;
use crate::builtins::field_value::{Read, give_up, read};
use crate::builtins::kept::Kept;
use crate::builtins::reentry::{Reentry, call_hook, hook};
use crate::builtins::signature::{ANY_VIEW, BOOL, INT, STRING, Signature};
use crate::builtins::type_def::field::check;
use crate::embedded::{self, big_int, map, new_string, release, seq, shape, text_of};
use crate::reflect::{AttrColumn, Field, Fields, TypeInfo};
use crate::value::{Any, AnyView};
use crate::{Result, bail};

static HOOKS: AttrColumn = AttrColumn::new("__s_equal__");
const HOOK_SIGNATURE: &str = "(0: const ffi.Object*, 1: const ffi.Object*, \
    2: (0: AnyView, 1: AnyView, 2: int, 3: AnyView) -> bool) -> bool";
static CALLBACK: Signature = Signature::Typed(&[&ANY_VIEW, &ANY_VIEW, &INT, &ANY_VIEW], &BOOL);

/// Whether two values are structurally equal.
///
/// # Safety
/// Both are valid values or views, but no rvalue references, and stay alive for the call.
pub(super) unsafe fn equal(left: &TVMFFIAny, right: &TVMFFIAny, options: Options) -> Result<bool> {
    // SAFETY: promised by the caller.
    unsafe {
        if let Some(equal) = leaves_equal(left, right) {
            return Ok(equal);
        }
        let mut comparer = Comparer::new(options, None);
        comparer.run(*left, *right, Region::initial(options.map_free_vars))
    }
}

/// The paths to the first difference, in an array of two; none when there is no difference.
///
/// # Safety
/// As for [`equal`].
pub(super) unsafe fn first_mismatch(left: &TVMFFIAny, right: &TVMFFIAny, options: Options) -> Result<Any> {
    let mut comparer = Comparer::new(options, Some(Trace::default()));
    // SAFETY: promised by the caller.
    if unsafe { comparer.run(*left, *right, Region::initial(options.map_free_vars)) }? {
        return Ok(Any::NONE);
    }
    let Trace { left, right } = comparer.trace.take().unwrap_or_default();
    let [left, right] = [left, right].map(|mut steps| {
        // SAFETY: the steps are new, and their references go over to the path.
        let path = unsafe { access_path::of_steps(steps.drain(..).rev().map(|step| step.into_raw().payload.v_obj)) };
        TVMFFIAny::pointer(access_path::PATH.index.get(), path.cast())
    });
    // SAFETY: a new array, which owns both paths.
    Ok(unsafe { Any::from_object(seq::new_array(vec![left, right])) })
}

/// A walk over two values at once.
struct Comparer {
    skip_tensor_content: bool,
    /// The region of the hook that runs.
    region: Region,
    /// What the variables and shared nodes on the left have been found equal to, and the other way round.
    to_right: AddressMap,
    to_left: AddressMap,
    /// Keeps the objects in these two alive.
    kept: Kept,
    /// What is being compared, the roots first.
    frames: Vec<Frame>,
    trace: Option<Trace>,
    cycles: CycleCheck,
    reentry: Option<Reentry>,
}

/// The steps to the first difference, the last one first.
#[derive(Default)]
struct Trace {
    left: Vec<Any>,
    right: Vec<Any>,
}

/// Two objects whose parts are being compared.
struct Frame {
    left: *mut TVMFFIObject,
    right: *mut TVMFFIObject,
    parts: Parts,
    /// The region of their parts.
    region: Region,
    /// The region that they are in.
    outer_region: Region,
    /// Whether the frame has references to the objects.
    left_owned: bool,
    right_owned: bool,
    /// Whether this frame and all below have references.
    retained: bool,
}

/// Which part comes next, or is being compared.
enum Parts {
    /// The index of the next element.
    Elements(usize),
    /// The position of the next entry on the left; and of the one before, with the object that its key stands for on the right,
    /// when that is another one.
    Entries { next: u64, current: u64, right_key: *mut TVMFFIObject },
    /// The kind of the objects, the next fields, the one that is being compared.
    Fields(i32, Fields, Option<Field>),
}

/// Whether two values are equal, if that can be said at once.
#[inline]
unsafe fn leaves_equal(left: &TVMFFIAny, right: &TVMFFIAny) -> Option<bool> {
    let index = left.type_index;
    // SAFETY: promised by the caller: both are alive.
    unsafe {
        if index != right.type_index {
            return Some(
                text_class(index).is_some_and(|class| text_class(right.type_index) == Some(class))
                    && text_of(left) == text_of(right),
            );
        }
        match index {
            type_index::FLOAT if left.payload.v_float64.is_nan() => Some(right.payload.v_float64.is_nan()),
            type_index::STR | type_index::BYTES | type_index::RAW_STR | type_index::BYTE_ARRAY_PTR => {
                Some(text_of(left) == text_of(right))
            }
            type_index::BIG_INT => Some(big_int::content(left).as_slice() == big_int::content(right).as_slice()),
            _ if index < type_index::STATIC_OBJECT_BEGIN => {
                Some(left.bits() == right.bits() && left.small_len == right.small_len)
            }
            _ => None,
        }
    }
}

/// String or bytes, whatever the form.
const fn text_class(index: i32) -> Option<i32> {
    match index {
        type_index::SMALL_STR | type_index::STR | type_index::RAW_STR => Some(type_index::STR),
        type_index::SMALL_BYTES | type_index::BYTES | type_index::BYTE_ARRAY_PTR => Some(type_index::BYTES),
        _ => None,
    }
}

/// Whether hash or equality of a map key may call a hook.
const fn may_call_hooks(key: &TVMFFIAny) -> bool {
    key.type_index >= type_index::DYN_OBJECT_BEGIN
}

/// What comes of looking at the parts of the top frame.
enum Step {
    /// A part differs, and the trace has the way to it.
    Different,
    /// All parts are equal.
    Done,
    /// The parts of a part come first.
    Deeper,
}

// SAFETY of all unsafe blocks below: the callers of `equal` and `first_mismatch` keep the roots alive. What a frame borrows lives
// as long as the frame below it keeps its objects alive and unchanged, which only hooks can end: `retain_all` comes before them.

impl Comparer {
    fn new(options: Options, trace: Option<Trace>) -> Self {
        Self {
            skip_tensor_content: options.skip_tensor_content,
            region: Region::NONE,
            to_right: AddressMap::default(),
            to_left: AddressMap::default(),
            kept: Kept::default(),
            frames: Vec::new(),
            trace,
            cycles: CycleCheck::new(),
            reentry: None,
        }
    }

    /// Compares two values, which are borrowed.
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

    /// Goes on until the frame above `base` is done.
    unsafe fn walk(&mut self, base: usize) -> Result<bool> {
        loop {
            // SAFETY: see above. There is a frame: this only goes on while there is one above `base`.
            unsafe {
                let step = match self.frames.last().unwrap_unchecked().parts {
                    Parts::Elements(_) => self.compare_elements()?,
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
                let frame = &mut self.frames[top];
                let Parts::Elements(next) = &mut frame.parts else { return Ok(Step::Done) };
                let (left, right) = (seq::elements(frame.left), seq::elements(frame.right));
                let at = *next;
                let (Some(left), Some(right)) = (left.get(at), right.get(at)) else {
                    let sizes = (left.len(), right.len());
                    return self.compare_sizes(sizes.0, sizes.1);
                };
                *next = at + 1;
                let region = frame.region;
                let equal = match leaves_equal(left, right) {
                    Some(equal) => equal,
                    None => {
                        let [left, right] = [left, right].map(|value| Read { value: *value, owned: false });
                        match self.enter(left, right, region)? {
                            Some(equal) => equal,
                            None => return Ok(Step::Deeper),
                        }
                    }
                };
                if !equal {
                    self.record_current(top)?;
                    return Ok(Step::Different);
                }
            }
        }
    }

    /// What the lengths of two sequences say when all elements that both have are equal.
    fn compare_sizes(&mut self, left: usize, right: usize) -> Result<Step> {
        if left == right {
            return Ok(Step::Done);
        }
        let (at, kinds) = if left > right {
            (right, (Kind::ArrayItem, Kind::ArrayItemMissing))
        } else {
            (left, (Kind::ArrayItemMissing, Kind::ArrayItem))
        };
        let at = TVMFFIAny::int(at as i64);
        self.record((kinds.0, at), (kinds.1, at));
        Ok(Step::Different)
    }

    unsafe fn compare_entries(&mut self) -> Result<Step> {
        let top = self.frames.len() - 1;
        loop {
            // SAFETY: see above.
            unsafe {
                let frame = &mut self.frames[top];
                let Parts::Entries { next, current, right_key } = &mut frame.parts else { return Ok(Step::Done) };
                let Some((key, value)) = map::entry_at(frame.left, *next) else {
                    return self.compare_map_sizes(top);
                };
                *current = *next;
                *next = map::next(frame.left, *next);
                let mapped = map_key(&self.to_right, &key);
                *right_key = if mapped.bits() == key.bits() { ptr::null_mut() } else { mapped.payload.v_obj };
                let (right_map, region) = (frame.right, frame.region);
                let held = may_call_hooks(&mapped).then(|| self.hold(&[key, value, mapped]));
                let Some(other) = map::get(right_map, &mapped)? else {
                    self.record_shared((Kind::MapItem, &key), (Kind::MapItemMissing, &mapped));
                    return Ok(Step::Different);
                };
                let equal = match leaves_equal(&value, &other) {
                    Some(equal) => equal,
                    None => {
                        let owned = held.is_some();
                        let [left, right] = [value, other].map(|value| {
                            let value = if owned { release::retain(&value) } else { value };
                            Read { value, owned }
                        });
                        match self.enter(left, right, region)? {
                            Some(equal) => equal,
                            None => return Ok(Step::Deeper),
                        }
                    }
                };
                drop(held);
                if !equal {
                    self.record_current(top)?;
                    return Ok(Step::Different);
                }
            }
        }
    }

    /// What the lengths of two maps say when the right one has all keys of the left one, with equal values.
    unsafe fn compare_map_sizes(&mut self, top: usize) -> Result<Step> {
        let Frame { left, right, .. } = self.frames[top];
        // SAFETY: see above.
        unsafe {
            if map::len(left) == map::len(right) {
                return Ok(Step::Done);
            }
            let mut position = map::first(right);
            while let Some((key, _)) = map::entry_at(right, position) {
                position = map::next(right, position);
                let mapped = map_key(&self.to_left, &key);
                let _held = may_call_hooks(&mapped).then(|| self.hold(&[key, mapped]));
                if map::get(left, &mapped)?.is_none() {
                    self.record_shared((Kind::MapItemMissing, &mapped), (Kind::MapItem, &key));
                    break;
                }
            }
        }
        Ok(Step::Different)
    }

    unsafe fn compare_fields(&mut self) -> Result<Step> {
        let top = self.frames.len() - 1;
        loop {
            // SAFETY: see above.
            unsafe {
                let frame = &mut self.frames[top];
                let Parts::Fields(_, fields, current) = &mut frame.parts else { return Ok(Step::Done) };
                let Some(field) = fields.next() else { return Ok(Step::Done) };
                if field.has(field_flag::SEQ_HASH_IGNORE) {
                    continue;
                }
                *current = Some(field);
                let left = read(field, frame.left)?;
                let right = match read(field, frame.right) {
                    Ok(right) => right,
                    Err(error) => {
                        give_up(left);
                        return Err(error);
                    }
                };
                let equal = match leaves_equal(&left.value, &right.value) {
                    Some(equal) => {
                        give_up(left);
                        give_up(right);
                        equal
                    }
                    None => {
                        let region = frame.region.of_field(field.raw().flags);
                        match self.enter(left, right, region)? {
                            Some(equal) => equal,
                            None => return Ok(Step::Deeper),
                        }
                    }
                };
                if !equal {
                    self.record_current(top)?;
                    return Ok(Step::Different);
                }
            }
        }
    }

    /// Compares two values, or puts them on the stack. Takes the readers' references over.
    unsafe fn enter(&mut self, left: Read, right: Read, region: Region) -> Result<Option<bool>> {
        // SAFETY: see above.
        unsafe {
            match self.prepare(&left.value, &right.value, region) {
                Ok(Prepared::Parts(parts, own_region, None)) => {
                    let frame = Frame {
                        left: left.value.payload.v_obj,
                        right: right.value.payload.v_obj,
                        parts,
                        region: own_region,
                        outer_region: region,
                        left_owned: left.owned,
                        right_owned: right.owned,
                        retained: false,
                    };
                    self.push(frame)?;
                    Ok(None)
                }
                Ok(Prepared::Parts(parts, own_region, Some(hook))) => {
                    self.retain_all();
                    let [left, right] = [left, right].map(|part| {
                        if !part.owned {
                            embedded::inc_ref(part.value.payload.v_obj);
                        }
                        Read { owned: true, ..part }
                    });
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

    /// What can be said about two values before their parts are looked at.
    unsafe fn prepare(&mut self, left: &TVMFFIAny, right: &TVMFFIAny, region: Region) -> Result<Prepared> {
        // SAFETY: see above.
        unsafe {
            if let Some(equal) = leaves_equal(left, right) {
                return Ok(if equal { Prepared::Equal } else { Prepared::Different });
            }
            let index = left.type_index;
            let (left, right) = (left.payload.v_obj, right.payload.v_obj);
            let equal = match index {
                type_index::ARRAY | type_index::LIST => {
                    // The way to a missing element is wanted only with a trace.
                    if self.trace.is_some() || seq::elements(left).len() == seq::elements(right).len() {
                        return Ok(Prepared::Parts(Parts::Elements(0), region, None));
                    }
                    false
                }
                type_index::MAP | type_index::DICT => {
                    if self.trace.is_some() || map::len(left) == map::len(right) {
                        let next = map::first(left);
                        let parts = Parts::Entries { next, current: next, right_key: ptr::null_mut() };
                        return Ok(Prepared::Parts(parts, region, None));
                    }
                    false
                }
                type_index::SHAPE => shape::dimensions(left) == shape::dimensions(right),
                type_index::TENSOR => self.tensors_equal(left, right)?,
                _ => return self.prepare_objects(left, right, region, index),
            };
            Ok(if equal { Prepared::Equal } else { Prepared::Different })
        }
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
        let hook = hook(&HOOKS, index, HOOK_SIGNATURE)?;
        Ok(Prepared::Parts(Parts::Fields(kind, TypeInfo::from_raw(info).fields(), None), own_region, hook))
    }

    unsafe fn tensors_equal(&self, left: *mut TVMFFIObject, right: *mut TVMFFIObject) -> Result<bool> {
        if left == right {
            return Ok(true);
        }
        // SAFETY: see above.
        unsafe {
            let (left, right) = (embedded::tensor::dl_tensor(left), embedded::tensor::dl_tensor(right));
            let dtype = |tensor: &crate::abi::DLTensor| (tensor.dtype.code, tensor.dtype.bits, tensor.dtype.lanes);
            if tensor::shape(left) != tensor::shape(right) || dtype(left) != dtype(right) {
                return Ok(false);
            }
            if self.skip_tensor_content {
                return Ok(true);
            }
            tensor::check_device(left, "lhs", "compare")?;
            tensor::check_device(right, "rhs", "compare")?;
            tensor::check_contiguous(left, "lhs", "compare")?;
            tensor::check_contiguous(right, "rhs", "compare")?;
            Ok(tensor::content(left)? == tensor::content(right)?)
        }
    }

    fn push(&mut self, frame: Frame) -> Result<()> {
        self.frames.push(frame);
        if self.cycles.is_due(self.frames.len()) {
            let places = self.frames.iter().map(|frame| (frame.left.addr(), frame.right.addr()));
            self.cycles.run("StructuralEqual", places)?;
        }
        Ok(())
    }

    /// Takes the top frame, whose parts are all equal, from the stack; false when its objects differ all the same.
    unsafe fn leave(&mut self) -> bool {
        // SAFETY: see above. There is a frame: the callers have just used it.
        unsafe {
            let frame = self.frames.pop().unwrap_unchecked();
            let [left, right] = frame.parts_read();
            let kind = if let Parts::Fields(kind, ..) = frame.parts { kind } else { seq_hash_kind::TREE_NODE };
            self.finish(left, right, kind, frame.outer_region)
        }
    }

    /// Whether two objects are equal whose parts are. Takes the readers' references over.
    unsafe fn finish(&mut self, left: Read, right: Read, kind: i32, region: Region) -> bool {
        let is_same = left.value.bits() == right.value.bits();
        // SAFETY: see above.
        unsafe {
            match kind {
                seq_hash_kind::DAG_NODE => self.bind(left, right),
                seq_hash_kind::FREE_VAR if is_same || region.defines() => self.bind(left, right),
                _ => {
                    give_up(left);
                    give_up(right);
                    return kind != seq_hash_kind::FREE_VAR;
                }
            }
        }
        true
    }

    /// Notes that two objects stand for the same. Takes the frame's references over.
    unsafe fn bind(&mut self, left: Read, right: Read) {
        // SAFETY: see above.
        unsafe {
            let (left_object, right_object) = (left.value.payload.v_obj, right.value.payload.v_obj);
            self.kept.keep(left);
            self.kept.keep(right);
            self.to_right.insert(left_object, right_object.expose_provenance() as u64);
            self.to_left.insert(right_object, left_object.expose_provenance() as u64);
        }
    }

    /// Takes the frames above `base` from the stack and notes the way to what differs.
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

    /// Notes the step from a frame's objects to the parts that are being compared.
    unsafe fn record_current(&mut self, at: usize) -> Result<()> {
        if self.trace.is_none() {
            return Ok(());
        }
        let Frame { left, parts, .. } = &self.frames[at];
        // SAFETY: see above.
        unsafe {
            match *parts {
                Parts::Elements(next) => {
                    let at = TVMFFIAny::int(next as i64 - 1);
                    self.record((Kind::ArrayItem, at), (Kind::ArrayItem, at));
                }
                Parts::Fields(_, _, current) => {
                    let name = current.map_or(&[][..], Field::name_bytes);
                    self.record((Kind::Attr, new_string(name)), (Kind::Attr, new_string(name)));
                }
                Parts::Entries { current, right_key, .. } => {
                    let Some((key, _)) = map::entry_at(*left, current) else {
                        bail!(RuntimeError, "a map was changed while it was compared");
                    };
                    let right_key = match right_key.as_ref() {
                        None => key,
                        Some(header) => TVMFFIAny::pointer(header.type_index, right_key.cast()),
                    };
                    self.record_shared((Kind::MapItem, &key), (Kind::MapItem, &right_key));
                }
            }
        }
        Ok(())
    }

    /// Notes a step whose keys are borrowed.
    unsafe fn record_shared(&mut self, left: (Kind, &TVMFFIAny), right: (Kind, &TVMFFIAny)) {
        if self.trace.is_some() {
            // SAFETY: the caller's keys are alive.
            let (left_key, right_key) = unsafe { (release::retain(left.1), release::retain(right.1)) };
            self.record((left.0, left_key), (right.0, right_key));
        }
    }

    /// Notes a step. Takes the keys over.
    fn record(&mut self, left: (Kind, TVMFFIAny), right: (Kind, TVMFFIAny)) {
        let Some(trace) = &mut self.trace else { return };
        for (steps, (kind, key)) in [(&mut trace.left, left), (&mut trace.right, right)] {
            // SAFETY: a new step, whose reference goes over to the value.
            steps.push(unsafe { Any::from_object(access_path::new_step(kind, key)) });
        }
    }

    fn drop_frames(&mut self, base: usize) {
        while self.frames.len() > base {
            let Some(frame) = self.frames.pop() else { return };
            for part in frame.parts_read() {
                // SAFETY: see above.
                unsafe { give_up(part) };
            }
        }
    }

    /// References to values, for a call that may run hooks.
    unsafe fn hold(&mut self, values: &[TVMFFIAny]) -> Vec<Any> {
        self.retain_all();
        // SAFETY: the caller's values are alive.
        values.iter().map(|value| unsafe { Any::from_raw(release::retain(value)) }).collect()
    }

    /// Takes references to all that is borrowed. A hook may let go of it.
    fn retain_all(&mut self) {
        // SAFETY: see above.
        unsafe {
            for frame in self.frames.iter_mut().rev() {
                if frame.retained {
                    break;
                }
                frame.retained = true;
                for (object, owned) in [(frame.left, &mut frame.left_owned), (frame.right, &mut frame.right_owned)] {
                    if !*owned {
                        *owned = true;
                        embedded::inc_ref(object);
                    }
                }
            }
            self.kept.before_hook(self.to_right.iter().chain(self.to_left.iter()).map(|(object, _)| object));
        }
    }

    /// Whether a hook finds two objects equal. Nothing is borrowed but these, which the caller holds.
    unsafe fn call_hook(&mut self, hook: TVMFFIAny, objects: [Read; 2], region: Region) -> Result<bool> {
        let outer = core::mem::replace(&mut self.region, region);
        let function = self.reentry.get_or_insert_with(|| Reentry::new(&CALLBACK, callback)).function();
        // SAFETY: see above; the column owns the hook; we are not used until the hook returns, but through the function.
        let result = unsafe {
            let [left, right] = objects.map(|object| object.value);
            let args = [left, right, TVMFFIAny::NONE];
            call_hook(hook.payload.v_obj, args, function, ptr::from_mut(self).cast())
        };
        self.region = outer;
        let result = result?;
        check(result.as_view(), &BOOL)?;
        Ok(result.as_view().raw().bits() != 0)
    }
}

enum Prepared {
    Equal,
    Different,
    /// The parts, their region, the hook that compares them.
    Parts(Parts, Region, Option<TVMFFIAny>),
}

impl Frame {
    fn parts_read(&self) -> [Read; 2] {
        [(self.left, self.left_owned), (self.right, self.right_owned)]
            .map(|(object, owned)| Read { value: TVMFFIAny::pointer(0, object.cast()), owned })
    }
}

/// What a key stands for on the other side.
unsafe fn map_key(to_other: &AddressMap, key: &TVMFFIAny) -> TVMFFIAny {
    if key.type_index < type_index::STATIC_OBJECT_BEGIN {
        return *key;
    }
    // SAFETY: what is in the map is kept alive.
    unsafe {
        match to_other.get(key.payload.v_obj) {
            None => *key,
            Some(other) => {
                let other: *mut TVMFFIObject = ptr::with_exposed_provenance_mut(other as usize);
                TVMFFIAny::pointer((*other).type_index, other.cast())
            }
        }
    }
}

impl Drop for Comparer {
    fn drop(&mut self) {
        self.drop_frames(0);
    }
}

/// What a hook calls: two values, the region, the name of the part for the way to what differs.
unsafe fn callback(comparer: *mut c_void, args: &[AnyView<'_>]) -> Result<Any> {
    let args = Arguments::of(args);
    // SAFETY: the comparer waits for the hook and lends itself; the values are alive for the call.
    args.look_at(|[left, right]| unsafe {
        let comparer = &mut *comparer.cast::<Comparer>();
        let equal = match leaves_equal(left, right) {
            Some(equal) => equal,
            None => {
                let region = comparer.region.of_hook(args.int(2) as i32);
                comparer.run(*left, *right, region)?
            }
        };
        if !equal && comparer.trace.is_some() {
            check(args.view(3), &STRING)?;
            let name = args.bytes(3);
            comparer.record((Kind::Attr, new_string(name)), (Kind::Attr, new_string(name)));
        }
        Ok(Any::from_raw(TVMFFIAny::bool(equal)))
    })
}
