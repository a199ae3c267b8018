//! Passes for device kernels, and for code that is read: programs as text, run before and after.

use kernpack::Any;
use kernpack_compiler::interpret::{Arg, Block, Machine};
use kernpack_compiler::ir::visit::{for_each_expr_in, for_each_stmt};
use kernpack_compiler::ir::{DataTypeExt, ExprNode, FuncKind, I32, I64, IrModule, LoweredFunc, StmtNode};
use kernpack_compiler::pass::common_subexpr_elim::common_subexpr_elim;
use kernpack_compiler::pass::lower_warp_memory::lower_warp_memory;
use kernpack_compiler::pass::narrow_index::narrow_index;
use kernpack_compiler::pass::split_host_device::split_host_device;
use kernpack_compiler::pass::{PassContext, pipeline};
use kernpack_compiler::text;

fn parse(source: &str) -> LoweredFunc {
    text::parse(source).unwrap_or_else(|error| panic!("{error}")).functions.get(0).unwrap()
}

/// The result of function `f` for `a` with this number of elements, 0, 1, 2, ..
fn after(module: &IrModule, elements: usize) -> Vec<f32> {
    let a = Block::from_f32(&(0..elements).map(|value| value as f32).collect::<Vec<_>>());
    let machine = Machine::of_module(module).unwrap_or_else(|error| panic!("{error}\n{module}"));
    machine.run("f", &[Arg::from(&a)]).unwrap_or_else(|error| panic!("{error}\n{module}"));
    a.to_f32().unwrap()
}

/// Runs a pass by its name and checks that the result computes the same.
fn same(name: &str, source: &str, elements: usize) -> LoweredFunc {
    let function = parse(source);
    let passes = [Any::from(name)].into();
    let program = pipeline::run(function.clone(), &passes, &PassContext::default()).unwrap();
    let new: LoweredFunc = program.to().unwrap();
    assert_eq!(after(&IrModule::new([function]), elements), after(&IrModule::new([new.clone()]), elements), "{new}");
    new
}

fn warp(body: &str) -> String {
    format!(
        "func f(a: mut f32[n]) {{
          attr thread_extent(axis y thread \"threadIdx.y\") = 2 {{
            attr thread_extent(axis t thread \"threadIdx.x\") = 32 {{
              {body}
            }}
          }}
        }}"
    )
}

