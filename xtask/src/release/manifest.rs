//! The metadata of a published crate that the crate registry and docs.rs show: the fields of its
//! manifest, its README and its licence texts.

use super::list;
use serde_json::Value;
use std::fs;
use std::path::Path;

/// Limits of the crate registry.
const KEYWORDS: usize = 5;
const KEYWORD_LENGTH: usize = 20;
const CATEGORIES: usize = 5;

/// Categories of the crate registry that concern this project. Look up a new one there before you
/// add it.
const KNOWN_CATEGORIES: [&str; 10] = [
    "api-bindings",
    "command-line-utilities",
    "concurrency",
    "development-tools",
    "development-tools::build-utils",
    "development-tools::cargo-plugins",
    "development-tools::ffi",
    "hardware-support",
    "network-programming",
    "science",
];

/// The licence texts, in the root of the checkout and in each package.
pub(super) const LICENSES: [&str; 2] = ["LICENSE-APACHE", "LICENSE-MIT"];

/// Returns true if a package of `cargo metadata` is one of ours and can be published.
pub(crate) fn is_published(package: &Value) -> bool {
    // An empty list of registries is `publish = false`.
    package["source"].is_null() && !package["publish"].as_array().is_some_and(Vec::is_empty)
}

/// The fields that are missing or that the registry refuses, each with the problem.
pub(super) fn fields(package: &Value) -> Vec<String> {
    let name = package["name"].as_str().unwrap_or_default();
    let mut problems = Vec::new();
    let mut report = |field: &str, problem: String| problems.push(format!("{name}: {field}: {problem}"));
    for field in ["description", "license", "rust_version", "readme"] {
        if package[field].as_str().is_none_or(str::is_empty) {
            report(&field.replace('_', "-"), "missing".to_owned());
        }
    }
    let documentation = format!("https://docs.rs/{name}");
    match package["documentation"].as_str() {
        None => report("documentation", format!("missing; expected {documentation}")),
        Some(other) if other != documentation => {
            report("documentation", format!("expected {documentation}, found {other}"));
        }
        Some(_) => {}
    }
    for (field, limit) in [("keywords", KEYWORDS), ("categories", CATEGORIES)] {
        match list(package, field).len() {
            0 => report(field, "missing".to_owned()),
            count if count > limit => report(field, format!("expected at most {limit}, found {count}")),
            _ => {}
        }
    }
    for keyword in list(package, "keywords").iter().filter_map(Value::as_str) {
        if let Some(problem) = problem_of_keyword(keyword) {
            report("keywords", format!("'{keyword}': {problem}"));
        }
    }
    for category in list(package, "categories").iter().filter_map(Value::as_str) {
        if !KNOWN_CATEGORIES.contains(&category) {
            report("categories", format!("'{category}': expected one of {}", KNOWN_CATEGORIES.join(", ")));
        }
    }
    if let Some(problem) = problem_of_docs(package) {
        report("package.metadata.docs.rs", problem);
    }
    problems
}

fn problem_of_keyword(keyword: &str) -> Option<String> {
    if keyword.len() > KEYWORD_LENGTH {
        return Some(format!("expected at most {KEYWORD_LENGTH} characters, found {}", keyword.len()));
    }
    let is_allowed = |c: char| c.is_ascii_alphanumeric() || matches!(c, '-' | '_' | '+');
    let is_fine = keyword.starts_with(|c: char| c.is_ascii_alphanumeric()) && keyword.chars().all(is_allowed);
    (!is_fine).then(|| "expected ASCII letters, digits, '-', '_' and '+', with a letter or digit first".to_owned())
}

/// The problem of the settings for docs.rs, which need a list of targets, and either all features
/// or existing ones.
fn problem_of_docs(package: &Value) -> Option<String> {
    let settings = package["metadata"]["docs"]["rs"].as_object();
    let Some(settings) = settings else { return Some("missing".to_owned()) };
    if settings.get("targets").and_then(Value::as_array).is_none_or(Vec::is_empty) {
        return Some("expected `targets`, the targets that the documentation is made for".to_owned());
    }
    let known = package["features"].as_object();
    let mut named = settings.get("features").and_then(Value::as_array).into_iter().flatten().filter_map(Value::as_str);
    if let Some(other) = named.find(|feature| !known.is_some_and(|known| known.contains_key(*feature))) {
        return Some(format!("there is no feature '{other}'"));
    }
    let has_features = known.is_some_and(|known| !known.is_empty());
    let shows_some = settings.get("all-features") == Some(&Value::Bool(true)) || settings.contains_key("features");
    (has_features && !shows_some).then(|| "expected `all-features` or `features`: the crate has features".to_owned())
}

