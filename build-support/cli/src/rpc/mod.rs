//! `cargo kernpack rpc`: libraries on other machines.

mod options;

pub(crate) use options::{HELP, Options, parse};

use kernpack_rpc::program;

use crate::{Result, print};

/// Runs the subcommand.
pub(crate) fn run(options: Options) -> Result<()> {
    match options {
        Options::Serve(options) => program::serve(*options).map_err(|problem| problem.message().to_owned()),
        Options::Tracker(options) => program::track(*options).map_err(|problem| problem.message().to_owned()),
        Options::Query(query) => query.run().map_err(|problem| problem.message().to_owned()),
        Options::Proxy(options) => program::pass_on(*options).map_err(|problem| problem.message().to_owned()),
        Options::Keygen(keygen) => keygen.run().map(drop).map_err(|problem| problem.message().to_owned()),
        Options::Runner(runner) => {
            let code = runner.run().unwrap_or_else(|problem| {
                program::say(format_args!("cargo kernpack rpc runner: {}", problem.message()));
                program::NOT_RUN
            });
            // Not an error of this program, so it prints no message: the exit code is the result.
            std::process::exit(code.into())
        }
        Options::Help(text) => print(&text),
    }
}
