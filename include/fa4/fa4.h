/* SPDX-License-Identifier: BSD-3-Clause */
/* The C interface of fa4cpp.
 *
 * EXPERIMENTAL: until version 1.0 it may change with any minor version; the soname changes too.
 *
 * What is computed, and what every tensor means, is written in <fa4/attention.h>; this header says
 * how to say it in C. Plain C11, also C++.
 *
 *   Structs begin with struct_size, which the caller sets to sizeof(the struct), and grow at their
 *   end alone. A caller older than the library gets the defaults of the fields it does not know (a
 *   default that is not 0 never comes later). A caller newer than the library is served as long as
 *   the fields that the library does not know are 0, and gets FA4_INVALID_ARGUMENT otherwise.
 *
 *   Every function that can fail returns a fa4_status. After one that is not FA4_OK,
 *   fa4_last_error() says which argument was wrong, what it was and what is allowed.
 *
 *   No function prints, exits, aborts or lets a C++ exception out. All are safe to call from many
 *   threads at once; outputs of concurrent calls must not overlap. Nothing is kept of the structs
 *   and tensors of a call once it has returned.
 */
#pragma once

#include <fa4/version.h>
#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

/* How a call ended. */
typedef enum fa4_status {
  FA4_OK = 0,
  FA4_INVALID_ARGUMENT = 1, /* The caller's argument is wrong. */
  FA4_UNSUPPORTED = 2,      /* Legal, but this library can't do it on this device. */
  FA4_OUT_OF_MEMORY = 3,    /* An allocation failed, or a size does not fit 64 bits. */
  FA4_RUNTIME_ERROR = 4     /* The device, a driver or the operating system failed. */
} fa4_status;

/* Element types. */
typedef enum fa4_dtype {
  FA4_FLOAT32 = 0,
  FA4_FLOAT64 = 1,
  FA4_BFLOAT16 = 2,
  FA4_FLOAT16 = 3,
  FA4_INT32 = 4,
  FA4_INT64 = 5,
  FA4_BOOL = 6 /* One byte; 0 is false, anything else true. */
} fa4_dtype;

/* Where the causal triangle stands when there are more keys than queries, or fewer. */
typedef enum fa4_causal {
  FA4_CAUSAL_NONE = 0,
  FA4_CAUSAL_BOTTOM_RIGHT = 1, /* The last query sees the last key. */
  FA4_CAUSAL_TOP_LEFT = 2      /* The first query sees the first key. */
} fa4_causal;

/* FA4_EMULATOR: device_index is the target, 90 for sm_90a. */
typedef enum fa4_device_type { FA4_CPU = 0, FA4_CUDA = 1, FA4_EMULATOR = 2 } fa4_device_type;

#define FA4_MAX_RANK 4

/* A view of a tensor; it owns nothing. fa4_contiguous() makes one. */
typedef struct fa4_tensor {
  size_t struct_size;
  void* data;    /* First element, in the memory of the tensor's device. */
  int32_t dtype; /* fa4_dtype */
  int32_t rank;  /* 1 .. FA4_MAX_RANK. An absent tensor is a null pointer to fa4_tensor. */
  int64_t dims[FA4_MAX_RANK];    /* The first `rank` count. */
  int64_t strides[FA4_MAX_RANK]; /* In elements, >= 0; 0 broadcasts. The first `rank` count. */
  int32_t device_type;           /* fa4_device_type */
  int32_t device_index;          /* Which GPU; 0 for the CPU. */
} fa4_tensor;

/* The tensors of a forward call. q, k, v and out must be given, the others may be null. All are
 * read but out and lse. b: batch, s: rows of a sequence, h: heads, d: head dim. */
