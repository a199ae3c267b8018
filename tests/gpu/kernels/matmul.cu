// c = a b, all row-major: a is m x k, b is k x n, c is m x n. Blocks of 16 x 16 or 32 x 32 threads, one for each element of a tile of c.

constexpr int TILE = 16;

// Both tiles in static shared memory.
extern "C" __global__ void matmul_tiled(const float* a, const float* b, float* c, int m, int n, int k) {
  __shared__ float of_a[TILE][TILE];
  __shared__ float of_b[TILE][TILE];
  const int row = blockIdx.y * TILE + threadIdx.y, column = blockIdx.x * TILE + threadIdx.x;
  float sum = 0.0f;
  for (int start = 0; start < k; start += TILE) {
    const int in_a = start + threadIdx.x, in_b = start + threadIdx.y;
    of_a[threadIdx.y][threadIdx.x] = row < m && in_a < k ? a[static_cast<long long>(row) * k + in_a] : 0.0f;
    of_b[threadIdx.y][threadIdx.x] = in_b < k && column < n ? b[static_cast<long long>(in_b) * n + column] : 0.0f;
    __syncthreads();
    for (int i = 0; i < TILE; ++i) sum += of_a[threadIdx.y][i] * of_b[i][threadIdx.x];
    __syncthreads();
  }
  if (row < m && column < n) c[static_cast<long long>(row) * n + column] = sum;
}

// Tiles of 32 x depth and depth x 32 in dynamic shared memory: 256 * depth bytes. Blocks of 32 x 32 threads.
extern "C" __global__ void matmul_dynamic_tiles(const float* a, const float* b, float* c, int m, int n, int k, int depth) {
  extern __shared__ float shared[];
  float* of_a = shared;
  float* of_b = shared + 32 * depth;
  const int row = blockIdx.y * 32 + threadIdx.y, column = blockIdx.x * 32 + threadIdx.x;
  float sum = 0.0f;
  for (int start = 0; start < k; start += depth) {
    for (int i = threadIdx.x; i < depth; i += 32)
      of_a[threadIdx.y * depth + i] = row < m && start + i < k ? a[static_cast<long long>(row) * k + start + i] : 0.0f;
    for (int i = threadIdx.y; i < depth; i += 32)
      of_b[i * 32 + threadIdx.x] = start + i < k && column < n ? b[static_cast<long long>(start + i) * n + column] : 0.0f;
    __syncthreads();
    for (int i = 0; i < depth; ++i) sum += of_a[threadIdx.y * depth + i] * of_b[i * 32 + threadIdx.x];
    __syncthreads();
  }
  if (row < m && column < n) c[static_cast<long long>(row) * n + column] = sum;
}
