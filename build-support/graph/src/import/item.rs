//! Things that names of a model stand for.

use std::collections::HashMap;

use crate::error::{Result, fail};
use crate::graph::ValueId;

/// The thing that a name of a model stands for. The structure of all values is known at build time; an optional value that is there is what is in it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Item {
    /// A tensor.
    Tensor(ValueId),
    /// Tensors, one behind the other.
    Sequence(Vec<ValueId>),
    /// An optional value that is not there.
    Nothing,
    /// An input of a function that its caller leaves out: nodes that read it leave it out, too.
    Absent,
}

/// Names of values where a node stands.
pub(super) type Scope = HashMap<String, Item>;

impl Item {
    /// Its tensors.
    pub(super) fn ids(&self) -> Vec<ValueId> {
        match self {
            Self::Tensor(id) => vec![*id],
            Self::Sequence(ids) => ids.clone(),
            Self::Nothing | Self::Absent => Vec::new(),
        }
    }

    /// The same with other tensors.
    pub(super) fn map(&self, mut other: impl FnMut(ValueId) -> ValueId) -> Self {
        match self {
            Self::Tensor(id) => Self::Tensor(other(*id)),
            Self::Sequence(ids) => Self::Sequence(ids.iter().map(|id| other(*id)).collect()),
            Self::Nothing | Self::Absent => self.clone(),
        }
    }

    /// A word for messages.
    pub(super) fn kind(&self) -> &'static str {
        match self {
            Self::Tensor(_) => "a tensor",
            Self::Sequence(_) => "a sequence",
            Self::Nothing => "an optional value that is not there",
            Self::Absent => "an input that is left out",
        }
    }

    /// The tensor.
    ///
    /// # Errors
    /// It is none.
    pub(super) fn tensor(&self, what: &str) -> Result<ValueId> {
        match self {
            Self::Tensor(id) => Ok(*id),
            other => fail!("{what} is {}, not a tensor", other.kind()),
        }
    }

    /// The tensors of a sequence.
    ///
    /// # Errors
    /// It is none.
    pub(super) fn sequence(&self, what: &str) -> Result<&[ValueId]> {
        match self {
            Self::Sequence(ids) => Ok(ids),
            other => fail!("{what} is {}, not a sequence", other.kind()),
        }
    }
}