typedef struct fa4_tensors {
  size_t struct_size;
  const fa4_tensor* q;            /* [b, s_q, h_q, d_qk], or packed [total_q, h_q, d_qk] */
  const fa4_tensor* k;            /* [b, s_k, h_k, d_qk], or packed [total_k, h_k, d_qk] */
  const fa4_tensor* v;            /* [b, s_k, h_k, d_v], or packed [total_k, h_k, d_v] */
  const fa4_tensor* out;          /* [b, s_q, h_q, d_v], or packed [total_q, h_q, d_v]; written */
  const fa4_tensor* lse;          /* [b, h_q, s_q], or packed [h_q, total_q]; float32 (float64 for
                                     float64 q), natural log; written. Backward needs it. */
  const fa4_tensor* bias;         /* float; each dim of [b, h_q, s_q, s_k] or 1 */
  const fa4_tensor* mask;         /* bool, true = may see; each dim of [b, h_q, s_q, s_k] or 1 */
  const fa4_tensor* alibi_slopes; /* float32 [h_q] or [b, h_q] */
  const fa4_tensor* sink;         /* float [h_q] */
  const fa4_tensor* cu_seqlens_q; /* int32 or int64 [b + 1]; packed q alone, and then needed */
  const fa4_tensor* cu_seqlens_k;
  const fa4_tensor* seqused_q; /* int32 or int64 [b] */
  const fa4_tensor* seqused_k;
  const fa4_tensor* start_q; /* int32 or int64 [b] */
  const fa4_tensor* start_k;
} fa4_tensors;

/* The tensors of a backward call beside the forward's. dout, dq, dk and dv must be given. */
typedef struct fa4_gradients {
  size_t struct_size;
  const fa4_tensor* dout;  /* like out; read */
  const fa4_tensor* dlse;  /* like lse; read */
  const fa4_tensor* dq;    /* like q; written, as all below */
  const fa4_tensor* dk;    /* like k */
  const fa4_tensor* dv;    /* like v */
  const fa4_tensor* dbias; /* like bias */
  const fa4_tensor* dsink; /* like sink */
} fa4_gradients;

/* What to compute. Begin with fa4_default_options(): a struct of zeros is not the default, since 0
 * is a legal window and a legal max_seqlen. */
typedef struct fa4_options {
  size_t struct_size;
  double scale;          /* Read if has_scale; any finite number. */
  double softcap;        /* 0 = off; finite, > 0 = the cap. */
  double dropout_p;      /* Probability of dropping, in [0, 1). */
  uint64_t dropout_seed; /* Same seed, same mask. */
  int64_t window_left;   /* Keys before the diagonal that are visible; -1 = no limit. */
  int64_t window_right;  /* Keys after it; -1 = no limit. */
  int64_t max_seqlen_q;  /* Upper bound of a packed sequence's rows; -1 = not given. */
  int64_t max_seqlen_k;
  int32_t has_scale;       /* 0: the scale is 1 / sqrt(d_qk). */
  int32_t causal;          /* fa4_causal */
  int32_t deterministic;   /* Not 0: backward bitwise repeatable (the forward always is). */
  int32_t batch_invariant; /* Not 0: a row's bits depend on its own q, k, v alone. */
  int32_t threads;         /* CPU threads; 0 = every core this process may use. */
  int32_t reserved;        /* Must be 0. */
} fa4_options;

/* A problem resolved for a device. Immutable, safe to use from many threads at once. */
typedef struct fa4_plan fa4_plan;

/* FA4_VERSION_STRING of the library that is loaded. */
const char* fa4_version(void);

/* What went wrong in the last call of this thread that failed; "" if none has. Valid until the next
 * call of this thread that fails. At most 1023 bytes. */
const char* fa4_last_error(void);

/* Whether q's device can do the problem that `tensors` (and `gradients`, null for the forward) pose
 * under `options` (null: the defaults). FA4_OK: yes. Anything else: no, and fa4_last_error() says
 * what is missing. Data pointers and strides are not looked at. */
fa4_status fa4_supports(const fa4_tensors* tensors, const fa4_gradients* gradients,
                        const fa4_options* options);

