//! The functions of a model for C and C++ that are linked with the library.

use std::fmt::Write as _;

use crate::generate::model::{ModelArgument, ModelItems};

/// `float32[2, 4]`.
fn shown(argument: &ModelArgument) -> String {
    format!("{}{}", argument.dtype.2, argument.extents().replace("*/", "* /"))
}

/// A C header: the packed functions, and functions that call them with tensors.
pub(super) fn write(model: &ModelItems) -> String {
    let name = &model.name;
    let upper = name.to_ascii_uppercase();
    let all: Vec<&ModelArgument> = model.inputs.iter().chain(&model.outputs).collect();
    let mut text =
        format!("/* The model {name}, from {}. Written by kernpack-build.\n *\n", model.source.replace("*/", "* /"));
    for (argument, what) in all.iter().map(|argument| {
        (argument, if model.inputs.iter().any(|input| input.name == argument.name) { "input" } else { "output" })
    }) {
        let _ = writeln!(text, " * {what} {}: {}", argument.name, shown(argument));
    }
    for dim in &model.dims {
        let _ = writeln!(text, " * {} is {}", dim.name.replace("*/", "* /"), dim.extents);
    }
    let _ = writeln!(
        text,
        " *\n * Tensors are compact and on the CPU; the caller makes the outputs. Functions return 0, or -1 with an error raised, which TVMFFIErrorMoveFromRaised gives. \
         The\n * types are those of <kernpack/kernel.h>, or of <tvm/ffi/c_api.h> if that is included first.\n */"
    );
    let count = all.len();
    let params: Vec<String> = all.iter().map(|argument| format!("DLTensor* {}_", argument.name)).collect();
    let _ = write!(
        text,
        "#ifndef KERNPACK_MODEL_{upper}_H_
#define KERNPACK_MODEL_{upper}_H_

#include <kernpack/kernel.h>
#include <string.h>

/* How many kernels run, and bytes of temporary memory. */
#define KERNPACK_{upper}_STEPS {steps}
#define KERNPACK_{upper}_STATE_BYTES {state}

#ifdef __cplusplus
extern \"C\" {{
#endif

/* The packed functions: ({names}), and (state, first, end, {names}). */
int __tvm_ffi_{name}(void* self, const TVMFFIAny* args, int32_t num_args, TVMFFIAny* result);
int __tvm_ffi_{name}_steps(void* self, const TVMFFIAny* args, int32_t num_args, TVMFFIAny* result);

/* Computes the outputs; temporary memory is the thread's. */
static inline int kernpack_{name}({params}) {{
  TVMFFIAny args[{count}], result;
  memset(args, 0, sizeof args);
  memset(&result, 0, sizeof result);
",
        steps = model.steps,
        state = model.state,
        names = all.iter().map(|argument| argument.name.as_str()).collect::<Vec<_>>().join(", "),
        params = params.join(", "),
    );
    let tensors = |text: &mut String, from: usize| {
        for (index, argument) in all.iter().enumerate() {
            let at = index + from;
            let _ = writeln!(
                text,
                "  args[{at}].type_index = kTVMFFIDLTensorPtr;\n  args[{at}].v_ptr = {}_;",
                argument.name
            );
        }
    };
    tensors(&mut text, 0);
    let _ = write!(
        text,
        "  return __tvm_ffi_{name}(NULL, args, {count}, &result);
}}

/* The same with temporary memory of the caller's: KERNPACK_{upper}_STATE_BYTES bytes at any address, for one call at a time. */
static inline int kernpack_{name}_with(void* kernpack_state, {params}) {{
  int64_t bytes = KERNPACK_{upper}_STATE_BYTES, one = 1;
  DLTensor own;
  TVMFFIAny args[{more}], result;
  memset(&own, 0, sizeof own);
  memset(args, 0, sizeof args);
  memset(&result, 0, sizeof result);
  own.data = kernpack_state;
  own.device.device_type = kDLCPU;
  own.ndim = 1;
  own.dtype.code = kDLUInt;
  own.dtype.bits = 8;
  own.dtype.lanes = 1;
  own.shape = &bytes;
  own.strides = &one;
  args[0].type_index = kTVMFFIDLTensorPtr;
  args[0].v_ptr = &own;
  args[1].type_index = kTVMFFIInt;
  args[1].v_int64 = 0;
  args[2].type_index = kTVMFFIInt;
  args[2].v_int64 = KERNPACK_{upper}_STEPS;
",
        params = params.join(", "),
        more = count + 3,
    );
    tensors(&mut text, 3);
    let _ = write!(
        text,
        "  return __tvm_ffi_{name}_steps(NULL, args, {}, &result);
}}
{weights}
#ifdef __cplusplus
}}
#endif

#endif /* KERNPACK_MODEL_{upper}_H_ */
",
        count + 3,
        weights = if model.weights_file.is_some() { load_weights(name) } else { String::new() },
    );
    text
}

/// The function that loads weights from a file.
fn load_weights(name: &str) -> String {
    format!(
        "
/* The packed function (path). */
int __tvm_ffi_{name}_weights(void* self, const TVMFFIAny* args, int32_t num_args, TVMFFIAny* result);

/* Loads the weights from the file {name}.weights, which is mapped. Call it before the model. */
static inline int kernpack_{name}_weights(const char* kernpack_path) {{
  TVMFFIAny arg, result;
  memset(&arg, 0, sizeof arg);
  memset(&result, 0, sizeof result);
  arg.type_index = kTVMFFIRawStr;
  arg.v_c_str = kernpack_path;
  return __tvm_ffi_{name}_weights(NULL, &arg, 1, &result);
}}
"
    )
}
