//! Products of bytes: the code of the rule `dot` computes the values of the graph, in the
//! interpreter and as machine code, for bytes at both ends of their ranges.
#![cfg(feature = "llvm")]

use kernpack::{DataType, Tensor};
use kernpack_compiler::codegen::Target;
use kernpack_compiler::interpret::{Arg, Block, Machine};
use kernpack_compiler::ir::{Expr, F32, I8, I32, U8};
use kernpack_compiler::te::eval::{Elements, Evaluator};
use kernpack_compiler::te::{compute, reduce_axis, round, sum};
use kernpack_compiler::{Kernel, KernelParamKind, PassContext, TargetDescription, build};

/// A product in a form that the rule matches.
#[derive(Clone, Copy, Debug)]
struct Case {
    batch: i64,
    rows: i64,
    columns: i64,
    depth: i64,
    a: DataType,
    b: DataType,
    /// True if the second operand is packed in panels.
    packed: bool,
    /// True if the result is a rounded multiple of the sum, saturated to a byte.
    quantized: bool,
    /// True if the kernel is one for any number of rows, and of products in a batch.
    any_rows: bool,
}

impl Case {
    fn shapes(&self) -> [Vec<i64>; 2] {
        let b = if self.packed {
            vec![(self.columns + 15) / 16, (self.depth + 3) / 4, 16, 4]
        } else if self.batch > 1 {
            vec![self.batch, self.depth, self.columns]
        } else {
            vec![self.depth, self.columns]
        };
        [vec![self.batch, self.rows, self.depth], b]
    }

    fn kernel(&self) -> Kernel {
        let mut k = Kernel::new("product");
        let [_, b_shape] = self.shapes();
        let (batch, rows) = match self.any_rows {
            true => (k.size("batch").expr().clone(), k.size("rows").expr().clone()),
            false => (self.batch.into(), self.rows.into()),
        };
        let a = k.input("a", (&batch, &rows, self.depth), self.a);
        let mut b_extents: Vec<Expr> = b_shape.iter().map(|extent| Expr::from(*extent)).collect();
        if !self.packed && self.batch > 1 {
            b_extents[0] = batch.clone();
        }
        let b = k.input("b", b_extents, self.b);
        // An unused argument is an error.
        let scale = self.quantized.then(|| k.input("scale", [self.columns], F32));
        let r = reduce_axis(0, self.depth, "r");
        let sums = compute((&batch, &rows, self.columns), |[n, i, j]| {
            let b = if self.packed {
                let r = r.expr();
                b.at([j.expr().floor_div(16), r.floor_div(4), j.expr().floor_mod(16), r.floor_mod(4)])
            } else if self.batch > 1 {
                b.at([&n, &r, &j])
            } else {
                b.at([&r, &j])
            };
            sum(a.at([&n, &i, &r]).cast(I32) * b.cast(I32), &r)
        })
        .named("sums");
        let out = if let Some(scale) = scale {
            compute((&batch, &rows, self.columns), |[n, i, j]| {
                let scaled: Expr = round(sums.at([&n, &i, &j]).cast(F32) * scale.at([&j])) + 100.0;
                scaled.max(0.0).min(255.0).cast(U8)
            })
        } else {
            sums
        };
        k.output("out", out);
        k
    }

    /// Bytes including both ends of their ranges.
    fn bytes(count: i64, seed: i64) -> Vec<u8> {
        (0..count)
            .map(|at| match (at * 5 + seed) % 7 {
                0 => 0,
                1 => 255,
                2 => 128,
                3 => 127,
                other => ((at * 37 + other * 11 + seed) % 256) as u8,
            })
            .collect()
    }
}

fn elements(dtype: DataType, shape: &[i64], bytes: &[u8]) -> Elements {
    let lengths: Vec<usize> = shape.iter().map(|extent| *extent as usize).collect();
    let mut elements = Elements::zeros(dtype, &lengths);
    elements.bytes_mut().copy_from_slice(bytes);
    elements
}

fn numbers(dtype: DataType, bytes: &[u8]) -> Vec<f64> {
    match dtype {
        U8 => bytes.iter().map(|byte| f64::from(*byte)).collect(),
        I8 => bytes.iter().map(|byte| f64::from(byte.cast_signed())).collect(),
        _ => bytes.chunks_exact(4).map(|word| f64::from(i32::from_le_bytes(word.try_into().unwrap()))).collect(),
    }
}

