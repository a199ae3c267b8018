//! Kernels of tensor expressions on devices, which compiled code of the library launches: they are
//! not functions of the library for other callers.

use std::fmt::Write as _;

use super::{OPENCL, layout};
use crate::opencl::OpenClImage;

/// The name of the function that sets the device of launches, after the prefix of the image. The
/// module that launches the kernels answers it: another library, whose threads have current devices
/// of their own, may have made that module.
const SET_DEVICE: &str = "__tvm_set_device";

/// Writes the symbols that compiled code calls: one for each kernel, and one that sets the device.
pub(super) fn write(out: &mut String, images: &[&OpenClImage]) {
    let mut prefixes: Vec<&str> = Vec::new();
    for image in images {
        let Some(generated) = &image.generated else { continue };
        if !prefixes.contains(&generated.calls.as_str()) {
            function(out, &format!("launches_{}", prefixes.len()), SET_DEVICE, &generated.calls);
            prefixes.push(&generated.calls);
        }
        image.kernels.iter().for_each(|of| function(out, &format!("{}_launch", of.name), &of.name, &generated.calls));
    }
}

/// Writes the symbol of a function of the image's module.
fn function(out: &mut String, module: &str, name: &str, calls: &str) {
    let _ = write!(
        out,
        "    mod {module} {{
        use super::super::__kernpack::__private_v0_1 as __k;
        use super::super::__kernpack::{{DeviceKernel, ImageStatus}};

        static INFO: __k::DeviceKernelInfo = __k::DeviceKernelInfo {{
"
    );
    layout::text_field(out, 12, "name", name);
    layout::text_field(out, 12, "kind", OPENCL[0]);
    out.push_str("            status: ImageStatus::Built,\n");
    layout::text_field(out, 12, "doc", "");
    // The image has the types of the arguments, and no other caller needs their names.
    for list in ["arg_names", "arg_types", "elements", "launch_params"] {
        let _ = writeln!(out, "            {list}: &[],");
    }
    let _ = write!(
        out,
        "        }};

        static KERNEL: DeviceKernel = DeviceKernel::new(&INFO);

        __k::entry_point!({symbol:?} call = call_device_kernel(&KERNEL));
    }}

",
        symbol = format!("{calls}{name}"),
    );
}
