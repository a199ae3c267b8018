//! Other requirements of LLVM code: several loops in one launch, truth values, intrinsics by name,
//! alignment, tensors without dimensions, system libraries.

use kernpack::{Any, Str, Tensor};
use kernpack_compiler::build;
use kernpack_compiler::codegen::llvm::compile;
use kernpack_compiler::codegen::{Target, c};
use kernpack_compiler::ir::{
    BOOLEAN, Buffer, CallKind, DataTypeExt, Expr, F32, ForKind, I32, I64, IrModule, LoweredFunc, Stmt, Var,
};

use crate::{function, scalar, sum, tensor};

fn floats(name: &str, extent: impl Into<Expr>) -> Buffer {
    Buffer::new(name, F32, [extent.into()], "global")
}

#[test]
fn a_launch_has_several_loops_with_barriers_between() {
    const N: i64 = 1000;
    for strided in [false, true] {
        let [a, middle, out] = ["a", "middle", "out"].map(|name| floats(name, N));
        let parallel = |body: &dyn Fn(&Var) -> Stmt| {
            let i = Var::index("i");
            Stmt::for_loop(i.clone(), 0, N, ForKind::Parallel, body(&i))
        };
        let pragma = |key: &str, body: Stmt| Stmt::attr(key, "", 1, body);
        let split = |body: Stmt| if strided { pragma("pragma_parallel_stride_pattern", body) } else { body };
        // The second loop reads elements that other tasks wrote in the first one.
        let first = parallel(&|i| Stmt::store(middle.clone(), i, Expr::load(&a, i) * 2.0));
        let second = parallel(&|i| Stmt::store(out.clone(), i, Expr::load(&middle, Expr::int(N - 1) - i) + 1.0));
        let both = Stmt::seq([pragma("pragma_parallel_barrier_when_finish", split(first)), split(second)]);
        let params = [tensor(&a), crate::written(&middle), tensor(&out)];
        let body = pragma("pragma_parallel_launch_point", both);
        let module = build(&function("f", params, body), &Target::host()).unwrap();
        let text = module.inspect_source("ll").unwrap();
        assert_eq!(text.matches("@__tvm_parallel_lambda").count().min(3), 2, "one task function:\n{text}");
        let values: Vec<f32> = (0..N).map(|i| i as f32).collect();
        let a = Tensor::from_slice(&values, &[N]).unwrap();
        for _ in 0..20 {
            let [middle, out] = [(); 2].map(|()| Tensor::from_slice(&[0f32; N as usize], &[N]).unwrap());
            module.function("f").unwrap().call((&a, &middle, &out)).unwrap();
            let expected: Vec<f32> = values.iter().rev().map(|x| x * 2.0 + 1.0).collect();
            assert_eq!(out.view::<f32>().unwrap().to_vec(), expected, "strided: {strided}");
        }
    }
}

/// With `n` tasks, each one runs every `n`-th iteration of a strided loop, and a contiguous part of
/// any other loop.
#[test]
fn a_loop_of_its_own_is_strided() {
    const N: i64 = 1001;
    for strided in [false, true] {
        let [a, out] = ["a", "out"].map(|name| floats(name, N));
        let i = Var::index("i");
        let store = Stmt::store(out.clone(), &i, Expr::load(&a, &i) * 2.0);
        let note = strided.then(|| (Str::from("parallel_stride_pattern"), Any::from(1)));
        let body = Stmt::for_with(i, 0, N, ForKind::Parallel, note.into_iter().collect(), store);
        let module = build(&function("f", [tensor(&a), tensor(&out)], body), &Target::host()).unwrap();
        // Contiguous parts are computed with a division.
        let text = module.inspect_source("ll").unwrap();
        assert_eq!(text.contains("sdiv") || text.contains("udiv"), !strided, "{text}");
        let values: Vec<f32> = (0..N).map(|i| i as f32).collect();
        let (a, out) = (Tensor::from_slice(&values, &[N]).unwrap(), Tensor::zeros::<f32>(&[N]).unwrap());
        module.function("f").unwrap().call((&a, &out)).unwrap();
        assert_eq!(out.view::<f32>().unwrap().to_vec(), values.iter().map(|x| x * 2.0).collect::<Vec<_>>());
    }
}

