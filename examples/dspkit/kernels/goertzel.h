/* An unchanged part of an existing C library. */
#ifndef GOERTZEL_H_
#define GOERTZEL_H_

#include <stddef.h>

/* The magnitude of a frequency in n samples, as in a Fourier transform. */
double goertzel(const float* samples, size_t n, double frequency, double rate);

#endif
