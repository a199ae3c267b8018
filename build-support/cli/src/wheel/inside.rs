//! Files of a package: where links lead.

use std::path::{Component, Path, PathBuf};

use crate::Result;

/// Refuses a file that lies in a folder by its path, and that a link leads out of it: a package may come from anyone, and a wheel is for all to
/// read. What the author names outside of the folder, without a link, is meant.
///
/// # Errors
/// Such a file, and one whose links cannot be followed.
pub(crate) fn check(folder: &Path, file: &Path) -> Result<()> {
    let followed =
        |path: &Path| path.canonicalize().map_err(|error| format!("cannot read {}: {error}", path.display()));
    let (root, real) = (followed(folder)?, followed(file)?);
    if real.starts_with(&root) || !is_named_in(folder, file) {
        return Ok(());
    }
    Err(format!(
        "{} is, or lies behind, a link to {}, which is outside of {}: a wheel takes no files from elsewhere; copy it there in place of the link",
        file.display(),
        real.display(),
        folder.display()
    ))
}

/// Returns true if a path lies in a folder as both are written.
pub(crate) fn is_named_in(folder: &Path, path: &Path) -> bool {
    plain(path).starts_with(plain(folder))
}

/// A path without `.` and `..`, as they are written.
fn plain(path: &Path) -> PathBuf {
    let mut out = PathBuf::new();
    for component in path.components() {
        match component {
            Component::CurDir => {}
            Component::ParentDir if out.file_name().is_some() => {
                out.pop();
            }
            other => out.push(other),
        }
    }
    out
}

/// Refuses a text that is to be one line and is not, or that has other characters without a picture: readers of wheels take what follows
/// for another field.
///
/// # Errors
/// Such a text, with what it is.
pub(crate) fn one_line(what: &str, text: &str) -> Result<()> {
    // Some readers end a line at these two as well.
    match text.chars().any(|c| c.is_control() || ['\u{2028}', '\u{2029}'].contains(&c)) {
        false => Ok(()),
        true => Err(format!(
            "{what} is {text:?}, which has a line break or another control character; a wheel cannot say it: change it"
        )),
    }
}

#[cfg(all(test, unix))]
mod tests {
    use super::*;
    use std::fs;
    use std::os::unix::fs::symlink;

    #[test]
    fn links() {
        let base = std::env::temp_dir().join(format!("kernpack-inside-{}", std::process::id()));
        let kit = base.join("kit");
        fs::create_dir_all(kit.join("data")).unwrap();
        fs::create_dir_all(base.join("other")).unwrap();
        for file in ["kit/data/table", "other/secret", "README"] {
            fs::write(base.join(file), "").unwrap();
        }
        symlink("data/table", kit.join("inside")).unwrap();
        symlink("../other", kit.join("folder")).unwrap();
        symlink("folder/secret", kit.join("twice")).unwrap();
        for file in ["data/table", "inside", "../README", "data/../inside"] {
            assert_eq!(check(&kit, &kit.join(file)), Ok(()), "{file}");
        }
        let real = base.canonicalize().unwrap();
        for file in ["folder/secret", "twice", "data/../twice"] {
            let message = check(&kit, &kit.join(file)).unwrap_err();
            let wanted =
                format!("a link to {}, which is outside of {}", real.join("other/secret").display(), kit.display());
            assert!(message.contains(&wanted), "{message}");
        }
        assert!(check(&kit, &kit.join("none")).unwrap_err().starts_with("cannot read "));
        fs::remove_dir_all(base).unwrap();
    }

    #[test]
    fn lines() {
        assert_eq!(one_line("the name", "a b\u{e4}"), Ok(()));
        for text in ["a\nb", "a\r", "\0", "a\u{85}b", "a\u{2028}b", "\u{1b}[1m"] {
            assert!(one_line("the name", text).unwrap_err().starts_with(&format!("the name is {text:?}, ")));
        }
    }
}
