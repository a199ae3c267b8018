//! Enums without data as classes of Python's module `enum`: an `IntEnum`, or a `StrEnum` if that
//! exists. Members are converted in both directions; their numbers and names are accepted for them.

use core::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, PoisonError};

use kernpack_core::abi::TVMFFIObject;
use kernpack_core::generated_code::{EnumDef, EnumKind, VariantDef};
use kernpack_core::reflect::TypeInfo;
use kernpack_core::{Any, IntoAny};

use crate::capi::{Py, PyObject};
use crate::class;
use crate::object::{Owned, PyResult, Raised};
use crate::state::State;
use crate::wanted::{Kind, Wanted};

/// The class of an enum. It lives forever, and so do its members and their objects.
struct Enumeration {
    /// The type.
    index: i32,
    key: &'static str,
    class: *mut PyObject,
    /// The object of each variant, and its member.
    members: Box<[(*mut TVMFFIObject, *mut PyObject)]>,
}

// SAFETY: it is not changed after its creation, and its pointers are only used with the
// interpreter's lock held.
unsafe impl Send for Enumeration {}
// SAFETY: as above.
unsafe impl Sync for Enumeration {}

/// The classes created so far. No Python code runs while it is locked.
static CLASSES: Mutex<Vec<&'static Enumeration>> = Mutex::new(Vec::new());
/// True if there is one.
static ANY: AtomicBool = AtomicBool::new(false);

fn find(is_it: impl Fn(&Enumeration) -> bool) -> Option<&'static Enumeration> {
    if !ANY.load(Ordering::Acquire) {
        return None;
    }
    CLASSES.lock().unwrap_or_else(PoisonError::into_inner).iter().copied().find(|class| is_it(class))
}

/// The class of an enum of this artifact, borrowed; it lives forever. It is created at the first
/// call. `None` if Python rejects such a class, so the enum's objects are plain ones.
pub(crate) fn class(py: Py, def: &'static EnumDef) -> PyResult<Option<*mut PyObject>> {
    let Ok(info) = TypeInfo::by_key(def.key.as_bytes()) else { return Ok(None) };
    let index = info.index();
    if let Some(known) = find(|class| class.index == index) {
        return Ok(Some(known.class));
    }
    let made = match make(py, def, index) {
        Ok(made) => made,
        Err(Raised) => {
            // Names that `enum` reserves, such as `mro`.
            // SAFETY: an exception is set.
            let is_refusal = unsafe { py.PyErr_ExceptionMatches(py.PyExc_Exception()) != 0 };
            if !is_refusal {
                return Err(Raised);
            }
            // SAFETY: as above.
            unsafe { py.PyErr_Clear() };
            return Ok(None);
        }
    };
    let mut classes = CLASSES.lock().unwrap_or_else(PoisonError::into_inner);
    // Another thread may have created it while this one ran Python code.
    if let Some(other) = classes.iter().find(|class| class.index == index) {
        return Ok(Some(other.class));
    }
    let class = made.class;
    classes.push(Box::leak(Box::new(made)));
    ANY.store(true, Ordering::Release);
    Ok(Some(class))
}

