/* A part of a library in C that was there before, as it is. */
#ifndef GOERTZEL_H_
#define GOERTZEL_H_

#include <stddef.h>

/* How much of a frequency is in n samples: the magnitude that a Fourier transform has there. */
double goertzel(const float* samples, size_t n, double frequency, double rate);

#endif
