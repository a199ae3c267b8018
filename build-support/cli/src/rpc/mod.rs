//! `cargo kernpack rpc`: libraries on other machines.

mod options;

pub(crate) use options::{HELP, Options, parse};

use crate::{Result, print};

/// Does what the options say.
pub(crate) fn run(options: Options) -> Result<()> {
    match options {
        Options::Serve(options) => {
            kernpack_rpc::program::serve(*options).map_err(|problem| problem.message().to_owned())
        }
        Options::Tracker(options) => {
            kernpack_rpc::program::track(*options).map_err(|problem| problem.message().to_owned())
        }
        Options::Query(query) => query.run().map_err(|problem| problem.message().to_owned()),
        Options::Proxy(options) => {
            kernpack_rpc::program::pass_on(*options).map_err(|problem| problem.message().to_owned())
        }
        Options::Keygen(keygen) => keygen.run().map(drop).map_err(|problem| problem.message().to_owned()),
        Options::Help(text) => print(&text),
    }
}
