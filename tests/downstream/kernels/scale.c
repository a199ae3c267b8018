/* scale(x: int) -> int: three times x. */
#include <kernpack/kernel.h>

#include "factor.h"

int __tvm_ffi_scale(void* self, const TVMFFIAny* args, int num_args, TVMFFIAny* result) {
  (void)self;
  if (num_args != 1 || args[0].type_index != kTVMFFIInt) {
    return kernpack_raise("TypeError", "scale(x: int): expected one int");
  }
  result->type_index = kTVMFFIInt;
  result->zero_padding = 0;
  result->v_int64 = FACTOR * args[0].v_int64;
  return 0;
}
