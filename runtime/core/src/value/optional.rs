use super::{Any, AnyView, Arg, FromAny, IntoAny, Mismatch, Schema, ToArg, TypeSchema};

impl<T: Schema> Schema for Option<T> {
    // An option of an option has the schema of a single option.
    const TYPE: TypeSchema = match T::TYPE {
        TypeSchema { key, args: [_] } if is_optional(key) => T::TYPE,
        _ => TypeSchema { key: "Optional", args: &[T::TYPE] },
    };
    // References to objects are never NULL, so NULL represents `None`.
    const STORAGE: crate::value::Storage = match T::STORAGE {
        crate::value::Storage::Object if size_of::<Self>() == size_of::<*const ()>() => crate::value::Storage::Object,
        _ => crate::value::Storage::Rust,
    };
}

const fn is_optional(key: &str) -> bool {
    matches!(key.as_bytes(), b"Optional")
}

impl<'a, T: FromAny<'a>> FromAny<'a> for Option<T> {
    #[inline]
    fn from_any(value: &'a AnyView<'a>) -> Result<Self, Mismatch> {
        if value.is_none() { Ok(None) } else { T::from_any(value).map(Some) }
    }
}

impl<T: IntoAny> IntoAny for Option<T> {
    #[inline]
    fn into_any(self) -> Any {
        self.map_or(Any::NONE, IntoAny::into_any)
    }
}

impl<T: ToArg> ToArg for Option<T> {
    #[inline]
    fn to_arg(&self) -> Arg<'_> {
        match self {
            Some(value) => value.to_arg(),
            None => Arg::borrowed(AnyView::NONE),
        }
    }
}
