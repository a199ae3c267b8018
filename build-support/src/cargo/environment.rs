use std::collections::BTreeSet;
use std::env;
use std::ffi::OsString;
use std::path::PathBuf;
use std::sync::{Mutex, PoisonError};

use crate::{Error, Result};

/// Value of a variable.
type Lookup = Box<dyn Fn(&str) -> Option<OsString> + Send + Sync>;

/// The variables of the build, and the ones that affected it.
pub(crate) struct Environment {
    lookup: Lookup,
    read: Mutex<BTreeSet<String>>,
}

impl Environment {
    pub(crate) fn of_process() -> Self {
        Self { lookup: Box::new(|name| env::var_os(name)), read: Mutex::default() }
    }

    #[cfg(test)]
    pub(crate) fn fake(variables: &[(&str, &str)]) -> Self {
        let variables: std::collections::HashMap<String, OsString> =
            variables.iter().map(|(name, value)| (name.to_string(), value.into())).collect();
        Self { lookup: Box::new(move |name| variables.get(name).cloned()), read: Mutex::default() }
    }

    /// Reads a variable that the user may set. Cargo reruns the build script when it changes. Empty
    /// means unset.
    pub(crate) fn user(&self, name: &str) -> Result<Option<String>> {
        self.track(name);
        let Some(value) = (self.lookup)(name).filter(|value| !value.is_empty()) else { return Ok(None) };
        value.into_string().map(Some).map_err(|_| Error::new(format!("the environment variable {name} is not UTF-8")))
    }

    /// Records a variable that a tool reads itself.
    pub(crate) fn track(&self, name: &str) {
        self.read.lock().unwrap_or_else(PoisonError::into_inner).insert(name.to_owned());
    }

    /// Reads a variable that cargo sets for build scripts.
    pub(crate) fn cargo(&self, name: &str) -> Result<String> {
        let value = self.cargo_optional(name).ok_or_else(|| {
            Error::new(format!(
                "the environment variable {name} is not set; kernpack-build runs in a build.rs that cargo started"
            ))
        })?;
        Ok(value)
    }

    pub(crate) fn cargo_optional(&self, name: &str) -> Option<String> {
        (self.lookup)(name)?.into_string().ok()
    }

    pub(crate) fn cargo_path(&self, name: &str) -> Result<PathBuf> {
        self.cargo(name).map(PathBuf::from)
    }

    /// Names of the variables to track.
    pub(crate) fn tracked(&self) -> Vec<String> {
        self.read.lock().unwrap_or_else(PoisonError::into_inner).iter().cloned().collect()
    }
}