#[test]
fn memory_of_a_warp_is_in_its_lanes() {
    // The name, the statements, and true if lanes exchange values.
    let rows = [
        (
            "mirrored",
            "alloc s: f32[32] @warp
             s[t] = a[y * 32 + t]
             storage_sync::<i32>(\"warp\")
             a[y * 32 + t] = s[31 - t] + s[t]",
            true,
        ),
        (
            "two elements for each lane, in two groups",
            "alloc s: f32[128] @warp
             for g in 0..2 { for j in 0..2 { s[g * 64 + t * 2 + j] = a[y * 32 + t] + (g * 2 + j) as f32 } }
             storage_sync::<i32>(\"warp\")
             alloc x: f32[1] @local
             x[0] = 0.0
             for g in 0..2 { for j in 0..2 { x[0] = x[0] * 3.0 + s[g * 64 + floormod(t + 5, 32) * 2 + j] } }
             a[y * 32 + t] = x[0]",
            true,
        ),
        (
            "own elements",
            "alloc s: f32[32] @warp
             s[t] = a[y * 32 + t] * 2.0
             if t < 7 { a[y * 32 + t] = s[t] }",
            false,
        ),
    ];
    for (name, body, exchanges) in rows {
        let new = same("LowerWarpMemory", &warp(body), 64);
        let mut found = 0;
        for_each_expr_in(&new.body, |expr| {
            found += usize::from(matches!(&**expr, ExprNode::Call { name, .. } if name.as_str() == "warp_shuffle"));
        });
        assert_eq!(found > 0, exchanges, "{name}: {new}");
        for_each_stmt(&new.body, |stmt| {
            if let StmtNode::Alloc { buffer, .. } = &**stmt {
                assert_eq!(buffer.scope.as_str(), "local", "{name}");
            }
        });
    }
    let wrong = [
        ("alloc s: f32[32] @warp\ns[31 - t] = a[t]", "a store to element 31 - t"),
        ("alloc s: f32[n] @warp\ns[t] = a[t]", "its size is no constant"),
        (
            "alloc s: f32[64] @warp\ns[t] = a[t]\ns[t + 32] = a[t]\na[t] = s[floormod(t * 5 + 3, 64)]",
            "which differs between lanes",
        ),
        (
            "alloc s: f32[32] @warp\ns[t] = a[t]\nif t < 7 { a[t] = s[31 - t] }",
            "an exchange under the condition t < 7, which differs between lanes",
        ),
    ];
    for (body, expected) in wrong {
        let error = lower_warp_memory(&parse(&warp(body)), &PassContext::default()).err().unwrap().to_string();
        assert!(error.starts_with("LowerError: `s` in memory of a warp") && error.contains(expected), "{error}");
    }
    let narrow = warp("alloc s: f32[32] @warp\ns[t] = a[t]").replace("= 32 {", "= 16 {");
    let error = lower_warp_memory(&parse(&narrow), &PassContext::default()).err().unwrap().to_string();
    assert!(error.contains("threadIdx.x goes over 16, a warp has 32 lanes"), "{error}");
}

#[test]
fn kernels_have_their_own_variables() {
    let source = "func f(a: mut f32[n]) {
      let half = floordiv(n, 2)
      if half > 0 {
        attr thread_extent(axis b thread \"blockIdx.x\") = floordiv(half + 7, 8) {
          attr thread_extent(axis t thread \"threadIdx.x\") = 8 {
            if b * 8 + t < half { a[b * 8 + t] = a[b * 8 + t] + half as f32 }
          }
        }
      }
      attr thread_extent(axis t thread \"threadIdx.x\") = n {
        a[t] = a[t] * 2.0
      }
    }";
    let function = parse(source);
    let functions = split_host_device(&function, &PassContext::default()).unwrap();
    let [host, first, second] = &functions[..] else { panic!("{} functions", functions.len()) };
    assert_eq!((host.kind, first.kind, second.kind), (FuncKind::Mixed, FuncKind::Device, FuncKind::Device));
    let names: Vec<&str> = functions.iter().map(|function| function.name.as_str()).collect();
    assert_eq!(names, ["f", "f_kernel0", "f_kernel1"]);
    // Pointers first.
    let params = |function: &LoweredFunc| function.params.iter().map(|param| param.var.clone()).collect::<Vec<_>>();
    let own: Vec<String> = params(first).iter().map(|var| var.name().to_owned()).collect();
    assert_eq!(own, ["a", "half"]);
    assert!(params(first).iter().all(|var| !params(host).contains(var) && !params(second).contains(var)));
    let tags: Vec<String> = first.thread_axes.iter().map(|axis| axis.thread_tag.to_string()).collect();
    assert_eq!(tags, ["blockIdx.x", "threadIdx.x"]);
    let module = IrModule::new(functions.clone());
    for elements in [0, 1, 2, 11, 16] {
        assert_eq!(after(&IrModule::new([function.clone()]), elements), after(&module, elements), "{elements}");
    }
    let twice = source.replace(
        "if b * 8 + t < half {",
        "attr thread_extent(axis u thread \"threadIdx.x\") = n { }\nif b * 8 + t < half {",
    );
    let error = split_host_device(&parse(&twice), &PassContext::default()).err().unwrap().to_string();
    assert!(error.contains("a kernel with 8 and n of threadIdx.x"), "{error}");
}

/// A scalar argument wraps: the launch of a kernel is guarded by a check that there are threads. A
/// size needs no guard.
#[test]
fn a_launch_by_a_number_that_wraps_is_guarded() {
    for (extent, guarded) in [("x * x + 1", true), ("n * n + 1", false)] {
        let source = format!(
            "func f(a: mut f32[n], x: i64) {{
              attr thread_extent(axis b thread \"blockIdx.x\") = {extent} {{
                if b < n {{ a[b] = a[b] * 2.0 }}
              }}
            }}"
        );
        let functions = split_host_device(&parse(&source), &PassContext::default()).unwrap();
        assert_eq!(matches!(*functions[0].body, StmtNode::If { .. }), guarded, "{}", functions[0]);
    }
}

