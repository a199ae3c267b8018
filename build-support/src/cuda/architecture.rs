//! GPU architectures: `sm_80`, `sm_90a`.

use std::fmt;

use crate::{Error, Result};

/// The default architectures: cubins for all of them, and PTX for the first. Together they run on
/// every GPU from Turing on, including future ones, through the driver's compiler. Architectures
/// that the installed tools do not support are left out.
pub(crate) const DEFAULTS: [&str; 5] = ["75", "80", "90", "100", "120"];

/// A GPU architecture: `80`, `90a`.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) struct Architecture {
    pub(crate) number: u32,
    pub(crate) suffix: String,
}

impl Architecture {
    /// Parses `sm_80`, `compute_80`, `80` or `8.0`, each with an optional suffix `a` or `f`.
    /// `origin` names the source of the text.
    pub(crate) fn parse(text: &str, origin: &str) -> Result<Self> {
        let digits = text.trim_start_matches("sm_").trim_start_matches("compute_").replace('.', "");
        let end = digits.find(|c: char| !c.is_ascii_digit()).unwrap_or(digits.len());
        let (number, suffix) = digits.split_at(end);
        match number.parse() {
            Ok(number) if (50..1000).contains(&number) && matches!(suffix, "" | "a" | "f") => {
                Ok(Self { number, suffix: suffix.to_owned() })
            }
            _ => Err(Error::new(format!(
                "{origin}: \"{text}\" is not a GPU architecture; write it as \"sm_80\", \"80\" or \"90a\""
            ))),
        }
    }
}

impl fmt::Display for Architecture {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}{}", self.number, self.suffix)
    }
}

/// The architectures that one kernel is compiled for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Architectures {
    /// The architecture of the PTX.
    pub(crate) floor: Architecture,
    /// The architectures of the machine code, sorted and without duplicates.
    pub(crate) machine: Vec<Architecture>,
}

impl Architectures {
    /// `floor` is the architecture that the user requested; the default is the lowest one. PTX for
    /// an architecture with a suffix runs on no other, so the default floor is one without a
    /// suffix, if there is any.
    pub(crate) fn new(mut machine: Vec<Architecture>, floor: Option<Architecture>, source: &str) -> Result<Self> {
        machine.sort();
        machine.dedup();
        let lowest = || machine.iter().find(|arch| arch.suffix.is_empty()).or(machine.first()).cloned();
        match floor.or_else(lowest) {
            Some(floor) => Ok(Self { floor, machine }),
            None => Err(Error::new(format!("{source}: no GPU architecture to compile for"))),
        }
    }
}

/// Returns the default architectures that a tool supports, according to its own list.
pub(crate) fn defaults(known: &[String], tool: &str) -> Result<Vec<Architecture>> {
    let wanted = DEFAULTS.into_iter().filter(|name| known.iter().any(|known| known == name));
    let wanted = Error::collect(wanted.map(|name| Architecture::parse(name, ".cuda_arch(..)")))?;
    if wanted.is_empty() {
        return Err(Error::new(format!(
            "{tool} knows none of the default architectures ({}); name some with .cuda_arch([..]). It knows: {}",
            DEFAULTS.join(", "),
            known.join(", ")
        )));
    }
    Ok(wanted)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn architectures() {
        for (text, expected) in
            [("sm_80", "80"), ("80", "80"), ("8.0", "80"), ("compute_90a", "90a"), ("sm_120f", "120f")]
        {
            assert_eq!(Architecture::parse(text, "").unwrap().to_string(), expected);
        }
        for text in ["", "sm_", "ampere", "80x", "8", "99999999999", "native"] {
            let error = Architecture::parse(text, ".cuda_arch(..)").err().map(|error| error.to_string());
            let expected = format!(
                ".cuda_arch(..): \"{text}\" is not a GPU architecture; write it as \"sm_80\", \"80\" or \"90a\""
            );
            assert_eq!(error, Some(expected));
        }
    }

    #[test]
    fn floors() {
        let list = |names: &[&str]| names.iter().map(|name| Architecture::parse(name, "").unwrap()).collect::<Vec<_>>();
        let check = |names: &[&str], floor: Option<&str>, expected: (&str, &[&str])| {
            let floor = floor.map(|name| Architecture::parse(name, "").unwrap());
            let found = Architectures::new(list(names), floor, "k.cu").unwrap();
            assert_eq!((found.floor.to_string().as_str(), found.machine), (expected.0, list(expected.1)));
        };
        check(&["100", "90a", "80", "90", "80"], None, ("80", &["80", "90", "90a", "100"]));
        check(&["90a", "100"], None, ("100", &["90a", "100"]));
        check(&["90a"], None, ("90a", &["90a"]));
        check(&["90"], Some("75"), ("75", &["90"]));
        let error = Architectures::new(Vec::new(), None, "k.cu").unwrap_err();
        assert_eq!(error.to_string(), "k.cu: no GPU architecture to compile for");
    }

    #[test]
    fn default_lists() {
        let known = ["80", "86", "90"].map(str::to_owned);
        let names: Vec<String> = defaults(&known, "nvcc").unwrap().iter().map(ToString::to_string).collect();
        assert_eq!(names, ["80", "90"]);
        let error = defaults(&["35".to_owned(), "37".to_owned()], "/opt/nvcc").unwrap_err();
        assert_eq!(
            error.to_string(),
            "/opt/nvcc knows none of the default architectures (75, 80, 90, 100, 120); name some with .cuda_arch([..]). It \
             knows: 35, 37"
        );
    }
}
