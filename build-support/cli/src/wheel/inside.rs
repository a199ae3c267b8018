//! Files of a package: checks the targets of links.

use std::path::{Component, Path, PathBuf};

use crate::Result;

/// Rejects a file that is in a folder by its path, but that a link leads out of it, into build
/// outputs (`target`) or into a hidden folder such as `.git`: a package may come from anyone, and a
/// wheel is public. A path that the author names without a link is intended.
///
/// # Errors
/// Returns an error for such a file, and for one whose links cannot be resolved.
pub(crate) fn check(folder: &Path, file: &Path, target: &Path) -> Result<()> {
    let (root, real) = (followed(folder)?, followed(file)?);
    if !is_named_in(folder, file) {
        return Ok(());
    }
    let refused = |place: &str| {
        Err(format!(
            "{} is, or lies behind, a link to {}, which is {place}: a wheel takes no files from there; copy it in place of the link",
            file.display(),
            real.display(),
        ))
    };
    let Ok(inner) = real.strip_prefix(&root) else {
        return refused(&format!("outside of {}", folder.display()));
    };
    if plain(file).strip_prefix(plain(folder)).is_ok_and(|named| named == inner) {
        return Ok(());
    }
    if target.canonicalize().is_ok_and(|target| real.starts_with(target)) {
        return refused("among what cargo builds");
    }
    if inner.components().any(|part| part.as_os_str().as_encoded_bytes().starts_with(b".")) {
        return refused("hidden");
    }
    Ok(())
}

/// Rejects a folder outside the package whose own path has a link after the `..`: the author named
/// the path, but not the target of the link.
///
/// # Errors
/// Returns an error for such a folder, with the part that is a link.
pub(crate) fn check_named(base: &Path, place: &Path) -> Result<()> {
    let mut path = base.to_path_buf();
    let last = place.components().count().saturating_sub(2);
    for (index, component) in place.components().enumerate() {
        path.push(component);
        // Above an absolute path the system may have its own links (/tmp).
        let is_ours = place.is_relative() || index >= last;
        let is_link = path.symlink_metadata().is_ok_and(|found| found.is_symlink());
        if is_ours && is_link && matches!(component, Component::Normal(_)) {
            return Err(format!(
                "{} is a link to {}: `python` of [package.metadata.kernpack.wheel] in Cargo.toml names a folder outside of the package, which must be \
                 one itself; name the folder that the link leads to",
                path.display(),
                followed(&path)?.display()
            ));
        }
    }
    Ok(())
}

fn followed(path: &Path) -> Result<PathBuf> {
    path.canonicalize().map_err(|error| format!("cannot read {}: {error}", path.display()))
}

/// Returns true if a path is lexically inside a folder.
pub(crate) fn is_named_in(folder: &Path, path: &Path) -> bool {
    plain(path).starts_with(plain(folder))
}

/// Removes `.` and `..` from a path lexically.
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

/// Rejects a text that must be one line and is not, or that has other control characters: readers
/// of wheels would treat the following text as another field.
///
/// # Errors
/// Returns an error for such a text, which names `what`.
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

    /// A package `kit` next to other folders, with links of all kinds.
    fn tree(name: &str) -> PathBuf {
        let base = std::env::temp_dir().join(format!("kernpack-inside-{}-{name}", std::process::id()));
        for folder in ["kit/data", "kit/.git", "kit/target/debug", "kit/.github", "other/kit", "work/target"] {
            fs::create_dir_all(base.join(folder)).unwrap();
        }
        for file in
            ["kit/data/table", "kit/.git/config", "kit/target/debug/secret", "kit/.github/README", "other/secret"]
        {
            fs::write(base.join(file), "").unwrap();
        }
        for (target, link) in [
            ("data/table", "kit/inside"),
            ("data", "kit/again"),
            ("../other", "kit/folder"),
            ("folder/secret", "kit/twice"),
            (".git/config", "kit/config"),
            (".git", "kit/git"),
            ("target/debug/secret", "kit/built"),
            ("..", "kit/data/up"),
            ("other", "link"),
            ("../other/kit", "work/kit"),
        ] {
            symlink(target, base.join(link)).unwrap();
        }
        base
    }

    #[test]
    fn links() {
        let base = tree("links");
        let (kit, real) = (base.join("kit"), base.canonicalize().unwrap());
        let target = kit.join("target");
        for (file, led) in [
            ("data/table", None),
            ("inside", None),
            ("again/table", None),
            ("data/../inside", None),
            ("data/up/inside", None),
            ("../other/secret", None),
            // Named without a link.
            (".github/README", None),
            ("target/debug/secret", None),
            ("folder/secret", Some(("other/secret", "outside of"))),
            ("twice", Some(("other/secret", "outside of"))),
            ("data/../twice", Some(("other/secret", "outside of"))),
            ("config", Some(("kit/.git/config", "hidden"))),
            ("git/config", Some(("kit/.git/config", "hidden"))),
            ("git", Some(("kit/.git", "hidden"))),
            ("data/up/.git/config", Some(("kit/.git/config", "hidden"))),
            ("built", Some(("kit/target/debug/secret", "among what cargo builds"))),
            ("data/up/target", Some(("kit/target", "among what cargo builds"))),
        ] {
            let found = check(&kit, &kit.join(file), &target);
            match led {
                None => assert_eq!(found, Ok(()), "{file}"),
                Some((place, why)) => {
                    let wanted = format!("a link to {}, which is {why}", real.join(place).display());
                    let message = found.unwrap_err();
                    assert!(message.contains(&wanted), "{file}: {message}");
                }
            }
        }
        assert!(check(&kit, &kit.join("none"), &target).unwrap_err().starts_with("cannot read "));
        fs::remove_dir_all(base).unwrap();
    }

    #[test]
    fn folders_outside() {
        let base = tree("outside");
        let kit = base.join("kit");
        for (place, link) in [
            ("../other/kit", None),
            ("../link/kit", Some("link")),
            ("../work/kit", Some("work/kit")),
            ("../other/../link/kit", Some("link")),
        ] {
            let found = check_named(&kit, Path::new(place));
            assert_eq!(found.is_err(), link.is_some(), "{place}: {found:?}");
            if let (Err(message), Some(link)) = (found, link) {
                assert!(message.contains(&format!("{link} is a link to ")), "{message}");
            }
        }
        assert!(check_named(&kit, &base.join("work/kit")).unwrap_err().contains("is a link to"));
        assert_eq!(check_named(&kit, &base.join("other/kit")), Ok(()));
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
