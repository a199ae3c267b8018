//! The arguments that a packed call of a kernel accepts, and the errors for all others.

use super::*;

#[test]
fn arguments_become_what_the_table_says() {
    let types = [
        ArgType::POINTER,
        ArgType::POINTER,
        ArgType::POINTER,
        ArgType::INT32,
        ArgType::UINT64,
        dtype(0, 8, 1),
        dtype(6, 8, 1),
        ArgType::FLOAT32,
        ArgType::FLOAT64,
        dtype(2, 16, 1),
        dtype(4, 16, 1),
        dtype(10, 8, 1),
    ];
    let tags = ["threadIdx.x", "blockIdx.x", DYNAMIC_SHARED_MEMORY];
    let (module, log) = module_of(vec![kernel("all", &types, &tags)], false);
    let tensor = Fake::on(3);
    let numbers: Vec<Any> = vec![
        (-7i64).into(),
        u64::MAX.into(),
        (-128i64).into(),
        true.into(),
        1.5.into(),
        2i64.into(),
        1.0.into(),
        1.0.into(),
        1.0.into(),
        64i64.into(),
        4i64.into(),
        256i64.into(),
    ];
    let mut args = vec![tensor.view(), pointer(0x5000), AnyView::NONE];
    args.extend(numbers.iter().map(|number| *number.as_view()));
    module.function("all").unwrap().call(args.as_slice()).unwrap();
    let expected = "3: [4, 1, 1] x [64, 1, 1] shared 256: 0x1000+8@ext_dev:3 0x5000+0@ext_dev:3 0x0+0@ext_dev:3 \
                    0xfffffffffffffff9:4 0xffffffffffffffff:8 0xffffffffffffff80:1 0x1:1 0x3fc00000:4 0x4000000000000000:8 0x3c00:2 \
                    0x3f80:2 0x38:1";
    assert_eq!(log.take(), ["kernel all on 3", expected]);
    module.function("all").unwrap().call(args.as_slice()).unwrap();
    assert_eq!(log.take(), [expected], "the handle is remembered");
}

#[test]
fn the_device_is_that_of_the_tensors_or_the_current_one() {
    let (module, log) = module_of(vec![kernel("f", &[ArgType::POINTER; 2], &[])], false);
    let f = module.function("f").unwrap();
    let managed = Fake::new(Device::new(device_type::CUDA_MANAGED, 5), [2, 3], [3, 1]);
    let launch = |args: &[AnyView<'_>]| {
        f.call(args).unwrap();
        log.take().pop().unwrap().split(':').next().unwrap().to_owned()
    };
    assert_eq!(launch(&[pointer(1), pointer(2)]), "0");
    set_current_device(Device::new(device_type::EXT_DEV, 4));
    assert_eq!(launch(&[pointer(1), pointer(2)]), "4");
    assert_eq!(launch(&[pointer(1), Fake::on(17).view()]), "17", "more devices than have a place of their own");
    assert_eq!(launch(&[managed.view(), pointer(2)]), "5");
    assert_eq!(launch(&[managed.view(), Fake::on(2).view()]), "2");
    set_current_device(Device::new(device_type::EXT_DEV, 0));
}

#[test]
fn empty_tensors_and_views_that_are_contiguous() {
    let (module, log) = module_of(vec![kernel("f", &[ArgType::POINTER], &[])], false);
    let f = module.function("f").unwrap();
    let device = Device::new(device_type::EXT_DEV, 0);
    for (shape, strides) in [([0, 3], [99, 7]), ([1, 3], [77, 1]), ([2, 1], [1, 55])] {
        f.call((Fake::new(device, shape, strides).view(),)).unwrap();
        assert_eq!(log.take().pop().unwrap(), "0: [1, 1, 1] x [1, 1, 1] shared 0: 0x1000+8@ext_dev:0");
    }
}

#[test]
fn many_arguments_go_to_the_heap() {
    let types = vec![ArgType::INT64; 40];
    let (module, log) = module_of(vec![kernel("f", &types, &[])], false);
    let numbers: Vec<Any> = (0..40i64).map(Any::from).collect();
    module.function("f").unwrap().call(numbers.as_slice()).unwrap();
    assert!(log.take().pop().unwrap().ends_with("0x25:8 0x26:8 0x27:8"));
}

