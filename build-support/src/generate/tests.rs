use kernpack_formats::device_image::ArgType;

use super::*;
use crate::cuda::{CudaImage, Skipped};
use crate::describe::Description;
use crate::describe::signature::Signature;

fn host(name: &str, source: &str) -> HostKernel {
    HostKernel { name: name.to_owned(), source: source.to_owned(), has_metadata: false, has_doc: false }
}

/// A kernel of k.cu that was not compiled.
fn skipped(name: &str, is_wanted: bool) -> CudaOutcome {
    let skipped = Skipped {
        reason: "because".to_owned(),
        sources: vec!["k.cu".to_owned()],
        is_wanted,
        kernels: vec![SkippedKernel { name: name.to_owned(), source: "k.cu".to_owned() }],
    };
    CudaOutcome { skipped: Some(skipped), ..CudaOutcome::default() }
}

fn carried(kinds: &[&str], version: &str) -> Carried {
    let symbol = format!("__kernpack_library_bin_crate_{version}");
    Carried { kinds: kinds.iter().map(|&kind| kind.to_owned()).collect(), symbol }
}

#[test]
fn no_kernels() {
    let text = generate(&[], &CudaOutcome::default(), &[], &Carried::default(), &Descriptions::new(), &[]).unwrap();
    assert!(text.ends_with("none.\npub mod kernels {}\n"), "{text}");
}

/// A library with every kind of kernel. All names and texts contain `word`.
fn with_everything(word: &str) -> String {
    let kernel = |name: &str, arg_types: &[ArgType], dynamic_shared_memory| PtxKernel {
        name: format!("{name}{word}"),
        arg_types: arg_types.to_vec(),
        dynamic_shared_memory,
    };
    let all = [
        ArgType::POINTER,
        ArgType::INT8,
        ArgType::UINT16,
        ArgType::FLOAT16,
        ArgType::FLOAT64,
        ArgType::INT64,
        ArgType::UINT32,
    ];
    let cuda_kernels = vec![
        kernel("scale", &[ArgType::POINTER, ArgType::FLOAT32, ArgType::UINT64], false),
        kernel("sum", &[ArgType::POINTER], true),
        kernel("nothing", &[], false),
        kernel("unknown", &all, false),
    ];
    let image =
        CudaImage { source: format!("{word}.cu"), format: "fatbin", code: "k.fatbin".into(), kernels: cuda_kernels };
    let cuda = CudaOutcome { images: vec![image], ..skipped(&format!("skipped{word}"), false) };
    let opencl = vec![OpenClImage::of_kernels("k.cl", vec![kernel("cl", &all, true)])];
    let hosts = ["type", "self", "2d", "a.b", "a_b", "größe", "args", "bare"];
    let hosts: Vec<HostKernel> = hosts.iter().map(|name| host(&format!("{name}{word}"), "a \"b\".c")).collect();
    let described = |signature: &str| Description {
        doc: format!("First line {word}.  \n\n    code\n\nLast <line> [x]."),
        signature: Signature::parse(signature).map_err(|error| error.to_string()),
        declared: true,
    };
    let mut descriptions = Descriptions::new();
    let mut describe = |name: &str, signature: &str| {
        descriptions.insert(format!("{name}{word}"), described(signature));
    };
    describe("scale", &format!("(out{word}: mut Tensor[float32], in: float32, n: uint64)"));
    describe("sum", &format!("(out{word}: Tensor)"));
    describe("nothing", "()");
    describe("cl", "(a: Tensor, b: int8, c: uint16, d: float16, e: float64, f: int64, g: uint32)");
    describe("skipped", "(config: Tensor, self: int)");
    describe("type", &format!("(type: int, self: str, match{word}: bytes) -> Tensor"));
    describe("self", "() -> Any");
    describe("2d", "(a: Function, b: Any, c: Device, d: DataType, e: bool) -> str");
    describe("args", &format!("(args: int, result: mut Tensor[bool], a_name_that_is_long{word}: float) -> bytes"));
    let carried = carried(&["my.kind", "kernpack.zstd"], word);
    generate(&hosts, &cuda, &opencl, &carried, &descriptions, &[]).unwrap()
}

/// rustfmt with its default options changes nothing.
#[test]
fn what_is_generated_is_formatted() {
    let folder = std::env::temp_dir().join(format!("kernpack-generated-{}", std::process::id()));
    std::fs::create_dir_all(&folder).unwrap();
    let lengths = [0, 1, 2, 3, 5, 8, 10, 12, 14, 16, 18, 20, 23, 26, 29, 31, 34, 38, 42, 47, 53, 60];
    let mut files = Vec::new();
    for length in lengths {
        let file = folder.join(format!("{length}.rs"));
        std::fs::write(&file, with_everything(&"x".repeat(length))).unwrap();
        files.push(file);
    }
    let none = folder.join("none.rs");
    std::fs::write(
        &none,
        generate(&[], &CudaOutcome::default(), &[], &Carried::default(), &Descriptions::new(), &[]).unwrap(),
    )
    .unwrap();
    files.push(none);
    let mut rustfmt = std::process::Command::new("rustfmt");
    let output = rustfmt.args(["--check", "--edition", "2024"]).args(&files).current_dir(&folder).output();
    let output = output.expect("rustfmt is a part of the toolchain");
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stdout));
    std::fs::remove_dir_all(folder).unwrap();
}

