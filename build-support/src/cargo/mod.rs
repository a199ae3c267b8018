//! Input from cargo to a build script, and the output lines for cargo: variables, the target,
//! watched paths, the jobserver.

pub(crate) mod environment;
pub(crate) mod lines;
pub(crate) mod permits;
pub(crate) mod target;
pub(crate) mod track;
pub(crate) mod watch;
