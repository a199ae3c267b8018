//! The items that names of a model refer to.

use std::collections::HashMap;
use std::sync::Arc;

use crate::error::{Result, fail};
use crate::graph::ValueId;

/// The item that a name of a model refers to. The structure of all values is known at build time. A
/// present optional value is represented by its contents.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Item {
    /// A tensor.
    Tensor(ValueId),
    /// Class names: a tensor of their places in a list.
    Names(ValueId, Arc<[String]>),
    /// A list of tensors.
    Sequence(Vec<ValueId>),
    /// A missing optional value.
    Nothing,
    /// An input of a function that its caller omits: nodes that read it omit it, too.
    Absent,
}

/// The names that are visible at a node.
pub(super) type Scope = HashMap<String, Item>;

impl Item {
    /// Returns its tensors.
    pub(super) fn ids(&self) -> Vec<ValueId> {
        match self {
            Self::Tensor(id) | Self::Names(id, _) => vec![*id],
            Self::Sequence(ids) => ids.clone(),
            Self::Nothing | Self::Absent => Vec::new(),
        }
    }

    /// Returns the item with other tensors.
    pub(super) fn map(&self, mut other: impl FnMut(ValueId) -> ValueId) -> Self {
        match self {
            Self::Tensor(id) => Self::Tensor(other(*id)),
            Self::Names(id, names) => Self::Names(other(*id), Arc::clone(names)),
            Self::Sequence(ids) => Self::Sequence(ids.iter().map(|id| other(*id)).collect()),
            Self::Nothing | Self::Absent => self.clone(),
        }
    }

    /// Returns the name of the kind for messages.
    pub(super) fn kind(&self) -> &'static str {
        match self {
            Self::Tensor(_) => "a tensor",
            Self::Names(..) => "class names",
            Self::Sequence(_) => "a sequence",
            Self::Nothing => "an optional value that is not there",
            Self::Absent => "an input that is left out",
        }
    }

    /// Returns the tensor.
    ///
    /// # Errors
    /// Returns an error if the item is not a tensor.
    pub(super) fn tensor(&self, what: &str) -> Result<ValueId> {
        match self {
            Self::Tensor(id) => Ok(*id),
            other => fail!("{what} is {}, not a tensor", other.kind()),
        }
    }

    /// Returns the tensors of a sequence.
    ///
    /// # Errors
    /// Returns an error if the item is not a sequence.
    pub(super) fn sequence(&self, what: &str) -> Result<&[ValueId]> {
        match self {
            Self::Sequence(ids) => Ok(ids),
            other => fail!("{what} is {}, not a sequence", other.kind()),
        }
    }
}
