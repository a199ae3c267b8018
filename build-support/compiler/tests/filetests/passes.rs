//! The job `pass`: the program after passes, and runs of it before and after them.

use kernpack::{Any, Array};
use kernpack_compiler::codegen::source::{self, Vocabulary};
use kernpack_compiler::ir::IrModule;
use kernpack_compiler::pass::{Pass, PassContext, Program, pipeline};
use kernpack_compiler::text;

use super::command::{Commands, Run};
use super::interpreter;

/// A module as passes take it: a module of one function is that function.
fn program_of(module: &IrModule) -> Any {
    match module.functions.iter().next() {
        Some(function) if module.functions.len() == 1 => function.into(),
        _ => module.clone().into(),
    }
}

/// The text of a module, which has to parse to a program with the same text.
pub(super) fn printed(module: &IrModule) -> Result<String, String> {
    let printed = text::print(module);
    let again = text::parse(&printed).map_err(|error| format!("printed text does not parse: {error}\n{printed}"))?;
    match text::print(&again) {
        again if again == printed => Ok(printed),
        again => Err(format!("printed text\n{printed}reads back as\n{again}")),
    }
}

/// Runs passes on a program: returns the printed result with warnings and the results of runs, or
/// the error of a pass.
pub(super) fn run(commands: &Commands, names: &[String], program: &str) -> Result<String, String> {
    let before = text::parse(program).map_err(|error| error.to_string())?;
    let context = PassContext::new(commands.options.clone());
    let passes: Array<Any> = names.iter().map(|name| Any::from(name.as_str())).collect();
    let after = match pipeline::run(program_of(&before), &passes, &context) {
        Ok(after) => Program::of(&after).ok_or("the result is not a program")?,
        Err(error) => return Ok(error.to_string()),
    };
    let module = after.module();
    let mut found = printed(&module)?;
    for warning in context.take_warnings() {
        found.push_str(&format!("warning: {warning}\n"));
    }
    if commands.again {
        unchanged(after, names, &context).map_err(|problem| format!("{problem}\n{found}"))?;
    }
    for run in &commands.runs {
        found.push_str(&results(run, &before, &module).map_err(|problem| format!("{problem}\n{found}"))?);
    }
    Ok(found)
}

/// The source of the kernels of a program after passes, or the error of a pass or of the generator.
pub(super) fn source(
    commands: &Commands,
    names: &[String],
    words: &'static Vocabulary,
    program: &str,
) -> Result<String, String> {
    let before = text::parse(program).map_err(|error| error.to_string())?;
    let context = PassContext::new(commands.options.clone());
    let passes: Array<Any> = names.iter().map(|name| Any::from(name.as_str())).collect();
    let after = match pipeline::run(program_of(&before), &passes, &context) {
        Ok(after) => Program::of(&after).ok_or("the result is not a program")?,
        Err(error) => return Ok(error.to_string()),
    };
    Ok(source::source(words, &after.module()).map_or_else(|error| error.to_string(), |(source, _)| source))
}

/// Checks that passes return their own result without a change.
fn unchanged(after: Program, names: &[String], context: &PassContext) -> Result<(), String> {
    let module = after.module();
    let mut again = after;
    for name in names {
        let pass = Pass::find(name).ok_or_else(|| format!("unknown pass `{name}`"))?;
        again = (pass.run)(&again, context).map_err(|error| error.to_string())?;
    }
    let again = again.module();
    let same = module.functions.iter().zip(again.functions.iter()).all(|(a, b)| a.body.same_as(&b.body));
    if same && module.functions.len() == again.functions.len() { Ok(()) } else { Err(format!("again:\n{again}")) }
}

/// The lines of a run, or an unmet condition.
fn results(run: &Run, before: &IrModule, after: &IrModule) -> Result<String, String> {
    match run {
        Run::Same(arguments) => {
            let expected = interpreter::run(before, arguments)?;
            let found = interpreter::run(after, arguments)?;
            match (expected, found) {
                (Ok(expected), Ok(found)) if expected == found => Ok(String::new()),
                (expected, found) => {
                    Err(format!("run {arguments}: before\n{}after\n{}", either(&expected), either(&found)))
                }
            }
        }
        Run::FailsBefore(arguments) => match interpreter::run(before, arguments)? {
            Ok(found) => Err(format!("run {arguments}: expected an error before the passes, found\n{found}")),
            Err(_) => Ok(String::new()),
        },
        Run::After(arguments) => match interpreter::run(after, arguments)? {
            Ok(found) => Ok(format!("run {arguments}\n{found}")),
            Err(error) => Err(format!("run {arguments}: after the passes: {error}")),
        },
    }
}

fn either(outcome: &Result<String, String>) -> String {
    match outcome {
        Ok(found) => found.clone(),
        Err(error) => format!("{error}\n"),
    }
}
