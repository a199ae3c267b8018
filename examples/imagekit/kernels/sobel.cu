__device__ static int clamped(int index, int count) {
  return index < 0 ? 0 : index < count ? index : count - 1;
}

// Edge strength by the Sobel operator, on a CUDA device: the same definition as sobel.ll, one thread per pixel.
//
// Pixels beyond the border have the value of the nearest border pixel.
extern "C" __global__ void sobel_cuda(const float* src, float* dst, int height, int width) {
  const int x = blockIdx.x * blockDim.x + threadIdx.x;
  const int y = blockIdx.y * blockDim.y + threadIdx.y;
  if (x >= width || y >= height) return;

  const int west = clamped(x - 1, width), east = clamped(x + 1, width);
  // Offsets of whole rows in 64 bits: an image may have more than 2^31 pixels.
  const float* above = src + static_cast<long long>(clamped(y - 1, height)) * width;
  const float* here = src + static_cast<long long>(y) * width;
  const float* below = src + static_cast<long long>(clamped(y + 1, height)) * width;

  const float gx = (above[east] - above[west]) + 2.0f * (here[east] - here[west]) + (below[east] - below[west]);
  const float gy = (below[west] - above[west]) + 2.0f * (below[x] - above[x]) + (below[east] - above[east]);
  dst[static_cast<long long>(y) * width + x] = sqrtf(gx * gx + gy * gy);
}
