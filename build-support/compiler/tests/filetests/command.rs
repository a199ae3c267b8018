//! The commands of a case: a job, its options, and conditions that its result has to meet.

use kernpack_compiler::codegen::source::{CUDA, OPENCL, Vocabulary};
use kernpack_compiler::ir::verify::{Stage, verify_module};
use kernpack_compiler::pass::PassOptions;
use kernpack_compiler::text;

use super::file::COMMAND;
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
    /// Runs passes, by name, and prints the kernels in a language.
    Source(&'static Vocabulary, Vec<String>),
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
pub(super) struct Commands {
    job: Option<Job>,
    pub(super) options: PassOptions,
    pub(super) runs: Vec<Run>,
    /// True if the passes do not change their result.
    pub(super) again: bool,
    /// True if the printed program is the text of the case.
    same: bool,
    /// The number of lines that contain a text.
    counts: Vec<(usize, String)>,
}

impl Commands {
    /// Reads the commands of the head and of a case: the job, options and runs of the case replace
    /// those of the head.
    pub(super) fn of(head: &[&str], case: &[&str]) -> Result<Self, String> {
        let mut commands = Self {
            job: None,
            options: PassOptions { verify: true, ..PassOptions::default() },
            runs: Vec::new(),
            again: false,
            same: false,
            counts: Vec::new(),
        };
        let mut add = |lines: &[&str]| -> Result<Vec<Run>, String> {
            for line in lines.iter().filter_map(|line| line.strip_prefix(COMMAND)) {
                commands.add(line.trim()).map_err(|problem| format!("command `{line}`: {problem}"))?;
            }
            Ok(core::mem::take(&mut commands.runs))
        };
        let (general, own) = (add(head)?, add(case)?);
        commands.runs = if own.is_empty() { general } else { own };
        Ok(commands)
    }

    fn add(&mut self, line: &str) -> Result<(), String> {
        let (word, rest) = line.split_once(' ').unwrap_or((line, ""));
        match word {
            "pass" => self.job = Some(Job::Pass(rest.split_whitespace().map(str::to_owned).collect())),
            "verify" => self.job = Some(Job::Verify(stage(rest)?)),
            "print" => self.job = Some(Job::Print),
            "schedule" => self.job = Some(Job::Schedule(rest.to_owned())),
            "opencl" => self.job = Some(Job::Source(&OPENCL, rest.split_whitespace().map(str::to_owned).collect())),
            "cuda" => self.job = Some(Job::Source(&CUDA, rest.split_whitespace().map(str::to_owned).collect())),
            "option" => set(&mut self.options, rest)?,
            "run" => self.runs.push(Run::Same(rest.to_owned())),
            "fails-before" => self.runs.push(Run::FailsBefore(rest.to_owned())),
            "run-after" => self.runs.push(Run::After(rest.to_owned())),
            "again" => self.again = true,
            "same" => self.same = true,
            "count" => {
                let (number, text) = rest.split_once(' ').ok_or("expected a number and a text")?;
                let number = number.parse::<usize>().map_err(|error| error.to_string())?;
                self.counts.push((number, text.to_owned()));
            }
            _ => return Err("unknown command".to_owned()),
        }
        Ok(())
    }

    /// Runs the job on a program: returns the expected lines, or an unmet condition.
    pub(super) fn run(&self, program: &str) -> Result<String, String> {
        let job = self.job.as_ref().ok_or("no job: `pass`, `verify`, `print`, `schedule`, `opencl` or `cuda`")?;
        let mut found = match job {
            Job::Pass(names) => passes::run(self, names, program)?,
            Job::Verify(stage) => {
                let module = text::parse(program).map_err(|error| error.to_string())?;
                verify_module(&module, *stage).map_or_else(|error| error.to_string(), |()| "accepted".to_owned())
            }
            Job::Print => match text::parse(program) {
                Ok(module) => passes::printed(&module)?,
                Err(error) => error.to_string(),
            },
            Job::Schedule(target) => te::schedule(program, target)?,
            Job::Source(words, names) => passes::source(self, names, words, program)?,
        };
        found = found.lines().map(|line| format!("{}\n", line.trim_end())).collect();
        if self.same && found != program {
            return Err(format!("expected the text of the case, found\n{found}"));
        }
        for (expected, text) in &self.counts {
            let lines = found.lines().filter(|line| line.contains(text.as_str())).count();
            if lines != *expected {
                return Err(format!("expected {expected} lines with `{text}`, found {lines} in\n{found}"));
            }
        }
        Ok(found)
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