fn cases() -> Vec<Case> {
    let mut cases = Vec::new();
    for (at, (batch, rows, columns, depth)) in
        [(1, 1, 1, 1), (1, 1, 70, 9), (1, 5, 33, 8), (2, 13, 16, 6), (1, 25, 40, 64), (3, 7, 8, 20)]
            .into_iter()
            .enumerate()
    {
        for (a, b) in [(U8, I8), (I8, I8), (U8, U8), (I8, U8)] {
            // Types without an instruction are widened, in the same way for all shapes.
            if (a, b) != (U8, I8) && at % 3 != 1 {
                continue;
            }
            for packed in [false, true] {
                let quantized = (at + usize::from(packed)) % 2 == 0;
                for any_rows in [false, true] {
                    cases.push(Case { batch, rows, columns, depth, a, b, packed, quantized, any_rows });
                }
            }
        }
    }
    cases
}

/// Few columns: only the first lanes of 16-lane vectors are used, and loops are unrolled.
fn few_columns() -> Vec<Case> {
    let mut cases = Vec::new();
    for (columns, depth) in [(1, 15), (1, 16), (1, 31), (2, 16), (2, 64), (3, 16), (4, 32), (5, 64)] {
        for packed in [false, true] {
            cases.push(Case {
                batch: 1,
                rows: 2,
                columns,
                depth,
                a: I8,
                b: I8,
                packed,
                quantized: false,
                any_rows: false,
            });
        }
    }
    cases
}

fn scales(columns: i64) -> Vec<f32> {
    (0..columns).map(|column| 0.001 + column as f32 / 4096.0).collect()
}

/// The values of the graph itself.
fn expected(case: &Case, kernel: &Kernel, a: &[u8], b: &[u8]) -> Vec<f64> {
    let [a_shape, b_shape] = case.shapes();
    let scale = scales(case.columns);
    let mut evaluator = Evaluator::new();
    let mut given =
        [elements(case.a, &a_shape, a), elements(case.b, &b_shape, b), Elements::new(&[scale.len()], &scale).unwrap()]
            .into_iter();
    let mut outputs = Vec::new();
    for param in kernel.params() {
        match &param.kind {
            KernelParamKind::Input(tensor) => evaluator = evaluator.input(tensor, given.next().unwrap()),
            KernelParamKind::Output(tensor) => outputs.push(tensor.clone()),
            KernelParamKind::Scalar(_) => {}
        }
    }
    let out = evaluator.run(&outputs).unwrap();
    numbers(if case.quantized { U8 } else { I32 }, out[0].bytes())
}

#[test]
fn the_interpreter_computes_what_the_graph_says() {
    let targets = [
        TargetDescription::x86_64(),
        TargetDescription::x86_64_v3(),
        TargetDescription { parallel_work: 0, ..TargetDescription::x86_64_v4() },
        TargetDescription { parallel_work: 0, vnni: true, ..TargetDescription::x86_64_v4() },
        TargetDescription { vnni: true, ..TargetDescription::x86_64_v3() },
        TargetDescription::aarch64(),
    ];
    for case in cases() {
        let [a_shape, b_shape] = case.shapes();
        let (a, b) = (Case::bytes(a_shape.iter().product(), 1), Case::bytes(b_shape.iter().product(), 2));
        let kernel = case.kernel();
        let wanted = expected(&case, &kernel, &a, &b);
        for target in &targets {
            let context = PassContext::default();
            let function = kernel.lower(target, &context).unwrap_or_else(|error| panic!("{case:?}: {error}"));
            let notes = context.take_notes();
            assert!(notes.iter().any(|note| note.ends_with("rule `dot`")), "{case:?}: {notes:?}");
            let dtype = if case.quantized { U8 } else { I32 };
            let out = Block::uninit(dtype, &[case.batch, case.rows, case.columns]);
            let scale: Vec<f64> = scales(case.columns).into_iter().map(f64::from).collect();
            let blocks = [
                Block::from_f64(case.a, &a_shape, &numbers(case.a, &a)),
                Block::from_f64(case.b, &b_shape, &numbers(case.b, &b)),
                Block::from_f64(F32, &[case.columns], &scale),
            ];
            let given = if case.quantized { 3 } else { 2 };
            let args: Vec<Arg> = blocks[..given].iter().chain([&out]).map(Arg::from).collect();
            Machine::new(&function)
                .unwrap()
                .run("product", &args)
                .unwrap_or_else(|error| panic!("{case:?} on {}: {error}", target.name));
            assert_eq!(out.to_f64().unwrap(), wanted, "{case:?} on {} {}", target.name, target.vnni);
        }
    }
}