#[test]
fn wrong_arguments_are_named() {
    let kinds = [
        ("pointer", ArgType::POINTER),
        ("i8", dtype(0, 8, 1)),
        ("i32", ArgType::INT32),
        ("i64", ArgType::INT64),
        ("u16", dtype(1, 16, 1)),
        ("u64", ArgType::UINT64),
        ("bool", dtype(6, 8, 1)),
        ("f32", ArgType::FLOAT32),
        ("f16", dtype(2, 16, 1)),
        ("f8", dtype(10, 8, 1)),
        ("vector", dtype(2, 32, 4)),
        ("complex", dtype(5, 64, 1)),
    ];
    let kernels = kinds.iter().map(|(name, ty)| kernel(name, &[*ty], &["blockIdx.x", DYNAMIC_SHARED_MEMORY]));
    let (module, log) = module_of(kernels.collect(), false);
    let device = Device::new(device_type::EXT_DEV, 1);
    let strided = Fake::new(device, [2, 3], [1, 2]);
    let negative = Fake::new(device, [2, -3], [1, 2]);
    let on_cpu = Fake::new(Device::CPU, [2, 3], [3, 1]);
    let on_99 = Fake::on(99);
    let text = Any::from("x");
    let (one, zero) = (Any::from(1i64), Any::from(0i64));
    let values: Vec<Any> = vec![
        128i64.into(),
        (1i64 << 40).into(),
        (-1i64).into(),
        1.5.into(),
        1e39.into(),
        65520.0.into(),
        f64::INFINITY.into(),
        0i64.into(),
    ];
    let value = |index: usize| *values[index].as_view();
    let text = *text.as_view();
    #[rustfmt::skip]
    let rows: &[(&str, AnyView<'_>, &str)] = &[
        ("pointer", text, "TypeError: opencl kernel 'pointer': argument 0: expected Tensor, got str"),
        ("pointer", value(0), "TypeError: opencl kernel 'pointer': argument 0: expected Tensor, got int"),
        ("pointer", strided.view(), "ValueError: opencl kernel 'pointer': argument 0: the tensor is not contiguous; pass a contiguous copy"),
        ("pointer", negative.view(), "ValueError: opencl kernel 'pointer': argument 0: the tensor has a negative dimension: [2, -3]"),
        ("pointer", on_cpu.view(), "ValueError: opencl kernel 'pointer': argument 0: expected a tensor on ext_dev, got one on cpu:0; copy it there first: tensor.to(device) in Rust, kernpack.tensor.to(tensor, device) elsewhere"),
        ("pointer", on_99.view(), "RuntimeError: opencl kernel 'pointer': there are 20 devices; launched on ext_dev:99 with grid [1, 1, 1], block [1, 1, 1] and 0 bytes of dynamic shared memory"),
        ("i8", value(0), "ValueError: opencl kernel 'i8': argument 0: 128 is out of range for a 8-bit integer (-128 to 127)"),
        ("i32", value(1), "ValueError: opencl kernel 'i32': argument 0: 1099511627776 is out of range for a 32-bit integer (-2147483648 to 2147483647)"),
        ("i32", value(3), "TypeError: opencl kernel 'i32': argument 0: expected int, got float"),
        ("i64", text, "TypeError: opencl kernel 'i64': argument 0: expected int, got str"),
        ("u16", value(2), "ValueError: opencl kernel 'u16': argument 0: -1 is out of range for a 16-bit integer (0 to 65535)"),
        ("u64", value(2), "ValueError: opencl kernel 'u64': argument 0: expected an int from 0 up, got -1"),
        ("u64", text, "TypeError: opencl kernel 'u64': argument 0: expected an int from 0 up, got str"),
        ("bool", value(3), "TypeError: opencl kernel 'bool': argument 0: expected bool, got float"),
        ("f32", value(4), "ValueError: opencl kernel 'f32': argument 0: 1000000000000000000000000000000000000000 is out of range for float32"),
        ("f32", text, "TypeError: opencl kernel 'f32': argument 0: expected float, got str"),
        ("f16", value(5), "ValueError: opencl kernel 'f16': argument 0: 65520 is out of range for float16"),
        ("f8", value(6), "ValueError: opencl kernel 'f8': argument 0: inf is out of range for float8_e4m3fn"),
        ("vector", value(3), "TypeError: opencl kernel 'vector': argument 0: parameters of type code 2 with 32 bits x 4 are not supported"),
        ("complex", value(3), "TypeError: opencl kernel 'complex': argument 0: parameters of type code 5 with 64 bits x 1 are not supported"),
    ];
    for (name, argument, expected) in rows {
        let args = [*argument, *one.as_view(), *zero.as_view()];
        assert_eq!(message(module.function(name).unwrap().call(args.as_slice())), *expected);
    }
    assert_eq!(log.take(), [""; 0], "nothing wrong reaches the device");
    let call = |values: &[AnyView<'_>]| message(module.function("i64").unwrap().call(values));
    let one = *one.as_view();
    assert_eq!(
        call(&[one, value(7), one]),
        "ValueError: opencl kernel 'i64': blockIdx.x must be an int from 1 up, got 0"
    );
    assert_eq!(
        call(&[one, one, value(2)]),
        "ValueError: opencl kernel 'i64': tirx.use_dyn_shared_memory must be an int from 0 up, got -1"
    );
    assert_eq!(
        call(&[one, text, one]),
        "ValueError: opencl kernel 'i64': blockIdx.x must be an int from 1 up, got str"
    );
    assert_eq!(
        call(&[one]),
        "TypeError: opencl kernel 'i64' takes 1 argument and then blockIdx.x, tirx.use_dyn_shared_memory: 3 in all, got 1"
    );
}

#[test]
fn tensors_are_on_one_device() {
    let (module, _) = module_of(vec![kernel("f", &[ArgType::POINTER; 2], &[])], false);
    let (first, second) = (Fake::on(1), Fake::on(2));
    assert_eq!(
        message(module.function("f").unwrap().call((first.view(), second.view()))),
        "ValueError: opencl kernel 'f': argument 1: the tensor is on ext_dev:2, but one before it is on ext_dev:1; a launch is on one device"
    );
}

#[test]
fn tables_that_cannot_be_launched() {
    let mapped = DeviceFunction { extra_tags: vec![1], ..kernel("mapped", &[ArgType::POINTER], &[]) };
    let kernels = vec![
        kernel("odd", &[], &["vthread.x"]),
        kernel("twice", &[], &["blockIdx.x", "blockIdx.x"]),
        kernel("old", &[], &["tir.use_dyn_shared_memory"]),
        kernel("nul\0", &[], &[]),
        mapped.clone(),
    ];
    let (module, _) = module_of(kernels, false);
    for (name, expected) in [
        ("odd", "RuntimeError: opencl kernel 'odd' needs the launch parameter 'vthread.x', which is not supported"),
        ("twice", "RuntimeError: opencl kernel 'twice' has the launch parameter 'blockIdx.x' twice"),
        (
            "old",
            "RuntimeError: opencl kernel 'old' needs the launch parameter 'tir.use_dyn_shared_memory', which is not supported",
        ),
        ("mapped", "RuntimeError: opencl kernel 'mapped' takes a tensor map, which is not supported"),
        ("nul\0", "ValueError: a kernel's name contains a NUL byte"),
        ("mappe", "KeyError: module of kind 'opencl' has no function 'mappe'; did you mean 'mapped'?"),
    ] {
        assert_eq!(message(module.function(name)), expected);
    }
    let (module, log) = module_of(vec![mapped], true);
    let mapped = module.function("mapped").unwrap();
    mapped.call((pointer(0x40),)).unwrap();
    assert_eq!(log.take().pop().unwrap(), "0: [1, 1, 1] x [1, 1, 1] shared 0: map 0x40");
    assert_eq!(
        message(mapped.call((1,))),
        "TypeError: opencl kernel 'mapped': argument 0: expected a pointer to a tensor map, got int"
    );
}