/// The files that a package lacks: its README, and licence texts equal to those of the root.
pub(super) fn files(package: &Value, root: &Path, packed: &[&str]) -> Vec<String> {
    let name = package["name"].as_str().unwrap_or_default();
    let folder = Path::new(package["manifest_path"].as_str().unwrap_or_default()).parent().unwrap_or(Path::new(""));
    let mut problems = Vec::new();
    for license in LICENSES {
        match (fs::read(folder.join(license)), fs::read(root.join(license))) {
            (Ok(own), Ok(of_root)) if own == of_root => {}
            (Ok(_), Ok(_)) => problems.push(format!("{name}: {license}: differs from the text in the root")),
            (_, Err(error)) => problems.push(format!("{license}: {error}")),
            (Err(error), _) => {
                problems.push(format!("{name}: {license}: {error}; link it to the text in the root of the checkout"));
            }
        }
    }
    if let Some(readme) = package["readme"].as_str() {
        // The title, a blank line and a paragraph.
        match fs::read_to_string(folder.join(readme)) {
            Ok(text) if text.starts_with("# ") && text.lines().count() > 2 => {}
            Ok(_) => problems.push(format!("{name}: readme: {readme}: expected a title and a text")),
            Err(error) => problems.push(format!("{name}: readme: {readme}: {error}")),
        }
    }
    for file in LICENSES.into_iter().chain(["README.md"]) {
        if !packed.contains(&file) {
            problems.push(format!("{name}: the package lacks {file}; see `cargo package --list -p {name}`"));
        }
    }
    problems
}

