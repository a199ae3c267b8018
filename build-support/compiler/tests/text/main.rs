//! The text form: its appearance, round trips, and errors.

use kernpack::structural;
use kernpack_compiler::text;

#[track_caller]
fn round_trip(source: &str) {
    let module = text::parse(source).unwrap();
    let printed = text::print(&module);
    assert_eq!(printed.trim_end(), source.trim_end());
    let again = text::parse(&printed).unwrap();
    if let Some(difference) = structural::first_mismatch(&module, &again).unwrap() {
        panic!("{} is not {} in:\n{printed}", difference.left, difference.right);
    }
}

const DENSE: &str = r#"#[noalias = 1]
func dense(a: f32[m, 784], w: f32[512, 784], out: mut f32[m, 512]) {
  parallel io in 0..floordiv(m + 11, 12) {
    alloc acc: f32[12, 32] @local align 16
    unrolled i in 0..12 {
      acc[i * 32 : 32] = broadcast(0.0, 32)
    }
    for k in 0..784 {
      unrolled i_1 in 0..12 {
        acc[i_1 * 32 : 32] = fma(broadcast(a[(io * 12 + i_1) * 784 + k], 32), w[k ; 784 : 32], acc[i_1 * 32 : 32])
      }
    }
    if likely(io * 12 + 11 < m) {
      out[io * 12 * 512 : 32] = acc[0 : 32]
    } else {
      for j in 0..m - io * 12 {
        let n = m - io * 12
        out[j * 512 : 32] = (acc[j * 32 : 32] where ramp(0, 1, 32) < broadcast(n, 32)) where ramp(0, 1, 32) < broadcast(n, 32)
      }
    }
  }
}
"#;

#[test]
fn a_function_reads_back() {
    round_trip(DENSE);
}

mod mistakes;
mod pipeline;
mod programs;
mod properties;
mod verify;

#[test]
fn other_languages_print_and_parse() {
    let module: kernpack_compiler::ir::IrModule =
        kernpack::Function::global("kernpack.ir.parse").unwrap().call((DENSE,)).unwrap().to().unwrap();
    let printed = kernpack::Function::global("kernpack.ir.print").unwrap().call((&module,)).unwrap();
    assert_eq!(printed.to::<String>().unwrap(), DENSE);
    let error = kernpack::Function::global("kernpack.ir.parse").unwrap().call(("func",)).unwrap_err();
    assert!(error.message().contains("expected a name, got the end of the text\n  --> 1:5"), "{error}");
}
