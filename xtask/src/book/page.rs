//! A page as a list of steps: its fenced blocks, with the settings of the comments around them, and
//! the files that it takes from the checkout.
//!
//! The comments are described in README.md beside this file. An unknown one is an error, so that a
//! typo never leaves a block unchecked.

use super::Result;
use super::comment::Comment;
use std::mem;

/// One page, in reading order.
pub(crate) struct Page {
    /// Its path from the root of the checkout.
    pub(crate) path: String,
    /// The steps of the page, in order.
    pub(crate) steps: Vec<Step>,
}

/// One thing that a page does.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Step {
    /// A fenced block.
    Block(Block),
    /// A file or folder of the checkout that the page needs and does not show.
    Take { from: String, to: String },
    /// A file that the page does not show.
    HiddenFile { path: String, text: String },
}

/// A fenced block with its settings.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Block {
    /// The line of its opening fence, from 1.
    pub(crate) line: usize,
    /// The text after the opening fence: `rust,test`.
    pub(crate) language: String,
    /// Its lines, each with its line break.
    pub(crate) code: String,
    /// The file that it is part of, and whether the file starts anew.
    pub(crate) file: Option<(String, bool)>,
    /// Requirements for running it, such as `gpu`.
    pub(crate) needs: Vec<String>,
    /// True if its last command must fail.
    pub(crate) fails: bool,
    /// The folder in which its commands start: `root` of the checkout, or a folder of the page.
    /// With it, later blocks do not inherit the folder and the variables.
    pub(crate) start_in: Option<String>,
    /// True if it is a drawing.
    pub(crate) drawing: bool,
    /// Code before the block, which readers do not see.
    pub(crate) before: String,
    /// Code after the block, which readers do not see.
    pub(crate) after: String,
}

impl Block {
    /// The code with its hidden parts.
    pub(crate) fn whole_code(&self) -> String {
        format!("{}{}{}", self.before, self.code, self.after)
    }
}

impl Page {
    /// Reads a page.
    ///
    /// # Errors
    /// A fence that is not closed, code by indentation, and a comment without a meaning or in a
    /// wrong place.
    pub(crate) fn parse(path: &str, text: &str) -> Result<Self> {
        let mut reader = Reader::of(text);
        reader.read().map_err(|(line, problem)| format!("{path}:{line}: {problem}"))?;
        Ok(Self { path: path.to_string(), steps: reader.steps })
    }

    /// Its blocks.
    pub(crate) fn blocks(&self) -> impl Iterator<Item = &Block> {
        self.steps.iter().filter_map(|step| match step {
            Step::Block(block) => Some(block),
            Step::Take { .. } | Step::HiddenFile { .. } => None,
        })
    }

    /// The name of its folder, and of its crate if it does not name one: `docs/rust-kernels.md` is
    /// `rust-kernels`, `examples/imagekit/README.md` is `imagekit-readme`.
    pub(crate) fn name(&self) -> String {
        let stem = self.path.trim_end_matches(".md");
        match stem.strip_suffix("README") {
            Some("") => "readme".to_string(),
            Some(folder) => format!("{}-readme", folder.trim_end_matches('/').rsplit('/').next().unwrap_or_default()),
            None => stem.rsplit('/').next().unwrap_or_default().to_string(),
        }
    }
}

/// A line number and the problem of that line.
type Problem = (usize, String);

struct Reader<'t> {
    lines: std::iter::Enumerate<std::str::Lines<'t>>,
    steps: Vec<Step>,
    /// The attributes that comments set for the next block.
    next: Block,
    /// The line of the first of these comments.
    waiting: Option<usize>,
    /// True if only empty lines separate the last block from the current line.
    behind_block: bool,
    previous_empty: bool,
    in_list: bool,
}

impl<'t> Reader<'t> {
    fn of(text: &'t str) -> Self {
        Self {
            lines: text.lines().enumerate(),
            steps: Vec::new(),
            next: Block::default(),
            waiting: None,
            behind_block: false,
            previous_empty: true,
            in_list: false,
        }
    }

    fn read(&mut self) -> std::result::Result<(), Problem> {
        while let Some((index, line)) = self.lines.next() {
            let number = index + 1;
            let trimmed = line.trim_start();
            if trimmed.starts_with("```") {
                self.block(number, line)?;
            } else if trimmed.starts_with("<!--") {
                self.comment(number, trimmed)?;
            } else if trimmed.is_empty() {
                self.previous_empty = true;
            } else {
                self.text(number, line)?;
            }
        }
        self.nothing_waits()
    }

    /// A line of prose.
    fn text(&mut self, number: usize, line: &str) -> std::result::Result<(), Problem> {
        self.nothing_waits()?;
        let indented = line.starts_with("    ") || line.starts_with('\t');
        if line.starts_with("~~~") || (indented && self.previous_empty && !self.in_list) {
            return Err((number, "code stands between two lines of ``` here, so that it has a language".to_string()));
        }
        if !indented {
            self.in_list = line.trim_start().starts_with(['-', '*']) || line.starts_with(|c: char| c.is_ascii_digit());
        }
        (self.behind_block, self.previous_empty) = (false, false);
        Ok(())
    }

