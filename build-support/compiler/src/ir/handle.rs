//! Reference types for nodes, with their own names so that operators and conversions can be
//! implemented for them.

/// Defines a counted reference to a node type. It derefs to the node, compares by identity, and
/// converts to and from FFI values like `ObjRef`.
macro_rules! handle {
    ($(#[$meta:meta])* $name:ident => $node:ty) => {
        $(#[$meta])*
        #[derive(Clone)]
        #[repr(transparent)]
        pub struct $name(pub(crate) kernpack::ObjRef<$node>);

        impl $name {
            /// Creates a node.
            pub fn from_node(node: $node) -> Self {
                Self(kernpack::ObjRef::new(node))
            }

            /// The underlying object reference.
            pub fn object(&self) -> &kernpack::ObjRef<$node> {
                &self.0
            }

            /// Returns true if both refer to the same node.
            pub fn same_as(&self, other: &Self) -> bool {
                self.0.ptr_eq(&other.0)
            }

            /// The node's address: its identity while it is alive.
            pub fn address(&self) -> usize {
                self.0.as_ptr() as usize
            }
        }

        impl core::ops::Deref for $name {
            type Target = $node;

            fn deref(&self) -> &$node {
                &self.0
            }
        }

        /// Compares by identity; structural equality is `kernpack::structural::equal`.
        impl PartialEq for $name {
            fn eq(&self, other: &Self) -> bool {
                self.same_as(other)
            }
        }

        impl Eq for $name {}

        impl core::hash::Hash for $name {
            fn hash<H: core::hash::Hasher>(&self, state: &mut H) {
                self.address().hash(state);
            }
        }

        impl From<kernpack::ObjRef<$node>> for $name {
            fn from(object: kernpack::ObjRef<$node>) -> Self {
                Self(object)
            }
        }

        impl From<$name> for kernpack::ObjRef<$node> {
            fn from(handle: $name) -> Self {
                handle.0
            }
        }

        impl From<$name> for kernpack::Any {
            fn from(handle: $name) -> Self {
                handle.0.into()
            }
        }

        crate::ir::handle::convert!($name => $node);
    };
}

/// The conversions of a handle.
macro_rules! convert {
    ($name:ident => $node:ty) => {
        impl kernpack::Schema for $name {
            const TYPE: kernpack::TypeSchema = <kernpack::ObjRef<$node> as kernpack::Schema>::TYPE;
        }

        impl kernpack::IntoAny for $name {
            fn into_any(self) -> kernpack::Any {
                self.0.into_any()
            }
        }

        impl<'a> kernpack::FromAny<'a> for $name {
            fn from_any(value: &'a kernpack::AnyView<'a>) -> Result<Self, kernpack::Mismatch> {
                kernpack::ObjRef::from_any(value).map(Self)
            }
        }

        impl kernpack::ToArg for $name {
            fn to_arg(&self) -> kernpack::Arg<'_> {
                self.0.to_arg()
            }
        }
    };
}

pub(crate) use {convert, handle};
