//! Options that contradict each other. ammonia panics for some of them, and ignores others.

use std::collections::HashSet;

use ammonia::Builder;
use kernpack::{Result, bail};

use crate::options::Options;

/// Returns an error for the first contradiction.
pub(crate) fn check(options: &Options) -> Result<()> {
    check_rel(options)?;
    check_contents(options)?;
    check_values(options)
}

fn check_rel(options: &Options) -> Result<()> {
    let Some(attributes) = options.attributes.as_ref().filter(|_| options.link_rel.is_some()) else { return Ok(()) };
    if let Some((tag, _)) = attributes.iter().find(|(_, names)| names.contains("rel")) {
        bail!(ValueError, "attributes: '{tag}' allows 'rel' while link_rel is set; pass link_rel=None to allow it");
    }
    Ok(())
}

fn check_contents(options: &Options) -> Result<()> {
    let Some(removed) = &options.clean_content_tags else { return Ok(()) };
    let kept: HashSet<String> = match &options.tags {
        Some(tags) => tags.clone(),
        None => Builder::default().clone_tags().into_iter().map(str::to_owned).collect(),
    };
    if let Some(tag) = removed.intersection(&kept).min() {
        bail!(ValueError, "clean_content_tags: the tag '{tag}' is also in tags, or one of the default tags");
    }
    Ok(())
}

fn check_values(options: &Options) -> Result<()> {
    let (Some(values), Some(attributes)) = (&options.tag_attribute_values, &options.attributes) else { return Ok(()) };
    for (tag, values) in values {
        for name in values.keys() {
            let permits = |tag: &str| attributes.get(tag).is_some_and(|names| names.contains(name));
            if permits(tag) || permits("*") {
                bail!(
                    ValueError,
                    "tag_attribute_values: attributes allows every value of '{name}' in the tag '{tag}'; remove it there"
                );
            }
        }
    }
    Ok(())
}
