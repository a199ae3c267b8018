//! Checks one page: runs every block as a reader does.

use super::Result;
use super::folder::Folder;
use super::machine;
use super::output;
use super::page::{Block, Page, Step};
use super::places::Places;
use super::sessions::{Code, Sessions};
use super::shell::{self, Ended, Shell};
use crate::step::{self, Show};
use std::process::Command;

/// The result of checking a page's blocks.
#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) struct Outcome {
    /// Blocks that are files, or Rust items.
    pub(crate) files: usize,
    /// Blocks that ran: tests, Python, commands.
    pub(crate) ran: usize,
    /// Those among them that ran in an environment without tvm_ffi.
    pub(crate) without_tvm_ffi: usize,
    /// Blocks that are the output of another one.
    pub(crate) outputs: usize,
    /// Pictures in text.
    pub(crate) drawings: usize,
    /// Blocks that cannot run here, with their places and the reasons.
    pub(crate) skipped: Vec<String>,
    /// The first failure: its place and its cause. The blocks behind it were not checked.
    pub(crate) failure: Option<String>,
}

impl Outcome {
    /// The number of blocks that were checked.
    pub(crate) fn blocks(&self) -> usize {
        self.files + self.ran + self.outputs + self.drawings + self.skipped.len()
    }
}

/// Checks a page in a folder of its own.
///
/// A folder that cannot be made. Problems of the page are part of the outcome.
pub(crate) fn check(places: &Places, page: &Page) -> Result<Outcome> {
    let root = places.page_folder(page);
    let folder = Folder::new(root.join("page"), page)?;
    let shell = Shell::new(root.join("shell"), folder.root())?;
    let mut run = Run {
        places,
        page,
        folder,
        shell,
        sessions: Sessions::default(),
        last_output: None,
        last_test: None,
        tests: Vec::new(),
        tested: None,
        texts: String::new(),
        outcome: Outcome::default(),
    };
    if let Err((line, error)) = run.all() {
        run.outcome.failure = Some(match line {
            Some(line) => format!("{}:{line}: {error}", page.path),
            None => format!("{}: {error}", page.path),
        });
    }
    Ok(run.outcome)
}

struct Run<'a> {
    places: &'a Places<'a>,
    page: &'a Page,
    folder: Folder,
    shell: Shell,
    sessions: Sessions,
    /// The output of the previous block; `None` if it was compared already, or if nothing ran.
    last_output: Option<String>,
    /// The line of the previous test, whose output is looked up when the page shows it.
    last_test: Option<usize>,
    /// The lines of the page's own tests that have not run yet, in their order.
    tests: Vec<usize>,
    /// The output of `cargo test` for the tests that ran, after the first run.
    tested: Option<String>,
    /// All commands and code of the page, to find unused files.
    texts: String,
    outcome: Outcome,
}

/// A problem, with the line of the page if it concerns one.
type Trouble = (Option<usize>, Box<dyn std::error::Error>);

