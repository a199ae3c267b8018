//! The text that travels: an input with the headers that it includes and the defines of build.rs in it, because a device's compiler sees no files.

use std::fs;
use std::path::{Path, PathBuf};

use crate::session::Session;
use crate::{Error, Result};

/// Headers are included at most this deep.
const DEPTH: usize = 64;

/// The text of an input.
pub(super) fn read(session: &Session, path: &Path) -> Result<String> {
    session.input(path)?;
    let source = session.name_of(path);
    let full = session.package_dir.join(path);
    let text = fs::read_to_string(&full).map_err(|e| Error::new(format!("{source}: cannot be read: {e}")))?;
    let mut out = String::new();
    for (name, value) in &session.defines {
        out.push_str(&format!("#define {name} {}\n", value.as_deref().unwrap_or("1")));
    }
    let has_defines = !out.is_empty();
    if !has_defines && !text.lines().any(|line| included(line).is_some()) {
        return Ok(text);
    }
    if has_defines {
        out.push_str(&line_mark(1, &source));
    }
    expand(session, &full, &source, &text, DEPTH, &mut out)?;
    Ok(out)
}

/// What the compiler says of the lines that follow: where they come from.
fn line_mark(line: usize, source: &str) -> String {
    format!("#line {line} \"{}\"\n", source.replace('\\', "/"))
}

fn expand(session: &Session, path: &Path, source: &str, text: &str, depth: usize, out: &mut String) -> Result<()> {
    for (index, line) in text.lines().enumerate() {
        let Some(header) = included(line) else {
            out.push_str(line);
            out.push('\n');
            continue;
        };
        let at = format!("{source}:{}", index + 1);
        if depth == 0 {
            return Err(Error::new(format!("{at}: headers include each other, more than {DEPTH} deep")));
        }
        let Some(found) = find(session, path, header) else {
            return Err(Error::new(format!(
                "{at}: there is no header `{header}` beside the file, nor in a folder of .include(..); what is included travels in the library"
            )));
        };
        session.tracker.file(&found);
        let shown = session.name_of(&found);
        let inner = fs::read_to_string(&found).map_err(|e| Error::new(format!("{shown}: cannot be read: {e}")))?;
        out.push_str(&line_mark(1, &shown));
        expand(session, &found, &shown, &inner, depth - 1, out)?;
        out.push_str(&line_mark(index + 2, source));
    }
    Ok(())
}

/// The header that a line includes.
fn included(line: &str) -> Option<&str> {
    let rest = line.trim_start().strip_prefix('#')?.trim_start().strip_prefix("include")?.trim_start();
    let (close, rest) = match rest.split_at_checked(1)? {
        ("\"", rest) => ('"', rest),
        ("<", rest) => ('>', rest),
        _ => return None,
    };
    rest.split_once(close).map(|(header, _)| header)
}

fn find(session: &Session, from: &Path, header: &str) -> Option<PathBuf> {
    let beside = from.parent().map(Path::to_owned);
    let folders = session.includes.iter().map(|folder| session.package_dir.join(folder));
    beside.into_iter().chain(folders).map(|folder| folder.join(header)).find(|path| path.is_file())
}
