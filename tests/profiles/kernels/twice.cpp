#include <kernpack/kernel.h>

#include <string>

/* A constructor runs when the library is loaded. */
static const std::string two(2, 'x');

KERNPACK_KERNEL(twice) {
  int64_t value;
  if (kernpack_arg_count("twice", num_args, 1) != 0 || kernpack_arg_int("twice", args, 0, &value) != 0) return -1;
  return kernpack_return_int(result, value * static_cast<int64_t>(two.size()));
}
