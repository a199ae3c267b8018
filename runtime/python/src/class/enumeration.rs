//! Enums without data as classes of Python's module `enum`: an `IntEnum`, or a `StrEnum` if that
//! exists. Members are converted in both directions; their numbers and names are accepted for them.

use kernpack_core::generated_code::{EnumDef, EnumKind, VariantDef};
use kernpack_core::reflect::TypeInfo;

use super::declared;
use crate::cpython::capi::{Py, PyObject};
use crate::cpython::object::{Owned, PyResult, Raised};
use crate::cpython::state::State;
use crate::instance::member::{self, Enumeration};

/// The class of an enum of this artifact, borrowed; it lives forever. It is created at the first
/// call. `None` if Python rejects such a class, so the enum's objects are plain ones.
pub(crate) fn class(py: Py, def: &'static EnumDef) -> PyResult<Option<*mut PyObject>> {
    let Ok(info) = TypeInfo::by_key(def.key.as_bytes()) else { return Ok(None) };
    let index = info.index();
    if let Some(known) = member::find(|class| class.index == index) {
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
    // Another thread may have created it while this one ran Python code.
    Ok(Some(member::add(made)))
}

fn make(py: Py, def: &'static EnumDef, index: i32) -> PyResult<Enumeration> {
    let module = py.import(c"enum")?;
    // SAFETY: all objects are alive; a new list with that many places, and new dicts.
    unsafe {
        let base = match def.kind {
            EnumKind::Int => Some(py.attribute(module.as_ptr(), c"IntEnum")?),
            EnumKind::Str => py.attribute_if_any(module.as_ptr(), c"StrEnum")?,
        };
        let path = declared::path(py, def.key);
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
        set("module", &py.text(State::get(py).module_of_classes())?)?;
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
            let object =
                def.convert(member::payload(def, variant).as_view()).ok().and_then(|value| value.as_view().object());
            // The enum keeps its objects forever.
            Ok((object.unwrap_or_default(), member.into_ptr()))
        });
        let members = members.collect::<PyResult<Box<[_]>>>()?;
        Ok(Enumeration { index, key: def.key, class: class.into_ptr(), members })
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
