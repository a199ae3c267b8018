//! The Cargo.toml of a page's crate: the part that the page shows, merged into the default
//! manifest.

/// The whole manifest: `shown` if it is a whole one, else the manifest of a plain library of packed
/// functions with the name `name`, in which `shown` replaces lines.
pub(crate) fn complete(name: &str, shown: &str, has_build_script: bool) -> String {
    let mut sections = read(shown);
    if sections.iter().any(|section| section.header == "[package]") {
        return shown.to_string();
    }
    for default in read(&plain(name, has_build_script)) {
        match sections.iter_mut().find(|section| section.header == default.header) {
            Some(section) => {
                let missing = default
                    .entries
                    .into_iter()
                    .filter(|(key, _)| section.entries.iter().all(|(other, _)| other != key));
                let missing: Vec<_> = missing.collect();
                section.entries.extend(missing);
            }
            None => sections.push(default),
        }
    }
    let mut text = String::new();
    for section in sections {
        text.push_str(&section.header);
        text.push('\n');
        text.extend(section.entries.into_iter().map(|(_, lines)| lines));
    }
    text
}

/// The default manifest. Without a build script, it has no dependency on the build helper, which
/// `library!()` would report as a mistake.
fn plain(name: &str, has_build_script: bool) -> String {
    let build = if has_build_script { "[build-dependencies]\nkernpack-build = \"0.1\"\n" } else { "" };
    format!(
        "[package]\nname = \"{name}\"\nversion = \"0.1.0\"\nedition = \"2024\"\n[lib]\ncrate-type = [\"cdylib\", \"rlib\"]\n\
         [dependencies]\nkernpack = \"0.1\"\n{build}"
    )
}

struct Section {
    header: String,
    /// Keys with their lines.
    entries: Vec<(String, String)>,
}

/// Sections with their entries; any other line belongs to the entry before it.
fn read(text: &str) -> Vec<Section> {
    let mut sections: Vec<Section> = Vec::new();
    for line in text.lines().filter(|line| !line.trim().is_empty() && !line.starts_with('#')) {
        if line.starts_with('[') {
            let header = line.split('#').next().unwrap_or_default().trim().to_string();
            match sections.iter().position(|section| section.header == header) {
                Some(index) => {
                    let again = sections.remove(index);
                    sections.push(again);
                }
                None => sections.push(Section { header, entries: Vec::new() }),
            }
            continue;
        }
        let Some(section) = sections.last_mut() else { continue };
        match line.split_once('=').filter(|_| !line.starts_with([' ', ']', '}'])) {
            Some((key, _)) => {
                let key = key.trim().to_string();
                section.entries.retain(|(other, _)| *other != key);
                section.entries.push((key, format!("{line}\n")));
            }
            None => {
                if let Some((_, lines)) = section.entries.last_mut() {
                    lines.push_str(line);
                    lines.push('\n');
                }
            }
        }
    }
    sections
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_shown_replaces_what_every_crate_has() {
        let shown = "[dependencies]\nkernpack = { version = \"0.1\", features = [\"cuda\"] }  # for CUDA\n\n[profile.release]\nlto = [\n  \"fat\",\n]\n";
        assert_eq!(
            complete("my-page", shown, true),
            "[dependencies]\nkernpack = { version = \"0.1\", features = [\"cuda\"] }  # for CUDA\n[profile.release]\nlto = [\n  \"fat\",\n]\n\
             [package]\nname = \"my-page\"\nversion = \"0.1.0\"\nedition = \"2024\"\n[lib]\ncrate-type = [\"cdylib\", \"rlib\"]\n\
             [build-dependencies]\nkernpack-build = \"0.1\"\n"
        );
    }

    #[test]
    fn a_whole_manifest_is_left_alone() {
        let whole = "# mine\n[package]\nname = \"x\"\n";
        assert_eq!(complete("my-page", whole, false), whole);
    }
}
