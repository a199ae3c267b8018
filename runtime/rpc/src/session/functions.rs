//! The global functions that clients expect of a server.

use std::io::Read;
use std::sync::Arc;

use kernpack::module::operations;
use std::time::Duration;

use kernpack::{Any, AnyView, Bytes, Function, Module, Result, error};

use super::arguments::Arguments;
use super::files::Files;
use super::programs::Programs;
use super::time_evaluator::time_evaluator;

/// Starts a program of the session's folder: its name, arguments and environment, each part ended
/// by NUL.
pub(crate) const START: &str = "kernpack.rpc.program.start";
/// Writes input to the program and returns its output, as a list of
/// [`Output`](crate::wire::Output).
pub(crate) const POLL: &str = "kernpack.rpc.program.poll";

/// Functions whose calls are streamed instead of buffered: files may be larger than memory.
pub(super) struct Functions {
    pub(super) upload: Function,
    pub(super) download: Function,
}

impl Functions {
    /// Registers the functions over the files of a session; existing functions of these names are
    /// replaced.
    pub(super) fn register(files: &Arc<Files>, programs: &Arc<Programs>) -> Result<Self> {
        let global = |name: &'static str, call: fn(&'static str, &Files, &[AnyView<'_>]) -> Result<Any>| {
            let files = Arc::clone(files);
            let function = Function::from_packed(move |views| call(name, &files, views));
            Function::register_global_override(name, &function)?;
            Ok::<Function, kernpack::Error>(function)
        };
        let upload = global("tvm.rpc.server.upload", |name, files, views| {
            let args = Arguments::new(name, &["name", "bytes"], views)?;
            files.upload(args.get(0, "name")?, args.get(1, "bytes")?)?;
            Ok(Any::NONE)
        })?;
        let download = global("tvm.rpc.server.download", |name, files, views| {
            let file: &str = Arguments::new(name, &["name"], views)?.get(0, "name")?;
            let (mut opened, length) = files.open(file)?;
            read(file, &mut opened, length)
        })?;
        global("tvm.rpc.server.remove", |name, files, views| {
            files.remove(Arguments::new(name, &["name"], views)?.get(0, "name")?)?;
            Ok(Any::NONE)
        })?;
        global("tvm.rpc.server.listdir", |name, files, views| {
            let args = Arguments::new(name, &["name?"], views)?;
            Ok(Any::from(files.list(args.get_or(0, "name", "")?)?.as_str()))
        })?;
        global("tvm.rpc.server.workpath", |name, files, views| {
            let path = files.path(Arguments::new(name, &["name"], views)?.get(0, "name")?)?;
            Ok(Any::from(path.to_string_lossy().as_ref()))
        })?;
        global("tvm.rpc.server.load_module", |name, files, views| {
            Ok(Any::from(files.load(Arguments::new(name, &["name"], views)?.get(0, "name")?)?))
        })?;
        global("tvm.rpc.server.download_linked_module", |name, files, views| {
            let file: &str = Arguments::new(name, &["name"], views)?.get(0, "name")?;
            let library = files.library(file)?;
            let bytes = std::fs::read(&library);
            let bytes =
                bytes.map_err(|problem| error!(RuntimeError, "cannot read {}: {problem}", library.display()))?;
            Ok(Any::from(Bytes::new(&bytes)))
        })?;
        global("tvm.rpc.server.ModuleGetFunction", |name, _, views| {
            let args = Arguments::new(name, &["module", "name", "query_imports"], views)?;
            let (module, function): (Module, &str) = (args.get(0, "module")?, args.get(1, "name")?);
            Ok(operations::get_function(&module, function, args.get(2, "query_imports")?)?.map_or(Any::NONE, Any::from))
        })?;
        global("tvm.rpc.server.ImportModule", |name, _, views| {
            let args = Arguments::new(name, &["parent", "child"], views)?;
            operations::import(&args.get(0, "parent")?, &args.get(1, "child")?)?;
            Ok(Any::NONE)
        })?;
        let own = Arc::clone(programs);
        let start = Function::from_packed({
            let files = Arc::clone(files);
            move |views| {
                let args = Arguments::new(START, &["name", "arguments", "environment"], views)?;
                own.start(&files, args.get(0, "name")?, args.get(1, "arguments")?, args.get(2, "environment")?)?;
                Ok(Any::NONE)
            }
        });
        Function::register_global_override(START, &start)?;
        let own = Arc::clone(programs);
        let poll = Function::from_packed(move |views| {
            let args = Arguments::new(POLL, &["input", "input_ends", "milliseconds"], views)?;
            let wait = Duration::from_millis(u64::try_from(args.get::<i64>(2, "milliseconds")?).unwrap_or(0));
            Ok(Any::from(Bytes::new(&own.poll(args.get(0, "input")?, args.get(1, "input_ends")?, wait)?)))
        });
        Function::register_global_override(POLL, &poll)?;
        global("runtime.RPCTimeEvaluator", |_, _, views| time_evaluator(views))?;
        // For tests of connections; stock peers also have it.
        global("testing.echo", |name, _, views| {
            Arguments::new(name, &["value"], views)?.get::<AnyView<'_>>(0, "value")?.try_to_owned()
        })?;
        global("testing.nop", |_, _, _| Ok(Any::NONE))?;
        Ok(Self { upload, download })
    }
}

fn read(name: &str, file: &mut std::fs::File, length: u64) -> Result<Any> {
    let mut bytes = Vec::new();
    let too_large = |problem: &dyn std::fmt::Display| error!(RuntimeError, "cannot read '{name}': {problem}");
    let reserve = usize::try_from(length).map_err(|problem| too_large(&problem))?;
    bytes.try_reserve_exact(reserve).map_err(|problem| too_large(&problem))?;
    file.read_to_end(&mut bytes).map_err(|problem| too_large(&problem))?;
    Ok(Any::from(Bytes::new(&bytes)))
}