#[test]
fn machine_code_computes_what_the_graph_says() {
    let host = Target::host();
    let mut targets = vec![host.clone()];
    if cfg!(target_arch = "x86_64") {
        targets.push(Target { features: String::new(), ..Target::llvm(&host.triple, "x86-64", "") });
        if host.vector_bits() >= 256 {
            targets.push(Target::llvm(&host.triple, "x86-64-v3", ""));
        }
        if host.has_avx512() {
            targets.push(Target::llvm(&host.triple, "x86-64-v4", ""));
        }
    }
    for case in cases().into_iter().chain(few_columns()) {
        let [a_shape, b_shape] = case.shapes();
        let (a, b) = (Case::bytes(a_shape.iter().product(), 1), Case::bytes(b_shape.iter().product(), 2));
        let kernel = case.kernel();
        let wanted = expected(&case, &kernel, &a, &b);
        for target in &targets {
            let function = kernel.lower(&TargetDescription::of(target), &PassContext::default()).unwrap();
            let module = build(&function, target).unwrap();
            let tensor = |dtype: DataType, shape: &[i64], bytes: &[u8]| match dtype {
                U8 => Tensor::from_slice(bytes, shape).unwrap(),
                _ => {
                    Tensor::from_slice(&bytes.iter().map(|byte| byte.cast_signed()).collect::<Vec<_>>(), shape).unwrap()
                }
            };
            let given = (tensor(case.a, &a_shape, &a), tensor(case.b, &b_shape, &b));
            let scale = Tensor::from_slice(&scales(case.columns), &[case.columns]).unwrap();
            let shape = [case.batch, case.rows, case.columns];
            let product = module.function("product").unwrap();
            let found: Vec<f64> = if case.quantized {
                let out = Tensor::zeros::<u8>(&shape).unwrap();
                product.call((&given.0, &given.1, &scale, &out)).unwrap();
                out.view::<u8>().unwrap().to_vec().into_iter().map(f64::from).collect()
            } else {
                let out = Tensor::zeros::<i32>(&shape).unwrap();
                product.call((&given.0, &given.1, &out)).unwrap();
                out.view::<i32>().unwrap().to_vec().into_iter().map(f64::from).collect()
            };
            assert_eq!(found, wanted, "{case:?} on {} {}", target.cpu, target.features);
        }
    }
}

