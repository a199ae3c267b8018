/* Box blur, in plain C: each output pixel is the mean of the (2 * radius + 1)^2 pixels around it.
 *
 *     blur(src: float32[height, width], dst: float32[height, width], radius: int)
 *
 * Pixels beyond the border have the value of the nearest border pixel, as in
 * scipy.ndimage.uniform_filter(src, 2 * radius + 1, mode="nearest").
 *
 * The mean of a box is the mean over columns of the means over rows, so two passes of running sums do the work of
 * (2 * radius + 1)^2 additions in four, whatever the radius. Sums are in double precision: adding and subtracting the
 * same pixel leaves nothing behind.
 */
#include <kernpack/kernel.h>

#include <stdio.h>
#include <stdlib.h>

#define SIGNATURE "blur(src: float32[height, width], dst: float32[height, width], radius: int): "
#define MAX_RADIUS 1000

/* Raises `kind` about one argument. */
static int bad_argument(const char* kind, const char* name, const char* problem) {
  char message[256];
  snprintf(message, sizeof message, SIGNATURE "argument '%s': %s", name, problem);
  return kernpack_raise(kind, message);
}

/* The tensor behind an argument, or NULL if it is none. Hosts pass a tensor object or a bare DLTensor pointer. */
static const DLTensor* tensor_of(const TVMFFIAny* argument) {
  switch (argument->type_index) {
    case kTVMFFITensor:
      return (const DLTensor*)((const char*)argument->v_ptr + sizeof(TVMFFIObject));
    case kTVMFFIDLTensorPtr:
      return (const DLTensor*)argument->v_ptr;
    default:
      return NULL;
  }
}

/* Checks that `argument` is a contiguous float32 matrix in host memory. Returns 0 and the tensor, or raises. */
static int matrix_of(const TVMFFIAny* argument, const char* name, const DLTensor** out) {
  const DLTensor* tensor = tensor_of(argument);
  char problem[128];
  if (tensor == NULL) return bad_argument("TypeError", name, "expected a tensor");
  if (tensor->device.device_type != kDLCPU) {
    return bad_argument("ValueError", name, "expected a tensor in host memory; copy it to the host first");
  }
  if (tensor->dtype.code != kDLFloat || tensor->dtype.bits != 32 || tensor->dtype.lanes != 1) {
    snprintf(problem, sizeof problem, "expected elements of type float32, got a type of %d bits and DLPack code %d",
             tensor->dtype.bits * tensor->dtype.lanes, tensor->dtype.code);
    return bad_argument("TypeError", name, problem);
  }
  if (tensor->ndim != 2) {
    snprintf(problem, sizeof problem, "expected 2 dimensions, height and width, got %d", (int)tensor->ndim);
    return bad_argument("ValueError", name, problem);
  }
  const int64_t height = tensor->shape[0], width = tensor->shape[1];
  /* A stride of a dimension that has at most one element is never used, so it may be anything. */
  if (tensor->strides != NULL && height > 0 && width > 0 &&
      ((width > 1 && tensor->strides[1] != 1) || (height > 1 && tensor->strides[0] != width))) {
    snprintf(problem, sizeof problem, "expected contiguous rows, got strides (%lld, %lld); make a contiguous copy first",
             (long long)tensor->strides[0], (long long)tensor->strides[1]);
    return bad_argument("ValueError", name, problem);
  }
  if (((uintptr_t)tensor->data + tensor->byte_offset) % sizeof(float) != 0) {
    return bad_argument("ValueError", name, "expected data aligned to 4 bytes; make a copy first");
  }
  *out = tensor;
  return 0;
}

static float* elements_of(const DLTensor* tensor) {
  return (float*)((char*)tensor->data + tensor->byte_offset);
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

int __tvm_ffi_blur(void* self, const TVMFFIAny* args, int32_t num_args, TVMFFIAny* result) {
  const DLTensor *src, *dst;
  char message[256];
  (void)self;
  (void)result; /* untouched: the function returns None */
  if (num_args != 3) {
    snprintf(message, sizeof message, SIGNATURE "expected 3 arguments, got %d", (int)num_args);
    return kernpack_raise("TypeError", message);
  }
  if (matrix_of(&args[0], "src", &src) != 0 || matrix_of(&args[1], "dst", &dst) != 0) return -1;
  if (args[2].type_index != kTVMFFIInt) return bad_argument("TypeError", "radius", "expected int");

  const int64_t height = src->shape[0], width = src->shape[1], radius = args[2].v_int64;
  if (dst->shape[0] != height || dst->shape[1] != width) {
    snprintf(message, sizeof message, SIGNATURE "argument 'dst': expected the shape of src, (%lld, %lld), got (%lld, %lld)",
             (long long)height, (long long)width, (long long)dst->shape[0], (long long)dst->shape[1]);
    return kernpack_raise("ValueError", message);
  }
  if (radius < 0 || radius > MAX_RADIUS) {
    snprintf(message, sizeof message, SIGNATURE "argument 'radius': %lld is not from 0 to %d", (long long)radius,
             MAX_RADIUS);
    return kernpack_raise("ValueError", message);
  }
  if (height == 0 || width == 0) return 0;

  /* The first pass writes here, so src and dst may be the same tensor. The shape describes memory that exists, so
   * these products do not overflow. */
  float* rows = malloc((size_t)height * (size_t)width * sizeof *rows);
  double* sums = malloc((size_t)width * sizeof *sums);
  if (rows == NULL || sums == NULL) {
    free(rows);
    free(sums);
    return kernpack_raise("MemoryError", SIGNATURE "no memory for the intermediate image");
  }
  for (int64_t y = 0; y < height; ++y) blur_row(elements_of(src) + y * width, rows + y * width, width, radius);
  blur_columns(rows, elements_of(dst), sums, height, width, radius);
  free(rows);
  free(sums);
  return 0;
}
