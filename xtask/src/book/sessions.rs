//! The Python sessions of a page, and the rule that decides which blocks run without tvm_ffi.
//!
//! A page begins in an environment with NumPy only, like that of a user who installs an extension
//! module. The first block that needs tvm_ffi, and all blocks after it, run in the environment that
//! has it, where the earlier blocks run again: such blocks must work in both.

use super::Result;
use super::places::Places;
use super::session::Session;
use std::path::{Path, PathBuf};

/// Modules of the examples that import tvm_ffi themselves.
const BUILT_ON_TVM_FFI: [&str; 4] = ["compiler", "models", "remote", "nnvm"];

/// A block and its context.
#[derive(Clone)]
pub(crate) struct Code {
    /// `python` or `pycon`.
    pub(crate) kind: String,
    /// The code, with the parts that readers do not see.
    pub(crate) text: String,
    /// The page's path.
    pub(crate) page: String,
    /// The line of the page before the code.
    pub(crate) line: usize,
    /// The folder in which it starts.
    pub(crate) folder: PathBuf,
}

impl Code {
    /// The part of the text that does not need tvm_ffi: all of it, the part before the first prompt
    /// that needs it, or nothing.
    pub(crate) fn without_tvm_ffi(&self) -> &str {
        let is_console = self.kind == "pycon";
        let (mut at, mut prompt) = (0, 0);
        for line in self.text.split_inclusive('\n') {
            let typed =
                if is_console { line.strip_prefix(">>> ").or_else(|| line.strip_prefix("... ")) } else { Some(line) };
            if is_console && line.starts_with(">>> ") {
                prompt = at;
            }
            if typed.is_some_and(needs_tvm_ffi) {
                return &self.text[..prompt];
            }
            at += line.len();
        }
        &self.text
    }

    fn run_in(&self, session: &mut Session, text: &str) -> Result<String> {
        session.run(&self.kind, text, &self.page, self.line, &self.folder)
    }
}

/// True for a line of Python that needs tvm_ffi.
fn needs_tvm_ffi(line: &str) -> bool {
    let code = line.split('#').next().unwrap_or_default().trim();
    let modules = match (code.strip_prefix("from "), code.strip_prefix("import ")) {
        (Some(from), _) => from.split_once(" import ").map_or(from, |(module, _)| module),
        (None, Some(modules)) => modules,
        (None, None) => "",
    };
    let is_built_on_it = |module: &str| {
        let name = module.split_whitespace().next().unwrap_or_default();
        BUILT_ON_TVM_FFI.contains(&name.split('.').next().unwrap_or_default())
    };
    code.contains("tvm_ffi") || modules.split(',').any(is_built_on_it)
}

/// The sessions of a page.
#[derive(Default)]
pub(crate) struct Sessions {
    bare: Option<Session>,
    /// The code that ran without tvm_ffi.
    ran: Vec<Code>,
    full: Option<Session>,
}

impl Sessions {
    /// Runs a block. Returns its output, and whether it ran without tvm_ffi.
    ///
    /// # Errors
    /// The output, with a traceback if the block failed, and the environment in which it failed.
    pub(crate) fn run(&mut self, places: &Places, folder: &Path, code: Code) -> Result<(String, bool)> {
        let without = code.without_tvm_ffi();
        let is_bare = self.full.is_none() && without.len() == code.text.len();
        if is_bare || (self.bare.is_some() && self.full.is_none() && !without.is_empty()) {
            let started =
                self.bare.take().map_or_else(|| Session::start(places.bare_python(), &folder.join("bare")), Ok)?;
            let printed = code.run_in(self.bare.insert(started), without);
            let printed = printed.map_err(|error| format!("in the environment without tvm_ffi: {error}"))?;
            if is_bare {
                self.ran.push(code);
                return Ok((printed, true));
            }
        }
        if self.full.is_none() {
            // Ends the first process before the earlier blocks run again: they may write a library
            // that it has mapped.
            if let Some(bare) = self.bare.take() {
                bare.end().map_err(|error| format!("in the environment without tvm_ffi: {error}"))?;
            }
            let session = self.full.insert(Session::start(places.python(), folder)?);
            for before in self.ran.drain(..) {
                before.run_in(session, &before.text).map_err(|error| {
                    format!("line {} once more, in the environment with tvm_ffi: {error}", before.line)
                })?;
            }
        }
        let session = self.full.as_mut().ok_or("there is no Python session")?;
        Ok((code.run_in(session, &code.text)?, false))
    }

    /// Ends the sessions.
    ///
    /// # Errors
    /// A process with an exit status other than 0.
    pub(crate) fn end(self) -> Result {
        [self.bare, self.full].into_iter().flatten().try_for_each(Session::end)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::book::read_pages;

    fn code(kind: &str, text: &str) -> Code {
        Code { kind: kind.into(), text: text.into(), page: "docs/x.md".into(), line: 1, folder: PathBuf::new() }
    }

    #[test]
    fn what_needs_tvm_ffi() {
        for (line, expected) in [
            ("import numpy as np, tvm_ffi", true),
            ("kit = tvm_ffi.load_module('x.so')", true),
            ("from tvm_ffi.dataclasses import c_class", true),
            ("import numpy as np, models", true),
            ("from compiler import te", true),
            ("    import compiler.te as te", true),
            ("import mylib, numpy as np", false),
            ("import mylib.models", false),
            ("from mylib import models", false),
            ("models = [1]", false),
            ("import mylib  # and no tvm_ffi", false),
        ] {
            assert_eq!(needs_tvm_ffi(line), expected, "{line}");
        }
        for (kind, text, expected) in [
            ("python", "import a\nimport tvm_ffi\n", ""),
            ("python", "import a\n", "import a\n"),
            ("pycon", ">>> a\ntvm_ffi\n>>> b\n", ">>> a\ntvm_ffi\n>>> b\n"),
            ("pycon", ">>> a\n1\n>>> def f():\n...     import tvm_ffi\n>>> c\n", ">>> a\n1\n"),
            ("pycon", ">>> import tvm_ffi\n", ""),
        ] {
            assert_eq!(code(kind, text).without_tvm_ffi(), expected, "{text}");
        }
    }

    /// The pages that show `import` of an extension module, each with the number of blocks that run
    /// without tvm_ffi, and of those that do so in part. A page that drops from the list needs
    /// tvm_ffi now: change the page so that it does not, or state on the page that it does.
    #[test]
    fn pages_that_show_import_run_without_tvm_ffi() {
        let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("..");
        let mut found = Vec::new();
        for page in read_pages(&root).unwrap() {
            let (mut whole, mut parts) = (0, 0);
            for block in page.blocks().filter(|block| block.file.is_none()) {
                if !["python", "pycon"].contains(&block.language.as_str()) {
                    continue;
                }
                let code = code(&block.language, &block.whole_code());
                match code.without_tvm_ffi() {
                    without if without.len() == code.text.len() => whole += 1,
                    without => {
                        parts += usize::from(whole > 0 && !without.is_empty());
                        break;
                    }
                }
            }
            found.extend((whole > 0).then(|| (page.path.clone(), whole, parts)));
        }
        let found: Vec<_> = found.iter().map(|(path, whole, parts)| (path.as_str(), *whole, *parts)).collect();
        let expected = [
            ("README.md", 1, 1),
            ("docs/coming-from-pyo3.md", 1, 0),
            ("docs/first-library.md", 1, 0),
            ("docs/python.md", 12, 0),
            ("examples/imagekit/README.md", 1, 0),
        ];
        assert_eq!(found, expected);
    }
}
