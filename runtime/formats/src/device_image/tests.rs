use proptest::prelude::*;

use super::*;
use crate::library_bin::LibraryBin;

/// The output of `apache-tvm` 0.27 for a library with one OpenCL kernel.
const ADDONE_OPENCL: &[u8] = include_bytes!("../../../testdata/addone_opencl.library_bin");

fn tvm_payload() -> &'static [u8] {
    LibraryBin::parse(ADDONE_OPENCL).unwrap().modules()[1].payload().unwrap()
}

fn sample() -> Vec<u8> {
    let scale = DeviceFunction::new("scale", vec![ArgType::POINTER, ArgType::FLOAT32, ArgType::UINT64], true);
    DeviceImage::new("fatbin", vec![scale, DeviceFunction::new("fill", vec![], false)], b"code").to_vec()
}

#[test]
fn reads_and_writes_what_tvm_writes() {
    let image = DeviceImage::parse(tvm_payload()).unwrap();
    assert_eq!(image.format(), "cl");
    assert_eq!(image.kernels().len(), 1);
    let kernel = image.kernel("addone_kernel").unwrap();
    assert_eq!(kernel.arg_types, [ArgType::POINTER, ArgType::POINTER]);
    assert_eq!(kernel.launch_params, ["blockIdx.x", "threadIdx.x"]);
    assert_eq!(kernel.extra_tags, [0, 0]);
    assert!(image.code().starts_with(b"// Function: addone_kernel\n__kernel void"));
    assert_eq!(image.kernel("none"), None);
    assert!(image.to_vec() == tvm_payload());
}

#[test]
fn launch_parameters_follow_the_order_of_tvm() {
    let payload = sample();
    let image = DeviceImage::parse(&payload).unwrap();
    assert_eq!(
        image.kernels()[0].launch_params,
        [
            "blockIdx.x",
            "blockIdx.y",
            "blockIdx.z",
            "threadIdx.x",
            "threadIdx.y",
            "threadIdx.z",
            "tirx.use_dyn_shared_memory"
        ]
    );
    assert_eq!(image.kernels()[1].launch_params, GRID_AND_BLOCK);
}

#[test]
fn bad_images_are_named() {
    let twice = DeviceImage::new("ptx", vec![DeviceFunction::new("f", vec![], false); 2], b"").to_vec();
    let mut tags = DeviceFunction::new("f", vec![ArgType::INT32], false);
    tags.extra_tags.push(1);
    let mut renamed = sample();
    let position = renamed.windows(5).rposition(|bytes| bytes == b"scale").unwrap();
    renamed[position] = b'S';
    let mut huge = sample();
    huge[14..22].fill(0xff);
    #[rustfmt::skip]
    let rows: &[(Vec<u8>, &str)] = &[
        (vec![], "device image: format at byte 0x0: needs 8 bytes, but only 0 are left; the data is cut off"),
        (DeviceImage::new("", vec![], b"").to_vec(), "device image: format at byte 0x0: is empty"),
        (twice, "device image: kernel table at byte 0xac: \"f\" is in it twice"),
        (DeviceImage::new("ptx", vec![tags], b"").to_vec(), "device image: extra tags of kernel 0 (\"f\") at byte 0xa8: 2 tags for 1 arguments"),
        (renamed, "device image: function name of kernel 0 (\"scale\") at byte 0x23: is \"Scale\", but the table calls it \"scale\""),
        (huge, "device image: kernel table at byte 0xe: claims 18446744073709551615 items of 40 bytes or more, but only 390 bytes follow"),
        ([sample(), vec![1, 2]].concat(), "device image: code at byte 0x19c: 2 unexpected bytes after the end"),
    ];
    for (bytes, expected) in rows {
        assert_eq!(DeviceImage::parse(bytes).unwrap_err().to_string(), *expected);
    }
}

#[test]
fn every_truncation_is_an_error() {
    for payload in [tvm_payload(), &sample()] {
        for len in 0..payload.len() {
            assert!(DeviceImage::parse(&payload[..len]).is_err(), "cut to {len} bytes");
        }
    }
}

#[test]
fn bit_flips_never_panic() {
    for mut bytes in [tvm_payload().to_vec(), sample()] {
        for bit in 0..bytes.len() * 8 {
            bytes[bit / 8] ^= 1 << (bit % 8);
            let _ = DeviceImage::parse(&bytes);
            bytes[bit / 8] ^= 1 << (bit % 8);
        }
    }
    for (kind, blob) in TVM_IMAGES {
        let mut bytes = tvm_image(blob).to_vec();
        for bit in 0..bytes.len() * 8 {
            bytes[bit / 8] ^= 1 << (bit % 8);
            let _ = DeviceImage::parse_as(kind, &bytes);
            bytes[bit / 8] ^= 1 << (bit % 8);
        }
    }
}

