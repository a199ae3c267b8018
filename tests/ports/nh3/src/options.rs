//! The options of a sanitizer.

use std::borrow::Cow;
use std::collections::{HashMap, HashSet};

use ammonia::Builder;
use kernpack::python::Object as PyObject;
use kernpack::{Function, Result};
use self_cell::self_cell;

use crate::{callback, checks, url_relative};

/// A set of names for each name.
pub(crate) type Sets = HashMap<String, HashSet<String>>;
/// A value for each attribute.
pub(crate) type AttributeValues = HashMap<String, String>;

/// The options, as Python passes them.
#[derive(Default)]
pub(crate) struct Options {
    pub(crate) tags: Option<HashSet<String>>,
    pub(crate) clean_content_tags: Option<HashSet<String>>,
    pub(crate) attributes: Option<Sets>,
    pub(crate) attribute_filter: Option<Function>,
    pub(crate) strip_comments: bool,
    pub(crate) link_rel: Option<String>,
    pub(crate) generic_attribute_prefixes: Option<HashSet<String>>,
    pub(crate) tag_attribute_values: Option<HashMap<String, Sets>>,
    pub(crate) set_tag_attribute_values: Option<HashMap<String, AttributeValues>>,
    pub(crate) url_schemes: Option<HashSet<String>>,
    pub(crate) allowed_classes: Option<Sets>,
    pub(crate) filter_style_properties: Option<HashSet<String>>,
    pub(crate) url_relative: Option<PyObject>,
    pub(crate) id_prefix: Option<String>,
}

self_cell! {
    /// A prepared sanitizer, with the options whose texts it borrows.
    pub(crate) struct Sanitizer {
        owner: Options,
        #[not_covariant]
        dependent: Builder,
    }
}

impl Sanitizer {
    /// Returns the fragment without what is not allowed.
    pub(crate) fn clean(&self, html: &str) -> String {
        self.with_dependent(|_, builder| builder.clean(html).to_string())
    }
}

impl Options {
    /// Checks the options, and prepares the sanitizer.
    pub(crate) fn sanitizer(self) -> Result<Sanitizer> {
        checks::check(&self)?;
        Sanitizer::try_new(self, Options::builder)
    }

    fn builder(&self) -> Result<Builder<'_>> {
        let mut builder = Builder::default();
        builder.strip_comments(self.strip_comments).link_rel(self.link_rel.as_deref());
        builder.id_prefix(self.id_prefix.as_deref());
        if let Some(tags) = &self.tags {
            builder.tags(names(tags));
        }
        if let Some(tags) = &self.clean_content_tags {
            builder.clean_content_tags(names(tags));
        }
        if let Some(attributes) = &self.attributes {
            let (all, tags): (Vec<_>, Vec<_>) = attributes.iter().partition(|(tag, _)| *tag == "*");
            if let [(_, attributes)] = all[..] {
                builder.generic_attributes(names(attributes));
            }
            builder
                .tag_attributes(tags.into_iter().map(|(tag, attributes)| (tag.as_str(), names(attributes))).collect());
        }
        if let Some(prefixes) = &self.generic_attribute_prefixes {
            builder.generic_attribute_prefixes(names(prefixes));
        }
        if let Some(values) = &self.tag_attribute_values {
            builder.tag_attribute_values(values.iter().map(|(tag, values)| (tag.as_str(), sets(values))).collect());
        }
        if let Some(values) = &self.set_tag_attribute_values {
            let values = values.iter().map(|(tag, values)| (tag.as_str(), texts(values)));
            builder.set_tag_attribute_values(values.collect());
        }
        if let Some(schemes) = &self.url_schemes {
            builder.url_schemes(names(schemes));
        }
        if let Some(classes) = &self.allowed_classes {
            builder.allowed_classes(sets(classes));
        }
        if let Some(properties) = &self.filter_style_properties {
            builder.filter_style_properties(names(properties));
        }
        if let Some(option) = &self.url_relative {
            builder.url_relative(url_relative::parse(option)?);
        }
        if let Some(filter) = self.attribute_filter.clone() {
            builder.attribute_filter(move |tag: &str, attribute: &str, value: &str| {
                callback::text("attribute_filter", &filter, [tag, attribute, value]).map(Cow::Owned)
            });
        }
        Ok(builder)
    }
}

fn texts(values: &AttributeValues) -> HashMap<&str, &str> {
    values.iter().map(|(name, value)| (name.as_str(), value.as_str())).collect()
}

fn names(names: &HashSet<String>) -> HashSet<&str> {
    names.iter().map(String::as_str).collect()
}

fn sets(sets: &Sets) -> HashMap<&str, HashSet<&str>> {
    sets.iter().map(|(name, set)| (name.as_str(), names(set))).collect()
}
