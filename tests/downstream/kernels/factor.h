/* What `scale` multiplies by. */
#define FACTOR 3
