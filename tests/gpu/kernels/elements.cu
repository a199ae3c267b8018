// Kernels whose results a CPU computes to the last bit: numbers of several types, a two-dimensional
// grid, atomics, a busy stream.

// y = alpha x + y, with one rounding.
extern "C" __global__ void saxpy_values(float* y, const float* x, float alpha, long long count) {
  const long long i = static_cast<long long>(blockIdx.x) * blockDim.x + threadIdx.x;
  if (i < count) y[i] = fmaf(alpha, x[i], y[i]);
}

extern "C" __global__ void daxpy_values(double* y, const double* x, double alpha, long long count) {
  const long long i = static_cast<long long>(blockIdx.x) * blockDim.x + threadIdx.x;
  if (i < count) y[i] = fma(alpha, x[i], y[i]);
}

// Integers wrap. Each thread processes elements in steps of the whole grid, so any grid works.
extern "C" __global__ void mix_words(unsigned* out, const unsigned* a, const unsigned* b, unsigned by, long long count) {
  const long long step = static_cast<long long>(gridDim.x) * blockDim.x;
  for (long long i = static_cast<long long>(blockIdx.x) * blockDim.x + threadIdx.x; i < count; i += step)
    out[i] = a[i] * by + (b[i] ^ static_cast<unsigned>(i));
}

extern "C" __global__ void mix_longs(unsigned long long* out, const unsigned long long* a, unsigned long long by, int shift, long long count) {
  const long long i = static_cast<long long>(blockIdx.x) * blockDim.x + threadIdx.x;
  if (i < count) out[i] = (a[i] * by) ^ (a[i] >> shift);
}

extern "C" __global__ void add_bytes(signed char* out, const signed char* a, int by, long long count) {
  const long long i = static_cast<long long>(blockIdx.x) * blockDim.x + threadIdx.x;
  if (i < count) out[i] = static_cast<signed char>(a[i] + by);
}

// out[column][row] = in[row][column]: tiles of 32 x 32, blocks of 32 x 8 threads.
extern "C" __global__ void transpose_tiles(float* out, const float* in, int rows, int columns) {
  __shared__ float tile[32][33];
  const int column = blockIdx.x * 32 + threadIdx.x, first = blockIdx.y * 32;
  for (int i = threadIdx.y; i < 32; i += blockDim.y)
    if (first + i < rows && column < columns) tile[i][threadIdx.x] = in[static_cast<long long>(first + i) * columns + column];
  __syncthreads();
  const int row = first + threadIdx.x;
  for (int i = threadIdx.y; i < 32; i += blockDim.y)
    if (blockIdx.x * 32 + i < columns && row < rows) out[static_cast<long long>(blockIdx.x * 32 + i) * rows + row] = tile[threadIdx.x][i];
}

// total[0] += the number of elements above a limit.
extern "C" __global__ void count_above(unsigned long long* total, const float* values, float limit, long long count) {
  const long long i = static_cast<long long>(blockIdx.x) * blockDim.x + threadIdx.x;
  if (i < count && values[i] > limit) atomicAdd(total, 1ull);
}

// Keeps a multiprocessor busy for a number of cycles, then sets done[0] to a value.
extern "C" __global__ void work_cycles(float* done, float value, long long cycles) {
  const long long start = clock64();
  while (clock64() - start < cycles) {
  }
  done[0] = value;
}

// Writes to unallocated memory if the offset is large.
extern "C" __global__ void write_far_away(int* data, long long offset) { data[offset] = 1; }
