use super::param::Param;
use super::tags::{LaunchTags, TagProblem};
use crate::Result;
use crate::module::device_image::{ArgType, DeviceFunction};

/// How a kernel is called: its function table entry, ready to check arguments by.
pub(crate) struct Signature {
    /// Kind of its module, for messages: `cuda`.
    pub(super) kind: Box<str>,
    pub(super) name: Box<str>,
    pub(super) params: Box<[Param]>,
    pub(super) tags: LaunchTags,
}

impl Signature {
    /// Of a kernel in a module of `kind`.
    ///
    /// # Errors
    /// RuntimeError for a launch parameter that is not known, or is there twice.
    pub(crate) fn new(kind: &str, kernel: &DeviceFunction<'_>) -> Result<Self> {
        Self::of_parts(kind, kernel.name, &kernel.arg_types, &kernel.extra_tags, &kernel.launch_params)
    }

    /// Of the parts of a function table's entry.
    ///
    /// # Errors
    /// As for [`Signature::new`].
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
                "{kind} kernel '{name}' wants the launch parameter '{tag}', which is not supported"
            ),
            TagProblem::Twice(tag) => {
                crate::error!(RuntimeError, "{kind} kernel '{name}' has the launch parameter '{tag}' twice")
            }
        })?;
        let extra_tag = |index: usize| extra_tags.get(index).copied().unwrap_or(0);
        let params = arg_types.iter().enumerate().map(|(index, ty)| Param::new(*ty, extra_tag(index)));
        Ok(Self { kind: kind.into(), name: name.into(), params: params.collect(), tags })
    }

    /// The name for messages: `cuda kernel 'scale'`.
    pub(super) fn shown(&self) -> String {
        format!("{} kernel '{}'", self.kind, self.name)
    }
}
