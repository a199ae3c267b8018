//! Reads a file of weights.

use core::fmt;

use super::{ALIGNMENT, CONTENT, Digest, Digester, ENTRY, HEADER, MAGIC, VERSION};

/// The reason why a file is not the one that a library needs.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Refusal(String);

impl fmt::Display for Refusal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl core::error::Error for Refusal {}

fn number(bytes: &[u8], at: usize) -> Option<u64> {
    Some(u64::from_le_bytes(bytes.get(at..at.checked_add(8)?)?.try_into().ok()?))
}

fn digest(bytes: &[u8], at: usize) -> Option<Digest> {
    Some(Digest::from_bytes(bytes.get(at..at + 16)?.try_into().ok()?))
}

fn short_number(bytes: &[u8], at: usize) -> Option<u32> {
    Some(u32::from_le_bytes(bytes.get(at..at + 4)?.try_into().ok()?))
}

/// Checks that a file has the weights of the model `name` for code with this digest, with sections
/// of these sizes. Returns the digest of the content and the offset of the section of each CPU
/// level.
///
/// # Errors
/// Returns an error that names the difference: another model, other code, a truncated file, a
/// changed byte.
pub fn read(bytes: &[u8], name: &str, code: Digest, sizes: &[u64]) -> Result<(Digest, Vec<usize>), Refusal> {
    let not = |problem: String| {
        Refusal(format!("not a file of weights: {problem}; '{name}' needs the one with the code digest {code}"))
    };
    let found = bytes.len();
    let part = || not(format!("it has {found} bytes"));
    if !bytes.starts_with(&MAGIC[..found.min(MAGIC.len())]) {
        return Err(not("it does not begin with KPWEIGHT".to_owned()));
    }
    let version = short_number(bytes, 8).ok_or_else(part)?;
    if version != VERSION {
        return Err(Refusal(format!("version {version} of the format, and this library reads version {VERSION}")));
    }
    let own_code = digest(bytes, 16).ok_or_else(part)?;
    let own_content = digest(bytes, 32).ok_or_else(part)?;
    let size = number(bytes, 48).ok_or_else(part)?;
    if own_code != code {
        let own_name = name_of(bytes);
        let which = match &own_name {
            Some(own) if own != name => format!("for the model '{own}'"),
            _ => "for other code".to_owned(),
        };
        return Err(Refusal(format!(
            "{which}: its code digest is {own_code}, and '{name}' in this library needs {code}"
        )));
    }
    let mut digester = Digester::default();
    digester.update(&bytes[CONTENT..]);
    let content = digester.finish();
    let differs = format!("the digest of its content is {content}, and has to be {own_content}");
    if size != found as u64 {
        let what = if size > found as u64 { "truncated" } else { "too long" };
        return Err(Refusal(format!("{what}: it has {found} bytes instead of {size}, {differs}")));
    }
    if content != own_content {
        return Err(Refusal(format!("damaged: {differs}")));
    }
    let offsets = sections(bytes, sizes);
    offsets
        .map(|offsets| (content, offsets))
        .ok_or_else(|| Refusal(format!("inconsistent: its sections are not those of the code with the digest {code}")))
}

/// Returns the name of the model in a file.
fn name_of(bytes: &[u8]) -> Option<String> {
    let start = HEADER.checked_add(ENTRY.checked_mul(usize::try_from(short_number(bytes, 12)?).ok()?)?)?;
    let length = usize::try_from(number(bytes, 56)?).ok()?;
    let text = bytes.get(start..start.checked_add(length)?)?;
    Some(core::str::from_utf8(text).ok()?.to_owned())
}

/// Returns the offsets of the sections, if they have these sizes and are in the file.
fn sections(bytes: &[u8], sizes: &[u64]) -> Option<Vec<usize>> {
    if short_number(bytes, 12)? as usize != sizes.len() {
        return None;
    }
    let section = |(index, size): (usize, &u64)| {
        let at = HEADER + ENTRY * index;
        let (offset, found) = (number(bytes, at)?, number(bytes, at + 8)?);
        let end = offset.checked_add(found)?;
        let fits = found == *size && end <= bytes.len() as u64 && offset.is_multiple_of(ALIGNMENT as u64);
        fits.then_some(usize::try_from(offset).ok()?)
    };
    sizes.iter().enumerate().map(section).collect()
}
