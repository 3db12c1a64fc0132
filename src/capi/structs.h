// SPDX-License-Identifier: BSD-3-Clause
// The structs of fa4.h as the structs of the C++ interface.
#pragma once

#include <fa4/attention.h>
#include <fa4/fa4.h>

#include <algorithm>
#include <cstddef>
#include <cstring>
#include <string>

namespace fa4::capi {

/// Copies a struct that may be older or newer than ours: `size` is the caller's sizeof, `oldest`
/// the struct's size when it was first published. Fields that the caller lacks stay as they are in
/// `target`; bytes that we do not know must be 0.
Status copy_sized(const char* name, const void* source, size_t size, size_t oldest, void* target,
                  size_t target_size);

/// The same for a struct of fa4.h; null is an error.
template <class Struct>
Status copy_struct(const char* name, const Struct* source, size_t oldest, Struct* target) {
  if (source == nullptr) {
    return invalid_argument(std::string(name) + ": is null; allowed: a pointer to the struct");
  }
  Status status = copy_sized(name, source, source->struct_size, oldest, target, sizeof(Struct));
  target->struct_size = sizeof(Struct);
  return status;
}

/// Null gives an absent tensor. `name` is the argument's in messages.
Status to_cpp(const char* name, const fa4_tensor* source, Tensor* target);
Status to_cpp(const fa4_tensors* source, AttentionTensors* target);
Status to_cpp(const fa4_gradients* source, AttentionGradients* target);
/// Null gives the defaults.
Status to_cpp(const fa4_options* source, AttentionOptions* target);

}  // namespace fa4::capi
