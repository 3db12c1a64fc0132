/* SPDX-License-Identifier: BSD-3-Clause */
/* Causal attention of one sequence, from C. */
#include <fa4/fa4.h>
#include <stdio.h>

enum { S = 128, H = 4, D = 64 };
static float q[S * H * D], k[S * H * D], v[S * H * D], out[S * H * D];

int main(void) {
  for (int i = 0; i < S * H * D; ++i) {
    q[i] = (float)(i % 13) / 13;
    k[i] = 0.5F;
    v[i] = (float)(i / (H * D));
  }
  const int64_t dims[] = {1, S, H, D};
  const fa4_tensor tq = fa4_contiguous(q, FA4_FLOAT32, 4, dims);
  const fa4_tensor tk = fa4_contiguous(k, FA4_FLOAT32, 4, dims);
  const fa4_tensor tv = fa4_contiguous(v, FA4_FLOAT32, 4, dims);
  const fa4_tensor tout = fa4_contiguous(out, FA4_FLOAT32, 4, dims);
  const fa4_tensors tensors = {
      .struct_size = sizeof tensors, .q = &tq, .k = &tk, .v = &tv, .out = &tout};
  fa4_options options = fa4_default_options();
  options.causal = FA4_CAUSAL_BOTTOM_RIGHT;
  if (fa4_attention(&tensors, &options, NULL) != FA4_OK) {
    return fprintf(stderr, "%s\n", fa4_last_error()), 1;
  }
  /* All keys are alike, so each row is the mean of the values up to it: the last, of 0 .. 127. */
  printf("fa4 %s: the last row is %.3f, and should be 63.500\n", fa4_version(), out[S * H * D - 1]);
  return 0;
}
