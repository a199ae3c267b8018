//! Finds the shared library of LLVM that kernpack links: that of the Rust toolchain in use, or else
//! one of the system.
//!
//! The build script of kernpack-llvm-link and `cargo kernpack doctor` both call this crate, so they
//! get the same answer.
//!
//! ```no_run
//! use kernpack_llvm_find::{Process, find};
//!
//! match find(&Process, "x86_64") {
//!     Ok(library) => println!("LLVM {} at {}", library.version, library.path.display()),
//!     Err(problems) => eprintln!("{problems}"),
//! }
//! ```
//!
//! An LLVM is usable from major [`OLDEST`] on if its shared library exports every function in
//! [`functions`]. Kernpack is tested with the majors in [`TESTED`]. A newer one is accepted with a
//! [`Library::warning`]. A program is bound to the major that it was linked with: the names of its
//! functions contain a version such as `LLVM_22.1`.

mod elf;
mod library;
mod machine;
mod problem;
mod search;

pub use elf::{Elf, ElfError};
pub use library::{Library, Origin};
pub use machine::{Machine, Process};
pub use problem::{Problem, Problems};
pub use search::find;

/// The oldest supported major version. The declarations of functions are those of this version.
pub const OLDEST: u32 = 22;

/// The major versions that kernpack is tested with, from the oldest to the newest.
pub const TESTED: &[u32] = &[22, 23];

/// The variables that name the folder of an LLVM, in the order in which they are read.
pub const PREFIX_VARIABLES: &[&str] = &["KERNPACK_LLVM_PREFIX", "LLVM_SYS_231_PREFIX", "LLVM_SYS_221_PREFIX"];

/// The functions of LLVM's C interface that kernpack calls, sorted.
///
/// `cargo xtask llvm-functions` compares the list with programs that link LLVM.
pub fn functions() -> impl Iterator<Item = &'static str> {
    include_str!("functions.txt").lines().filter(|line| !line.starts_with('#') && !line.is_empty())
}

/// A static `bool` of LLVM 22 and 23, by its symbol. If it is true, LLVM does not search for
/// checksums in loops. That search takes minutes for some loops.
pub const HASH_RECOGNIZE: &str = "_ZN4llvm11DisableLIRP13HashRecognizeE";

/// Formats the tested versions: `22 and 23`, `22, 23 and 24`.
pub(crate) fn tested() -> String {
    let names: Vec<String> = TESTED.iter().map(u32::to_string).collect();
    match names.split_last() {
        Some((last, [])) => last.clone(),
        Some((last, others)) => format!("{} and {last}", others.join(", ")),
        None => String::new(),
    }
}