    fn nothing_waits(&self) -> std::result::Result<(), Problem> {
        match self.waiting {
            Some(line) => Err((line, "this comment stands in front of no block".to_string())),
            None => Ok(()),
        }
    }

    fn block(&mut self, number: usize, opening: &str) -> std::result::Result<(), Problem> {
        let indentation = opening.len() - opening.trim_start().len();
        let mut block = mem::take(&mut self.next);
        block.line = number;
        block.language = opening.trim().trim_start_matches('`').trim().to_string();
        loop {
            let (_, line) = self.lines.next().ok_or((number, "this ``` is not closed".to_string()))?;
            if line.trim() == "```" {
                break;
            }
            let strip = line.len().min(indentation);
            block.code.push_str(if line.is_char_boundary(strip) && line[..strip].trim().is_empty() {
                &line[strip..]
            } else {
                line
            });
            block.code.push('\n');
        }
        self.steps.push(Step::Block(block));
        (self.waiting, self.behind_block, self.previous_empty) = (None, true, false);
        Ok(())
    }

    fn comment(&mut self, number: usize, opening: &str) -> std::result::Result<(), Problem> {
        let mut text = opening.trim_start_matches("<!--").to_string();
        while !text.trim_end().ends_with("-->") {
            let (_, line) = self.lines.next().ok_or((number, "this comment is not closed".to_string()))?;
            text.push('\n');
            text.push_str(line);
        }
        let text = text.trim_end().trim_end_matches("-->");
        let next = &mut self.next;
        match Comment::parse(text).map_err(|problem| (number, problem))? {
            Comment::Take { from, to } => return self.step(Step::Take { from, to }),
            Comment::HiddenFile { path, text } => return self.step(Step::HiddenFile { path, text }),
            Comment::After(code) => {
                return match self.steps.last_mut() {
                    Some(Step::Block(block)) if self.behind_block => {
                        block.after.push_str(&code);
                        Ok(())
                    }
                    _ => Err((number, "'after:' stands directly behind a block".to_string())),
                };
            }
            Comment::File { path, anew } => next.file = Some((path, anew)),
            Comment::Before(code) => next.before.push_str(&code),
            Comment::Needs(what) => next.needs.push(what),
            Comment::In(folder) => next.start_in = Some(folder),
            Comment::Fails => next.fails = true,
            Comment::Drawing => next.drawing = true,
        }
        self.waiting.get_or_insert(number);
        self.behind_block = false;
        Ok(())
    }

    fn step(&mut self, step: Step) -> std::result::Result<(), Problem> {
        self.steps.push(step);
        self.behind_block = false;
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn page(text: &str) -> Page {
        Page::parse("docs/a-page.md", text).unwrap()
    }

    #[test]
    fn blocks_and_the_comments_around_them() {
        let text = "# Title\n\nText.\n\n<!-- file: kernels/a.c anew -->\n<!-- needs: gpu -->\n```c\nint a;\n\n```\n<!-- after:\nint b;\n-->\n\n\
                    - point\n\n  ```rust,test\n  f();\n  ```\n\n<!-- take: a/b -> c -->\n<!-- hidden file: x.py\nx = 1\n-->\n\n<!-- before:\ny = 2\n-->\n```python\nz\n```\n";
        let page = page(text);
        assert_eq!(page.name(), "a-page");
        let [Step::Block(c), Step::Block(test), take, hidden, Step::Block(python)] = &page.steps[..] else {
            panic!("{:?}", page.steps)
        };
        assert_eq!((c.line, c.language.as_str(), c.whole_code().as_str()), (7, "c", "int a;\n\nint b;\n"));
        assert_eq!((&c.file, &c.needs[..]), (&Some(("kernels/a.c".to_string(), true)), &["gpu".to_string()][..]));
        assert_eq!((test.language.as_str(), test.code.as_str()), ("rust,test", "f();\n"));
        assert_eq!(*take, Step::Take { from: "a/b".to_string(), to: "c".to_string() });
        assert_eq!(*hidden, Step::HiddenFile { path: "x.py".to_string(), text: "x = 1\n".to_string() });
        assert_eq!(python.whole_code(), "y = 2\nz\n");
    }

    #[test]
    fn mistakes_are_named_with_their_line() {
        for (text, problem) in [
            ("a\n```rust\nf();\n", "docs/a-page.md:2: this ``` is not closed"),
            ("<!-- fails\n", "docs/a-page.md:1: this comment is not closed"),
            ("<!-- fails -->\ntext\n", "docs/a-page.md:1: this comment stands in front of no block"),
            ("\n<!-- drawing -->\n", "docs/a-page.md:2: this comment stands in front of no block"),
            ("text\n<!-- after:\nx\n-->\n", "docs/a-page.md:2: 'after:' stands directly behind a block"),
            (
                "text\n\n    let x = 1;\n",
                "docs/a-page.md:3: code stands between two lines of ``` here, so that it has a language",
            ),
        ] {
            assert_eq!(Page::parse("docs/a-page.md", text).err().unwrap().to_string(), problem);
        }
    }

    #[test]
    fn names_of_folders() {
        for (path, name) in
            [("README.md", "readme"), ("docs/cuda.md", "cuda"), ("examples/imagekit/README.md", "imagekit-readme")]
        {
            assert_eq!(Page { path: path.to_string(), steps: Vec::new() }.name(), name);
        }
    }
}
