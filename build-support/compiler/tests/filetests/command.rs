//! The commands of a case: a job, its options, and conditions that its result has to meet.

use kernpack_compiler::codegen::source::{CUDA, OPENCL};
use kernpack_compiler::ir::verify::{Stage, verify_module};
use kernpack_compiler::pass::{Pass, PassOptions};
use kernpack_compiler::text;

use super::file::{COMMAND, TITLE};
use super::passes::Language;
use super::{passes, te};

/// The job of a case.
enum Job {
    /// Runs passes, by name.
    Pass(Vec<String>),
    /// Verifies the program.
    Verify(Stage),
    /// Prints the program.
    Print,
    /// Schedules a kernel for a target.
    Schedule(String),
    /// Runs passes, by name, and prints the source in a language.
    Source(Language, Vec<String>),
}

/// A run of the program by the interpreter, with arguments.
pub(super) enum Run {
    /// The results before and after the passes are equal.
    Same(String),
    /// The interpreter finds an error before the passes.
    FailsBefore(String),
    /// The results after the passes are expected lines.
    After(String),
}

/// The commands of a case.
#[derive(Default)]
pub(super) struct Commands {
    job: Option<Job>,
    pub(super) options: PassOptions,
    pub(super) runs: Vec<Run>,
    /// True if the passes do not change their result.
    pub(super) again: bool,
    /// The number of innermost loops without a condition.
    pub(super) clean_loops: Option<usize>,
    /// True if the printed program is the text of the case.
    same: bool,
    /// The first line of the error that the job reports.
    error: Option<String>,
    /// The number of lines that contain a text.
    counts: Vec<(usize, String)>,
    /// True with a command that is for the job `pass` only.
    is_for_passes: bool,
}

impl Commands {
    /// Reads the commands of the head and of a case: the job, options and runs of the case replace
    /// those of the head.
    pub(super) fn of(head: &[&str], case: &[&str]) -> Result<Self, String> {
        let options = PassOptions { verify: true, ..PassOptions::default() };
        let mut commands = Self { options, ..Self::default() };
        let mut add = |lines: &[&str]| -> Result<(Option<Job>, Vec<Run>), String> {
            for line in lines {
                if let Some(command) = line.strip_prefix(COMMAND) {
                    commands.add(command.trim()).map_err(|problem| format!("command `{command}`: {problem}"))?;
                } else if is_misspelt(line) {
                    return Err(format!(
                        "`{line}`: commands, titles and expected lines begin with `//! `, `//# `, `//> `"
                    ));
                }
            }
            Ok((commands.job.take(), core::mem::take(&mut commands.runs)))
        };
        let ((general_job, general), (own_job, own)) = (add(head)?, add(case)?);
        commands.job = own_job.or(general_job);
        commands.runs = if own.is_empty() { general } else { own };
        if commands.is_for_passes && !matches!(commands.job, Some(Job::Pass(_))) {
            return Err("options, runs, `again` and `clean-loops` are for the job `pass`".to_owned());
        }
        let needs_program = commands.again || commands.clean_loops.is_some() || !commands.runs.is_empty();
        if commands.error.is_some() && needs_program {
            return Err("an error leaves no program for runs, `again` and `clean-loops`".to_owned());
        }
        if let Some(arguments) = commands.unanswered() {
            return Err(format!("`fails-before {arguments}` without `run-after` shows no program that is right"));
        }
        Ok(commands)
    }

    /// The arguments of a run that has to fail before the passes and is not run after them. An
    /// error of arguments that fit no program would do too.
    fn unanswered(&self) -> Option<&str> {
        self.runs.iter().find_map(|run| match run {
            Run::FailsBefore(arguments) => {
                let is_answer = |run: &Run| matches!(run, Run::After(other) if other == arguments);
                (!self.runs.iter().any(is_answer)).then_some(arguments.as_str())
            }
            _ => None,
        })
    }

    fn add(&mut self, line: &str) -> Result<(), String> {
        let (word, rest) = line.split_once(' ').unwrap_or((line, ""));
        self.is_for_passes |= matches!(word, "option" | "run" | "fails-before" | "run-after" | "again" | "clean-loops");
        match word {
            "pass" | "verify" | "print" | "schedule" if self.job.is_some() => return Err("a second job".to_owned()),
            "print" | "again" | "same" if !rest.is_empty() => return Err("a command without a value".to_owned()),
            "pass" => self.job = Some(Job::Pass(pass_names(rest)?)),
            "verify" => self.job = Some(Job::Verify(stage(rest)?)),
            "print" => self.job = Some(Job::Print),
            "schedule" => self.job = Some(Job::Schedule(rest.to_owned())),
            "c" => self.job = Some(source(Language::C, rest)),
            "opencl" => self.job = Some(source(Language::Device(&OPENCL), rest)),
            "cuda" => self.job = Some(source(Language::Device(&CUDA), rest)),
            "option" => set(&mut self.options, rest)?,
            "run" => self.runs.push(Run::Same(rest.to_owned())),
            "fails-before" => self.runs.push(Run::FailsBefore(rest.to_owned())),
            "run-after" => self.runs.push(Run::After(rest.to_owned())),
            "again" => self.again = true,
            "same" => self.same = true,
            "clean-loops" => self.clean_loops = Some(number(rest)?),
            "error" if rest.is_empty() || self.error.is_some() => return Err("expected one message".to_owned()),
            "error" => self.error = Some(rest.to_owned()),
            "count" => {
                let (lines, text) = rest.split_once(' ').ok_or("expected a number and a text")?;
                self.counts.push((number(lines)?, text.to_owned()));
            }
            _ => return Err("unknown command".to_owned()),
        }
        Ok(())
    }

