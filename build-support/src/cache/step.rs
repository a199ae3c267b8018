//! A step of a build: it makes products from one source, unless they are in the cache.

use std::fs;
use std::path::{Path, PathBuf};
use std::time::Instant;

use crate::cache::digest::Digest;
use crate::cache::{Input, Made};
use crate::outputs::progress;
use crate::session::Session;
use crate::{Error, Result};

/// A step that makes products.
pub(crate) struct Step<'a> {
    /// Fingerprint of everything that determines the result, except the files that are read.
    pub(crate) recipe: Digest,
    /// The source as the user named it.
    pub(crate) source: &'a str,
    /// The tool that makes it: `cc`, `nvcc for sm_80`.
    pub(crate) tool: &'a str,
    /// The files that the step produces.
    pub(crate) products: &'a [PathBuf],
}

/// The result of running a tool.
pub(crate) struct Ran {
    pub(crate) printed: String,
    /// The files that the tool read, including the source.
    pub(crate) inputs: Vec<Input>,
}

impl Step<'_> {
    /// Puts the products into place: from the cache, or with `work`, which holds a permit to run
    /// one tool. Returns the output of the tool, from now or from when it made the products.
    pub(crate) fn make(&self, session: &Session, work: impl FnOnce() -> Result<Ran>) -> Result<String> {
        if let Some((made, inputs)) = session.cache.find(self.recipe)
            && made.products.len() == self.products.len()
        {
            for (path, bytes) in self.products.iter().zip(&made.products) {
                fs::write(path, bytes)
                    .map_err(|e| Error::new(format!("{}: {} cannot be written: {e}", self.source, path.display())))?;
            }
            self.track(session, &inputs);
            return Ok(made.printed);
        }
        let permit = session.permits.acquire();
        let begin = Instant::now();
        let what = format!("{}: {} is at work", self.source, self.tool);
        let ran = progress::while_at_work(&what, work)?;
        drop(permit);
        let products = self.products.iter().map(|path| {
            fs::read(path).map_err(|e| Error::new(format!("{}: its product {}: {e}", self.source, path.display())))
        });
        let made = Made { products: Error::collect(products)?, printed: ran.printed };
        if !ran.inputs.iter().any(|input| reads_more(&session.package_dir, input)) {
            session.cache.keep(self.recipe, &ran.inputs, &made);
        }
        self.track(session, &ran.inputs);
        progress::line(&format!("{} compiled by {} in {:.2} s", self.source, self.tool, begin.elapsed().as_secs_f32()));
        Ok(made.printed)
    }

    fn track(&self, session: &Session, inputs: &[Input]) {
        for input in inputs.iter().filter(|input| input.exists) {
            session.tracker.file(&input.path);
        }
    }
}

/// Returns true if a source of the package depends on an input that no list of headers shows:
/// another file, or the time.
fn reads_more(package_dir: &Path, input: &Input) -> bool {
    if !input.exists || input.path.is_absolute() && !input.path.starts_with(package_dir) {
        return false;
    }
    let text = fs::read(package_dir.join(&input.path)).unwrap_or_default();
    let text = String::from_utf8_lossy(&text);
    [".incbin", "#embed", "__has_embed", "__DATE__", "__TIME__", "__TIMESTAMP__"].iter().any(|word| text.contains(word))
}

/// Returns the headers that a compiler read, and the places where it would have found them first.
///
/// `includes` are the include folders in order. The folder of the source comes before all of them.
pub(crate) fn inputs(
    package_dir: &Path,
    includes: &[PathBuf],
    source: &Path,
    read: impl IntoIterator<Item = PathBuf>,
) -> Vec<Input> {
    let mut inputs = vec![Input { path: source.to_owned(), exists: true }];
    let mut folders = vec![source.parent().unwrap_or(Path::new(""))];
    folders.extend(includes.iter().map(PathBuf::as_path));
    for path in read {
        let found_in = folders.iter().enumerate().rev().find_map(|(index, folder)| {
            let name = path.strip_prefix(folder).ok()?;
            (index > 0 && !folder.as_os_str().is_empty()).then_some((index, name))
        });
        if let Some((index, name)) = found_in {
            let earlier = folders[..index].iter().map(|folder| folder.join(name));
            let absent = earlier.filter(|path| !package_dir.join(path).exists());
            inputs.extend(absent.map(|path| Input { path, exists: false }));
        }
        inputs.push(Input { path, exists: true });
    }
    inputs.sort();
    inputs.dedup();
    inputs
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn headers_and_where_they_would_be_found_first() {
        let includes = ["include".into(), "/opt/more".into()];
        let read = ["kernels/a.c", "kernels/own.h", "include/x/one.h", "/opt/more/two.h", "/usr/include/stdio.h"];
        let inputs = inputs(Path::new("/no/package"), &includes, Path::new("kernels/a.c"), read.map(PathBuf::from));
        let shown: Vec<String> = inputs
            .iter()
            .map(|input| format!("{}{}", if input.exists { "" } else { "!" }, input.path.display()))
            .collect();
        let expected = [
            "/opt/more/two.h",
            "/usr/include/stdio.h",
            "!include/two.h",
            "include/x/one.h",
            "kernels/a.c",
            "kernels/own.h",
            "!kernels/two.h",
            "!kernels/x/one.h",
        ];
        assert_eq!(shown, expected);
    }
}
