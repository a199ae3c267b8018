// Edge strength by the Sobel operator, on an OpenCL device: the same definition as sobel.ll, one work item per pixel.
//
// Pixels beyond the border have the value of the nearest border pixel.
__kernel void sobel_opencl(__global const float* src, __global float* dst, int height, int width) {
  const int x = get_global_id(0), y = get_global_id(1);
  if (x >= width || y >= height) return;

  const int west = max(x - 1, 0), east = min(x + 1, width - 1);
  // Offsets of whole rows in 64 bits: an image may have more than 2^31 pixels.
  __global const float* above = src + (long)max(y - 1, 0) * width;
  __global const float* here = src + (long)y * width;
  __global const float* below = src + (long)min(y + 1, height - 1) * width;

  const float gx = (above[east] - above[west]) + 2.0f * (here[east] - here[west]) + (below[east] - below[west]);
  const float gy = (below[west] - above[west]) + 2.0f * (below[x] - above[x]) + (below[east] - above[east]);
  dst[(long)y * width + x] = sqrt(gx * gx + gy * gy);
}
