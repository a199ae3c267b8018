/* A filter with a finite impulse response: each sample of the result is a weighted sum of the last samples. */
#include <kernpack/kernel.h>

#define SIGNATURE "fir(samples: float32[n], taps: float32[m], out: float32[n])"

static int is_vector(const DLTensor* t) {
  return t->device.device_type == kDLCPU && t->ndim == 1 && kernpack_dtype_is(t, kDLFloat, 32) && kernpack_is_contiguous(t);
}

/* Filters `samples` by `taps` into `out`.
 *
 * kernpack: fir(samples: Tensor[float32], taps: Tensor[float32], out: mut Tensor[float32]) -> None
 */
KERNPACK_KERNEL(fir) {
  DLTensor *samples, *taps, *out;
  if (kernpack_arg_count(SIGNATURE, num_args, 3) != 0 || kernpack_arg_tensor(SIGNATURE, args, 0, &samples) != 0 ||
      kernpack_arg_tensor(SIGNATURE, args, 1, &taps) != 0 || kernpack_arg_tensor(SIGNATURE, args, 2, &out) != 0) return -1;
  if (!is_vector(samples) || !is_vector(taps) || !is_vector(out) || samples->shape[0] != out->shape[0]) {
    return kernpack_raise("ValueError", SIGNATURE ": expected contiguous float32 vectors in CPU memory, the first and the last of one length");
  }
  const float* from = (const float*)kernpack_data(samples);
  const float* weight = (const float*)kernpack_data(taps);
  float* to = (float*)kernpack_data(out);
  const int64_t n = samples->shape[0], m = taps->shape[0];
  for (int64_t i = 0; i < n; ++i) {
    double sum = 0;
    const int64_t last = i + 1 < m ? i + 1 : m;
    for (int64_t k = 0; k < last; ++k) sum += (double)weight[k] * from[i - k];
    to[i] = (float)sum;
  }
  return 0;
}
