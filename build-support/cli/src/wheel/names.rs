//! Names of files in a wheel: each resolves to one place in the folder that the wheel is unpacked
//! into, on every system.

use std::collections::BTreeMap;

use super::inside::one_line;
use crate::Result;

/// Rejects names that a wheel cannot have: with parts that lead elsewhere, with characters that
/// other systems treat as separators, and two names that differ only in case.
///
/// # Errors
/// Returns an error with the first such name, or both.
pub(crate) fn check<'a>(paths: impl IntoIterator<Item = &'a str>) -> Result<()> {
    // Each file and each folder by its name in lower case.
    let mut seen: BTreeMap<String, &str> = BTreeMap::new();
    for path in paths {
        one_line("the name of a file", path)?;
        if let Some(problem) = problem(path) {
            return Err(format!("a wheel cannot have a file '{path}': {problem}; give it another name"));
        }
        let ends = path.match_indices('/').map(|(end, _)| end).chain([path.len()]);
        for end in ends {
            let own = &path[..end];
            if let Some(other) = seen.insert(own.to_lowercase(), own).filter(|other| *other != own) {
                return Err(format!(
                    "'{other}' and '{own}' of the wheel differ only by case, and are one on some systems; give one of them another name"
                ));
            }
        }
    }
    Ok(())
}

fn problem(path: &str) -> Option<&'static str> {
    let is_drive = path.as_bytes().get(1) == Some(&b':') && path.as_bytes()[0].is_ascii_alphabetic();
    if path.contains('\\') {
        return Some("a backslash stands between folders on Windows");
    }
    if path.starts_with('/') || is_drive {
        return Some("it is an absolute path");
    }
    path.split('/').find_map(|part| match part {
        "" => Some("a part of it is empty"),
        "." | ".." => Some("it leads to another folder"),
        _ => None,
    })
}

/// Returns the first file that Python would import in place of a module of the library, with that
/// module's path: extension modules of any suffix, sources, and a package with the name.
pub(crate) fn hiding<'a>(
    files: impl Iterator<Item = &'a str> + Clone,
    modules: &[String],
) -> Option<(&'a str, String)> {
    let of = |file: &str, module: &str| {
        let Some(rest) = file.strip_prefix(module) else { return false };
        let rest = rest.strip_prefix("/__init__").unwrap_or(rest);
        let suffix = rest.rsplit_once('.').map(|(_, suffix)| suffix);
        rest.starts_with('.') && !rest.contains('/') && matches!(suffix, Some("so" | "pyd" | "dylib" | "py" | "pyc"))
    };
    modules.iter().find_map(|module| files.clone().find(|file| of(file, module)).map(|file| (file, module.clone())))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_of_files() {
        for (paths, problem) in [
            (&["kit/__init__.py", "kit/data/a.csv", "kit/data/b.csv", "kit-1.dist-info/METADATA"][..], None),
            (&["kit/.hidden", "kit/a..b", "kit/..a", "kit/\u{e4} b"], None),
            (&["kit/a\\b"], Some("'kit/a\\b': a backslash")),
            (&["kit/a\\..\\..\\b"], Some("a backslash")),
            (&["kit/../b"], Some("'kit/../b': it leads to another folder")),
            (&[".."], Some("it leads to another folder")),
            (&["kit/./b"], Some("it leads to another folder")),
            (&["/etc/passwd"], Some("'/etc/passwd': it is an absolute path")),
            (&["C:/a"], Some("it is an absolute path")),
            (&["c:a"], Some("it is an absolute path")),
            (&["kit//a"], Some("a part of it is empty")),
            (&["kit/"], Some("a part of it is empty")),
            (&[""], Some("a part of it is empty")),
            (&["kit/a\nb"], Some("the name of a file is \"kit/a\\nb\"")),
            (&["kit/a\0"], Some("control character")),
            (&["kit/a\u{2028}"], Some("control character")),
            (&["kit/\u{1b}[1m"], Some("control character")),
            (
                &["kit/Data.csv", "kit/data.csv"],
                Some("'kit/Data.csv' and 'kit/data.csv' of the wheel differ only by case"),
            ),
            (&["kit/Data/a", "kit/data/b"], Some("'kit/Data' and 'kit/data'")),
            (&["kit/data", "kit/Data/b"], Some("'kit/data' and 'kit/Data'")),
            (&["kit/\u{c4}", "kit/\u{e4}"], Some("differ only by case")),
        ] {
            let found = check(paths.iter().copied());
            match problem {
                None => assert_eq!(found, Ok(()), "{paths:?}"),
                Some(problem) => {
                    let message = found.unwrap_err();
                    assert!(message.contains(problem), "{paths:?}: {message}");
                }
            }
        }
    }

    #[test]
    fn files_that_hide_the_library() {
        let modules = ["kit".to_owned(), "kit/inner".to_owned()];
        for (file, hides) in [
            ("kit.abi3.so", Some("kit")),
            ("kit.cpython-312-x86_64-linux-gnu.so", Some("kit")),
            ("kit.pyd", Some("kit")),
            ("kit.py", Some("kit")),
            ("kit/__init__.abi3.so", Some("kit")),
            ("kit/__init__.py", Some("kit")),
            ("kit/inner.abi3.so", Some("kit/inner")),
            ("kit/inner/__init__.py", Some("kit/inner")),
            ("kit.csv", None),
            ("kit.so.txt", None),
            ("kitchen.abi3.so", None),
            ("other/kit.abi3.so", None),
            ("kit/other.py", None),
            ("kit.d/a.so", None),
        ] {
            let found = hiding([file].into_iter(), &modules);
            assert_eq!(found.as_ref().map(|(_, module)| module.as_str()), hides, "{file}");
        }
    }
}
