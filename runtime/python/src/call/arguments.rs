//! The arguments of a call: bound to parameters, converted, and kept until the call is over.

use core::fmt::Display;
use core::mem::{ManuallyDrop, MaybeUninit};
use core::ptr;
use std::sync::OnceLock;

use kernpack_core::abi::TVMFFIAny;
use kernpack_core::function::{FunctionInfo, FunctionRole, did_you_mean};
use kernpack_core::value::Access;
use kernpack_core::{Any, Error, Function};

use super::given::Given;
use crate::convert::from_python;
use crate::convert::keep::{Keep, kept};
use crate::convert::lent::Lent;
use crate::cpython::alive;
use crate::cpython::capi::{Py, PyObject};
use crate::cpython::exception;
use crate::cpython::object::{PyResult, Raised};
use crate::instance::table;
use crate::signature::callable::Callable;
use crate::signature::refused::Refused;
use crate::signature::wanted::{Kind, Wanted};
use crate::tensor::exchange;
use crate::tensor::lend::{self, LentTensor};
use crate::tensor::numpy_memory::Held;

/// The number of arguments that need no allocation.
pub(super) const INLINE: usize = 8;
/// The number of tensors that need no allocation.
const LENT: usize = 4;
/// Replaces the number of conversions once the memory of all arrays is held.
const IS_HELD: usize = usize::MAX;

/// The converted arguments of one call, and the objects that they borrow from. It must not move
/// after the first argument: views of tensors point into it.
pub(crate) struct Arguments {
    /// The first `count` are values, unless there are more than fit.
    views: [MaybeUninit<TVMFFIAny>; INLINE],
    count: usize,
    /// The first `kept` are values.
    keeps: [MaybeUninit<Keep>; INLINE],
    kept: usize,
    /// A function that is lent; further ones are kept like other objects.
    callable: ManuallyDrop<Option<Lent>>,
    /// The number of values to drop. This field and the next are words, like the others: the struct
    /// is initialized by a few wide stores, and a smaller field across two of them could not be
    /// read before both have reached the cache.
    owed: usize,
    /// The first `lent` are described.
    tensors: [MaybeUninit<LentTensor>; LENT],
    /// The arrays that they describe.
    arrays: [MaybeUninit<Array>; LENT],
    lent: usize,
    /// Their memory, once it is held.
    memory: [MaybeUninit<Held>; LENT],
    /// The number of conversions since an array was described that may have run Python code;
    /// [`IS_HELD`] once the memory of all arrays is held.
    conversions: usize,
    /// All of them, if there are more than fit.
    more: ManuallyDrop<Option<Box<More>>>,
}

/// A lent array: the argument's index among the views, the array, and the requirements of the
/// function.
#[derive(Clone, Copy)]
struct Array {
    place: usize,
    object: *mut PyObject,
    wanted: Wanted,
}

#[derive(Default)]
struct More {
    views: Vec<TVMFFIAny>,
    keeps: Vec<Keep>,
}

impl Arguments {
    /// Creates an empty list.
    #[inline]
    pub(crate) fn new() -> Self {
        Self {
            views: [const { MaybeUninit::uninit() }; INLINE],
            count: 0,
            keeps: [const { MaybeUninit::uninit() }; INLINE],
            kept: 0,
            callable: ManuallyDrop::new(None),
            owed: 0,
            tensors: [const { MaybeUninit::uninit() }; LENT],
            arrays: [const { MaybeUninit::uninit() }; LENT],
            lent: 0,
            memory: [const { MaybeUninit::uninit() }; LENT],
            conversions: 0,
            more: ManuallyDrop::new(None),
        }
    }

    /// The arguments as the ABI passes them; they are valid as long as this value does not move.
    #[inline]
    pub(crate) fn views(&self) -> &[TVMFFIAny] {
        match &*self.more {
            Some(more) if !more.views.is_empty() => &more.views,
            // SAFETY: the first `count` were written; there are no more, else they would be in
            // `more`.
            _ => unsafe { core::slice::from_raw_parts(self.views.as_ptr().cast(), self.count) },
        }
    }

    /// Adds a converted argument.
    #[inline]
    fn push(&mut self, view: TVMFFIAny) {
        if self.count < INLINE {
            self.views[self.count].write(view);
        } else {
            self.push_more(view);
        }
        self.count += 1;
    }

