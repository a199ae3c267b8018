use std::sync::OnceLock;

use super::param::Param;
use super::tags::{LaunchTags, TagProblem};
use crate::Result;
use crate::module::device_image::{ArgType, DeviceFunction};

/// The signature of a kernel: its function table entry, prepared for checking arguments.
pub(crate) struct Signature {
    /// Kind of its module, for messages: `cuda`.
    pub(super) kind: Box<str>,
    pub(super) name: Box<str>,
    pub(super) params: Box<[Param]>,
    pub(super) tags: LaunchTags,
    /// Names of the arguments, for messages, once they are known.
    names: OnceLock<Box<[Box<str>]>>,
}

impl Signature {
    /// Creates the signature of a kernel in a module of `kind`.
    ///
    /// # Errors
    /// Returns a RuntimeError for a launch parameter that is unknown or occurs twice.
    #[inline]
    pub(crate) fn new(kind: &str, kernel: &DeviceFunction<'_>) -> Result<Self> {
        Self::of_parts(kind, kernel.name, &kernel.arg_types, &kernel.extra_tags, &kernel.launch_params)
    }

    /// Creates the signature from the parts of a function table's entry.
    ///
    /// # Errors
    /// As for [`Signature::new`].
    #[inline]
    pub(crate) fn of_parts(
        kind: &str,
        name: &str,
        arg_types: &[ArgType],
        extra_tags: &[i32],
        launch_params: &[&str],
    ) -> Result<Self> {
        let tags = LaunchTags::new(launch_params.iter().copied()).map_err(|problem| match problem {
            TagProblem::Unknown(tag) => crate::error!(
                RuntimeError,
                "{kind} kernel '{name}' needs the launch parameter '{tag}', which is not supported"
            ),
            TagProblem::Twice(tag) => {
                crate::error!(RuntimeError, "{kind} kernel '{name}' has the launch parameter '{tag}' twice")
            }
        })?;
        let extra_tag = |index: usize| extra_tags.get(index).copied().unwrap_or(0);
        let params = arg_types.iter().enumerate().map(|(index, ty)| Param::new(*ty, extra_tag(index)));
        Ok(Self { kind: kind.into(), name: name.into(), params: params.collect(), tags, names: OnceLock::new() })
    }

    /// Sets the names of the arguments, which a function table does not contain. Names that do not
    /// match are ignored.
    #[inline]
    pub(crate) fn name_arguments<S: AsRef<str>>(&self, names: &[S]) {
        if names.len() == self.params.len() && self.names.get().is_none() {
            let names = names.iter().map(|name| Box::from(name.as_ref()));
            // The first call set the same names.
            let _ = self.names.set(names.collect());
        }
    }

    /// Returns the names that were set, or an empty slice.
    #[inline]
    pub(super) fn arg_names(&self) -> &[Box<str>] {
        self.names.get().map_or(&[], |names| names)
    }

    /// An argument for messages: `argument 'radius'`, or `argument 2` if its name is not known.
    #[inline]
    pub(super) fn shown_argument(&self, index: usize) -> String {
        match self.arg_names().get(index) {
            Some(name) => format!("argument '{name}'"),
            None => format!("argument {index}"),
        }
    }

    /// Adds argument names to a device's message, which identifies arguments by number.
    #[inline]
    pub(super) fn with_names(&self, message: &str) -> String {
        let number = message.strip_prefix("argument ").map(|rest| rest.split(|c: char| !c.is_ascii_digit()).next());
        let number = number.flatten().and_then(|digits| digits.parse().ok());
        match number.map(|index: usize| (format!("argument {index}"), self.shown_argument(index))) {
            Some((numbered, named)) => message.replacen(&numbered, &named, 1),
            None => message.to_owned(),
        }
    }

    /// The kernel for messages: `cuda kernel 'scale'`.
    #[inline]
    pub(super) fn shown(&self) -> String {
        format!("{} kernel '{}'", self.kind, self.name)
    }
}
