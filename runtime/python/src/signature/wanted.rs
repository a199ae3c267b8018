//! The requirements of a parameter for a Python object, determined once from its type.

use kernpack_core::function::ParamInfo;
use kernpack_core::value::{Access, TypeSchema};

use crate::cpython::state::State;

/// The requirements for an argument, or for an element of a container.
#[derive(Clone, Copy)]
pub(crate) struct Wanted {
    /// The type, without `Optional`.
    pub(crate) ty: &'static TypeSchema,
    /// The way in which a conversion handles the type.
    pub(crate) kind: Kind,
    /// The function's access to an array's memory.
    pub(crate) access: Access,
    /// True if a text may be lent with its length, to a function of this artifact that takes a
    /// text.
    pub(crate) lends_text: bool,
}

/// The types that determine the conversion of a Python object.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Kind {
    /// Anything, as it is: declared `Any`.
    Any,
    /// A value of an unknown type: the callee may expect a number.
    Unknown,
    Bool,
    Float,
    DataType,
    Device,
    Tensor,
    Function,
    /// The Python object itself.
    Python,
    /// The Python object itself, or None.
    OptionalPython,
    Bytes,
    /// An array, a tuple or a shape.
    Sequence,
    Map,
    /// An enum of integers of this artifact.
    Enum,
    /// An object of a type of this artifact.
    Object,
    /// A path, from a text or an object with `__fspath__`.
    Path,
    /// An internet address, from a text or an object of the module `ipaddress`.
    Address,
    /// A set, from sets and sequences.
    Set,
    /// A `timedelta`, or a number of seconds.
    Duration,
    /// A `datetime` with a time zone, or a number of seconds since 1970.
    Time,
    /// A complex number.
    Complex,
    /// The object itself determines the conversion.
    Other,
}

/// The key of Python objects.
const OBJECT: &str = "ffi.OpaquePyObject";

const ANY_TYPE: TypeSchema = TypeSchema::new("Any");

impl Wanted {
    /// Anything, of an unknown type.
    pub(crate) const ANY: Self = Self { ty: &ANY_TYPE, kind: Kind::Unknown, access: Access::Keeps, lends_text: false };

    /// A value of a type.
    #[inline(never)]
    pub(crate) fn of(ty: &'static TypeSchema) -> Self {
        let is_optional = ty.key == "Optional";
        let ty = inner(ty);
        let kind = match ty.key {
            "Any" | "ffi.Object" => Kind::Any,
            "bool" => Kind::Bool,
            "float" => Kind::Float,
            "DataType" => Kind::DataType,
            "Device" => Kind::Device,
            "ffi.Tensor" | "DLTensor*" => Kind::Tensor,
            "ffi.Function" => Kind::Function,
            OBJECT if is_optional => Kind::OptionalPython,
            OBJECT => Kind::Python,
            "ffi.Bytes" => Kind::Bytes,
            "ffi.Array" | "ffi.List" | "Tuple" | "ffi.Shape" => Kind::Sequence,
            "ffi.Map" | "ffi.Dict" => Kind::Map,
            "pathlib.Path" => Kind::Path,
            "ipaddress.IPv4Address" | "ipaddress.IPv6Address" | "ipaddress.ip_address" => Kind::Address,
            "set" => Kind::Set,
            "datetime.timedelta" => Kind::Duration,
            "datetime.datetime" => Kind::Time,
            "complex" => Kind::Complex,
            key if State::has_int_enum(key) => Kind::Enum,
            key if State::has_type(key) => Kind::Object,
            _ => Kind::Other,
        };
        Self { ty, kind, access: Access::Keeps, lends_text: false }
    }

    /// The requirements of a parameter. `is_own`: it belongs to a function of this artifact,
    /// written in Rust.
    pub(crate) fn parameter(param: &'static ParamInfo, is_own: bool) -> Self {
        let wanted = Self::of(&param.ty);
        Self { access: param.access, lends_text: is_own && wanted.ty.key == "ffi.String", ..wanted }
    }

    /// The requirements of a field's value, for a type of this artifact: its setter checks the
    /// type.
    pub(crate) fn field(ty: &'static TypeSchema) -> Self {
        let wanted = Self::of(ty);
        match wanted.kind {
            Kind::Path | Kind::Address | Kind::Set | Kind::Duration | Kind::Time | Kind::Complex => wanted,
            _ if ty.mentions(OBJECT) || ty.mentions("Any") => wanted,
            _ => Self { lends_text: ty.key == "ffi.String", ..Self::ANY },
        }
    }

    /// Returns true if the Python object itself is the value.
    #[inline]
    pub(crate) fn is_python(&self) -> bool {
        matches!(self.kind, Kind::Python | Kind::OptionalPython)
    }

    /// Returns true if no Python object is a simple value: functions and Python objects are lent.
    #[inline]
    pub(crate) fn is_lent(&self) -> bool {
        matches!(self.kind, Kind::Function | Kind::Python | Kind::OptionalPython)
    }

    /// An element of a container, or a key of a map.
    pub(crate) fn element(&self, index: usize) -> Self {
        if self.kind == Kind::Unknown { Self::ANY } else { Self::of(element(self.ty, index)) }
    }

    /// A value of a map.
    pub(crate) fn value_of_map(&self) -> Self {
        if self.kind == Kind::Unknown { Self::ANY } else { Self::of(value_of_map(self.ty)) }
    }

    /// Returns true if a value of any type is accepted.
    #[inline]
    pub(crate) fn is_any(&self) -> bool {
        matches!(self.kind, Kind::Any | Kind::Unknown)
    }

    /// Returns true if the function writes to an array.
    pub(crate) fn writes(&self) -> bool {
        self.access == Access::Writes
    }
}

/// The type `T` of `Optional[T]` and of `T`.
pub(crate) fn inner(mut ty: &TypeSchema) -> &TypeSchema {
    while let ("Optional", [of]) = (ty.key, ty.args) {
        ty = of;
    }
    ty
}

/// The type of an element of a container.
pub(crate) fn element(ty: &TypeSchema, index: usize) -> &TypeSchema {
    match ty.key {
        "Tuple" => ty.args.get(index).unwrap_or(&ANY_TYPE),
        _ => ty.args.first().unwrap_or(&ANY_TYPE),
    }
}

/// The type of a map's values.
fn value_of_map(ty: &'static TypeSchema) -> &'static TypeSchema {
    ty.args.get(1).unwrap_or(&ANY_TYPE)
}