#[test]
fn the_file_of_a_small_library() {
    let image = CudaImage {
        source: "k.cu".to_owned(),
        format: "fatbin",
        code: "k.fatbin".into(),
        kernels: vec![PtxKernel {
            name: "sum".to_owned(),
            arg_types: vec![ArgType::POINTER, ArgType::UINT32],
            dynamic_shared_memory: true,
        }],
    };
    let cuda = CudaOutcome { images: vec![image], ..CudaOutcome::default() };
    let mut descriptions = Descriptions::new();
    let described = |doc: &str, signature: &str| Description {
        doc: doc.to_owned(),
        signature: Signature::parse(signature).map_err(|error| error.to_string()),
        declared: true,
    };
    let signature = "(src: Tensor[float32], dst: mut Tensor[float32], radius: int)";
    descriptions.insert("blur".to_owned(), described("Box blur.", signature));
    descriptions.insert("sum".to_owned(), described("Adds all.", "(out: mut Tensor[float32], n: uint32)"));
    let carried = carried(&["kernpack.cuda"], "1_2_3");
    let text = generate(&[host("blur", "blur.c")], &cuda, &[], &carried, &descriptions, &[]).unwrap();
    let expected = include_str!("small_library.txt");
    if std::env::var_os("UPDATE_EXPECT").is_some() {
        let file = concat!(env!("CARGO_MANIFEST_DIR"), "/src/generate/small_library.txt");
        std::fs::write(file, &text).unwrap();
    } else {
        assert_eq!(text, expected);
    }
}

#[test]
fn what_is_needed_does_not_depend_on_the_machine() {
    let skipped = |is_wanted| skipped("f", is_wanted);
    assert!(
        generate(&[], &skipped(false), &[], &Carried::default(), &Descriptions::new(), &[])
            .unwrap()
            .contains("has_cuda_kernels!()")
    );
    let text = generate(&[], &skipped(true), &[], &Carried::default(), &Descriptions::new(), &[]).unwrap();
    assert!(!text.contains("has_cuda_kernels!()") && !text.contains("metadata"), "{text}");
}

#[test]
fn host_and_device_share_names() {
    let cuda = skipped("sobel", false);
    let error = generate(
        &[host("blur", "a.c"), host("sobel", "s.ll")],
        &cuda,
        &[],
        &Carried::default(),
        &Descriptions::new(),
        &[],
    )
    .unwrap_err();
    assert_eq!(error.to_string(), "kernel `sobel` is defined twice: by s.ll and by k.cu; rename one of them");
}

