// Written by kernpack-build. `kernpack::library!()` includes it.

/// Kernels that build.rs compiled into this library.
///
/// Each takes any arguments, which it checks when it is called. Those whose arguments are known are
/// also functions, in the module `typed`.
#[allow(
    non_snake_case,
    non_upper_case_globals,
    unused_imports,
    unused_qualifications,
    clippy::all,
    rustdoc::all
)]
pub mod kernels {
    use super::__kernpack::__private_v0_1 as _; // not found: kernpack and kernpack-build need the same version in Cargo.toml (0.1)
    use super::__kernpack::{DeviceKernel, Kernel};

    /// Box blur.
    ///
    /// `blur`, from blur.c. Takes `(src: Tensor[float32], dst: Tensor[float32], radius: int64)`,
    /// also as a function: [`typed::blur`].
    pub static blur: Kernel = blur_parts::KERNEL;

    /// Adds all.
    ///
    /// `sum`, a CUDA kernel from k.cu.
    ///
    /// Arguments: `out` (tensor), `n` (`u32`). Launch it with
    /// `kernels::sum.launch_with(&config, (out, n))?`. It uses dynamic shared memory: set
    /// `dynamic_shared_memory` in `let config = LaunchConfig { .. }`.
    ///
    /// As a function: [`typed::sum`].
    pub static sum: DeviceKernel = sum_parts::KERNEL;

    /// The kernels as functions whose arguments have names and types.
    pub mod typed {
        use super::super::__kernpack::__private_v0_1 as __k;
        use super::super::__kernpack::module::LaunchConfig;
        use super::super::__kernpack::{Any, Bytes, DataType, Device, Function, Result, Tensor};

        /// Box blur.
        ///
        /// `blur`, from blur.c.
        ///
        /// - `src`: `Tensor[float32]`
        /// - `dst`: `Tensor[float32]`, may be written to
        /// - `radius`: `int64`
        pub fn blur(src: &Tensor, dst: &Tensor, radius: i64) -> Result<()> {
            let args = [
                __k::kernel_arg(&src),
                __k::kernel_arg(&dst),
                __k::kernel_arg(&radius),
            ];
            __k::call_kernel(&super::blur, args)
        }

        /// Adds all.
        ///
        /// `sum`, a CUDA kernel from k.cu.
        ///
        /// - `config`: `(grid, block)`, or a `LaunchConfig`, whose `dynamic_shared_memory` says how
        ///   many bytes the kernel uses
        /// - `out`: `Tensor[float32]`, may be written to
        /// - `n`: `uint32`
        pub fn sum(config: impl Into<LaunchConfig>, out: &Tensor, n: u32) -> Result<()> {
            let args = [__k::kernel_arg(&out), __k::kernel_arg(&n)];
            __k::launch_kernel(&super::sum, config, args)
        }
    }

    mod blur_parts {
        use super::super::__kernpack::__private_v0_1 as __k;
        use super::super::__kernpack::Kernel;

        __k::foreign_entry_point!("__tvm_ffi_blur" symbol);

        #[__k::linkme::distributed_slice(__k::KERNPACK_KERNELS_V1)]
        #[linkme(crate = __k::linkme)]
        static INFO: __k::KernelInfo = __k::KernelInfo {
            name: "blur",
            call: symbol,
            source: "blur.c",
            doc: "Box blur.",
            types: Some(__k::HostKernelTypes {
                names: &["src", "dst", "radius"],
                keys: &["ffi.Tensor", "ffi.Tensor", "int"],
                elements: &["float32", "float32", ""],
                result: "None",
            }),
            crate_name: ::core::env!("CARGO_CRATE_NAME"),
            register: __k::register_kernel,
        };

        pub(super) const KERNEL: Kernel = __k::host_kernel!(INFO);

        __k::text_symbol!("__tvm_ffi__doc_blur" doc = kernel_doc(INFO.doc));

        __k::text_symbol!("__tvm_ffi__metadata_blur" metadata = host_kernel_metadata(&INFO));

        #[doc(hidden)]
        #[macro_export]
        #[rustfmt::skip]
        macro_rules! packed_function_named_blur__give_one_of_them_another_name { // the kernel of blur.c
            () => {};
        }
    }

    mod sum_parts {
        use super::super::__kernpack::__private_v0_1 as __k;
        use super::super::__kernpack::{DeviceKernel, ImageStatus};

        use super::sum as kernel;

        static INFO: __k::DeviceKernelInfo = __k::DeviceKernelInfo {
            name: "sum",
            kind: "cuda",
            status: ImageStatus::Built,
            doc: "Adds all.",
            arg_names: &["out", "n"],
            arg_types: &[__k::ArgType::POINTER, __k::ArgType::UINT32],
            elements: &["float32", ""],
            launch_params: &[
                "blockIdx.x",
                "blockIdx.y",
                "blockIdx.z",
                "threadIdx.x",
                "threadIdx.y",
                "threadIdx.z",
                "tirx.use_dyn_shared_memory",
            ],
        };

        pub(super) const KERNEL: DeviceKernel = DeviceKernel::new(&INFO);

        // Other languages find the kernel under its name in the library itself.
        __k::entry_point!("__tvm_ffi_sum" call = call_device_kernel(&kernel));

        __k::text_symbol!("__tvm_ffi__doc_sum" doc = kernel_doc(INFO.doc));

        __k::text_symbol!("__tvm_ffi__metadata_sum" metadata = device_kernel_metadata(&kernel));

        #[doc(hidden)]
        #[macro_export]
        #[rustfmt::skip]
        macro_rules! packed_function_named_sum__give_one_of_them_another_name { // the kernel of k.cu
            () => {};
        }
    }

    mod carries_0 {
        use super::super::__kernpack::__private_v0_1 as __k;

        #[__k::linkme::distributed_slice(__k::KERNPACK_CARRIED_V1)]
        #[linkme(crate = __k::linkme)]
        static KIND: __k::CarriedKind = __k::CarriedKind {
            kind: "kernpack.cuda",
            register: __k::register_carried,
            library_bin: __k::library_bin!("__kernpack_library_bin_crate_1_2_3"),
            shown: __k::library_bin!("__kernpack_first_library_bin"),
        };
    }

    super::__kernpack::__private_v0_1::has_cuda_kernels!();
}