/// Images whose channels are in groups of four, split by the remainders of a stride of 2 in one
/// dimension.
#[test]
fn convolutions() {
    // Kernels for images of any extents also compute those that are smaller than a panel.
    let known = [(13, 2, 5, 9), (1, 1, 4, 16), (25, 3, 7, 7)].map(|case| (case, false));
    let any = [(13, 2, 5, 9), (5, 1, 1, 3), (25, 3, 7, 17)].map(|case| (case, true));
    for ((filters, blocks, rows, columns), any_extents) in known.into_iter().chain(any) {
        let image = [2, blocks, 1, 2, rows + 2, columns + 1, 4];
        let weights = [filters, blocks, 3, 3, 4];
        let mut k = Kernel::new("convolution");
        let mut sizes = Vec::new();
        let mut size = |name: &str, extent: i64| match any_extents {
            true => {
                sizes.push((k.size(name), extent));
                sizes[sizes.len() - 1].0.expr().clone()
            }
            false => Expr::int(extent),
        };
        let (n, h, v) = (size("n", 2), size("h", rows), size("v", columns));
        let x = k.input("x", (&n, blocks, 1, 2, &h + 2, &v + 1, 4), U8);
        let w = k.input("w", extents(&weights), I8);
        let scale = k.input("scale", [filters], F32);
        let axes = [blocks, 3, 3, 4].map(|extent| reduce_axis(0, extent, "r"));
        let sums = compute((&n, filters, &h, &v), |[n, o, y, x_]| {
            let [c, ky, kx, part] = axes.each_ref().map(|axis| axis.expr());
            let row = y.expr() + &ky;
            let at = [n.expr(), c.clone(), 0.into(), kx.floor_mod(2), row, x_.expr() + kx.floor_div(2), part.clone()];
            sum(x.at(at).cast(I32) * w.at([o.expr(), c, ky, kx, part]).cast(I32), &axes[..])
        })
        .named("sums");
        let out = compute((&n, filters, &h, &v), |[n, o, y, x]| sums.at([&n, &o, &y, &x]).cast(F32) * scale.at([&o]));
        k.output("out", out.clone());
        let (pixels, bytes) = (Case::bytes(image.iter().product(), 1), Case::bytes(weights.iter().product(), 2));
        let scales = scales(filters);
        let mut given = [
            elements(U8, &image, &pixels),
            elements(I8, &weights, &bytes),
            Elements::new(&[scales.len()], &scales).unwrap(),
        ]
        .into_iter();
        let mut evaluator = Evaluator::new();
        for (size, extent) in &sizes {
            evaluator = evaluator.scalar(size, *extent as f64);
        }
        for param in k.params() {
            if let KernelParamKind::Input(tensor) = &param.kind {
                evaluator = evaluator.input(tensor, given.next().unwrap());
            }
        }
        let wanted = evaluator.run(&[out]).unwrap()[0].to_vec::<f32>().unwrap();
        let shape = [2, filters, rows, columns];
        let targets = [
            TargetDescription::x86_64(),
            TargetDescription::x86_64_v3(),
            TargetDescription { parallel_work: 0, vnni: true, ..TargetDescription::x86_64_v4() },
        ];
        for target in &targets {
            let context = PassContext::default();
            let function = k.lower(target, &context).unwrap();
            let notes = context.take_notes();
            assert!(notes.iter().any(|note| note.ends_with("rule `dot`")), "{notes:?}");
            let out = Block::uninit(F32, &shape);
            let blocks = [
                Block::from_f64(U8, &image, &numbers(U8, &pixels)),
                Block::from_f64(I8, &weights, &numbers(I8, &bytes)),
                Block::from_f64(F32, &[filters], &scales.iter().map(|scale| f64::from(*scale)).collect::<Vec<_>>()),
            ];
            let args: Vec<Arg> = blocks.iter().chain([&out]).map(Arg::from).collect();
            Machine::new(&function).unwrap().run("convolution", &args).unwrap_or_else(|error| panic!("{error}"));
            let found: Vec<f32> = out.to_f64().unwrap().into_iter().map(|value| value as f32).collect();
            assert_eq!(found, wanted, "{} {}", target.name, target.vnni);
        }
        let host = Target::host();
        let function = k.lower(&TargetDescription::of(&host), &PassContext::default()).unwrap();
        let module = build(&function, &host).unwrap();
        let signed: Vec<i8> = bytes.iter().map(|byte| byte.cast_signed()).collect();
        let (x, w) = (Tensor::from_slice(&pixels, &image).unwrap(), Tensor::from_slice(&signed, &weights).unwrap());
        let (scale, out) = (Tensor::from_slice(&scales, &[filters]).unwrap(), Tensor::zeros::<f32>(&shape).unwrap());
        module.function("convolution").unwrap().call((&x, &w, &scale, &out)).unwrap();
        assert_eq!(out.view::<f32>().unwrap().to_vec(), wanted);
    }
}

/// One instruction for each vector of a tile, and no other instructions that multiply.
#[cfg(target_arch = "x86_64")]
#[test]
fn instructions() {
    let case = Case {
        batch: 1,
        rows: 24,
        columns: 64,
        depth: 64,
        a: U8,
        b: I8,
        packed: true,
        quantized: false,
        any_rows: false,
    };
    let triple = Target::host().triple;
    for (features, expected) in [("+avx512vnni", "vpdpbusd"), ("", "vpmaddwd")] {
        let target = Target::llvm(&triple, "x86-64-v4", features);
        let function = case.kernel().lower(&TargetDescription::of(&target), &PassContext::default()).unwrap();
        let assembly = build(&function, &target).unwrap().inspect_source("s").unwrap();
        let count = |name: &str| assembly.lines().filter(|line| line.trim().starts_with(name)).count();
        assert!(count(expected) >= 16, "{} of {expected}\n{assembly}", count(expected));
        assert_eq!(count("vpmulld"), 0, "{assembly}");
        let spills = assembly.lines().filter(|line| line.contains(expected) && line.contains("(%rsp")).count();
        assert_eq!(spills, 0, "{assembly}");
    }
}

fn extents(shape: &[i64]) -> Vec<Expr> {
    shape.iter().map(|extent| Expr::int(*extent)).collect()
}