impl Run<'_> {
    fn all(&mut self) -> std::result::Result<(), Trouble> {
        let page = self.page;
        // Rust code without a file is one library, which exists from the first block on.
        for block in page.blocks().filter(|block| block.file.is_none()) {
            self.rust(block).map_err(|error| (Some(block.line), error))?;
        }
        for step in &page.steps {
            match step {
                Step::Block(block) => self.block(block).map_err(|error| (Some(block.line), error))?,
                Step::Take { from, to } => {
                    self.folder.take(&self.places.checkout().join(from), to).map_err(|error| (None, error))?;
                }
                Step::HiddenFile { path, text } => {
                    self.folder.write(path, text, false).map_err(|error| (None, error))?;
                }
            }
        }
        self.close().map_err(|error| (None, error))
    }

    /// Adds Rust code to the page's own crate. A test that cannot run here is compiled only.
    fn rust(&mut self, block: &Block) -> Result {
        let is_test = match block.language.as_str() {
            "rust" => false,
            "rust,test" => true,
            _ => return Ok(()),
        };
        if is_test {
            self.tests.push(block.line);
        }
        let code = Block { code: compiled_only(block, is_test && !self.lacks(block)?.is_empty()), ..block.clone() };
        self.folder.add_rust(&code, is_test)
    }

    /// The requirements of a block that this machine lacks.
    fn lacks(&self, block: &Block) -> Result<Vec<String>> {
        let environment = self.places.environment();
        block.needs.iter().filter_map(|what| machine::lacks(environment, what).transpose()).collect()
    }

    /// Runs the checks that remain after the last block of the page.
    fn close(&mut self) -> Result {
        self.build()?;
        let mut tests = self.folder.crates_with_tests();
        if self.folder.has_tests() && self.tested.is_none() {
            tests.insert(String::new());
        }
        if !self.texts.contains("cargo test") || self.folder.has_tests() {
            for folder in tests {
                // Tests of the page ran where it shows their output, and later steps may have
                // removed files that they need.
                let ran = folder.is_empty() && self.tested.is_some();
                let skip: &[&str] = if ran { &["--", "--skip", "page_tests::"] } else { &[] };
                self.cargo(&folder, &[&["test", "--release"], skip].concat())?;
            }
        }
        std::mem::take(&mut self.sessions).end()?;
        match self.folder.unused(&self.texts) {
            Some(file) => Err(format!("no block uses the file {file}").into()),
            None => Ok(()),
        }
    }

    fn block(&mut self, block: &Block) -> Result {
        let (last_output, last_test) = (self.last_output.take(), self.last_test.take());
        let lacks = self.lacks(block)?;
        let here = lacks.is_empty();
        let skip = |outcome: &mut Outcome| {
            outcome.skipped.push(format!("{}:{}: {}", self.page.path, block.line, lacks.join("; ")))
        };
        match (&block.file, block.language.as_str()) {
            (Some((path, anew)), _) => {
                self.folder.write(path, &block.whole_code(), *anew)?;
                self.outcome.files += 1;
            }
            (None, "rust") => self.outcome.files += 1,
            (None, "rust,test") if here => {
                self.last_test = Some(block.line);
                if self.tested.is_some() {
                    self.test(block.line)?;
                }
                self.outcome.ran += 1;
            }
            (None, "rust,test") => skip(&mut self.outcome),
            (None, "python" | "pycon") if here => {
                self.last_output = Some(self.python(block)?);
                self.outcome.ran += 1;
            }
            (None, "sh") if here => {
                let ended = self.command(block, &block.whole_code())?;
                expect_status(&ended, block.fails)?;
                self.last_output = Some(ended.output);
                self.outcome.ran += 1;
            }
            (None, "console") if here => {
                self.last_output = self.console(block)?;
                self.outcome.ran += 1;
            }
            (None, "sh" | "console" | "python" | "pycon") => {
                self.parse_only(block)?;
                skip(&mut self.outcome);
            }
            (None, "text") if block.drawing => self.outcome.drawings += 1,
            (None, "text") if here => {
                let printed = last_test.map(|line| self.printed(line)).transpose()?;
                let actual = printed
                    .or(last_output)
                    .ok_or("this text is the output of no block in front of it; a picture has the comment 'drawing'")?;
                output::compare(&block.code, &actual)?;
                self.outcome.outputs += 1;
            }
            (None, "text") => skip(&mut self.outcome),
            (None, "") => return Err("this block has no language".into()),
            (None, language) => {
                return Err(format!("a block of {language} needs the comment 'file: PATH' in front of it").into());
            }
        }
        Ok(())
    }

    /// The output of the test in a line of the page.
    fn printed(&mut self, line: usize) -> Result<String> {
        if self.tested.is_none() {
            self.test(line)?;
        }
        Ok(output::of_test(self.tested.as_deref().unwrap_or_default(), &format!("line_{line}")))
    }

    /// Runs the tests of the page down to a line that have not run yet. They wait until the page
    /// shows the output of one of them, and run one by one from then on. The tests of a page that
    /// shows no output run at its end.
    fn test(&mut self, line: usize) -> Result {
        self.build()?;
        let behind = self.tests.iter().position(|test| *test > line).unwrap_or(self.tests.len());
        let names: Vec<String> = self.tests.drain(..behind).map(|line| format!("page_tests::line_{line}")).collect();
        let names: Vec<&str> = names.iter().map(String::as_str).collect();
        let asked = [&["test", "--release", "--lib", "--", "--show-output", "--exact"], names.as_slice()].concat();
        let printed = self.cargo("", &asked)?;
        self.tested.get_or_insert_default().push_str(&printed);
        Ok(())
    }

    fn python(&mut self, block: &Block) -> Result<String> {
        self.build()?;
        let code = block.whole_code();
        self.texts.push_str(&code);
        println!("> {}:{}: {}", self.page.path, block.line, block.language);
        let code = Code {
            kind: block.language.clone(),
            text: code,
            page: self.page.path.clone(),
            line: block.line - block.before.lines().count(),
            folder: self.shell.folder()?,
        };
        let folder = self.places.page_folder(self.page).join("python");
        let (printed, is_bare) = self.sessions.run(self.places, &folder, code)?;
        self.outcome.without_tvm_ffi += usize::from(is_bare);
        Ok(printed)
    }

    /// Runs the commands of a console block. Returns their output if the block does not show it.
    fn console(&mut self, block: &Block) -> Result<Option<String>> {
        let typed = shell::read_console(&block.code)?;
        let shows = typed.iter().any(|typed| !typed.output.is_empty());
        let mut all = String::new();
        let last = typed.len() - 1;
        for (index, typed) in typed.into_iter().enumerate() {
            let before = if index == 0 { block.before.as_str() } else { "" };
            let after = if index == last { block.after.as_str() } else { "" };
            let ended = self.command(block, &format!("{before}{}\n{after}", typed.command))?;
            expect_status(&ended, block.fails && index == last)
                .map_err(|error| format!("$ {}: {error}", typed.command))?;
            if !typed.output.is_empty() {
                output::compare(&typed.output, &ended.output)
                    .map_err(|error| format!("$ {}: {error}", typed.command))?;
            }
            all.push_str(&ended.output);
        }
        Ok((!shows).then_some(all))
    }

    fn command(&mut self, block: &Block, script: &str) -> Result<Ended> {
        self.texts.push_str(script);
        self.places.adopt_crates(self.folder.root())?;
        let first = script.lines().find(|line| !line.trim().is_empty()).unwrap_or_default();
        let name = format!("{}:{}: {first}", self.page.path, block.line);
        let start_in = block.start_in.as_deref().map(|folder| match folder {
            "root" => self.places.checkout().to_path_buf(),
            folder => self.folder.root().join(folder),
        });
        let before = start_in.clone().map_or_else(|| self.shell.folder(), Ok)?;
        let mut bash = self.places.command("bash");
        bash.env("KERNPACK_PAGE", self.folder.root());
        let ended = self.shell.run(&name, bash, script, start_in.as_deref())?;
        if ["cargo build", "cargo test", "cargo run", "kernpack wheel"].iter().any(|built| script.contains(built)) {
            self.folder.built(&before);
            if start_in.is_none() {
                self.folder.built(&self.shell.folder()?);
            }
        }
        Ok(Ended { output: self.places.without_patches(&ended.output), ..ended })
    }

    /// Checks the syntax of a block that cannot run here.
    fn parse_only(&self, block: &Block) -> Result {
        match block.language.as_str() {
            "sh" => Shell::parses(self.places.command("bash"), &block.code),
            "console" => shell::read_console(&block.code)?
                .iter()
                .try_for_each(|typed| Shell::parses(self.places.command("bash"), &typed.command)),
            _ => {
                let program = "import ast, doctest, sys\nkind, code = sys.argv[1:]\nif kind == 'pycon': code = ''.join(e.source for e in doctest.DocTestParser().get_examples(code))\nast.parse(code)";
                let output = self.places.python().args(["-c", program, &block.language, &block.code]).output()?;
                if output.status.success() { Ok(()) } else { Err(String::from_utf8_lossy(&output.stderr).into()) }
            }
        }
    }

    /// Builds the changes since the page's last cargo command.
    fn build(&mut self) -> Result {
        for folder in self.folder.take_changed() {
            let output = self.cargo(&folder, &["build", "--release"])?;
            if let Some(warning) =
                output.lines().find(|line| line.contains("generated") && line.starts_with("warning: `"))
            {
                return Err(format!("the page's code is not free of warnings: {warning}\n{output}").into());
            }
        }
        Ok(())
    }

    fn cargo(&self, folder: &str, arguments: &[&str]) -> Result<String> {
        self.places.adopt_crates(self.folder.root())?;
        let name = format!("{}: cargo {}", self.page.path, arguments.join(" "));
        let mut cargo: Command = self.places.command("cargo");
        cargo.args(arguments).current_dir(self.folder.root().join(folder));
        step::run(&name, &mut cargo, Show::Warnings)
    }
}

/// The code of a test, in a form that is only compiled if `only` is set.
fn compiled_only(block: &Block, only: bool) -> String {
    if only {
        format!("if std::env::args().count() > usize::MAX - 1 {{\n{}}}\n", block.code)
    } else {
        block.code.clone()
    }
}

fn expect_status(ended: &Ended, fails: bool) -> Result {
    match (ended.status, fails) {
        (0, false) | (1.., true) => Ok(()),
        (status, false) => Err(format!("ended with status {status}\n{}", ended.output).into()),
        (_, true) => Err(format!("was to fail, and did not\n{}", ended.output).into()),
    }
}