#[test]
fn truth_values_are_kept_in_memory() {
    const N: i64 = 48;
    let flags = Buffer::new("flags", BOOLEAN, [Expr::int(N)], "global");
    let (a, out) = (floats("a", N), floats("out", N));
    for lanes in [1u16, 4, 16] {
        let wide = |value: f64| match lanes {
            1 => Expr::float(F32, value),
            _ => Expr::float(F32, value).broadcast(lanes),
        };
        let over = |body: &dyn Fn(&Expr) -> Stmt| {
            let i = Var::index("i");
            let place = if lanes == 1 { i.expr().clone() } else { (&i * i64::from(lanes)).ramp(1, lanes) };
            Stmt::for_loop(i, 0, N / i64::from(lanes), ForKind::Serial, body(&place))
        };
        let first = over(&|place| {
            let x = Expr::load(&a, place);
            Stmt::store(flags.clone(), place, x.less(wide(10.0)).or(x.greater(wide(40.0)).negated().negated()))
        });
        let second = over(&|place| {
            let last = Expr::int(N - 1);
            let last = if lanes == 1 { last } else { last.broadcast(lanes) };
            let other = Expr::load(&flags, last - place);
            let both = Expr::load(&flags, place).and(other.negated());
            Stmt::store(out.clone(), place, Expr::select(both, wide(1.0), wide(0.0)))
        });
        let body = Stmt::seq([Stmt::alloc(flags.clone()), first, second]);
        let module = build(&function("f", [tensor(&a), tensor(&out)], body), &Target::host()).unwrap();
        let values: Vec<f32> = (0..N).map(|i| i as f32).collect();
        let (a, out) = (Tensor::from_slice(&values, &[N]).unwrap(), Tensor::from_slice(&[7f32; 48], &[N]).unwrap());
        module.function("f").unwrap().call((&a, &out)).unwrap();
        let flag = |at: i64| !(10..=40).contains(&at);
        let expected: Vec<f32> = (0..N).map(|at| f32::from(u8::from(flag(at) && !flag(N - 1 - at)))).collect();
        assert_eq!(out.view::<f32>().unwrap().to_vec(), expected, "{lanes} lanes");
    }
}

