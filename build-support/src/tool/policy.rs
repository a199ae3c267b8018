use crate::cargo::environment::Environment;
use crate::{Error, Result};

/// The policy for a missing toolchain or device, set by an environment variable: `KERNPACK_CUDA`,
/// `KERNPACK_OPENCL`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Policy {
    Auto,
    Require,
    Off,
}

impl Policy {
    /// Reads the policy from the variable. The default is `auto`.
    pub(crate) fn of(environment: &Environment, variable: &str) -> Result<Self> {
        match environment.user(variable)?.as_deref() {
            None | Some("auto") => Ok(Self::Auto),
            Some("require") => Ok(Self::Require),
            Some("off") => Ok(Self::Off),
            Some(other) => Err(Error::new(format!("{variable} is \"{other}\"; it may be auto, require or off"))),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn policies() {
        let policy = |value: &str| Policy::of(&Environment::fake(&[("KERNPACK_CUDA", value)]), "KERNPACK_CUDA");
        assert_eq!(policy("").unwrap(), Policy::Auto);
        assert_eq!(policy("auto").unwrap(), Policy::Auto);
        assert_eq!(policy("require").unwrap(), Policy::Require);
        assert_eq!(policy("off").unwrap(), Policy::Off);
        assert_eq!(policy("yes").unwrap_err().to_string(), "KERNPACK_CUDA is \"yes\"; it may be auto, require or off");
    }
}
