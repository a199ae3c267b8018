//! The members of enums without data, and the objects that they stand for.

use core::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, PoisonError};

use kernpack_core::abi::TVMFFIObject;
use kernpack_core::generated_code::{EnumDef, EnumKind, VariantDef};
use kernpack_core::{Any, IntoAny};

use crate::cpython::capi::{Py, PyObject};
use crate::cpython::state::State;
use crate::signature::wanted::Wanted;

/// The class of an enum. It lives forever, and so do its members and their objects.
pub(crate) struct Enumeration {
    /// The type.
    pub(crate) index: i32,
    /// The key of the type.
    pub(crate) key: &'static str,
    /// The class itself.
    pub(crate) class: *mut PyObject,
    /// The object of each variant, and its member.
    pub(crate) members: Box<[(*mut TVMFFIObject, *mut PyObject)]>,
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

/// The class that satisfies a condition.
pub(crate) fn find(is_it: impl Fn(&Enumeration) -> bool) -> Option<&'static Enumeration> {
    if !ANY.load(Ordering::Acquire) {
        return None;
    }
    CLASSES.lock().unwrap_or_else(PoisonError::into_inner).iter().copied().find(|class| is_it(class))
}

/// Adds a class. Another thread may have added one for the type meanwhile: that class is returned.
pub(crate) fn add(made: Enumeration) -> *mut PyObject {
    let mut classes = CLASSES.lock().unwrap_or_else(PoisonError::into_inner);
    if let Some(other) = classes.iter().find(|class| class.index == made.index) {
        return other.class;
    }
    let class = made.class;
    classes.push(Box::leak(Box::new(made)));
    ANY.store(true, Ordering::Release);
    class
}

/// The value of a variant in the ABI.
pub(crate) fn payload(def: &EnumDef, variant: &VariantDef) -> Any {
    match def.kind {
        EnumKind::Int => variant.value.into_any(),
        EnumKind::Str => variant.name.into_any(),
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
    if !wanted.is_any() && wanted.ty.key != class.key {
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