/// The types of the indices of loads and stores, and of loop variables.
fn index_types(function: &LoweredFunc) -> Vec<kernpack_compiler::ir::DataType> {
    let mut found = Vec::new();
    for_each_stmt(&function.body, |stmt| match &**stmt {
        StmtNode::Store { index, .. } => found.push(index.dtype().element()),
        StmtNode::For { var, .. } => found.push(var.dtype()),
        _ => {}
    });
    for_each_expr_in(&function.body, |expr| {
        if let ExprNode::Load { index, .. } = &**expr {
            found.push(index.dtype().element());
        }
    });
    found
}

#[test]
fn indices_are_as_wide_as_they_have_to_be() {
    let kernel = |body: &str| {
        format!(
            "func f(a: mut f32[n]) {{
              packed \"kernel\"::<i32>(a.data, n, 2, 8)
            }}
            device func kernel(p: ptr, n: i64) threads [axis b thread \"blockIdx.x\", axis t thread \"threadIdx.x\" in 0..8] {{
              alias a: f32[n] align 4 = p
              {body}
            }}"
        )
    };
    let rows = [
        (
            "small",
            "if b < 2 { for i in 0..2 { a[b * 16 + i * 8 + t] = a[b * 16 + i * 8 + t] + (i * 8 + t) as f32 } }",
            true,
        ),
        ("vectors", "if b < 2 { a[b * 16 + t * 2 : 2] = a[b * 16 + t * 2 : 2] * broadcast(2.0, 2) }", true),
        ("parts of a division", "if b < 2 { a[b * 16 + floormod(t * 3, 8)] = floordiv(t * 300, 7) as f32 }", true),
        // Every block that can be launched: the product does not fit.
        ("any number of blocks", "a[b * 16 + t] = 3.0", false),
        ("a run-time bound", "for i in 0..n { if b < 1 { if t < 1 { a[i] = i as f32 } } }", false),
        ("large parts", "if b < 2 { a[floordiv((b * 16 + t) * 4000000000, 4000000000)] = 1.0 }", false),
    ];
    for (name, body, is_narrow) in rows {
        let module = text::parse(&kernel(body)).unwrap_or_else(|error| panic!("{name}: {error}"));
        let narrow = |function: LoweredFunc| narrow_index(&function, &PassContext::default()).unwrap();
        let new = IrModule::new(module.functions.iter().map(narrow));
        kernpack_compiler::ir::verify::verify_module(&new, kernpack_compiler::ir::verify::Stage::Vectorized).unwrap();
        let types = index_types(&new.functions.get(1).unwrap());
        let expected = if is_narrow { I32 } else { I64 };
        assert!(types.iter().all(|dtype| *dtype == expected), "{name}: {types:?}\n{new}");
        assert_eq!(after(&module, 32), after(&new, 32), "{name}");
    }
}

#[test]
fn common_indices_have_a_name() {
    let source = "func f(a: mut f32[n]) {
      for i in 0..4 {
        for j in 0..2 {
          a[(i * 2 + j) * 4] = a[(i * 2 + j) * 4] + 1.0
          a[(i * 2 + j) * 4 + 1] = a[(i * 2 + j) * 4 + 1] + 2.0
          let k = floordiv(i + j + 1, 2)
          a[(k + i * 2) * 4 + 2] = if_then_else(k < 3, a[(k + i * 2) * 4 + 3], 0.5)
          a[(k + i * 2) * 4 + 3] = 7.0
        }
      }
    }";
    let new = same("CommonSubexprElim", source, 64);
    let mut names = Vec::new();
    for_each_stmt(&new.body, |stmt| {
        if let StmtNode::Bind { var, .. } = &**stmt {
            names.push(var.name().to_owned());
        }
    });
    assert_eq!(names.iter().filter(|name| *name == "index").count(), 3, "{new}");
    let twice = common_subexpr_elim(&new, &PassContext::default()).unwrap();
    assert_eq!(text::print(&twice), text::print(&new), "what has names stays");
}
