/* An empty library to link to. */
typedef int nothing;