/// Crates whose repository differs from that of the others, or that do not name one although others
/// do.
pub(super) fn repositories(published: &[&Value]) -> Vec<String> {
    let Some(first) = published.iter().find_map(|package| package["repository"].as_str()) else { return Vec::new() };
    let differs = |package: &&&Value| package["repository"].as_str() != Some(first);
    let name = |package: &&Value| package["name"].as_str().unwrap_or_default().to_owned();
    let others = published.iter().filter(differs).map(name);
    others
        .map(|name| format!("{name}: repository: expected {first}; inherit it: `repository.workspace = true`"))
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn good() -> Value {
        json!({
            "name": "kit", "source": null, "publish": null, "description": "A kit", "license": "MIT", "rust_version": "1.88",
            "readme": "README.md", "documentation": "https://docs.rs/kit", "keywords": ["ffi", "c++"],
            "categories": ["science"], "features": { "cuda": [] }, "repository": null,
            "metadata": { "docs": { "rs": { "all-features": true, "targets": ["x86_64-unknown-linux-gnu"] } } },
        })
    }

    /// Changes one field, and compares the problems.
    #[track_caller]
    fn check(field: &str, value: Value, expected: &[&str]) {
        let mut package = good();
        package[field] = value;
        let expected: Vec<String> = expected.iter().map(|problem| format!("kit: {problem}")).collect();
        assert_eq!(fields(&package), expected, "{field}");
    }

    #[test]
    fn each_field_is_named() {
        assert_eq!(fields(&good()), [""; 0]);
        for field in ["description", "license", "readme"] {
            check(field, Value::Null, &[&format!("{field}: missing")]);
        }
        check("description", json!(""), &["description: missing"]);
        check("rust_version", Value::Null, &["rust-version: missing"]);
        check("documentation", Value::Null, &["documentation: missing; expected https://docs.rs/kit"]);
        check(
            "documentation",
            json!("https://docs.rs/other"),
            &["documentation: expected https://docs.rs/kit, found https://docs.rs/other"],
        );
        check("keywords", json!([]), &["keywords: missing"]);
        check("keywords", json!(["a", "b", "c", "d", "e", "f"]), &["keywords: expected at most 5, found 6"]);
        check("categories", json!([]), &["categories: missing"]);
    }

    #[test]
    fn keywords_and_categories_that_the_registry_refuses() {
        check("keywords", json!(["twenty-characters-ok"]), &[]);
        check(
            "keywords",
            json!(["twenty-one-characters"]),
            &["keywords: 'twenty-one-characters': expected at most 20 characters, found 21"],
        );
        for keyword in ["two words", "+c", "naïve", ""] {
            let problem = format!(
                "keywords: '{keyword}': expected ASCII letters, digits, '-', '_' and '+', with a letter or digit first"
            );
            check("keywords", json!([keyword]), &[&problem]);
        }
        let known = KNOWN_CATEGORIES.join(", ");
        check("categories", json!(["Science"]), &[&format!("categories: 'Science': expected one of {known}")]);
    }

    #[test]
    fn settings_for_the_documentation() {
        let settings = |value: Value| json!({ "docs": { "rs": value } });
        let problem = "package.metadata.docs.rs: ";
        check("metadata", Value::Null, &[&format!("{problem}missing")]);
        check(
            "metadata",
            settings(json!({ "all-features": true })),
            &[&format!("{problem}expected `targets`, the targets that the documentation is made for")],
        );
        check(
            "metadata",
            settings(json!({ "targets": ["x"], "features": ["cuda", "opencl"] })),
            &[&format!("{problem}there is no feature 'opencl'")],
        );
        check(
            "metadata",
            settings(json!({ "targets": ["x"] })),
            &[&format!("{problem}expected `all-features` or `features`: the crate has features")],
        );
        check("metadata", settings(json!({ "targets": ["x"], "features": ["cuda"] })), &[]);
        let mut bare = good();
        (bare["features"], bare["metadata"]) = (json!({}), settings(json!({ "targets": ["x"] })));
        assert_eq!(fields(&bare), [""; 0]);
    }

    #[test]
    fn files_that_a_package_lacks() {
        let root = std::env::temp_dir().join(format!("kernpack-manifest-{}", std::process::id()));
        let folder = root.join("kit");
        fs::create_dir_all(&folder).unwrap();
        for (file, text) in [
            ("LICENSE-APACHE", "apache"),
            ("LICENSE-MIT", "mit"),
            ("kit/LICENSE-MIT", "changed"),
            ("kit/README.md", "# kit\n"),
        ] {
            fs::write(root.join(file), text).unwrap();
        }
        let mut package = good();
        package["manifest_path"] = json!(folder.join("Cargo.toml"));
        let found = files(&package, &root, &["README.md", "LICENSE-MIT"]);
        let (absent, rest) = found.split_first().unwrap();
        assert!(absent.starts_with("kit: LICENSE-APACHE: No such file"), "{absent}");
        assert_eq!(
            rest,
            [
                "kit: LICENSE-MIT: differs from the text in the root",
                "kit: readme: README.md: expected a title and a text",
                "kit: the package lacks LICENSE-APACHE; see `cargo package --list -p kit`",
            ]
        );
        for (file, text) in [("LICENSE-APACHE", "apache"), ("LICENSE-MIT", "mit"), ("README.md", "# kit\n\nA kit.\n")] {
            fs::write(folder.join(file), text).unwrap();
        }
        assert_eq!(files(&package, &root, &["README.md", "LICENSE-MIT", "LICENSE-APACHE"]), [""; 0]);
        fs::remove_dir_all(root).unwrap();
    }

    #[test]
    fn one_repository_for_all() {
        let of = |name: &str, repository: Value| json!({ "name": name, "repository": repository });
        let (bare, named, other) = (of("a", Value::Null), of("b", json!("https://r")), of("c", json!("https://s")));
        assert_eq!(repositories(&[&bare, &bare]), [""; 0]);
        assert_eq!(
            repositories(&[&bare, &named, &other]),
            ["a", "c"].map(|name| format!(
                "{name}: repository: expected https://r; inherit it: `repository.workspace = true`"
            ))
        );
    }

    #[test]
    fn published_packages() {
        assert!(is_published(&good()));
        assert!(!is_published(&json!({ "source": null, "publish": [] })));
        assert!(!is_published(&json!({ "source": "registry+r", "publish": null })));
    }
}
