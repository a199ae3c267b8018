//! The extents of dynamic dimensions of models: `batch=7,sequence=65`.

use std::collections::BTreeMap;
use std::fmt;

use crate::Result;

/// Extents by the names of dimensions.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Shape(BTreeMap<String, i64>);

impl Shape {
    /// Parses `batch=7,sequence=65`.
    ///
    /// # Errors
    /// Returns an error for text of another form, an extent below 1, and a name that is given
    /// twice.
    pub(crate) fn parse(text: &str) -> Result<Self> {
        let mut extents = BTreeMap::new();
        for part in text.split(',').filter(|_| !text.is_empty()) {
            let parsed = part.rsplit_once('=').filter(|(name, _)| !name.is_empty());
            let parsed =
                parsed.and_then(|(name, extent)| Some((name, extent.parse().ok().filter(|extent| *extent >= 1)?)));
            let (name, extent) = parsed.ok_or_else(|| {
                format!("'{part}' is not NAME=EXTENT with an extent of 1 or more, such as batch=7,sequence=65")
            })?;
            if extents.insert(name.to_owned(), extent).is_some() {
                return Err(format!("'{name}' is given twice"));
            }
        }
        Ok(Self(extents))
    }

    /// The extent of a dimension, if it is given.
    pub(crate) fn get(&self, name: &str) -> Option<i64> {
        self.0.get(name).copied()
    }

    /// The names of the dimensions.
    pub(crate) fn names(&self) -> impl Iterator<Item = &str> {
        self.0.keys().map(String::as_str)
    }
}

impl fmt::Display for Shape {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let parts: Vec<String> = self.0.iter().map(|(name, extent)| format!("{name}={extent}")).collect();
        f.write_str(&parts.join(","))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn extents_by_name() {
        let shape = Shape::parse("sequence=65,batch=7").unwrap();
        assert_eq!((shape.get("batch"), shape.get("sequence"), shape.get("width")), (Some(7), Some(65), None));
        assert_eq!(shape.to_string(), "batch=7,sequence=65");
        assert_eq!(Shape::parse(&shape.to_string()), Ok(shape));
        assert_eq!(Shape::parse(""), Ok(Shape::default()));
        for text in ["batch", "batch=0", "=1", "batch=1,", "batch=x"] {
            assert!(Shape::parse(text).unwrap_err().contains("is not NAME=EXTENT"), "{text}");
        }
        assert_eq!(Shape::parse("n=1,n=2").unwrap_err(), "'n' is given twice");
    }
}