    #[cold]
    fn push_more(&mut self, view: TVMFFIAny) {
        self.owed += 1;
        let more = self.more.get_or_insert_default();
        if more.views.is_empty() {
            // SAFETY: all places were written before the first argument beyond them.
            more.views.extend(self.views.iter().map(|view| unsafe { view.assume_init() }));
        }
        more.views.push(view);
    }

    /// Adds an argument with the object that it borrows from.
    #[inline(never)]
    fn push_kept(&mut self, (view, keep): (TVMFFIAny, Keep)) {
        self.push(view);
        self.keep(keep);
    }

    /// Adds a value as an argument.
    fn push_value(&mut self, value: Any) {
        self.push_kept(kept(value.into_raw()));
    }

    /// Adds the object between positional and keyword arguments. After it come names and values.
    #[cold]
    pub(crate) fn push_marker(&mut self, py: Py) -> PyResult<()> {
        let marker = keywords_marker().map_err(|error| exception::raise(py, &error))?;
        self.push(*marker.as_view().as_raw());
        Ok(())
    }

    /// Returns true if an array in a device's memory has set the stream of the call.
    fn has_stream(&self) -> bool {
        // SAFETY: the first `kept` were written.
        let few = self.keeps[..self.kept].iter().map(|keep| unsafe { keep.assume_init_ref() });
        let more = self.more.iter().flat_map(|more| &more.keeps);
        few.chain(more).any(|keep| matches!(keep, Keep::Stream(_)))
    }

    /// Keeps the object that an argument borrows from until the call is over.
    pub(super) fn keep(&mut self, keep: Keep) {
        if matches!(keep, Keep::Nothing) {
            return;
        }
        self.owed += 1;
        if self.kept < INLINE {
            self.keeps[self.kept].write(keep);
            self.kept += 1;
        } else {
            self.more.get_or_insert_default().keeps.push(keep);
        }
    }

    /// Converts an argument and adds it.
    ///
    /// # Safety
    /// The object lives for the call.
    #[inline(always)]
    pub(crate) unsafe fn convert(&mut self, py: Py, object: *mut PyObject, wanted: &Wanted) -> Result<(), Refused> {
        // SAFETY: promised by the caller.
        unsafe { if self.is_simple(py, object, wanted) { Ok(()) } else { self.convert_other(py, object, wanted) } }
    }

    /// Adds an argument of a simple kind; returns `false` if it is not simple.
    ///
    /// # Safety
    /// As for [`Arguments::convert`].
    #[inline(always)]
    unsafe fn is_simple(&mut self, py: Py, object: *mut PyObject, wanted: &Wanted) -> bool {
        if self.count >= INLINE {
            return false;
        }
        // SAFETY: promised by the caller; an object of a known class has its pointer behind the
        // header.
        let is_simple = unsafe {
            let place = self.views[self.count].as_mut_ptr();
            if wanted.is_lent() {
                false
            } else if wanted.kind == Kind::Object && table::is_known(py.type_of(object)) {
                let word = alive::word_of(py, object);
                if alive::is_noted(word) {
                    let found = alive::object_in(word);
                    place.write(TVMFFIAny::pointer((*found).type_index, found.cast()));
                }
                alive::is_noted(word)
            } else {
                from_python::simple(py, object, wanted, place)
            }
        };
        self.count += usize::from(is_simple);
        is_simple
    }

    /// Adds an argument that is not simple.
    ///
    /// # Safety
    /// As for [`Arguments::convert`].
    #[inline(never)]
    unsafe fn convert_other(&mut self, py: Py, object: *mut PyObject, wanted: &Wanted) -> Result<(), Refused> {
        // SAFETY: promised by the caller; the place of a lent tensor stays where it is.
        unsafe {
            if wanted.is_python() {
                self.push_kept(from_python::python(py, object, wanted));
                return Ok(());
            }
            if wanted.access != Access::Keeps
                && self.lent < LENT
                && let Some(view) = lend::lend(py, object, wanted, &mut self.tensors[self.lent])?
            {
                self.arrays[self.lent].write(Array { place: self.count, object, wanted: *wanted });
                self.lent += 1;
                self.push(view);
                return Ok(());
            }
            self.conversions += usize::from(self.lent > 0);
            if wanted.access != Access::Keeps
                && let Some(lent) = exchange::lend(py, object, wanted)?
            {
                self.push_kept((lent.view(), Keep::Exchanged(lent)));
                return Ok(());
            }
            if self.count < INLINE && table::is_known(py.type_of(object)) {
                table::write_view(py, object, self.views[self.count].as_mut_ptr())?;
                self.count += 1;
                return Ok(());
            }
            // An array with a buffer is in host memory.
            if wanted.kind == Kind::Tensor && py.PyObject_CheckBuffer(object) == 0 && !self.has_stream() {
                self.keep(exchange::enter_stream(py, object)?.map_or(Keep::Nothing, Keep::Stream));
            }
            self.push_kept(from_python::argument(py, object, wanted)?);
            Ok(())
        }
    }

