//! The wheel settings of a package: the table `[package.metadata.kernpack.wheel]` of its
//! Cargo.toml.
//!
//! ```toml
//! [package.metadata.kernpack.wheel]
//! name = "my-kit"            # of the Python distribution; the module is named after the library
//! features = ["python"]      # what the library is built with for a wheel, besides --features
//! python = "python"          # the folder with the Python sources: what is in its folder my_kit is part of the package
//! hidden = ["debug_dump"]    # functions and types that the package does not offer
//! shown = ["scale_cuda"]     # kernels of devices that it offers as they are
//! ```

use std::path::PathBuf;

use serde_json::Value;

use crate::Result;

/// The default folder of Python sources.
const PYTHON: &str = "python";

const KNOWN: &str = "`name`, `features`, `python`, `hidden`, `shown`";

/// The validated table.
#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) struct Settings {
    /// The name of the distribution.
    pub(crate) name: Option<String>,
    /// The features to build with.
    pub(crate) features: Vec<String>,
    /// The folder of Python sources, which must exist if the table names it.
    python: Option<String>,
    /// Items to hide from the package, by their names in the library or in Python.
    pub(crate) hidden: Vec<String>,
    /// Device kernels that it exposes.
    pub(crate) shown: Vec<String>,
}

impl Settings {
    /// Reads the settings from the `package.metadata` of a package.
    pub(crate) fn of(metadata: &Value) -> Result<Self> {
        let mut settings = Self::default();
        let Some(table) = metadata.pointer("/kernpack/wheel") else { return Ok(settings) };
        let wrong = |problem: String| format!("[package.metadata.kernpack.wheel] in Cargo.toml: {problem}");
        let table = table.as_object().ok_or_else(|| wrong("expected a table".to_owned()))?;
        for (key, value) in table {
            let text = || {
                let text = value.as_str().filter(|text| !text.is_empty());
                text.map(str::to_owned).ok_or_else(|| wrong(format!("`{key}` is {value}; expected a text")))
            };
            let texts = || {
                let texts =
                    value.as_array().map(|list| list.iter().map(|text| text.as_str().map(str::to_owned)).collect());
                let texts: Option<Vec<String>> = texts.flatten();
                texts.ok_or_else(|| {
                    wrong(format!("`{key}` is {value}; expected a list of texts, such as {key} = [\"one\"]"))
                })
            };
            match key.as_str() {
                "name" => settings.name = Some(text()?),
                "features" => settings.features = texts()?,
                "python" => settings.python = Some(text()?),
                "hidden" => settings.hidden = texts()?,
                "shown" => settings.shown = texts()?,
                _ => return Err(wrong(format!("unknown key `{key}`; known are {KNOWN}"))),
            }
        }
        Ok(settings)
    }

    /// Returns the folder of Python sources relative to Cargo.toml, and whether the table sets it.
    pub(crate) fn python(&self) -> (PathBuf, bool) {
        (self.python.as_deref().unwrap_or(PYTHON).into(), self.python.is_some())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn of(table: Value) -> Result<Settings> {
        Settings::of(&json!({ "kernpack": { "wheel": table } }))
    }

    #[test]
    fn everything_in_it() {
        let texts = |texts: &[&str]| texts.iter().map(|text| (*text).to_owned()).collect::<Vec<_>>();
        let settings = of(json!({
            "name": "kit", "features": ["python"], "python": "py", "hidden": ["dump", "Raw"], "shown": [],
        }));
        let expected = Settings {
            name: Some("kit".to_owned()),
            features: texts(&["python"]),
            python: Some("py".to_owned()),
            hidden: texts(&["dump", "Raw"]),
            shown: Vec::new(),
        };
        assert_eq!(settings, Ok(expected));
        for nothing in [json!(null), json!({}), json!({ "kernpack": {} }), json!({ "maturin": { "x": 1 } })] {
            assert_eq!(Settings::of(&nothing), Ok(Settings::default()), "{nothing}");
        }
        assert_eq!(Settings::default().python(), ("python".into(), false));
    }

    #[test]
    fn mistakes() {
        for (table, problem) in [
            (json!(1), "expected a table"),
            (json!({ "name": 1 }), "`name` is 1; expected a text"),
            (json!({ "python": "" }), "`python` is \"\"; expected a text"),
            (
                json!({ "features": "python" }),
                "`features` is \"python\"; expected a list of texts, such as features = [\"one\"]",
            ),
            (json!({ "hidden": [1] }), "`hidden` is [1]; expected a list of texts, such as hidden = [\"one\"]"),
            (json!({ "hide": ["a"] }), "unknown key `hide`; known are `name`, `features`, `python`, `hidden`, `shown`"),
        ] {
            let message = format!("[package.metadata.kernpack.wheel] in Cargo.toml: {problem}");
            assert_eq!(of(table).unwrap_err(), message);
        }
    }
}
