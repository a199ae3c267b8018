#include <kernpack/kernel.h>

/* Weighs numbers in place, and gives the number of them.
 *
 * kernpack: weigh(numbers: Tensor[float32], weight: float) -> int */
KERNPACK_KERNEL(weigh) {
  DLTensor* numbers;
  double weight;
  if (kernpack_arg_count("weigh", num_args, 2) != 0 || kernpack_arg_tensor("weigh", args, 0, &numbers) != 0 ||
      kernpack_arg_float("weigh", args, 1, &weight) != 0) {
    return -1;
  }
  if (!kernpack_dtype_is(numbers, kDLFloat, 32) || !kernpack_is_contiguous(numbers)) {
    return kernpack_raise("TypeError", "weigh: argument 0: expected a contiguous float32 tensor");
  }
  float* data = (float*)kernpack_data(numbers);
  const int64_t count = kernpack_element_count(numbers);
  for (int64_t i = 0; i < count; ++i) data[i] *= (float)weight;
  return kernpack_return_int(result, count);
}

KERNPACK_KERNEL(argument_count) {
  (void)args;
  return kernpack_return_int(result, num_args);
}