proptest! {
    #[test]
    fn any_bytes_never_panic(bytes in proptest::collection::vec(any::<u8>(), 0..256)) {
        for kind in ["cuda", "metal", "webgpu"] {
            let _ = DeviceImage::parse_as(kind, &bytes);
        }
    }

    #[test]
    fn round_trip(
        format in "[a-z]{1,8}",
        kernels in proptest::collection::btree_map("[a-z_]{1,12}", (proptest::collection::vec((0u8..4, any::<u8>(), any::<u16>()), 0..5), any::<bool>()), 0..5),
        code in proptest::collection::vec(any::<u8>(), 0..64),
    ) {
        let kernels = kernels.iter().map(|(name, (types, shared))| {
            let types = types.iter().map(|&(code, bits, lanes)| ArgType { code, bits, lanes }).collect();
            DeviceFunction::new(name, types, *shared)
        });
        let image = DeviceImage::new(&format, kernels.collect(), &code);
        let payload = image.to_vec();
        prop_assert_eq!(&DeviceImage::parse(&payload).unwrap(), &image);
    }
}

/// The output of `apache-tvm` 0.27 for libraries with two Metal and two WebGPU kernels
/// (`testdata/export_images.py`).
const TVM_IMAGES: [(&str, &[u8]); 3] = [
    ("metal", include_bytes!("../../../testdata/scale_metal.library_bin")),
    ("webgpu", include_bytes!("../../../testdata/scale_webgpu.library_bin")),
    ("opencl", ADDONE_OPENCL),
];

fn tvm_image(blob: &'static [u8]) -> &'static [u8] {
    LibraryBin::parse(blob).unwrap().modules()[1].payload().unwrap()
}

#[test]
fn every_kind_is_written_as_tvm_writes_it() {
    for (kind, blob) in TVM_IMAGES {
        let payload = tvm_image(blob);
        let image = DeviceImage::parse_as(kind, payload).unwrap();
        assert!(image.to_vec() == payload, "{kind}");
        assert_eq!(image.check_kind(kind), Ok(()));
        for len in 0..payload.len() {
            assert!(DeviceImage::parse_as(kind, &payload[..len]).is_err(), "{kind} cut to {len} bytes");
        }
    }
    let [(_, metal), (_, webgpu), _] = TVM_IMAGES;
    let image = DeviceImage::parse_as("metal", tvm_image(metal)).unwrap();
    assert_eq!((image.format(), image.code()), ("metal", &b""[..]));
    let names: Vec<_> = image.codes().iter().map(|(name, _)| *name).collect();
    assert_eq!(names, ["main_kernel", "other_kernel"]);
    assert!(image.codes()[1].1.starts_with(b"#include <metal_stdlib>"));
    let other = image.kernel("other_kernel").unwrap();
    assert_eq!(other.arg_types, [ArgType::POINTER, ArgType::POINTER, ArgType::INT32]);
    let image = DeviceImage::parse_as("webgpu", tvm_image(webgpu)).unwrap();
    assert_eq!(image.format(), "wgsl");
    let tags = ["blockIdx.x", "threadIdx.x", "paramWriteAccess:[0,1]"];
    assert_eq!(image.kernel("main_kernel").unwrap().launch_params, tags);
}

#[test]
fn images_of_the_wrong_kind() {
    let whole = DeviceImage::new("ptx", vec![], b"");
    let each = DeviceImage::with_codes("metal", vec![], vec![("f", b"")]);
    let wgsl = DeviceImage::with_codes("wgsl", vec![], vec![]);
    for (image, kind, expected) in [
        (&whole, "_lib", Err("are not device images")),
        (&whole, "metal", Err("have code for each kernel; make the image with DeviceImage::with_codes")),
        (&each, "cuda", Err("have one piece of code; make the image with DeviceImage::new")),
        (&each, "webgpu", Err("have the format 'wgsl'")),
        (&wgsl, "vulkan", Err("do not have the format 'wgsl'")),
        (&wgsl, "webgpu", Ok(())),
        (&each, "vulkan", Ok(())),
        (&whole, "rocm", Ok(())),
    ] {
        assert_eq!(image.check_kind(kind), expected, "{kind}");
    }
    let twice = DeviceImage::with_codes("metal", vec![], vec![("f", b""), ("f", b"")]).to_vec();
    let wgsl_in_metal = DeviceImage::new("wgsl", vec![], b"").to_vec();
    for (kind, bytes, expected) in [
        ("_lib", &b""[..], "device image: kind at byte 0x0: modules of kind '_lib' are not device images"),
        ("metal", &wgsl_in_metal, "device image: format at byte 0x0: is \"wgsl\", which only webgpu modules have"),
        ("metal", &twice, "device image: code table at byte 0x2e: \"f\" is in it twice"),
    ] {
        assert_eq!(DeviceImage::parse_as(kind, bytes).unwrap_err().to_string(), expected);
    }
}