/// A name, the value for `x`, and the expected function.
type Row = (&'static str, Expr, fn(f32) -> f32);

#[test]
fn intrinsics_are_called_by_name() {
    let (a, out) = (floats("a", 8), floats("out", 8));
    let call = |name: &str, dtype, args: Vec<Expr>| Expr::call(CallKind::LlvmIntrinsic, name, dtype, args);
    let place = Expr::int(0).ramp(1, 8);
    let (x, wide) = (Expr::load(&a, &place), F32.with_lanes(8));
    let rows: [Row; 4] = [
        ("sqrt", call("llvm.sqrt", wide, vec![x.clone()]), f32::sqrt),
        ("fma", call("llvm.fma", wide, vec![x.clone(), x.clone(), x.clone()]), |x| x * x + x),
        ("trunc", call("llvm.trunc", wide, vec![&x * 0.3]), |x| (x * 0.3).trunc()),
        ("ctpop", call("llvm.ctpop", I32.with_lanes(8), vec![x.cast(I32.with_lanes(8))]).cast(wide), |x| {
            (x as i32).count_ones() as f32
        }),
    ];
    let values = [0f32, 1.0, 2.0, 3.0, 4.0, 9.0, 16.0, 255.0];
    for (name, value, expected) in rows {
        let body = Stmt::store(out.clone(), &place, value);
        let module = build(&function("f", [&a, &out].map(tensor), body), &Target::host()).unwrap();
        let (a, out) = (Tensor::from_slice(&values, &[8]).unwrap(), Tensor::from_slice(&[0f32; 8], &[8]).unwrap());
        module.function("f").unwrap().call((&a, &out)).unwrap();
        assert_eq!(out.view::<f32>().unwrap().to_vec(), values.map(expected), "{name}");
    }
    let unknown = Stmt::store(out.clone(), 0, call("llvm.nothing_like_it", F32, vec![Expr::load(&a, 0)]));
    let error = build(&function("f", [&a, &out].map(tensor), unknown), &Target::host()).unwrap_err().to_string();
    assert!(error.contains("llvm.nothing_like_it"), "{error}");
}

#[test]
fn vectors_use_the_alignment_that_is_asked_for() {
    // Without the attribute, data may have any address that is aligned for its elements.
    for (start, asked, expected) in [(0, 64, 64), (4, 64, 16), (1, 64, 4), (0, 0, 4)] {
        let (a, out) = (floats("a", 64), floats("out", 64));
        let place = Expr::int(start).ramp(1, 16);
        let body = Stmt::store(out.clone(), &place, Expr::load(&a, &place) + Expr::float(F32, 1.0).broadcast(16));
        let mut node = function("f", [&a, &out].map(tensor), body).to_node();
        if asked > 0 {
            node.attrs = [("data_alignment".into(), Any::from(asked))].into_iter().collect();
        }
        let compiled = build(&LoweredFunc::from_node(node), &Target::host()).unwrap();
        let text = compiled.inspect_source("ll").unwrap();
        let loads: Vec<&str> = text.lines().filter(|line| line.contains("load <16 x float>")).collect();
        let alignment = format!("align {expected},");
        assert!(!loads.is_empty() && loads.iter().all(|line| line.contains(&alignment)), "{alignment} {loads:?}");
    }
}

#[test]
fn tensors_without_dimensions_are_arguments() {
    let [a, out] = ["a", "out"].map(|name| Buffer::new(name, F32, Vec::<Expr>::new(), "global"));
    let by = Var::new("by", F32);
    let body = Stmt::store(out.clone(), 0, Expr::load(&a, 0) * &by);
    let module = build(&function("f", [tensor(&a), scalar(&by), tensor(&out)], body), &Target::host()).unwrap();
    let (a, out) = (Tensor::from_slice(&[3f32], &[]).unwrap(), Tensor::from_slice(&[0f32], &[]).unwrap());
    module.function("f").unwrap().call((&a, 2.5, &out)).unwrap();
    assert_eq!(out.view::<f32>().unwrap().to_vec(), [7.5]);
    let vector = Tensor::from_slice(&[3f32], &[1]).unwrap();
    let error = module.function("f").unwrap().call((&vector, 2.5, &out)).unwrap_err().to_string();
    assert!(error.contains("ndim") || error.contains("dimension"), "{error}");
}

#[test]
fn a_module_has_functions_of_several_kinds_and_registers_them() {
    let (n, i) = (Var::new("n", I64), Var::index("i"));
    let out = floats("out", 4);
    let fill = Stmt::for_loop(i.clone(), 0, 4, ForKind::Serial, Stmt::store(out.clone(), &i, n.expr().cast(F32)));
    let functions = [sum(ForKind::Serial), function("fill", [scalar(&n), tensor(&out)], fill)];
    let module = IrModule::new(functions).with_attr("system_lib_prefix", "behaviours_");
    let compiled = compile(&module, &Target::host()).unwrap();
    assert_eq!(compiled.functions, ["behaviours_sum", "behaviours_fill"]);
    let built = build(&module, &Target::host()).unwrap();
    let text = built.inspect_source("ll").unwrap();
    for part in ["@llvm.global_ctors", "__tvm_ffi_behaviours_sum", "__tvm_ffi_behaviours_fill"] {
        assert!(text.contains(part), "{part}:\n{text}");
    }
}

#[test]
fn a_program_brings_text_of_llvm_along() {
    let (a, out, i) = (floats("a", 9), floats("out", 9), Var::index("i"));
    let text = "define float @kernpack_test_twice(float %x) {\n  %y = fadd float %x, %x\n  ret float %y\n}\n";
    let called = Expr::call(CallKind::PureExtern, "kernpack_test_twice", F32, [Expr::load(&a, &i)]);
    let body = Stmt::for_loop(i.clone(), 0, 9, ForKind::Serial, Stmt::store(out.clone(), &i, called));
    let program = |text: &str| {
        let body = Stmt::attr("pragma_import_llvm", "", Expr::text(text), body.clone());
        let twice = Stmt::attr("pragma_import_llvm", "", Expr::text(text), body);
        function("f", [tensor(&a), tensor(&out)], twice)
    };
    let folder = std::path::Path::new(env!("CARGO_TARGET_TMPDIR"));
    let file = folder.join("twice.ll");
    std::fs::write(&file, text).unwrap();
    for source in [text, file.to_str().unwrap()] {
        let module = build(&program(source), &Target::host()).unwrap();
        let values: Vec<f32> = (0..9).map(|i| i as f32).collect();
        let (a, out) = (Tensor::from_slice(&values, &[9]).unwrap(), Tensor::from_slice(&[0f32; 9], &[9]).unwrap());
        module.function("f").unwrap().call((&a, &out)).unwrap();
        assert_eq!(out.view::<f32>().unwrap().to_vec(), values.iter().map(|x| x * 2.0).collect::<Vec<_>>());
        // It is inlined, and its name is not visible from outside.
        assert!(!module.inspect_source("ll").unwrap().contains("kernpack_test_twice"));
    }
    let rows = [("define nonsense", "expected type"), ("/no/such/file.ll", "cannot be read")];
    for (source, expected) in rows {
        let error = build(&program(source), &Target::host()).unwrap_err().to_string();
        assert!(error.contains("pragma `import_llvm`") && error.contains(expected), "{error}");
    }
}

/// For any alignment of the arguments of a transpose, its blocks start at cache lines, except the
/// first and the last one.
#[test]
fn transposes_begin_anywhere_in_a_line() {
    use kernpack_compiler::te::compute;
    use kernpack_compiler::{Kernel, PassContext, TargetDescription};
    let host = Target::host();
    for (rows, columns) in [(48, 64), (16, 16), (128, 32), (50, 41), (15, 64)] {
        for cpu in ["x86-64-v3", "x86-64-v4", ""] {
            let target = if host.arch() == "x86_64" { Target::llvm(&host.triple, cpu, "") } else { host.clone() };
            if target.vector_bits() > host.vector_bits() {
                continue;
            }
            let mut k = Kernel::new("f");
            let x = k.input("x", [rows, columns], F32);
            k.output("out", compute([columns, rows], |[i, j]| x.at([&j, &i])));
            let description = TargetDescription { parallel_work: 0, ..TargetDescription::of(&target) };
            let module = build(&k.lower(&description, &PassContext::default()).unwrap(), &target).unwrap();
            let (count, transpose) = (rows * columns, module.function("f").unwrap());
            for (of_x, of_out) in [(0, 0), (4, 0), (0, 1), (7, 15)] {
                let values: Vec<f32> = (0..count + of_x).map(|value| value as f32).collect();
                let x = Tensor::from_slice(&values, &[count + of_x]).unwrap();
                let out = Tensor::from_slice(&vec![f32::NAN; (count + of_out) as usize], &[count + of_out]).unwrap();
                let x = x.slice(of_x..count + of_x).unwrap().reshape(&[rows, columns]).unwrap();
                let whole = out.slice(of_out..count + of_out).unwrap().reshape(&[columns, rows]).unwrap();
                transpose.call((&x, &whole)).unwrap();
                let found = out.view::<f32>().unwrap().to_vec();
                assert!(found[..of_out as usize].iter().all(|value| value.is_nan()), "{rows} x {columns} {cpu}");
                let wanted = (0..count).map(|place| (place % rows * columns + place / rows + of_x) as f32);
                assert!(
                    found[of_out as usize..].iter().copied().eq(wanted),
                    "{rows} x {columns} {cpu}, {of_x} and {of_out} elements behind the beginning of a line: {found:?}"
                );
            }
        }
    }
}

/// `j*3` in `i*4 - j*3` may overflow where the difference does not: it is not `nsw`, and no signed
/// operation in C. Where all terms are added, and where bounds say that parts fit, they are.
#[test]
fn parts_of_differences_may_wrap() {
    let [i, j, t] = ["i", "j", "t"].map(|name| Var::new(name, I32));
    let [size, other] = ["n", "m"].map(|name| Var::size(name, I32));
    let number = |value: i64| Expr::constant(I32, value);
    let difference = i.expr() * 4 - j.expr() * 3;
    let (large, small, unknown) = (number(1_000_000_000), number(1000), size.expr().clone());
    let rows = [
        (&difference, &large, false),
        (&difference, &unknown, false),
        (&(&difference + 5), &unknown, false),
        (&(number(7) * (i.expr() - j.expr() * 3)), &unknown, false),
        (&difference, &small, true),
        (&(i.expr().floor_mod(100) * 4 - j.expr().floor_mod(100) * 3), &unknown, true),
        (&(i.expr() * 4 + j.expr() * 3), &unknown, true),
        (&(number(5) - j.expr() * 3), &unknown, true),
        (&(j.expr() * 3 - 5), &large, true),
        // A term may be negative by a choice, a quotient in a product, or a variable.
        (&(Expr::select(i.less(&j), i.expr() - &j, number(0)) * 4 + j.expr() * 3), &unknown, false),
        (&((i.expr() - &j).floor_div(2) * size.expr() * 4 + j.expr() * 3), &unknown, false),
        (&(t.expr() * 4 + j.expr() * 3), &unknown, false),
        (&((size.expr() - &other + 1) * i.expr() * 4 + j.expr() * 3), &unknown, true),
    ];
    let kinds = [ForKind::Serial, ForKind::Parallel];
    for ((index, extent, is_plain), kind) in rows.into_iter().flat_map(|row| kinds.map(|kind| (row, kind))) {
        let extents = [("a", unknown.clone()), ("b", other.expr().clone()), ("out", Expr::int(10))];
        let [a, b, out] = extents.map(|(name, n)| floats(name, n));
        let store = Stmt::store(out.clone(), index.clone(), Expr::float(F32, 1.0));
        let inner = Stmt::seq([Stmt::bind(t.clone(), i.expr() - &j), store]);
        let body = [(&i, ForKind::Serial), (&j, kind)]
            .into_iter()
            .fold(inner, |body, (var, kind)| Stmt::for_loop(var.clone(), number(0), extent.clone(), kind, body));
        let function = function("f", [tensor(&a), tensor(&b), tensor(&out)], body);
        let module = IrModule::new([function]);
        let source = c::build(&module, &Target::host()).unwrap();
        let line = source.lines().find(|line| line.contains("] = ")).unwrap_or(&source);
        assert_eq!(!line.contains("uint32_t"), is_plain, "{index}: {line}");
        let text = build(module, &Target::host()).unwrap().inspect_source("ll").unwrap();
        // Products by a constant; the chunks of parallel loops multiply variables.
        let by_constant = |line: &&str| line.rsplit(' ').next().is_some_and(|factor| factor.parse::<i64>().is_ok());
        let products =
            || text.lines().filter(|line| line.contains(" = mul ") && line.contains("i32")).filter(by_constant);
        assert!(is_plain || products().all(|line| !line.contains("nsw")), "{index}: {:?}", products().next());
    }
}

/// Arithmetic on data wraps in indices and in guards, too: it is not a signed operation in C.
#[test]
fn data_in_indices_and_guards_wraps_in_c() {
    let numbers = Buffer::new("x", I32, [Expr::int(10)], "global");
    let out = floats("out", 10);
    let (i, t) = (Var::new("i", I32), Var::new("t", I32));
    let one = Expr::constant(I32, 1);
    let data = Expr::load(&numbers, &i);
    let store = |index: Expr| Stmt::store(out.clone(), index, Expr::float(F32, 1.0));
    let bodies = [
        (store((&data + &one).floor_mod(10)), true),
        (Stmt::if_then((&data + &one).less(0), store(i.expr().clone()), None), true),
        (Stmt::seq([Stmt::bind(t.clone(), data.clone()), store((t.expr() + &one).floor_mod(10))]), true),
        (store((i.expr() + &one).floor_mod(10)), false),
    ];
    for (body, wraps) in bodies {
        let body = Stmt::for_loop(i.clone(), Expr::constant(I32, 0), Expr::constant(I32, 10), ForKind::Serial, body);
        let module = IrModule::new([function("f", [tensor(&numbers), tensor(&out)], body)]);
        let source = c::build(&module, &Target::host()).unwrap();
        let line = source.lines().find(|line| line.contains(if wraps { "(uint32_t)(1)" } else { "+ 1)" }));
        assert!(line.is_some(), "{source}");
    }
}
