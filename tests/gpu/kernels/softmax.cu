// Softmax of each row of a row-major matrix with `columns` columns: one block of 256 threads for each row.

constexpr int THREADS = 256;

template <typename Combine>
__device__ float all_of(float value, float* shared, Combine combine) {
  shared[threadIdx.x] = value;
  __syncthreads();
  for (int half = THREADS / 2; half > 0; half /= 2) {
    if (threadIdx.x < half) shared[threadIdx.x] = combine(shared[threadIdx.x], shared[threadIdx.x + half]);
    __syncthreads();
  }
  const float result = shared[0];
  __syncthreads();
  return result;
}

extern "C" __global__ void softmax_rows(const float* x, float* y, int columns) {
  __shared__ float shared[THREADS];
  const float* in = x + static_cast<long long>(blockIdx.x) * columns;
  float* out = y + static_cast<long long>(blockIdx.x) * columns;
  float largest = in[0];
  for (int i = threadIdx.x; i < columns; i += THREADS) largest = fmaxf(largest, in[i]);
  largest = all_of(largest, shared, [](float a, float b) { return fmaxf(a, b); });
  float sum = 0.0f;
  for (int i = threadIdx.x; i < columns; i += THREADS) sum += expf(in[i] - largest);
  sum = all_of(sum, shared, [](float a, float b) { return a + b; });
  for (int i = threadIdx.x; i < columns; i += THREADS) out[i] = expf(in[i] - largest) / sum;
}
