//! The source text that the library contains: an input with the headers that it includes and the
//! macros of build.rs, because a device's compiler cannot read files.
//!
//! Conditions are left to the device's compiler. A missing header is an error of the build, but in
//! a part that a condition may exclude (`#ifndef __OPENCL_VERSION__`, in headers that hosts
//! include, too) it is an error when that part is compiled.

use std::fs;
use std::path::{Path, PathBuf};

use crate::describe::device_source::without_comments;
use crate::session::Session;
use crate::{Error, Result};

/// The maximum depth of nested includes.
const DEPTH: usize = 64;

/// A text and the names, for messages, of its source files.
pub(super) struct Text {
    pub(super) code: String,
    pub(super) files: Vec<String>,
}

/// Reads the text of an input. If `is_behind` is true, other text precedes it, and it contains line
/// directives from its start.
pub(super) fn read(session: &Session, path: &Path, is_behind: bool) -> Result<Text> {
    session.input(path)?;
    let source = session.name_of(path);
    let full = session.package_dir.join(path);
    let text = content(&full, &source)?;
    let mut out = String::new();
    for (name, value) in &session.defines {
        out.push_str(&format!("#define {name} {}\n", value.as_deref().unwrap_or("1")));
    }
    let is_behind = is_behind || !out.is_empty();
    if !is_behind && !text.lines().any(|line| included(line).is_some()) {
        return Ok(Text { code: text, files: vec![source] });
    }
    if is_behind {
        out.push_str(&line_mark(1, &source));
    }
    let mut expansion = Expansion { session, open: Vec::new(), once: Vec::new(), files: vec![source.clone()], out };
    expansion.file(&full, &source, &text, false)?;
    Ok(Text { code: expansion.out, files: expansion.files })
}

fn content(path: &Path, shown: &str) -> Result<String> {
    fs::read_to_string(path).map_err(|e| Error::new(format!("{shown}: cannot be read: {e}")))
}

/// The `#line` directive that gives the compiler the origin of the lines that follow.
fn line_mark(line: usize, source: &str) -> String {
    format!("#line {line} \"{}\"\n", source.replace('\\', "/").replace('"', "'"))
}

/// A text whose includes are being expanded.
struct Expansion<'a> {
    session: &'a Session,
    /// The stack of files that include each other at this point.
    open: Vec<PathBuf>,
    /// Headers with `#pragma once`, each of which gets a guard by its index.
    once: Vec<PathBuf>,
    files: Vec<String>,
    out: String,
}

impl Expansion<'_> {
    /// Appends a file, which may be in a conditional part.
    fn file(&mut self, path: &Path, shown: &str, text: &str, is_conditional: bool) -> Result<()> {
        self.open.push(path.to_owned());
        let plain = without_comments(text);
        let guard = guard(&plain);
        let mut conditions = 0;
        for (index, (line, plain)) in text.lines().zip(plain.lines()).enumerate() {
            let directive = directive(plain);
            match directive {
                Some("if" | "ifdef" | "ifndef") => conditions += 1,
                Some("endif") => conditions -= 1,
                _ => {}
            }
            let header = included(line).filter(|_| directive == Some("include"));
            let is_once = self.open.len() > 1 && is_pragma_once(plain);
            let Some(header) = header else {
                self.out.push_str(if is_once { "" } else { line });
                self.out.push('\n');
                continue;
            };
            let is_conditional = is_conditional || conditions > i32::from(guard.is_some());
            self.header(path, header, &format!("{shown}:{}", index + 1), is_conditional)?;
            self.out.push_str(&line_mark(index + 2, shown));
        }
        self.open.pop();
        Ok(())
    }

    /// Appends a header, which the line `at` includes.
    fn header(&mut self, from: &Path, header: &str, at: &str, is_conditional: bool) -> Result<()> {
        let Some(found) = self.find(from, header) else {
            let problem = format!(
                "there is no header `{header}` beside the file, nor in a folder of .include(..); OpenCL C has none of its own, and what is included \
                 travels in the library"
            );
            if !is_conditional {
                return Err(Error::new(format!("{at}: {problem}")));
            }
            self.out.push_str(&format!("#error {problem}\n"));
            return Ok(());
        };
        self.session.tracker.file(&found);
        let shown = self.session.name_of(&found);
        let inner = content(&found, &shown)?;
        let plain = without_comments(&inner);
        let is_once = plain.lines().any(is_pragma_once);
        if self.open.contains(&found) && (is_once || guard(&plain).is_some()) {
            // Its guard excludes it here.
            return Ok(());
        }
        if self.open.contains(&found) || self.open.len() > DEPTH {
            return Err(Error::new(format!("{at}: `{header}` includes itself; write `#pragma once` into it")));
        }
        if !self.files.contains(&shown) {
            self.files.push(shown.clone());
        }
        if is_once {
            let number = self.once.iter().position(|known| *known == found).unwrap_or_else(|| {
                self.once.push(found.clone());
                self.once.len() - 1
            });
            self.out.push_str(&format!("#ifndef KERNPACK_ONCE_{number}\n#define KERNPACK_ONCE_{number}\n"));
        }
        self.out.push_str(&line_mark(1, &shown));
        self.file(&found, &shown, &inner, is_conditional)?;
        if is_once {
            self.out.push_str("#endif\n");
        }
        Ok(())
    }

    fn find(&self, from: &Path, header: &str) -> Option<PathBuf> {
        let beside = from.parent().map(Path::to_owned);
        let folders = self.session.includes.iter().map(|folder| self.session.package_dir.join(folder));
        beside.into_iter().chain(folders).map(|folder| folder.join(header)).find(|path| path.is_file())
    }
}

/// Returns the name of the directive in a line without comments.
fn directive(line: &str) -> Option<&str> {
    let rest = line.trim_start().strip_prefix('#')?.trim_start();
    Some(rest.split(|c: char| !c.is_ascii_alphanumeric()).next().unwrap_or_default())
}

fn is_pragma_once(line: &str) -> bool {
    line.split_whitespace().collect::<String>() == "#pragmaonce"
}

/// Returns the macro that guards a header: its first two non-empty lines test it and define it.
fn guard(text: &str) -> Option<&str> {
    let mut lines = text.lines().filter(|line| !line.trim().is_empty());
    let mut name = |expected: &str| {
        let line = lines.next()?;
        let rest = line.trim_start().strip_prefix('#')?.trim_start().strip_prefix(expected)?;
        rest.split_whitespace().next()
    };
    let asked = name("ifndef")?;
    (name("define")? == asked).then_some(asked)
}

/// Returns the header that a line includes.
fn included(line: &str) -> Option<&str> {
    let rest = line.trim_start().strip_prefix('#')?.trim_start().strip_prefix("include")?.trim_start();
    let (close, rest) = match rest.split_at_checked(1)? {
        ("\"", rest) => ('"', rest),
        ("<", rest) => ('>', rest),
        _ => return None,
    };
    rest.split_once(close).map(|(header, _)| header)
}
