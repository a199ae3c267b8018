//! A program into which a static library of Apache TVM is linked. `tests/tests/stock/apache_tvm.rs`
//! builds and starts it.

use kernpack::{Function, Module, Result};
use kernpack_apache_tvm_host::{check, check_process, check_wrong_argument};

fn main() -> Result<()> {
    let module: Module = Function::global("ffi.SystemLib")?.call_as(("exported_",))?;
    check(&module.function("scale")?, |a, i| a[i] * 2.0 + 1.0)?;
    check_wrong_argument(&module, "scale")?;
    check_process()?;
    println!("all checks passed");
    Ok(())
}