#[test]
fn the_module_of_a_model() {
    let argument = |name: &str, shape: &[i64]| model::ModelArgument {
        name: name.to_owned(),
        dtype: (2, 32, "float32".to_owned()),
        shape: shape.to_vec(),
        texts: shape.iter().map(i64::to_string).collect(),
        open: Vec::new(),
    };
    let model = |name: &str| ModelItems {
        weights_file: None,
        name: name.to_owned(),
        source: "nets/digits.onnx".to_owned(),
        inputs: vec![argument("type", &[1, 4]), argument("outputs", &[])],
        outputs: vec![argument("match", &[2]), argument("y", &[0, 3])],
        kept: Vec::new(),
        dims: Vec::new(),
        state: 192,
        steps: 7,
        info: "{\"name\":\"digits\"}".to_owned(),
    };
    let made = |name: &str| {
        let hosts = [host(name, "nets/digits.onnx"), host(&format!("{name}_steps"), "nets/digits.onnx")];
        generate(&hosts, &CudaOutcome::default(), &[], &Carried::default(), &Descriptions::new(), &[model(name)])
    };
    let text = made("digits").unwrap();
    for part in [
        "    pub mod digits {\n",
        "        pub const INFO: &str = \"{\\\"name\\\":\\\"digits\\\"}\";\n",
        "            /// `float32[2]`.\n            pub r#match: Tensor,\n            /// `float32[0, 3]`.\n            pub y: Tensor,\n",
        "y: Tensor::empty(DataType::scalar(2, 32), &[0, 3], Device::CPU)?,",
        "pub fn run_into(&mut self, r#type: &Tensor, outputs_2: &Tensor, outputs: &mut Outputs) -> Result<()> {\n",
        "__k::call_kernel(&super::digits_steps, [__k::kernel_arg(&self.memory), __k::kernel_arg(&0_i64), __k::kernel_arg(&7_i64), __k::kernel_arg(r#type), __k::kernel_arg(outputs_2), __k::kernel_arg(&outputs.r#match), __k::kernel_arg(&outputs.y)]);\n                __ended.map_err(|error| self.canceller.ended(__k::explained(error, &[__k::kernel_arg(&self.memory), __k::kernel_arg(&0_i64), __k::kernel_arg(&0_i64), __k::kernel_arg(r#type), __k::kernel_arg(outputs_2)])))?;\n",
        ".map_err(|error| __k::explained(error, &[__k::kernel_arg(&r#type), __k::kernel_arg(&outputs_2)]))?;\n",
        "pub fn canceller(&self) -> Canceller {\n",
        "fn packed_run(r#type: AnyView<'_>, outputs_2: AnyView<'_>) -> Result<Array<Tensor>> {\n",
        "#[packed_func(name = \"digits_run\", crate = super::super::__kernpack)]\n",
    ] {
        assert!(text.contains(part), "{part}\n{text}");
    }
    // Values that a state keeps are not arguments of its methods, and there is no call without a
    // state.
    let hosts = [host("digits", "nets/digits.onnx"), host("digits_steps", "nets/digits.onnx")];
    let kept = ModelItems { kept: vec![model::Kept { input: 0, output: 0, open: None }], ..model("digits") };
    let text =
        generate(&hosts, &CudaOutcome::default(), &[], &Carried::default(), &Descriptions::new(), &[kept]).unwrap();
    for part in [
        "            /// `type`, and `match`, which takes its place for the next call.\n            kept_0: [Tensor; 2],\n",
        "pub fn run_into(&mut self, outputs_2: &Tensor, outputs: &mut Outputs) -> Result<()> {\n",
        "__k::kernel_arg(&self.kept_0[0]), __k::kernel_arg(outputs_2), __k::kernel_arg(&self.kept_0[1]), __k::kernel_arg(&outputs.y)]);\n",
        "__k::kernel_arg(&self.kept_0[0]), __k::kernel_arg(outputs_2)])))?;\n                self.kept_0.swap(0, 1);\n",
        "pub fn reset(&mut self) -> Result<()> {\n                self.kept_0 = [Tensor::zeros::<u8>(&[16])?.view_as(&[1, 4], DataType::scalar(2, 32), 0)?, ",
    ] {
        assert!(text.contains(part), "{part}\n{text}");
    }
    assert!(!text.contains("digits_weights") && !text.contains("WEIGHTS_FILE"), "{text}");
    assert!(!text.contains("digits_run") && !text.contains("r#match: Tensor"), "{text}");
    let level = model::WeightsLevel { symbol: "address".to_owned(), bytes: 64 };
    let file = Some(model::FileWeights { code: "0a".to_owned(), levels: vec![level] });
    let with_file = ModelItems { weights_file: file, ..model("digits") };
    let text = generate(&hosts, &CudaOutcome::default(), &[], &Carried::default(), &Descriptions::new(), &[with_file])
        .unwrap();
    for part in [
        "static WEIGHTS_LEVELS: [(u64, __k::WeightsSlot); 1] = [(64, __k::weights_slot!(\"address\"))];\n",
        "__k::ModelWeights::new(\"digits\", 0x0a, &WEIGHTS_LEVELS);\n",
        "pub fn weights(source: impl Into<__k::WeightsSource>) -> Result<()> {\n",
        "#[packed_func(name = \"digits_weights\", crate = super::super::__kernpack)]\n",
    ] {
        assert!(text.contains(part), "{part}\n{text}");
    }
    assert_eq!(made("typed").unwrap_err().to_string(), "a model cannot be called `typed`: say another `.name(..)`");
}

/// The module that launches the kernels also sets the device of the launches.
#[test]
fn compiled_code_calls_the_module_of_its_kernels() {
    let of = |name: &str| {
        let kernel = PtxKernel { name: name.to_owned(), arg_types: vec![], dynamic_shared_memory: false };
        let mut image = OpenClImage::of_kernels("build.rs:1", vec![kernel]);
        image.generated = Some(crate::opencl::Generated { calls: "__of_crate_".to_owned(), tags: vec![vec![]] });
        image
    };
    let opencl = [of("f_kernel0"), of("g_kernel0")];
    let (cuda, carried) = (CudaOutcome::default(), Carried::default());
    let text = generate(&[host("f", "build.rs:1")], &cuda, &opencl, &carried, &Descriptions::new(), &[]).unwrap();
    for name in ["__tvm_set_device", "f_kernel0", "g_kernel0"] {
        let (field, symbol) = (format!("name: {name:?},"), format!("entry_point!(\"__of_crate_{name}\" call"));
        assert_eq!((text.matches(&field).count(), text.matches(&symbol).count()), (1, 1), "{text}");
    }
}