    /// Describes arrays again that Python code may have changed while other arguments were
    /// converted: a resized array has its elements elsewhere.
    #[cold]
    fn describe_again(&mut self, py: Py, info: &FunctionInfo) -> PyResult<()> {
        for index in 0..self.lent {
            // SAFETY: the first `lent` were written, and the arrays live for the call; no code of
            // Python runs in looking at one.
            let Array { place, object, wanted } = unsafe { self.arrays[index].assume_init() };
            // SAFETY: as above.
            let view = unsafe { lend::lend(py, object, &wanted, &mut self.tensors[index]) };
            let view = view.map_err(|refused| refuse(py, info, place, refused))?;
            let Some(view) = view else {
                let clause = "the array was changed while other arguments were converted".to_owned();
                return Err(refuse(py, info, place, Refused::Because { kind: "ValueError", clause }));
            };
            match &mut *self.more {
                Some(more) if !more.views.is_empty() => more.views[place] = view,
                _ => {
                    self.views[place].write(view);
                }
            }
        }
        self.conversions = 0;
        Ok(())
    }

    /// Converts argument `place` of a function and adds it.
    ///
    /// # Safety
    /// The object lives for the call.
    #[inline(always)]
    unsafe fn bind_one(&mut self, py: Py, callable: &Callable, object: *mut PyObject, place: usize) -> PyResult<()> {
        let wanted = callable.wanted.get(place).unwrap_or(const { &Wanted::ANY });
        // SAFETY: promised by the caller.
        unsafe {
            match self.is_simple(py, object, wanted) {
                true => Ok(()),
                false => self.bind_other(py, callable, object, place),
            }
        }
    }

    /// Like [`Arguments::bind_one`], for arguments that are not simple. A function of its own keeps
    /// the requirements and the error out of the loop over simple arguments. A Python function is
    /// lent here, because `convert_other` saves many registers.
    ///
    /// # Safety
    /// As for [`Arguments::bind_one`].
    #[inline(never)]
    unsafe fn bind_other(&mut self, py: Py, callable: &Callable, object: *mut PyObject, place: usize) -> PyResult<()> {
        let wanted = callable.wanted.get(place).unwrap_or(const { &Wanted::ANY });
        // SAFETY: promised by the caller.
        unsafe {
            if wanted.kind == Kind::Function
                && self.callable.is_none()
                && self.count < INLINE
                && py.type_of(object) == py.PyFunction_Type()
            {
                // Written in its final place, like simple arguments.
                self.views[self.count].write(self.callable.insert(Lent::new(py, object)).view());
                self.count += 1;
                self.owed += 1;
                return Ok(());
            }
        }
        // SAFETY: promised by the caller.
        unsafe { self.convert_other(py, object, wanted) }.map_err(|refused| refuse(py, callable.info, place, refused))
    }

    /// Converts an argument of a function whose parameters are unknown, and adds it. `label` begins
    /// the message of an error.
    ///
    /// # Safety
    /// The object lives for the call.
    #[inline(never)]
    pub(crate) unsafe fn add(
        &mut self,
        py: Py,
        object: *mut PyObject,
        wanted: &Wanted,
        label: &dyn Display,
    ) -> PyResult<()> {
        // SAFETY: promised by the caller.
        unsafe { self.convert(py, object, wanted) }.map_err(|refused| match refused {
            Refused::Raised(raised) => raised,
            Refused::Because { kind, clause } => {
                exception::raise(py, &Error::with_backtrace(kind, &format!("{label}: {clause}"), ""))
            }
        })
    }

