/* Box blur, in plain C: each output pixel is the mean of the (2 * radius + 1)^2 pixels around it.
 *
 *     blur(src: float32[height, width], dst: float32[height, width], radius: int)
 *
 * Pixels beyond the border have the value of the nearest border pixel, as in
 * scipy.ndimage.uniform_filter(src, 2 * radius + 1, mode="nearest").
 *
 * The mean of a box is the mean over columns of the means over rows, so two passes of running sums do the work of
 * (2 * radius + 1)^2 additions in four, whatever the radius. Sums are in double precision: adding and subtracting the
 * same pixel leaves no residue.
 */
#include <kernpack/kernel.h>

#include <stdlib.h>

#define SIGNATURE "blur(src: float32[height, width], dst: float32[height, width], radius: int)"
#define ARGUMENT SIGNATURE ": argument '%s': "
#define MAX_RADIUS 1000

/* Gets argument `index` as a contiguous float32 matrix in CPU memory: 0 and the tensor, or -1 and an error. */
static int matrix_of(const TVMFFIAny* args, int32_t index, const char* name, DLTensor** out) {
  const int32_t type = args[index].type_index;
  if (type != kTVMFFITensor && type != kTVMFFIDLTensorPtr) {
    return kernpack_raisef("TypeError", ARGUMENT "expected Tensor, got %s", name, kernpack_type_name(&args[index]));
  }
  if (kernpack_arg_tensor(SIGNATURE, args, index, out) != 0) return -1;
  const DLTensor* tensor = *out;
  if (tensor->device.device_type != kDLCPU) {
    return kernpack_raisef("ValueError", ARGUMENT "expected a tensor in CPU memory; copy it to the host first", name);
  }
  if (!kernpack_dtype_is(tensor, kDLFloat, 32)) {
    return kernpack_raisef("TypeError", ARGUMENT "expected float32, got a type of %d bits and DLPack code %d", name,
                           tensor->dtype.bits * tensor->dtype.lanes, tensor->dtype.code);
  }
  if (tensor->ndim != 2) {
    return kernpack_raisef("ValueError", ARGUMENT "expected 2 dimensions, height and width, got %d", name,
                           (int)tensor->ndim);
  }
  if (!kernpack_is_contiguous(tensor)) {
    return kernpack_raisef("ValueError",
                           ARGUMENT "expected contiguous rows, got strides (%lld, %lld); make a contiguous copy first", name,
                           (long long)tensor->strides[0], (long long)tensor->strides[1]);
  }
  if ((uintptr_t)kernpack_data(tensor) % sizeof(float) != 0) {
    return kernpack_raisef("ValueError", ARGUMENT "expected data aligned to 4 bytes; make a copy first", name);
  }
  return 0;
}

static int64_t clamp(int64_t index, int64_t count) {
  return index < 0 ? 0 : index < count ? index : count - 1;
}

/* Mean over 2 * radius + 1 pixels of one row, by a running sum. */
static void blur_row(const float* src, float* dst, int64_t width, int64_t radius) {
  const double scale = 1.0 / (double)(2 * radius + 1);
  double sum = 0.0;
  for (int64_t x = -radius; x <= radius; ++x) sum += src[clamp(x, width)];
  for (int64_t x = 0; x < width; ++x) {
    dst[x] = (float)(sum * scale);
    sum += (double)src[clamp(x + radius + 1, width)] - (double)src[clamp(x - radius, width)];
  }
}

/* The same down all columns at once: `sums` holds one running sum per column, so the inner loops walk along rows. */
static void blur_columns(const float* src, float* dst, double* restrict sums, int64_t height, int64_t width,
                         int64_t radius) {
  const double scale = 1.0 / (double)(2 * radius + 1);
  for (int64_t x = 0; x < width; ++x) sums[x] = 0.0;
  for (int64_t y = -radius; y <= radius; ++y) {
    const float* row = src + clamp(y, height) * width;
    for (int64_t x = 0; x < width; ++x) sums[x] += row[x];
  }
  for (int64_t y = 0; y < height; ++y) {
    const float* enter = src + clamp(y + radius + 1, height) * width;
    const float* leave = src + clamp(y - radius, height) * width;
    float* restrict out = dst + y * width;
    for (int64_t x = 0; x < width; ++x) {
      out[x] = (float)(sums[x] * scale);
      sums[x] += (double)enter[x] - (double)leave[x];
    }
  }
}

/* Box blur: each pixel of `dst` becomes the mean of the (2 * radius + 1)^2 pixels of `src` around it.
 *
 * Both are matrices in CPU memory, of one shape, and may be the same tensor.
 *
 * kernpack: blur(src: Tensor[float32], dst: mut Tensor[float32], radius: int) -> None
 */
int __tvm_ffi_blur(void* self, const TVMFFIAny* args, int32_t num_args, TVMFFIAny* result) {
  DLTensor *src, *dst;
  (void)self;
  (void)result;
  if (kernpack_arg_count(SIGNATURE, num_args, 3) != 0) return -1;
  if (matrix_of(args, 0, "src", &src) != 0 || matrix_of(args, 1, "dst", &dst) != 0) return -1;
  if (args[2].type_index != kTVMFFIInt) {
    return kernpack_raisef("TypeError", ARGUMENT "expected int, got %s", "radius", kernpack_type_name(&args[2]));
  }

  const int64_t height = src->shape[0], width = src->shape[1], radius = args[2].v_int64;
  if (dst->shape[0] != height || dst->shape[1] != width) {
    return kernpack_raisef("ValueError", ARGUMENT "expected the shape of src, (%lld, %lld), got (%lld, %lld)", "dst",
                           (long long)height, (long long)width, (long long)dst->shape[0], (long long)dst->shape[1]);
  }
  if (radius < 0 || radius > MAX_RADIUS) {
    return kernpack_raisef("ValueError", ARGUMENT "%lld is not from 0 to %d", "radius", (long long)radius, MAX_RADIUS);
  }
  if (height == 0 || width == 0) return 0;

  /* The first pass writes here, so src and dst may be the same tensor. The shape describes memory that exists, so
   * these products do not overflow. */
  float* rows = malloc((size_t)height * (size_t)width * sizeof *rows);
  double* sums = malloc((size_t)width * sizeof *sums);
  if (rows == NULL || sums == NULL) {
    free(rows);
    free(sums);
    return kernpack_raise("MemoryError", SIGNATURE ": no memory for the intermediate image");
  }
  const float* pixels = kernpack_data(src);
  for (int64_t y = 0; y < height; ++y) blur_row(pixels + y * width, rows + y * width, width, radius);
  blur_columns(rows, kernpack_data(dst), sums, height, width, radius);
  free(rows);
  free(sums);
  return 0;
}
