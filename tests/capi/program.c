/* SPDX-License-Identifier: BSD-3-Clause */
/* The C interface from C, against the shared library. Prints "PASS name" or "FAIL name: why". */
#include <fa4/fa4.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static int failures = 0;

static void expect(int truth, const char* name, const char* why) {
  if (truth) {
    printf("PASS %s\n", name);
  } else {
    printf("FAIL %s: %s\n", name, why);
    ++failures;
  }
}

/* With q = 0 every visible key weighs the same, so out is the mean of v: here of 1 .. n. */
static void test_mean_of_values(void) {
  enum { kRows = 4, kDim = 3 };
  const int64_t dims[] = {1, kRows, 1, kDim}, lse_dims[] = {1, 1, kRows};
  float q[kRows * kDim] = {0}, k[kRows * kDim], v[kRows * kDim], out[kRows * kDim], lse[kRows];
  for (int i = 0; i < kRows * kDim; ++i) {
    k[i] = (float)i;
    v[i] = (float)(i / kDim + 1);
    out[i] = NAN;
  }
  const fa4_tensor tq = fa4_contiguous(q, FA4_FLOAT32, 4, dims);
  const fa4_tensor tk = fa4_contiguous(k, FA4_FLOAT32, 4, dims);
  const fa4_tensor tv = fa4_contiguous(v, FA4_FLOAT32, 4, dims);
  const fa4_tensor tout = fa4_contiguous(out, FA4_FLOAT32, 4, dims);
  const fa4_tensor tlse = fa4_contiguous(lse, FA4_FLOAT32, 3, lse_dims);
  const fa4_tensors tensors = {
      .struct_size = sizeof tensors, .q = &tq, .k = &tk, .v = &tv, .out = &tout, .lse = &tlse};
  fa4_options options = fa4_default_options();
  options.causal = FA4_CAUSAL_BOTTOM_RIGHT;

  const fa4_status status = fa4_attention(&tensors, &options, NULL);
  expect(status == FA4_OK, "forward runs", fa4_last_error());
  int right = status == FA4_OK;
  for (int row = 0; row < kRows; ++row) {
    right = right && fabsf(out[row * kDim] - (float)(row + 2) / 2) < 1e-5F;
    right = right && fabsf(lse[row] - logf((float)(row + 1))) < 1e-5F;
  }
  expect(right, "a causal row of zero scores is the mean of the values before it", "it is not");
}

static void test_errors(void) {
  const int64_t dims[] = {1, 2, 1, 2};
  float x[4] = {0};
  fa4_tensor t = fa4_contiguous(x, FA4_FLOAT32, 4, dims);
  fa4_tensors tensors = {.struct_size = sizeof tensors, .q = &t, .k = &t, .v = &t, .out = &t};
  tensors.struct_size = 0;
  expect(fa4_attention(&tensors, NULL, NULL) == FA4_INVALID_ARGUMENT, "struct_size 0 is refused",
         "it is not");
  expect(strstr(fa4_last_error(), "struct_size") != NULL, "the message names struct_size",
         fa4_last_error());
  fa4_options zeros = {.struct_size = 0};
  tensors.struct_size = sizeof tensors;
  expect(fa4_supports(&tensors, NULL, &zeros) == FA4_INVALID_ARGUMENT,
         "options of zeros are refused", "they are not");
}

int main(void) {
  expect(strcmp(fa4_version(), FA4_VERSION_STRING) == 0, "header and library agree on the version",
         fa4_version());
  test_mean_of_values();
  test_errors();
  return failures == 0 ? EXIT_SUCCESS : EXIT_FAILURE;
}
