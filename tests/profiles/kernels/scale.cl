__kernel void scale_opencl(__global float* x, float factor) {
  const size_t i = get_global_id(0);
  x[i] *= factor;
}
