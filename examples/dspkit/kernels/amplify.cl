// Multiplies the first `n` samples.
__kernel void amplify_kernel(__global float* out, __global const float* samples, float factor, int n) {
  const int i = get_global_id(0);
  if (i < n) out[i] = factor * samples[i];
}