    /// Binds arguments to the parameters of a function without a declared signature, and converts
    /// them. If there are too few positional arguments, they are passed on: the function reports
    /// what it expects, or has defaults.
    ///
    /// # Safety
    /// The arguments live for the call.
    #[inline(always)]
    pub(crate) unsafe fn bind(&mut self, py: Py, callable: &Callable, given: Given) -> PyResult<()> {
        if given.names().is_null() {
            let mut first = 0;
            if !given.receiver().is_null() {
                // SAFETY: a method's descriptor has checked the class of its object.
                unsafe { table::write_view(py, given.receiver(), self.views[0].as_mut_ptr())? };
                (self.count, first) = (1, 1);
            }
            for index in first..given.positional() {
                // SAFETY: promised by the caller; the index is one of them.
                unsafe { self.bind_one(py, callable, given.value(index), index)? };
            }
        } else {
            // SAFETY: promised by the caller.
            unsafe { self.bind_named(py, callable, given)? };
        }
        if self.lent > 0 { self.hold(py, callable.info) } else { Ok(()) }
    }

    /// Binds the operands of a comparison or an operator. Returns false if one behind the first has
    /// no conversion; for an operator, a value out of range is an error.
    ///
    /// # Safety
    /// They live for the call, and are by position.
    pub(super) unsafe fn bind_operands(&mut self, py: Py, callable: &Callable, given: Given) -> PyResult<bool> {
        // SAFETY: promised by the caller.
        unsafe {
            self.bind_one(py, callable, given.value(0), 0)?;
            for place in 1..given.positional() {
                let wanted = callable.wanted.get(place).unwrap_or(const { &Wanted::ANY });
                match self.convert(py, given.value(place), wanted) {
                    Ok(()) => {}
                    Err(Refused::Because { kind, .. }) if callable.is_comparison || kind == "TypeError" => {
                        return Ok(false);
                    }
                    Err(refused) => return Err(refuse(py, callable.info, place, refused)),
                }
            }
        }
        if self.lent > 0 {
            self.hold(py, callable.info)?;
        }
        Ok(true)
    }

    /// Like [`Arguments::bind`], also for a function that declares a signature.
    ///
    /// # Safety
    /// The arguments live for the call.
    #[inline(always)]
    pub(crate) unsafe fn bind_any(&mut self, py: Py, callable: &Callable, given: Given) -> PyResult<()> {
        if !callable.is_signed {
            // SAFETY: promised by the caller.
            return unsafe { self.bind(py, callable, given) };
        }
        // SAFETY: promised by the caller.
        unsafe { self.bind_signed(py, callable, given)? };
        if self.lent > 0 { self.hold(py, callable.info) } else { Ok(()) }
    }

    /// Holds the memory of the lent arrays: Python code may run during the call, on this thread or
    /// on others.
    #[inline(never)]
    fn hold(&mut self, py: Py, info: &FunctionInfo) -> PyResult<()> {
        if self.conversions > 0 {
            self.describe_again(py, info)?;
        }
        for index in 0..self.lent {
            // SAFETY: the first `lent` were written, and are arrays of NumPy's own class.
            let held = unsafe { Held::new(py, self.arrays[index].assume_init_ref().object) };
            self.memory[index].write(held);
        }
        self.conversions = IS_HELD;
        self.owed += 1;
        Ok(())
    }

    /// Binds arguments of which some have names. If the function may have defaults and one in the
    /// middle is omitted, those after it are passed by name.
    ///
    /// # Safety
    /// As for [`Arguments::bind`]; there are names.
    #[inline(never)]
    unsafe fn bind_named(&mut self, py: Py, callable: &Callable, given: Given) -> PyResult<()> {
        let Callable { info, names, .. } = callable;
        let fault = |clause: &str| Err(exception::raise(py, &info.fault(clause)));
        if callable.is_undeclared() {
            return fault("the kernel's arguments have no names; pass them by position");
        }
        if given.positional() > names.len() {
            let (most, got) = (names.len(), given.positional());
            let noun = if most == 1 { "argument" } else { "arguments" };
            let at_most = if callable.binds { "at most " } else { "" };
            return fault(&format!("expected {at_most}{most} {noun}, got {got}"));
        }
        let mut few = [ptr::null_mut(); INLINE];
        let mut many = Vec::new();
        let places = places(&mut few, &mut many, names.len());
        // SAFETY: promised by the caller: values by position, then one for each of the names, which
        // are a tuple of texts.
        unsafe {
            for (index, place) in places[..given.positional()].iter_mut().enumerate() {
                *place = given.value(index);
            }
            for index in 0..py.PyTuple_Size(given.names()) {
                let name = py.PyTuple_GetItem(given.names(), index);
                let same = |known: &*mut PyObject| *known == name;
                // Names in a program are interned, so nearly always they are the same object.
                let found = names.iter().position(same);
                let found = found.or_else(|| names.iter().position(|known| py.PyUnicode_Compare(*known, name) == 0));
                let Some(place) = found else {
                    let name = String::from_utf8_lossy(py.utf8(name)?).into_owned();
                    let hint = did_you_mean(&name, &mut info.params.iter().map(|param| param.name));
                    return fault(&format!("there is no argument '{name}'{hint}"));
                };
                if !places[place].is_null() {
                    return fault(&format!("argument '{}' is given twice", info.params[place].name));
                }
                places[place] = given.value(given.positional() + index as usize);
            }
            self.bind_places(py, callable, places)
        }
    }

