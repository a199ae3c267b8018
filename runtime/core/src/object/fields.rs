//! Reads the registered fields of objects of any language.

use core::ffi::c_void;

use crate::abi::{TVMFFIAny, TVMFFIFieldInfo, TVMFFITypeInfo, type_index};
use crate::function::did_you_mean;
use crate::value::Any;
use crate::{Error, Result, provider};

impl Any {
    /// Returns the value of an object's field.
    ///
    /// # Errors
    /// Returns a TypeError if the value is not an object, a KeyError with the nearest names if its
    /// type does not have this field, or the error of the field's getter.
    ///
    /// ```
    /// use kernpack::{IntoAny, ObjRef, Object};
    ///
    /// #[derive(Object)]
    /// #[object(key = "docs.Circle")]
    /// #[repr(C)]
    /// pub struct Circle {
    ///     pub radius: f64,
    /// }
    ///
    /// let circle = ObjRef::new(Circle { radius: 2.5 }).into_any();
    /// assert_eq!(circle.field("radius").unwrap().to::<f64>().unwrap(), 2.5);
    /// assert!(circle.field("radus").unwrap_err().message().contains("did you mean 'radius'?"));
    /// ```
    #[track_caller]
    pub fn field(&self, name: &str) -> Result<Self> {
        let Some(object) = self.as_view().object() else {
            return Err(crate::error!(TypeError, "a value of type {} has no fields", self.type_name()));
        };
        let mut names = Vec::new();
        for field in fields(self.type_index()) {
            // SAFETY: the table keeps the names of fields forever.
            let field_name = String::from_utf8_lossy(unsafe { field.name.as_slice() });
            if field_name != name {
                names.push(field_name);
                continue;
            }
            let Some(getter) = field.getter else {
                return Err(crate::error!(TypeError, "field '{name}' of {} cannot be read", self.type_name()));
            };
            let mut value = TVMFFIAny::NONE;
            // SAFETY: the field belongs to the object's type, so it is at this offset of the
            // object, which `self` keeps alive; on success `value` is an owned value.
            return unsafe {
                Error::check(getter(object.cast::<c_void>().byte_add(field.offset as usize), &mut value))?;
                Ok(Self::from_raw(value))
            };
        }
        let hint = did_you_mean(name, &mut names.iter().map(AsRef::as_ref));
        Err(crate::error!(KeyError, "type {} has no field '{name}'{hint}", self.type_name()))
    }
}

/// The registered fields of a type, those of its base types first.
fn fields(index: i32) -> impl Iterator<Item = &'static TVMFFIFieldInfo> {
    // SAFETY: `index` comes from a live object, so it is registered; descriptions, ancestors and
    // fields live forever, and the counts are their numbers. NULL means none.
    unsafe {
        let info = (provider::api().get_type_info)(index).as_ref();
        let own_fields = |info: &'static TVMFFITypeInfo| match info.num_fields {
            count if count > 0 && !info.fields.is_null() => core::slice::from_raw_parts(info.fields, count as usize),
            _ => &[],
        };
        let ancestors = info.map_or(0, |info| info.type_depth);
        (0..ancestors)
            .filter_map(move |depth| (*info?.type_ancestors.add(depth as usize)).as_ref())
            .chain(info)
            .filter(|info| info.type_index >= type_index::STATIC_OBJECT_BEGIN)
            .flat_map(own_fields)
    }
}
