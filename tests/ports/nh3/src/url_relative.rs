//! The option `url_relative`: what happens to relative URLs.

use std::borrow::Cow;

use ammonia::{Url, UrlRelative};
use kernpack::python::{Object as PyObject, builtin};
use kernpack::{Function, Result, bail, error};

use crate::callback;

/// Reads the option: a text, a tuple or a function.
pub(crate) fn parse<'a>(option: &PyObject) -> Result<UrlRelative<'a>> {
    if let Ok(mode) = option.to::<String>() {
        return match mode.as_str() {
            "pass_through" => Ok(UrlRelative::PassThrough),
            "deny" => Ok(UrlRelative::Deny),
            _ => bail!(ValueError, "url_relative: expected 'pass_through' or 'deny', got '{mode}'"),
        };
    }
    if option.is_instance(&builtin("tuple")?)? {
        let parts: Vec<String> = option.to()?;
        let parts: Vec<&str> = parts.iter().map(String::as_str).collect();
        return match parts[..] {
            ["rewrite_with_base", base] => Ok(UrlRelative::RewriteWithBase(url(base)?)),
            ["rewrite_with_root", root, path] => {
                Ok(UrlRelative::RewriteWithRoot { root: url(root)?, path: path.to_owned() })
            }
            _ => bail!(
                ValueError,
                "url_relative: expected ('rewrite_with_base', base) or ('rewrite_with_root', root, path), got {option:?}"
            ),
        };
    }
    let Ok(function) = option.to::<Function>() else {
        bail!(TypeError, "url_relative: expected a str, a tuple or a function, got {option:?}");
    };
    Ok(UrlRelative::Custom(Box::new(rewriting(function))))
}

fn rewriting(function: Function) -> impl Fn(&str) -> Option<Cow<'_, str>> + Send + Sync {
    move |url| callback::text("url_relative", &function, [url]).map(Cow::Owned)
}

fn url(text: &str) -> Result<Url> {
    Url::parse(text).map_err(|problem| error!(ValueError, "url_relative: '{text}' is not a URL: {problem}"))
}
