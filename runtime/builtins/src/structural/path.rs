use core::fmt;

use super::lent;
use crate::engines::access_path::{self, Kind};
use crate::engines::visit;
use crate::value::{Any, AnyView, ToArg};
use crate::{Error, Result};

/// The path from a value to a part of it; prints as `<root>.body[2]["key"]`.
#[derive(Clone, Debug, Default)]
#[non_exhaustive]
pub struct AccessPath {
    /// The steps, from the root.
    pub steps: Vec<AccessStep>,
}

/// One step from a value to a part of it, or to a place where a part is missing.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub enum AccessStep {
    /// To the field of this name.
    Field(String),
    /// To the element at this index.
    Item(i64),
    /// To the value of this key.
    Key(Any),
    /// To the place where a field of this name would be.
    MissingField(String),
    /// To the place where an element would be.
    MissingItem(i64),
    /// To the place where the value of this key would be.
    MissingKey(Any),
}

impl AccessPath {
    /// Reads a path object.
    pub(super) fn read(path: &AnyView<'_>) -> Result<Self> {
        let steps = access_path::read(path)?.into_iter().map(|(kind, key)| {
            Ok(match kind {
                Kind::Attr => AccessStep::Field(text(&key)),
                Kind::ArrayItem => AccessStep::Item(key.to()?),
                Kind::MapItem => AccessStep::Key(key),
                Kind::AttrMissing => AccessStep::MissingField(text(&key)),
                Kind::ArrayItemMissing => AccessStep::MissingItem(key.to()?),
                Kind::MapItemMissing => AccessStep::MissingKey(key),
            })
        });
        Ok(Self { steps: steps.collect::<Result<_>>()? })
    }
}

fn text(key: &Any) -> String {
    key.to::<String>().unwrap_or_default()
}

impl fmt::Display for AccessPath {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("<root>")?;
        self.steps.iter().try_for_each(|step| step.fmt(f))
    }
}

impl fmt::Display for AccessStep {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Field(name) => write!(f, ".{name}"),
            Self::Item(index) => write!(f, "[{index}]"),
            Self::Key(key) => write!(f, "[{key:?}]"),
            Self::MissingField(name) => write!(f, "[<missing:{name}>]"),
            Self::MissingItem(index) => write!(f, "[<missing:{index}>]"),
            Self::MissingKey(key) => write!(f, "[<missing:{key:?}>]"),
        }
    }
}

/// The place in a value at which a [`Walk`](super::Walk) or [`Rewrite`](super::Rewrite) failed: the
/// paths to the object whose callback or hook raised the error, one for each place at which it
/// occurs on the recorded path. Empty when the error does not have such a record.
///
/// # Errors
/// Any error of a field's getter.
///
/// ```
/// use kernpack::structural::{Walk, paths_of_error};
/// use kernpack::{Array, Error};
///
/// let value = Array::from(vec![Array::from(vec![1_i64]), Array::from(vec![2])]);
/// let fail = |number: i64| if number == 2 { Err(Error::value_error("no twos")) } else { Ok(()) };
/// let error = Walk::new().pre(fail).run(&value).unwrap_err();
/// let paths = paths_of_error(&value, &error)?;
/// assert_eq!(paths[0].to_string(), "<root>[1]");
/// # Ok::<(), kernpack::Error>(())
/// ```
pub fn paths_of_error(root: &(impl ToArg + ?Sized), error: &Error) -> Result<Vec<AccessPath>> {
    let found = visit::places(&lent(&root.to_arg()), error)?;
    found.iter().map(|path| AccessPath::read(path.as_view())).collect()
}