/* Computes out and lse on q's device. `options`: null = the defaults. `stream`: a cudaStream_t or
 * null; ignored on the CPU, where the call has finished when it returns. Allocates its workspace.
 */
fa4_status fa4_attention(const fa4_tensors* tensors, const fa4_options* options, void* stream);

/* Computes dq, dk, dv and, where given, dbias and dsink, from what fa4_attention() read and wrote.
 * `options` must be the forward's. */
fa4_status fa4_attention_backward(const fa4_tensors* tensors, const fa4_gradients* gradients,
                                  const fa4_options* options, void* stream);

/* Merges partial results over parts of the keys. outs [parts, rows, d] and lses [parts, rows]:
 * float32 or float64, one dtype, read; out [rows, d]: any float dtype, written; lse [rows]: dtype
 * of lses, written, may be null. CPU tensors only. */
fa4_status fa4_combine(const fa4_tensor* outs, const fa4_tensor* lses, const fa4_tensor* out,
                       const fa4_tensor* lse);

/* Makes the plan of a problem: a forward plan if `gradients` is null, else a backward plan. Dtypes,
 * dims and which tensors there are count, not data pointers or strides. On success *plan is to be
 * given to fa4_plan_destroy(); otherwise *plan is null. `plan` must not be null. */
fa4_status fa4_plan_create(const fa4_tensors* tensors, const fa4_gradients* gradients,
                           const fa4_options* options, fa4_plan** plan);

/* Bytes of workspace that each run needs; 0 for a null plan. */
size_t fa4_plan_workspace_bytes(const fa4_plan* plan);

/* What will run and why, a few lines of text for people; lives as long as the plan; "" for a null
 * plan. */
const char* fa4_plan_describe(const fa4_plan* plan);

/* Runs a plan on tensors of the dtypes and dims it was made for; `gradients` is null for a forward
 * plan, and must be given for a backward plan. `workspace`: at least fa4_plan_workspace_bytes()
 * bytes in the device's memory, aligned to 64; no two runs at one time may share it.
 * Allocates nothing. */
fa4_status fa4_plan_run(const fa4_plan* plan, const fa4_tensors* tensors,
                        const fa4_gradients* gradients, void* workspace, size_t workspace_bytes,
                        void* stream);

/* Ends a plan's life; does nothing with a null one. No run may still be going on. */
void fa4_plan_destroy(fa4_plan* plan);

/* Row-major CPU view of dims[0 .. rank), rank 1 .. FA4_MAX_RANK (any other rank is kept, and
 * refused by the call that gets the tensor). Inputs may be pointers to const: they are not
 * written. */
#ifdef __GNUC__
__attribute__((always_inline)) /* or GCC takes it for a read of outputs that nobody wrote yet */
#endif
static inline fa4_tensor
fa4_contiguous(const void* data, fa4_dtype dtype, int32_t rank, const int64_t* dims) {
  fa4_tensor tensor = {sizeof(fa4_tensor), (void*)data,  (int32_t)dtype, rank,
                       {0, 0, 0, 0},       {0, 0, 0, 0}, FA4_CPU,        0};
  uint64_t stride = 1;
  if (rank < 1 || rank > FA4_MAX_RANK) return tensor;
  for (int32_t i = rank - 1; i >= 0; --i) {
    tensor.dims[i] = dims[i];
    tensor.strides[i] = (int64_t)stride;
    stride *= (uint64_t)dims[i];
  }
  return tensor;
}

/* No causal, no window, no softcap, no dropout, scale 1 / sqrt(d_qk), all cores. */
static inline fa4_options fa4_default_options(void) {
  fa4_options options = {sizeof(fa4_options), 0, 0, 0, 0, -1, -1, -1, -1, 0, 0, 0, 0, 0, 0};
  return options;
}

#ifdef __cplusplus
}
#endif
