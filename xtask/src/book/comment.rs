//! The comments of a page that are instructions for the checker.

/// One comment.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Comment {
    /// `file: PATH`, `file: PATH anew`: the next block is this file, or a further part of it.
    File { path: String, anew: bool },
    /// `before:` and lines: code before the next block's.
    Before(String),
    /// `after:` and lines: code after the previous block's.
    After(String),
    /// `needs: gpu`: a requirement of the next block.
    Needs(String),
    /// `in: root`, `in: FOLDER`: the next block's commands start in the root of the checkout, or in
    /// a folder of the page.
    In(String),
    /// `fails`: the last command of the next block fails.
    Fails,
    /// `drawing`: the next block is a picture.
    Drawing,
    /// `take: FROM -> TO`: a copy of a file or folder of the checkout.
    Take { from: String, to: String },
    /// `hidden file: PATH` and lines: a file that the page does not show.
    HiddenFile { path: String, text: String },
}

impl Comment {
    /// Reads the text between `<!--` and `-->`.
    pub(crate) fn parse(text: &str) -> Result<Self, String> {
        let (first, rest) = text.split_once('\n').unwrap_or((text, ""));
        let (first, lines) = (first.trim(), format!("{}\n", rest.trim_end_matches([' ', '\n'])));
        let (word, value) = first.split_once(':').map_or((first, ""), |(word, value)| (word, value.trim()));
        let one_line = rest.trim().is_empty();
        Ok(match (word, value) {
            ("before", "") if !one_line => Self::Before(lines),
            ("after", "") if !one_line => Self::After(lines),
            ("hidden file", path) if !one_line => Self::HiddenFile { path: inside(path)?, text: lines },
            _ if !one_line => return Err(unknown(first)),
            ("file", value) => match value.strip_suffix(" anew") {
                Some(path) => Self::File { path: inside(path)?, anew: true },
                None => Self::File { path: inside(value)?, anew: false },
            },
            ("needs", what) if !what.is_empty() => Self::Needs(what.to_string()),
            ("in", folder) => Self::In(inside(folder)?),
            ("fails", "") => Self::Fails,
            ("drawing", "") => Self::Drawing,
            ("take", value) => {
                let (from, to) = value.split_once("->").ok_or("'take:' needs FROM -> TO")?;
                Self::Take { from: inside(from)?, to: inside(to)? }
            }
            _ => return Err(unknown(first)),
        })
    }
}

fn unknown(first: &str) -> String {
    format!(
        "the comment '{first}' means nothing here; comments are file:, before:, after:, needs:, in:, fails, drawing, take:, hidden file:"
    )
}

/// A path that stays below its folder.
fn inside(path: &str) -> Result<String, String> {
    let path = path.trim();
    let leaves = path.is_empty() || path.starts_with('/') || path.split('/').any(|part| part == "..");
    if leaves { Err(format!("'{path}' is not a path below the page's folder")) } else { Ok(path.to_string()) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn comments() {
        let text = |text: &str| text.to_string();
        for (comment, expected) in [
            (" file: src/lib.rs ", Ok(Comment::File { path: text("src/lib.rs"), anew: false })),
            (" before:\nlet a = 1;\n  b();\n", Ok(Comment::Before(text("let a = 1;\n  b();\n")))),
            (" in: root ", Ok(Comment::In(text("root")))),
            (" take: a -> b ", Ok(Comment::Take { from: text("a"), to: text("b") })),
            (" file: ../x ", Err(text("'../x' is not a path below the page's folder"))),
            (" file: ", Err(text("'' is not a path below the page's folder"))),
            (" take: a ", Err(text("'take:' needs FROM -> TO"))),
            (" flie: a ", Err(unknown("flie: a"))),
            (" fails\nmore ", Err(unknown("fails"))),
            (" TODO ", Err(unknown("TODO"))),
        ] {
            assert_eq!(Comment::parse(comment), expected, "{comment}");
        }
    }
}
