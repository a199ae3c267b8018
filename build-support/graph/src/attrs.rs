//! Attributes of a node.

use std::collections::BTreeMap;

use crate::constant::Constant;
use crate::error::{GraphError, Result, fail};

/// The value of an attribute.
#[derive(Clone, Debug, PartialEq)]
pub enum Attr {
    /// A float.
    Float(f32),
    /// An integer.
    Int(i64),
    /// Text.
    Text(String),
    /// A tensor.
    Tensor(Constant),
    /// Floats.
    Floats(Vec<f32>),
    /// Integers.
    Ints(Vec<i64>),
    /// Texts.
    Texts(Vec<String>),
}

/// Attributes by name.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Attrs(BTreeMap<String, Attr>);

impl Attrs {
    /// Sets an attribute.
    pub fn set(&mut self, name: &str, value: Attr) {
        self.0.insert(name.to_owned(), value);
    }

    /// Returns an attribute, if it is present.
    pub fn get(&self, name: &str) -> Option<&Attr> {
        self.0.get(name)
    }

    /// Returns names and values, sorted by name.
    pub fn iter(&self) -> impl Iterator<Item = (&str, &Attr)> {
        self.0.iter().map(|(name, value)| (name.as_str(), value))
    }

    /// The names.
    pub fn names(&self) -> impl Iterator<Item = &str> {
        self.0.keys().map(String::as_str)
    }

    /// Returns an integer, if it is present.
    ///
    /// # Errors
    /// Returns an error if the value is of another kind.
    pub fn find_int(&self, name: &str) -> Result<Option<i64>> {
        match self.get(name) {
            None => Ok(None),
            Some(Attr::Int(value)) => Ok(Some(*value)),
            Some(_) => fail!("attribute `{name}` is not an integer"),
        }
    }

    /// Returns an integer with a default.
    ///
    /// # Errors
    /// As for [`Attrs::find_int`].
    pub fn int(&self, name: &str, default: i64) -> Result<i64> {
        Ok(self.find_int(name)?.unwrap_or(default))
    }

    /// Returns true if an integer is not 0.
    ///
    /// # Errors
    /// As for [`Attrs::find_int`].
    pub fn flag(&self, name: &str, default: bool) -> Result<bool> {
        Ok(self.find_int(name)?.map_or(default, |value| value != 0))
    }

    /// Returns a float with a default.
    ///
    /// # Errors
    /// Returns an error if the value is of another kind.
    pub fn float(&self, name: &str, default: f32) -> Result<f64> {
        self.float32(name, default).map(f64::from)
    }

    /// Returns a float with a default, in the precision of the file.
    ///
    /// # Errors
    /// Returns an error if the value is of another kind.
    pub fn float32(&self, name: &str, default: f32) -> Result<f32> {
        match self.get(name) {
            None => Ok(default),
            Some(Attr::Float(value)) => Ok(*value),
            Some(_) => fail!("attribute `{name}` is not a float"),
        }
    }

    /// Returns text with a default.
    ///
    /// # Errors
    /// Returns an error if the value is of another kind.
    pub fn text<'a>(&'a self, name: &str, default: &'a str) -> Result<&'a str> {
        match self.get(name) {
            None => Ok(default),
            Some(Attr::Text(value)) => Ok(value),
            Some(_) => fail!("attribute `{name}` is not a text"),
        }
    }

    /// Returns integers, if they are present.
    ///
    /// # Errors
    /// Returns an error if the value is of another kind.
    pub fn ints(&self, name: &str) -> Result<Option<Vec<i64>>> {
        match self.get(name) {
            None => Ok(None),
            Some(Attr::Ints(values)) => Ok(Some(values.clone())),
            // An empty list has no other information than its kind.
            Some(Attr::Floats(values)) if values.is_empty() => Ok(Some(Vec::new())),
            Some(_) => fail!("attribute `{name}` is not a list of integers"),
        }
    }

    /// Returns floats; none if the attribute is missing.
    ///
    /// # Errors
    /// Returns an error if the value is of another kind.
    pub fn floats(&self, name: &str) -> Result<Vec<f32>> {
        match self.get(name) {
            None => Ok(Vec::new()),
            Some(Attr::Floats(values)) => Ok(values.clone()),
            // An empty list has no other information than its kind.
            Some(Attr::Ints(values)) if values.is_empty() => Ok(Vec::new()),
            Some(_) => fail!("attribute `{name}` is not a list of floats"),
        }
    }

    /// Returns texts; none if the attribute is missing.
    ///
    /// # Errors
    /// Returns an error if the value is of another kind.
    pub fn texts(&self, name: &str) -> Result<Vec<String>> {
        match self.get(name) {
            None => Ok(Vec::new()),
            Some(Attr::Texts(values)) => Ok(values.clone()),
            Some(Attr::Floats(values)) if values.is_empty() => Ok(Vec::new()),
            Some(_) => fail!("attribute `{name}` is not a list of texts"),
        }
    }

    /// Returns a required integer.
    ///
    /// # Errors
    /// As for [`Attrs::find_int`], or if it is missing.
    pub fn needed_int(&self, name: &str) -> Result<i64> {
        self.find_int(name)?.ok_or_else(|| GraphError::new(format!("attribute `{name}` is missing")))
    }
}
