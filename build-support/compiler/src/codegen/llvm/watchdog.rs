//! Reports of slow LLVM compilations, for users for whom a build seems to hang: some loops of
//! LLVM's passes take an unbounded time, and LLVM cannot be interrupted.

use std::io::Write;
use std::sync::mpsc::{RecvTimeoutError, Sender, channel};
use std::time::{Duration, Instant};

use kernpack::Str;

use crate::ir::visit::for_each_stmt;
use crate::ir::{IrModule, LoweredFunc, NODES};

/// The time that LLVM may take for a module without a report.
const LIMIT: Duration = Duration::from_secs(60);

/// The number of functions that a report names.
const NAMED: usize = 3;

/// Reports on the standard error stream what LLVM has been compiling, after one minute and after
/// each further one, until it is dropped.
pub(super) struct Watchdog {
    /// Dropping it ends the thread.
    _end: Sender<()>,
}

impl Watchdog {
    /// Starts to watch.
    pub(super) fn of(functions: &IrModule) -> Self {
        let largest = largest(functions);
        let (end, ended) = channel();
        let start = Instant::now();
        let watch = move || {
            while ended.recv_timeout(LIMIT) == Err(RecvTimeoutError::Timeout) {
                // The stream may be closed.
                let _ = writeln!(std::io::stderr(), "{}", report(start.elapsed(), &largest));
            }
        };
        // Without a thread there is no report, and the code is the same.
        let _ = std::thread::Builder::new().name("kernpack-watchdog".to_owned()).spawn(watch);
        Self { _end: end }
    }
}

fn report(elapsed: Duration, largest: &[String]) -> String {
    format!(
        "kernpack: LLVM has been compiling for {} s. The largest functions are {}. It cannot be interrupted: to find out which one it does not \
         finish, build with level 0, or leave out the nodes",
        elapsed.as_secs(),
        largest.join(", ")
    )
}

/// The functions with the most statements: their names, and their numbers of statements and nodes.
fn largest(functions: &IrModule) -> Vec<String> {
    let mut sizes: Vec<(usize, LoweredFunc)> = functions
        .functions
        .iter()
        .map(|function| {
            let mut size = 0;
            for_each_stmt(&function.body, |_| size += 1);
            (size, function)
        })
        .collect();
    sizes.sort_by_key(|(size, _)| core::cmp::Reverse(*size));
    let names = sizes.iter().take(NAMED).map(|(size, function)| {
        let nodes = function.attr(NODES).and_then(|nodes| nodes.to::<Str>().ok());
        let nodes = nodes.map_or_else(String::new, |nodes| format!(", {}", nodes.as_str()));
        format!("`{}` ({size} statements{nodes})", function.name.as_str())
    });
    names.collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ir::{Expr, FuncKind, LoweredFuncNode, Stmt};

    #[test]
    fn reports_name_the_largest_functions_and_their_nodes() {
        let function = |name: &str, statements: usize, nodes: Option<&str>| {
            LoweredFunc::from_node(LoweredFuncNode {
                name: name.into(),
                params: kernpack::Array::default(),
                ret: crate::ir::dtype::NOTHING,
                kind: FuncKind::Internal,
                thread_axes: kernpack::Array::default(),
                body: Stmt::seq(
                    (0..statements).map(|_| Stmt::evaluate(Expr::math("exp", [Expr::float(crate::ir::F32, 1.0)]))),
                ),
                attrs: nodes.map(|nodes| (Str::from(NODES), kernpack::Any::from(nodes))).into_iter().collect(),
            })
        };
        let module = IrModule::new([
            function("m.kernel0", 3, None),
            function("m.kernel1", 9, Some("node 'a' (ReduceMax)")),
            function("m.kernel2", 2, None),
            function("m.kernel3", 5, None),
        ]);
        let found = report(Duration::from_secs(61), &largest(&module));
        let expected = "kernpack: LLVM has been compiling for 61 s. The largest functions are `m.kernel1` (10 statements, node 'a' (ReduceMax)), \
                        `m.kernel3` (6 statements), `m.kernel0` (4 statements). ";
        assert!(found.starts_with(expected), "{found}");
    }
}