fn make(py: Py, def: &'static EnumDef, index: i32) -> PyResult<Enumeration> {
    let module = py.import(c"enum")?;
    // SAFETY: all objects are alive; a new list with that many places, and new dicts.
    unsafe {
        let base = match def.kind {
            EnumKind::Int => Some(py.attribute(module.as_ptr(), c"IntEnum")?),
            EnumKind::Str => py.attribute_if_any(module.as_ptr(), c"StrEnum")?,
        };
        let path = class::path(py, def.key);
        let variants = Owned::take(py, py.PyList_New(def.variants.len() as isize))?;
        for (place, variant) in def.variants.iter().enumerate() {
            let pair = py.tuple([py.text(variant.name)?, value(py, def, variant)?])?;
            if py.PyList_SetItem(variants.as_ptr(), place as isize, pair.into_ptr()) != 0 {
                return Err(Raised);
            }
        }
        let name = py.text(path.last().copied().unwrap_or(def.key))?;
        let arguments = py.tuple([name, variants])?;
        let named = Owned::take(py, py.PyDict_New())?;
        let set = |name: &str, value: &Owned| -> PyResult<()> {
            let name = py.text(name)?;
            match py.PyDict_SetItem(named.as_ptr(), name.as_ptr(), value.as_ptr()) {
                0 => Ok(()),
                _ => Err(Raised),
            }
        };
        set("module", &py.text(&State::get(py).module)?)?;
        set("qualname", &py.text(&path.join("."))?)?;
        let base = match base {
            Some(base) => base,
            // Before 3.11.
            None => {
                set("type", &Owned::share(py, py.PyUnicode_Type()))?;
                py.attribute(module.as_ptr(), c"Enum")?
            }
        };
        let class = Owned::take(py, py.PyObject_Call(base.as_ptr(), arguments.as_ptr(), named.as_ptr()))?;
        document(py, &class, def.doc)?;
        let members = def.variants.iter().map(|variant| {
            let member = py.call(class.as_ptr(), [value(py, def, variant)?])?;
            document(py, &member, variant.doc)?;
            let object = def.convert(payload(def, variant).as_view()).ok().and_then(|value| value.as_view().object());
            // The enum keeps its objects forever.
            Ok((object.unwrap_or_default(), member.into_ptr()))
        });
        let members = members.collect::<PyResult<Box<[_]>>>()?;
        Ok(Enumeration { index, key: def.key, class: class.into_ptr(), members })
    }
}

/// The value of a variant in the ABI.
fn payload(def: &EnumDef, variant: &VariantDef) -> Any {
    match def.kind {
        EnumKind::Int => variant.value.into_any(),
        EnumKind::Str => variant.name.into_any(),
    }
}

/// The value of a variant in Python.
fn value(py: Py, def: &EnumDef, variant: &VariantDef) -> PyResult<Owned> {
    match def.kind {
        // SAFETY: an integer.
        EnumKind::Int => unsafe { Owned::take(py, py.PyLong_FromLongLong(variant.value)) },
        EnumKind::Str => py.text(variant.name),
    }
}

fn document(py: Py, object: &Owned, doc: &str) -> PyResult<()> {
    if doc.is_empty() {
        return Ok(());
    }
    let doc = py.text(doc)?;
    // SAFETY: both are alive.
    match unsafe { py.PyObject_SetAttrString(object.as_ptr(), c"__doc__".as_ptr(), doc.as_ptr()) } {
        0 => Ok(()),
        _ => Err(Raised),
    }
}

/// The member for an object of this type, borrowed.
#[cold]
pub(crate) fn member(index: i32, object: *mut TVMFFIObject) -> Option<*mut PyObject> {
    let class = find(|class| class.index == index)?;
    class.members.iter().find(|(own, _)| *own == object).map(|(_, member)| *member)
}

/// The object for a member of one of the classes, borrowed; it lives forever. `None` if the
/// parameter's type is neither the enum nor `Any`: a member is also a number or a text.
pub(crate) fn object(class: *mut PyObject, member: *mut PyObject, wanted: &Wanted) -> Option<*mut TVMFFIObject> {
    let class = find(|known| known.class == class)?;
    if wanted.kind != Kind::Any && wanted.ty.key != class.key {
        return None;
    }
    let (object, _) = class.members.iter().find(|(_, own)| *own == member)?;
    (!object.is_null()).then_some(*object)
}

/// The object of the member with this name, for a parameter of an enum of integers: enums of texts
/// accept names anyway.
pub(crate) fn of_name(py: Py, key: &str, name: &[u8]) -> Option<*mut TVMFFIObject> {
    let def = State::get(py).collected.enums.iter().find(|def| def.key == key && def.kind == EnumKind::Int)?;
    let variant = def.variants.iter().find(|variant| variant.name.as_bytes() == name)?;
    // The enum keeps its objects forever.
    def.convert(payload(def, variant).as_view()).ok()?.as_view().object()
}