    /// Runs the job on a program: returns the expected lines, or an unmet condition.
    pub(super) fn run(&self, program: &str) -> Result<String, String> {
        let job = self.job.as_ref().ok_or("no job: `pass`, `verify`, `print`, `schedule`, `c`, `opencl` or `cuda`")?;
        if program.lines().all(|line| line.trim().is_empty() || line.starts_with("//")) {
            return Err("no program".to_owned());
        }
        let outcome = match job {
            Job::Pass(names) => passes::run(self, names, program)?,
            Job::Verify(stage) => {
                let module = text::parse(program).map_err(|error| error.to_string())?;
                verify_module(&module, *stage).map(|()| "accepted".to_owned()).map_err(|error| error.to_string())
            }
            Job::Print => match text::parse(program) {
                Ok(module) => Ok(passes::read_back(&module)?),
                Err(error) => Err(error.to_string()),
            },
            Job::Schedule(target) => Ok(te::schedule(program, target)?),
            Job::Source(language, names) => passes::source(self, names, language, program)?,
        };
        let found = self.expected_outcome(outcome)?;
        let found: String = found.lines().map(|line| format!("{}\n", line.trim_end())).collect();
        if found.trim().is_empty() {
            return Err("the result has no lines".to_owned());
        }
        if self.same && found != program {
            return Err(format!("expected the text of the case, found\n{found}"));
        }
        for (expected, text) in &self.counts {
            let lines = found.lines().filter(|line| has_parts(line, text)).count();
            if lines != *expected {
                return Err(format!("expected {expected} lines with `{text}`, found {lines} in\n{found}"));
            }
        }
        Ok(found)
    }

    /// Returns the text of a program, or of the error that the command `error` expects.
    fn expected_outcome(&self, outcome: Result<String, String>) -> Result<String, String> {
        match (outcome, &self.error) {
            (Ok(found), None) => Ok(found),
            (Ok(found), Some(expected)) => Err(format!("expected the error `{expected}`, found\n{found}")),
            (Err(error), Some(expected)) if error.lines().next() == Some(expected.as_str()) => Ok(error),
            (Err(error), Some(expected)) => Err(format!("expected the error `{expected}`, found\n{error}")),
            (Err(error), None) => Err(format!("an error without a command `error`:\n{error}")),
        }
    }
}

/// True for a line that is not a command, a title or an expected line, but begins like one.
fn is_misspelt(line: &str) -> bool {
    !line.starts_with(TITLE) && ["//!", "//#", "//>"].iter().any(|start| line.trim_start().starts_with(start))
}

/// True if a line contains the parts of a text that ` ... ` separates, in order.
fn has_parts(line: &str, text: &str) -> bool {
    let mut rest = line;
    text.split(" ... ").all(|part| match rest.split_once(part) {
        Some((_, after)) => {
            rest = after;
            true
        }
        None => false,
    })
}

fn source(language: Language, names: &str) -> Job {
    Job::Source(language, names.split_whitespace().map(str::to_owned).collect())
}

fn number(text: &str) -> Result<usize, String> {
    text.parse().map_err(|_| format!("`{text}` is not a number"))
}

/// The names of passes, which have to be built-in ones.
fn pass_names(text: &str) -> Result<Vec<String>, String> {
    let names: Vec<String> = text.split_whitespace().map(str::to_owned).collect();
    match names.iter().find(|name| Pass::find(name).is_none()) {
        Some(name) => Err(format!("unknown pass `{name}`")),
        None if names.is_empty() => Err("expected names of passes".to_owned()),
        None => Ok(names),
    }
}

fn stage(name: &str) -> Result<Stage, String> {
    let stages = [Stage::Scheduled, Stage::Flat, Stage::Partitioned, Stage::Vectorized];
    stages.into_iter().find(|stage| format!("{stage:?}") == name).ok_or_else(|| format!("unknown stage `{name}`"))
}

/// Sets an option from `name = value`.
fn set(options: &mut PassOptions, text: &str) -> Result<(), String> {
    let (name, value) = text.split_once(" = ").ok_or("expected `name = value`")?;
    let number = || value.parse::<i64>().map_err(|error| format!("{error}"));
    let switch = || value.parse::<bool>().map_err(|error| format!("{error}"));
    match name {
        "auto_unroll_max_step" => options.auto_unroll_max_step = number()?,
        "auto_unroll_max_depth" => options.auto_unroll_max_depth = number()?,
        "auto_unroll_max_extent" => options.auto_unroll_max_extent = number()?,
        "double_buffer_split_loop" => options.double_buffer_split_loop = number()?,
        "warp_size" => options.warp_size = number()?,
        "unroll_explicit" => options.unroll_explicit = switch()?,
        "partition_const_loop" => options.partition_const_loop = switch()?,
        "instrument_bound_checkers" => options.instrument_bound_checkers = switch()?,
        "disable_select_rewriting" => options.disable_select_rewriting = switch()?,
        "verify" => options.verify = switch()?,
        _ => return Err(format!("unknown option `{name}`")),
    }
    Ok(())
}
