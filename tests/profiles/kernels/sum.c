#include <kernpack/kernel.h>

/* sum(values: float64[n]): in a function of another section, and through a table, which linkers drop when they see no use. */
static double add(const double* values, int64_t count) {
  double sum = 0;
  for (int64_t i = 0; i < count; ++i) sum += values[i];
  return sum;
}

static double (*const operations[])(const double*, int64_t) = {add};

KERNPACK_KERNEL(sum) {
  DLTensor* values;
  if (kernpack_arg_count("sum", num_args, 1) != 0 || kernpack_arg_tensor("sum", args, 0, &values) != 0) return -1;
  if (!kernpack_dtype_is(values, kDLFloat, 64) || !kernpack_is_contiguous(values)) {
    return kernpack_raise("TypeError", "sum: argument 0: expected a contiguous float64 tensor");
  }
  return kernpack_return_float(result, operations[0]((const double*)kernpack_data(values), kernpack_element_count(values)));
}