    /// Converts the arguments at the places of their parameters. If one in the middle is omitted,
    /// those after it are passed by name.
    ///
    /// # Safety
    /// The arguments live for the call; the others are NULL.
    pub(super) unsafe fn bind_places(&mut self, py: Py, callable: &Callable, places: &[*mut PyObject]) -> PyResult<()> {
        let end = places.iter().rposition(|place| !place.is_null()).map_or(0, |last| last + 1);
        let mut are_named = false;
        for (place, object) in places[..end].iter().enumerate() {
            if object.is_null() {
                if !callable.binds {
                    let clause = format!("argument '{}' is missing", callable.info.params[place].name);
                    return Err(exception::raise(py, &callable.info.fault(&clause)));
                }
                if !are_named {
                    self.push_marker(py)?;
                    are_named = true;
                }
                continue;
            }
            if are_named {
                self.push_value(Any::from(callable.info.params[place].name));
            }
            // SAFETY: promised by the caller.
            unsafe { self.bind_one(py, callable, *object, place)? };
        }
        Ok(())
    }
}

impl Drop for Arguments {
    #[inline(always)]
    fn drop(&mut self) {
        if self.owed > 0 {
            self.free();
        }
    }
}

impl Arguments {
    /// Drops the kept objects; nothing is used afterwards.
    #[inline(never)]
    fn free(&mut self) {
        if self.conversions == IS_HELD {
            for held in &self.memory[..self.lent] {
                // SAFETY: the first `lent` were written, and are taken here only; the caller holds
                // the lock.
                unsafe { held.assume_init_read().release(Py::held()) };
            }
            if self.owed == 1 {
                return;
            }
        }
        drop(self.callable.take());
        for keep in &mut self.keeps[..self.kept] {
            // SAFETY: the first `kept` were written, and are dropped here only.
            unsafe { keep.assume_init_drop() };
        }
        // SAFETY: as above.
        unsafe { ManuallyDrop::drop(&mut self.more) };
    }
}

/// NULL pointers for the arguments of this many parameters.
pub(super) fn places<'a>(
    few: &'a mut [*mut PyObject; INLINE],
    many: &'a mut Vec<*mut PyObject>,
    count: usize,
) -> &'a mut [*mut PyObject] {
    if count <= INLINE {
        return &mut few[..count];
    }
    many.resize(count, ptr::null_mut());
    many
}

/// The object between positional and keyword arguments; each of the latter is a name and a value.
fn keywords_marker() -> Result<&'static Any, Error> {
    static MARKER: OnceLock<Any> = OnceLock::new();
    if let Some(marker) = MARKER.get() {
        return Ok(marker);
    }
    // A library without types and modules has not needed it before.
    kernpack_builtins::register_markers()?;
    let marker = Function::global("ffi.GetKwargsObject")?.call(())?;
    Ok(MARKER.get_or_init(|| marker))
}

/// The exception for an argument that no value of the ABI can represent.
#[cold]
fn refuse(py: Py, info: &FunctionInfo, place: usize, refused: Refused) -> Raised {
    let (kind, clause) = match refused {
        Refused::Raised(raised) => return raised,
        Refused::Because { kind, clause } => (kind, clause),
    };
    if info.role == FunctionRole::Setter {
        return exception::raise(py, &info.wrong_value(kind, &clause));
    }
    let message = match info.params.get(place) {
        Some(param) if !param.name.is_empty() => format!("argument '{}': {clause}", param.name),
        _ => format!("argument {place}: {clause}"),
    };
    let text = info.fault(&message);
    exception::raise(py, &Error::with_backtrace(kind, text.message(), ""))
}
