#include "goertzel.h"

#include <math.h>

double goertzel(const float* samples, size_t n, double frequency, double rate) {
  const double pi = 3.14159265358979323846;
  const double twice = 2 * cos(2 * pi * frequency / rate);
  double last = 0, before = 0;
  for (size_t i = 0; i < n; ++i) {
    const double now = samples[i] + twice * last - before;
    before = last;
    last = now;
  }
  const double power = last * last + before * before - twice * last * before;
  return n == 0 ? 0 : 2 * sqrt(power > 0 ? power : 0) / (double)n;
}
