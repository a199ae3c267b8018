//! The job `pass`: the program after passes, and runs of it before and after them.

use kernpack::structural::Options;
use kernpack::{Any, Array};
use kernpack_compiler::codegen::source::{self, Vocabulary};
use kernpack_compiler::codegen::{RuntimeSymbols, c};
use kernpack_compiler::ir::visit::{for_each_expr_in, for_each_stmt};
use kernpack_compiler::ir::{ExprNode, IrModule, StmtNode};
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

/// The text of a module, and the module that the text parses to, which has to have the same text.
fn printed(module: &IrModule) -> Result<(String, IrModule), String> {
    let printed = text::print(module);
    let again = text::parse(&printed).map_err(|error| format!("printed text does not parse: {error}\n{printed}"))?;
    match text::print(&again) {
        repeated if repeated == printed => Ok((printed, again)),
        repeated => Err(format!("printed text\n{printed}reads back as\n{repeated}")),
    }
}

/// The text of a module, which has to parse to a module of the same structure.
pub(super) fn read_back(module: &IrModule) -> Result<String, String> {
    let (printed, again) = printed(module)?;
    let options = Options::new().map_free_vars(true);
    match options.first_mismatch(module, &again).map_err(|error| error.to_string())? {
        None => Ok(printed),
        Some(difference) => Err(format!("{} is not {} in\n{printed}", difference.left, difference.right)),
    }
}

/// The number of innermost loops without a condition: an `if`, or a select.
fn clean_loops(module: &IrModule) -> usize {
    let mut clean = 0;
    for function in module.functions.iter() {
        for_each_stmt(&function.body, |stmt| {
            let StmtNode::For { body, .. } = &**stmt else { return };
            let mut inside = 0;
            for_each_stmt(body, |part| {
                inside += usize::from(matches!(**part, StmtNode::For { .. } | StmtNode::If { .. }));
            });
            for_each_expr_in(body, |part| {
                inside += usize::from(matches!(**part, ExprNode::Select { .. } | ExprNode::IfThenElse { .. }));
            });
            clean += usize::from(inside == 0);
        });
    }
    clean
}

/// Runs passes on a program: returns the printed result with warnings and the results of runs, or
/// the error of a pass. The outer error is an unmet condition.
pub(super) fn run(commands: &Commands, names: &[String], program: &str) -> Result<Result<String, String>, String> {
    let before = text::parse(program).map_err(|error| error.to_string())?;
    let context = PassContext::new(commands.options.clone());
    let passes: Array<Any> = names.iter().map(|name| Any::from(name.as_str())).collect();
    let after = match pipeline::run(program_of(&before), &passes, &context) {
        Ok(after) => Program::of(&after).ok_or("the result is not a program")?,
        Err(error) => return Ok(Err(error.to_string())),
    };
    let module = after.module();
    let (mut found, _) = printed(&module)?;
    for warning in context.take_warnings() {
        found.push_str(&format!("warning: {warning}\n"));
    }
    if commands.again {
        unchanged(after, names, &context).map_err(|problem| format!("{problem}\n{found}"))?;
    }
    if let Some(expected) = commands.clean_loops {
        let clean = clean_loops(&module);
        if clean != expected {
            return Err(format!("expected {expected} innermost loops without a condition, found {clean} in\n{found}"));
        }
    }
    for run in &commands.runs {
        found.push_str(&results(run, &before, &module).map_err(|problem| format!("{problem}\n{found}"))?);
    }
    Ok(Ok(found))
}

/// The language of printed source.
pub(super) enum Language {
    /// C: the functions.
    C,
    /// A language of devices: the kernels.
    Device(&'static Vocabulary),
}

impl Language {
    /// The source of a module; that of C without the lines that begin every file.
    fn source(&self, module: &IrModule) -> kernpack_compiler::Result<String> {
        match self {
            Self::C => {
                let [text, empty] =
                    [module, &IrModule::new([])].map(|module| c::source(module, &RuntimeSymbols::Direct));
                let (text, empty) = (text?, empty?);
                Ok(text.strip_prefix(empty.trim_end()).unwrap_or(&text).trim_start().to_owned())
            }
            Self::Device(words) => source::source(words, module).map(|(source, _)| source),
        }
    }
}

/// The source of a program after passes, or the error of a pass or of the generator.
pub(super) fn source(
    commands: &Commands,
    names: &[String],
    language: &Language,
    program: &str,
) -> Result<Result<String, String>, String> {
    let before = text::parse(program).map_err(|error| error.to_string())?;
    let context = PassContext::new(commands.options.clone());
    let passes: Array<Any> = names.iter().map(|name| Any::from(name.as_str())).collect();
    let after = match pipeline::run(program_of(&before), &passes, &context) {
        Ok(after) => Program::of(&after).ok_or("the result is not a program")?,
        Err(error) => return Ok(Err(error.to_string())),
    };
    Ok(language.source(&after.module()).map_err(|error| error.to_string()))
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
