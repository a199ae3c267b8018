use core::sync::atomic::{AtomicI32, AtomicPtr, Ordering};

use crate::abi::{TVMFFIAny, TVMFFIByteArray, TVMFFITypeAttrColumn, type_index};
use crate::provider;
use crate::value::AnyView;

/// A column of type attributes, identified by its name: one value for each type that has the
/// attribute.
///
/// The column is looked up once and cached. It may be registered after the first lookup; until then
/// no type has a value.
pub struct AttrColumn {
    name: &'static str,
    column: AtomicPtr<TVMFFITypeAttrColumn>,
}

impl AttrColumn {
    /// Creates the column with this name, such as `__ffi_repr__`.
    pub const fn new(name: &'static str) -> Self {
        Self { name, column: AtomicPtr::new(core::ptr::null_mut()) }
    }

    /// The column's name.
    pub const fn name(&self) -> &'static str {
        self.name
    }

    /// Returns the value for a type, or `None` if the type does not have one. Values are not
    /// inherited: each type has its own.
    #[inline]
    pub fn get(&self, type_index: i32) -> Option<AnyView<'static>> {
        let mut column = self.column.load(Ordering::Acquire);
        if column.is_null() {
            column = self.find()?;
        }
        // SAFETY: columns live forever. A writer stores a larger array before the larger size, and
        // a value's payload before its type index, so all data that is read here is complete.
        unsafe {
            let size = AtomicI32::from_ptr(&raw mut (*column).size).load(Ordering::Acquire);
            let offset = type_index.wrapping_sub((*column).begin_index);
            if offset < 0 || offset >= size {
                return None;
            }
            let data = AtomicPtr::from_ptr((&raw mut (*column).data).cast::<*mut TVMFFIAny>()).load(Ordering::Acquire);
            let slot = data.add(offset as usize);
            if AtomicI32::from_ptr(&raw mut (*slot).type_index).load(Ordering::Acquire) == type_index::NONE {
                return None;
            }
            Some(AnyView::from_raw(*slot))
        }
    }

    #[cold]
    fn find(&self) -> Option<*mut TVMFFITypeAttrColumn> {
        let name = TVMFFIByteArray::new(self.name.as_bytes());
        // SAFETY: the name is valid for the call.
        let column = unsafe { (provider::api().get_type_attr_column)(&name) }.cast_mut();
        self.column.store(column, Ordering::Release);
        (!column.is_null()).then_some(column)
    }
}
