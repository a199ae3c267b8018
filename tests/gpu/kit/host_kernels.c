/* The kernels of tests/gpu and of examples/imagekit on the host, for `cargo xtask gpu-kit
 * --check`: the stand-in for the driver (tests/c/fake_libcuda.c, FAKE_CUDA_KERNELS) calls them
 * in place of a GPU's kernels. `sizes` are grid and block, x, y and z each; a kernel does the
 * work of all of its threads, so a grid that is too small gives a wrong result here as well. */
#include <math.h>
#include <stdint.h>
#include <stdlib.h>

#define PARAMETER(type, index) (*(type *)params[index])
/* Each thread of a one-dimensional grid. */
#define EACH_THREAD(i) for (long long i = 0; i < (long long)sizes[0] * sizes[3]; i++)

void saxpy_values(const unsigned *sizes, void **params) {
  float *y = PARAMETER(float *, 0), alpha = PARAMETER(float, 2);
  const float *x = PARAMETER(const float *, 1);
  EACH_THREAD(i) if (i < PARAMETER(long long, 3)) y[i] = fmaf(alpha, x[i], y[i]);
}

void daxpy_values(const unsigned *sizes, void **params) {
  double *y = PARAMETER(double *, 0), alpha = PARAMETER(double, 2);
  const double *x = PARAMETER(const double *, 1);
  EACH_THREAD(i) if (i < PARAMETER(long long, 3)) y[i] = fma(alpha, x[i], y[i]);
}

void mix_words(const unsigned *sizes, void **params) {
  uint32_t *out = PARAMETER(uint32_t *, 0), by = PARAMETER(uint32_t, 3);
  const uint32_t *a = PARAMETER(const uint32_t *, 1), *b = PARAMETER(const uint32_t *, 2);
  (void)sizes;
  for (long long i = 0; i < PARAMETER(long long, 4); i++) out[i] = a[i] * by + (b[i] ^ (uint32_t)i);
}

void mix_longs(const unsigned *sizes, void **params) {
  uint64_t *out = PARAMETER(uint64_t *, 0), by = PARAMETER(uint64_t, 2);
  const uint64_t *a = PARAMETER(const uint64_t *, 1);
  EACH_THREAD(i) if (i < PARAMETER(long long, 4)) out[i] = (a[i] * by) ^ (a[i] >> PARAMETER(int, 3));
}

void add_bytes(const unsigned *sizes, void **params) {
  int8_t *out = PARAMETER(int8_t *, 0);
  const int8_t *a = PARAMETER(const int8_t *, 1);
  EACH_THREAD(i) if (i < PARAMETER(long long, 3)) out[i] = (int8_t)(a[i] + PARAMETER(int, 2));
}

void transpose_tiles(const unsigned *sizes, void **params) {
  float *out = PARAMETER(float *, 0);
  const float *in = PARAMETER(const float *, 1);
  const long long rows = PARAMETER(int, 2), columns = PARAMETER(int, 3);
  for (long long row = 0; row < rows && row < 32ll * sizes[1]; row++)
    for (long long column = 0; column < columns && column < 32ll * sizes[0]; column++) out[column * rows + row] = in[row * columns + column];
}

void count_above(const unsigned *sizes, void **params) {
  unsigned long long *total = PARAMETER(unsigned long long *, 0);
  EACH_THREAD(i) if (i < PARAMETER(long long, 3) && PARAMETER(const float *, 1)[i] > PARAMETER(float, 2)) (*total)++;
}

void work_cycles(const unsigned *sizes, void **params) {
  (void)sizes;
  PARAMETER(float *, 0)[0] = PARAMETER(float, 1);
}

static void product(float *c, void **params, long long rows, long long columns) {
  const float *a = PARAMETER(const float *, 0), *b = PARAMETER(const float *, 1);
  const long long m = PARAMETER(int, 3), n = PARAMETER(int, 4), k = PARAMETER(int, 5);
  for (long long row = 0; row < m && row < rows; row++)
    for (long long column = 0; column < n && column < columns; column++) {
      float sum = 0;
      for (long long i = 0; i < k; i++) sum = fmaf(a[row * k + i], b[i * n + column], sum);
      c[row * n + column] = sum;
    }
}

void matmul_tiled(const unsigned *sizes, void **params) { product(PARAMETER(float *, 2), params, 16ll * sizes[1], 16ll * sizes[0]); }

void matmul_dynamic_tiles(const unsigned *sizes, void **params) {
  product(PARAMETER(float *, 2), params, 32ll * sizes[1], 32ll * sizes[0]);
}

void softmax_rows(const unsigned *sizes, void **params) {
  const long long columns = PARAMETER(int, 2);
  for (long long row = 0; row < sizes[0]; row++) {
    const float *in = PARAMETER(const float *, 0) + row * columns;
    float *out = PARAMETER(float *, 1) + row * columns, largest = in[0], sum = 0;
    for (long long i = 0; i < columns; i++) largest = fmaxf(largest, in[i]);
    for (long long i = 0; i < columns; i++) sum += expf(in[i] - largest);
    for (long long i = 0; i < columns; i++) out[i] = expf(in[i] - largest) / sum;
  }
}

static long long clamped(long long index, long long count) { return index < 0 ? 0 : index < count ? index : count - 1; }

void sobel_cuda(const unsigned *sizes, void **params) {
  const float *src = PARAMETER(const float *, 0);
  const long long height = PARAMETER(int, 2), width = PARAMETER(int, 3);
  for (long long y = 0; y < height && y < (long long)sizes[1] * sizes[4]; y++)
    for (long long x = 0; x < width && x < (long long)sizes[0] * sizes[3]; x++) {
      const long long west = clamped(x - 1, width), east = clamped(x + 1, width);
      const float *above = src + clamped(y - 1, height) * width, *here = src + y * width, *below = src + clamped(y + 1, height) * width;
      const float gx = (above[east] - above[west]) + 2 * (here[east] - here[west]) + (below[east] - below[west]);
      const float gy = (below[west] - above[west]) + 2 * (below[x] - above[x]) + (below[east] - above[east]);
      PARAMETER(float *, 1)[y * width + x] = sqrtf(gx * gx + gy * gy);
    }
}
