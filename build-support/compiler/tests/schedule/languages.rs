//! The same for other languages: global functions and objects.

use crate::graph::{Graph, SIZES, chain};
use kernpack_compiler::ir::{F32, IterVar, Tensor, Var};

/// Calls a global function with arguments of any kind.
fn global(name: &str, args: &[kernpack::Any]) -> kernpack::Result<kernpack::Any> {
    let function = kernpack::Function::find_global(name)?.unwrap_or_else(|| panic!("no function {name}"));
    function.call(args)
}

#[test]
fn other_languages_build_and_schedule_with_global_functions() {
    use kernpack::{Any, Array, Function};
    use kernpack_compiler::ir::Expr;
    use kernpack_compiler::schedule::SharedSchedule;

    let call = |name: &str, args: &[Any]| global(name, args).unwrap_or_else(|error| panic!("{name}: {error}"));
    let n: Var = call("kernpack.te.size", &["n".into()]).to().unwrap();
    let shape: Array<Any> = [Any::from(Expr::from(&n)), Any::from(16)].into_iter().collect();
    let a: Tensor = call("kernpack.te.placeholder", &[shape.into(), F32.into(), "a".into()]).to().unwrap();
    let k: IterVar = call("kernpack.te.reduce_axis", &[0.into(), 16.into(), "k".into()]).to().unwrap();
    let (tensor, axis) = (a.clone(), k.clone());
    let body = Function::from_fn(move |i: IterVar| -> kernpack::Result<Expr> {
        let indices: Array<Any> = [Any::from(i), Any::from(axis.clone())].into_iter().collect();
        let element = global("kernpack.te.at", &[tensor.clone().into(), indices.into()])?;
        let doubled = global("kernpack.te.binary", &["Mul".into(), element, 2.into()])?;
        let values: Array<Any> = [doubled].into_iter().collect();
        let axes: Array<IterVar> = [axis.clone()].into_iter().collect();
        global("kernpack.te.reduce", &["sum".into(), values.into(), axes.into()])?.to()
    });
    let shape: Array<Any> = [Any::from(Expr::from(&n))].into_iter().collect();
    let made = call("kernpack.te.compute", &[shape.into(), body.into(), "rows".into()]);
    let rows: Tensor = made.to().unwrap();
    assert_eq!(rows.name(), "rows");

    let outputs: Array<kernpack_compiler::ir::Operation> = [rows.op.clone()].into_iter().collect();
    let s = call("kernpack.schedule.create", &[outputs.into()]);
    let stage = call("kernpack.schedule.stage", &[s.clone(), rows.clone().into()]);
    let parts: Array<IterVar> =
        call("kernpack.schedule.split", &[stage.clone(), k.clone().into(), 4.into()]).to().unwrap();
    let inner = parts.get(1).unwrap();
    call("kernpack.schedule.unroll", &[stage.clone(), inner.clone().into()]);
    let nest: String = call("kernpack.schedule.loop_nest", std::slice::from_ref(&s)).to().unwrap();
    assert_eq!(
        nest,
        "for i in 0..n\n  begin rows\n  for k.outer in 0..4\n    unrolled k.inner in 0..4\n      update rows\n"
    );

    let error = global("kernpack.schedule.split", &[stage.clone(), k.into(), 2.into()]).unwrap_err().to_string();
    assert!(error.contains("split: `k` of stage `rows` is no longer a loop"), "{error}");
    assert!(error.contains("it was split into `k.outer` and `k.inner`\n"), "no line of ours: {error}");
    assert!(!error.contains(".rs:"), "{error}");
    let error = global("kernpack.schedule.split", &[stage, inner.into(), "x".into()]).unwrap_err().to_string();
    assert!(error.contains("argument 'factor': expected Union["), "{error}");
    let error = global(
        "kernpack.te.reduce",
        &["median".into(), Array::<Any>::default().into(), Array::<IterVar>::default().into()],
    );
    assert!(error.unwrap_err().to_string().contains("no reduction `median` of 0 values"));

    let shared: SharedSchedule = s.to().unwrap();
    let graph = Graph::new(&[&rows], &[&a], &[&n]);
    let copy = shared.lock().clone();
    graph.check(&SIZES, |own| {
        *own = copy;
        Ok(())
    });
}

#[test]
fn every_primitive_has_a_global_function() {
    let primitives = [
        "bind",
        "cache_read",
        "cache_write",
        "compute_at",
        "compute_inline",
        "compute_root",
        "copy",
        "create",
        "create_group",
        "current",
        "double_buffer",
        "env_threads",
        "fuse",
        "infer_bound",
        "loop_nest",
        "lower",
        "normalize",
        "parallel",
        "pragma",
        "prefetch",
        "reorder",
        "rfactor",
        "set_scope",
        "set_store_predicate",
        "split",
        "split_nparts",
        "split_tail",
        "stage",
        "storage_align",
        "tensorize",
        "tile",
        "unroll",
        "vectorize",
    ];
    for name in primitives {
        assert!(kernpack::Function::find_global(&format!("kernpack.schedule.{name}")).unwrap().is_some(), "{name}");
    }
    let te = [
        "at",
        "binary",
        "cast",
        "comm_reducer",
        "compute",
        "constant",
        "extern_op",
        "math",
        "not",
        "output",
        "placeholder",
        "pointer_argument",
        "reduce",
        "reduce_axis",
        "reduce_with",
        "scan",
        "select",
        "size",
        "tensor_argument",
        "thread_axis",
        "var",
        "with_attrs",
    ];
    for name in te {
        assert!(kernpack::Function::find_global(&format!("kernpack.te.{name}")).unwrap().is_some(), "{name}");
    }
}

#[test]
fn stages_show_their_state_to_other_languages() {
    use kernpack::Any;
    use kernpack_compiler::schedule::{SharedSchedule, SharedStage};

    let (graph, [_, b, c]) = chain();
    let mut s = graph.schedule();
    let [i] = s.stage(&c).axes().unwrap();
    let (outer, inner) = s.stage(&c).split(&i, 4).unwrap();
    s.stage(&c).vectorize(&inner).unwrap();
    s.stage(&b).compute_at(&c, &outer).unwrap().set_scope("local").unwrap();
    let shared = Any::from(SharedSchedule::new(s));
    let stage = |tensor: &Tensor| global("kernpack.schedule.stage", &[shared.clone(), tensor.clone().into()]).unwrap();
    let get = |object: &Any, name: &str| -> Any {
        let info = kernpack::reflect::TypeInfo::by_key(b"kernpack.schedule.Stage").unwrap();
        let field = info.own_fields().find(|field| field.name() == name).unwrap();
        assert!(object.to::<SharedStage>().is_ok());
        // SAFETY: the object is alive, and of the type that the field is of.
        unsafe { field.get(object.as_view().as_raw().payload.v_obj) }.unwrap()
    };
    let (b, c) = (stage(&b), stage(&c));
    assert_eq!(get(&b, "attach_type").to::<String>().unwrap(), "at");
    assert_eq!(get(&b, "scope").to::<String>().unwrap(), "local");
    assert!(get(&b, "attach_ivar").to::<IterVar>().unwrap() == outer);
    assert_eq!(get(&get(&b, "attach_stage"), "name").to::<String>().unwrap(), "c");
    let annotations: kernpack::Array<kernpack::Str> = get(&c, "annotations").to().unwrap();
    assert_eq!(annotations.iter().map(|text| text.as_str().to_owned()).collect::<Vec<_>>(), ["", "vectorized"]);
    assert!(get(&c, "is_output").to::<bool>().unwrap());
}
