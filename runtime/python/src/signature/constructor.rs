//! The constructors of registered types.

use kernpack_core::abi::{TVMFFIFieldSetter, TVMFFIObject, TVMFFIObjectCreator};

use super::callable::Callable;
use super::wanted::Wanted;

/// The constructor of the objects of a type.
pub(crate) enum Constructor {
    /// Nothing: the library's functions create them.
    None,
    /// A function of this artifact, whose parameters are known.
    Own(Callable),
    /// A function object, which the type table keeps alive: it takes positional arguments, then
    /// arguments by name. If it assigns each argument to a field, that is done here.
    Function(*mut TVMFFIObject, Option<Fields>),
}

/// The fields of a type of this artifact whose constructor takes them in their order.
pub(crate) struct Fields {
    pub(crate) create: TVMFFIObjectCreator,
    /// Offset, setter and type of each field.
    pub(crate) all: Box<[(usize, TVMFFIFieldSetter, Wanted)]>,
    /// The name of each field.
    pub(crate) names: Box<[&'static str]>,
}
