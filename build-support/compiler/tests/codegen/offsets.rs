//! Tensors whose elements start at a symbolic offset from the data pointer.

use kernpack::Tensor;
use kernpack_compiler::build;
use kernpack_compiler::codegen::Target;
use kernpack_compiler::ir::{Buffer, BufferNode, Expr, ForKind, I64, Stmt, Var};

use crate::{function, tensor, written};

/// The numbers of outputs of one call: checked pair by pair, and all at once.
const COUNTS: [usize; 2] = [2, 12];

fn numbers(name: &str, extent: impl Into<Expr>) -> Buffer {
    Buffer::new(name, I64, [extent.into()], "global")
}

fn at(name: &str, offset: impl Into<Expr>) -> Buffer {
    Buffer::from_node(BufferNode { elem_offset: offset.into(), ..numbers(name, 4).to_node() })
}

/// Offsets consist of sizes that a later argument determines, sizes that an earlier one determined,
/// constants, or separate names.
#[test]
fn offsets_are_known_before_they_are_used() {
    let (n, own) = (Var::size("n", I64), Var::size("own", I64));
    let offsets = [n.expr().clone(), n.expr() * 2 + 1, own.expr().clone(), Expr::int(3)];
    for (offset, count, sizes_first) in offsets
        .iter()
        .flat_map(|offset| COUNTS.map(|count| (offset, count)))
        .flat_map(|(a, b)| [(a, b, false), (a, b, true)])
    {
        let (a, sizes) = (at("a", offset), numbers("sizes", &n));
        let outs: Vec<Buffer> = (0..count).map(|k| at(&format!("out{k}"), offset)).collect();
        let i = Var::index("i");
        let store = |out: &Buffer| {
            let place = i.expr() + offset;
            Stmt::store(out.clone(), &place, Expr::load(&a, &place) + &n)
        };
        let body = Stmt::for_loop(i.clone(), 0, 4, ForKind::Serial, Stmt::seq(outs.iter().map(store)));
        let mut params: Vec<_> = [tensor(&a)].into_iter().chain(outs.iter().map(written)).collect();
        params.insert(if sizes_first { 0 } else { params.len() }, tensor(&sizes));
        let module = build(&function("f", params, body), &Target::host()).unwrap_or_else(|error| panic!("{error}"));
        let input = Tensor::from_slice(&[1i64, 2, 3, 4], &[4]).unwrap();
        let results: Vec<Tensor> = (0..count).map(|_| Tensor::zeros::<i64>(&[4]).unwrap()).collect();
        let mut args: Vec<Tensor> = [input].into_iter().chain(results.iter().cloned()).collect();
        args.insert(if sizes_first { 0 } else { args.len() }, Tensor::zeros::<i64>(&[5]).unwrap());
        let args: Vec<kernpack::Any> = args.into_iter().map(kernpack::Any::from).collect();
        module.function("f").unwrap().call(&args[..]).unwrap_or_else(|error| panic!("{offset}: {error}"));
        for result in &results {
            assert_eq!(result.view::<i64>().unwrap().to_vec(), [6, 7, 8, 9], "{offset}, {count} outputs");
        }
    }
}
