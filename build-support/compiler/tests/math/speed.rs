//! The time per element, compared with libm's.

use std::process::Command;

use kernpack_compiler::intrin::{FUNCTIONS, Features};
use kernpack_compiler::ir::{F32, F64};

use crate::program::{build, has_fma};

#[test]
#[ignore = "a benchmark"]
fn speed() {
    let features = Features { fma: has_fma(), ..Features::default() };
    for (title, dtype, lanes) in [("f32", F32, 1), ("f32x16", F32, 16), ("f64", F64, 1), ("f64x8", F64, 8)] {
        let program = build(&format!("speed-{title}"), dtype, lanes, features);
        println!("{title}: name, ns per element, ns of libm (scalar)");
        for (name, _) in FUNCTIONS {
            let output = Command::new(&program).args([name, "time", "200"]).output().unwrap();
            if output.status.success() {
                print!("{}", String::from_utf8_lossy(&output.stdout));
            }
        }
    }
}
