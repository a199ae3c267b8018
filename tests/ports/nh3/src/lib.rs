//! The package nh3 on Kernpack: the HTML sanitizer ammonia.

mod callback;
mod checks;
mod options;
mod url_relative;

use std::collections::{HashMap, HashSet};

use ammonia::Builder;
use kernpack::python::Object as PyObject;
use kernpack::{Function, Object, Result, constant, object_methods, packed_func};

use options::{AttributeValues, Options, Sanitizer, Sets};

kernpack::library!();

/// The version of the package.
#[constant(name = "__version__")]
pub const VERSION: &str = env!("CARGO_PKG_VERSION");

/// A sanitizer for many fragments.
#[derive(Object)]
#[object(key = "nh3.Cleaner")]
#[repr(C)]
pub struct Cleaner {
    sanitizer: Sanitizer,
}

#[object_methods]
impl Cleaner {
    /// Checks and prepares the options.
    #[init(
        signature = "(tags=None, clean_content_tags=None, attributes=None, attribute_filter=None, strip_comments=True, link_rel='noopener noreferrer', generic_attribute_prefixes=None, tag_attribute_values=None, set_tag_attribute_values=None, url_schemes=None, allowed_classes=None, filter_style_properties=None, url_relative=None, id_prefix=None)"
    )]
    #[allow(clippy::too_many_arguments)]
    pub fn new(
        tags: Option<HashSet<String>>,
        clean_content_tags: Option<HashSet<String>>,
        attributes: Option<Sets>,
        attribute_filter: Option<Function>,
        strip_comments: bool,
        link_rel: Option<String>,
        generic_attribute_prefixes: Option<HashSet<String>>,
        tag_attribute_values: Option<HashMap<String, Sets>>,
        set_tag_attribute_values: Option<HashMap<String, AttributeValues>>,
        url_schemes: Option<HashSet<String>>,
        allowed_classes: Option<Sets>,
        filter_style_properties: Option<HashSet<String>>,
        url_relative: Option<PyObject>,
        id_prefix: Option<String>,
    ) -> Result<Self> {
        let options = Options {
            tags,
            clean_content_tags,
            attributes,
            attribute_filter,
            strip_comments,
            link_rel,
            generic_attribute_prefixes,
            tag_attribute_values,
            set_tag_attribute_values,
            url_schemes,
            allowed_classes,
            filter_style_properties,
            url_relative,
            id_prefix,
        };
        Ok(Self { sanitizer: options.sanitizer()? })
    }

    /// Returns the fragment without what is not allowed.
    pub fn clean(&self, html: &str) -> String {
        self.sanitizer.clean(html)
    }
}

/// Returns the fragment without what is not allowed.
///
/// ```pycon
/// >>> import nh3
/// >>> nh3.clean("<b onclick='f()'>text<script>f()</script>")
/// '<b>text</b>'
///
/// ```
#[packed_func(
    name = "nh3.clean",
    detach = false,
    signature = "(html, tags=None, clean_content_tags=None, attributes=None, attribute_filter=None, strip_comments=True, link_rel='noopener noreferrer', generic_attribute_prefixes=None, tag_attribute_values=None, set_tag_attribute_values=None, url_schemes=None, allowed_classes=None, filter_style_properties=None, url_relative=None, id_prefix=None)"
)]
#[allow(clippy::too_many_arguments)]
pub fn clean(
    html: &str,
    tags: Option<HashSet<String>>,
    clean_content_tags: Option<HashSet<String>>,
    attributes: Option<Sets>,
    attribute_filter: Option<Function>,
    strip_comments: bool,
    link_rel: Option<String>,
    generic_attribute_prefixes: Option<HashSet<String>>,
    tag_attribute_values: Option<HashMap<String, Sets>>,
    set_tag_attribute_values: Option<HashMap<String, AttributeValues>>,
    url_schemes: Option<HashSet<String>>,
    allowed_classes: Option<Sets>,
    filter_style_properties: Option<HashSet<String>>,
    url_relative: Option<PyObject>,
    id_prefix: Option<String>,
) -> Result<String> {
    let options = Options {
        tags,
        clean_content_tags,
        attributes,
        attribute_filter,
        strip_comments,
        link_rel,
        generic_attribute_prefixes,
        tag_attribute_values,
        set_tag_attribute_values,
        url_schemes,
        allowed_classes,
        filter_style_properties,
        url_relative,
        id_prefix,
    };
    Ok(options.sanitizer()?.clean(html))
}

/// Returns a text as HTML that shows it, or a fragment with these tags alone, without attributes.
///
/// ```pycon
/// >>> import nh3
/// >>> nh3.clean_text("a < b", tags=None)
/// 'a&#32;&lt;&#32;b'
///
/// ```
#[packed_func(name = "nh3.clean_text", signature = "(html, tags=None)")]
pub fn clean_text(html: &str, tags: Option<HashSet<String>>) -> Result<String> {
    match tags {
        None => Ok(ammonia::clean_text(html)),
        Some(tags) => {
            let options = Options {
                tags: Some(tags),
                attributes: Some(HashMap::from([("*".to_owned(), HashSet::new())])),
                strip_comments: true,
                ..Options::default()
            };
            Ok(options.sanitizer()?.clean(html))
        }
    }
}

/// As `clean_text`.
#[packed_func(name = "nh3.escape", signature = "(html, tags=None)")]
pub fn escape(html: &str, tags: Option<HashSet<String>>) -> Result<String> {
    clean_text(html, tags)
}

/// Returns true if the text has syntax of HTML.
#[packed_func(name = "nh3.is_html")]
pub fn is_html(html: &str) -> bool {
    ammonia::is_html(html)
}

/// The sets of the sanitizer without options: tags, tags whose contents are removed, URL schemes.
#[packed_func(name = "nh3._defaults")]
pub fn defaults() -> [HashSet<String>; 3] {
    let builder = Builder::default();
    [builder.clone_tags(), builder.clone_clean_content_tags(), builder.clone_url_schemes()]
        .map(|names| names.into_iter().map(str::to_owned).collect())
}

/// The attributes of each tag of the sanitizer without options.
#[packed_func(name = "nh3._default_attributes")]
pub fn default_attributes() -> Sets {
    let attributes = Builder::default().clone_tag_attributes().into_iter();
    attributes.map(|(tag, names)| (tag.to_owned(), names.into_iter().map(str::to_owned).collect())).collect()
}
