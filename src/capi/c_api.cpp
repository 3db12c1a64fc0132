// SPDX-License-Identifier: BSD-3-Clause
// The C interface: converts structs, calls the C++ interface, turns what it says (or throws, when
// memory runs out) into a status and this thread's message.
#include <fa4/fa4.h>
#include <fa4/plan.h>

#include <algorithm>
#include <cstring>
#include <exception>
#include <memory>
#include <new>
#include <string>
#include <string_view>

#include "capi/structs.h"

struct fa4_plan {
  fa4::Plan plan;
  std::string description;
};

namespace fa4::capi {
namespace {

// An array, not a string: to say that memory ran out must need none.
thread_local char last_error[1024] = "";

fa4_status fail(StatusCode code, std::string_view message) {
  const size_t length = std::min(message.size(), sizeof(last_error) - 1);
  std::memcpy(last_error, message.data(), length);
  last_error[length] = '\0';
  return static_cast<fa4_status>(code);
}

/// Calls body(), which returns a Status, and lets nothing but a fa4_status out.
template <class Body>
fa4_status guarded(const Body& body) {
  try {
    const Status status = body();
    return status.ok() ? FA4_OK : fail(status.code(), status.message());
  } catch (const std::bad_alloc&) {
    return fail(StatusCode::kOutOfMemory, "memory: an allocation failed");
  } catch (const std::exception& error) {
    return fail(StatusCode::kRuntimeError, error.what());
  } catch (...) {
    return fail(StatusCode::kRuntimeError, "an unknown exception was thrown");
  }
}

/// The arguments of a call in C++ form. A call without gradients is a forward.
struct Call {
  AttentionTensors tensors;
  AttentionGradients gradients;
  AttentionOptions options;
  bool backward = false;

  Status convert(const fa4_tensors* c_tensors, const fa4_gradients* c_gradients) {
    backward = c_gradients != nullptr;
    Status status = to_cpp(c_tensors, &tensors);
    if (status.ok() && backward) status = to_cpp(c_gradients, &gradients);
    return status;
  }
  Status convert(const fa4_tensors* c_tensors, const fa4_gradients* c_gradients,
                 const fa4_options* c_options) {
    Status status = convert(c_tensors, c_gradients);
    return status.ok() ? to_cpp(c_options, &options) : status;
  }
  AttentionProblem problem() const {
    return backward ? AttentionProblem::backward(tensors, gradients, options)
                    : AttentionProblem::forward(tensors, options);
  }
};

Status null_argument(const char* name) {
  return invalid_argument(std::string(name) + ": is null; allowed: a pointer");
}

Status create_plan(const Call& call, fa4_plan** plan) {
  Result<Plan> made = Plan::make(call.problem(), call.tensors.q.device);
  if (!made.ok()) return made.status();
  std::string description = made->describe();
  *plan = new fa4_plan{*std::move(made), std::move(description)};
  return {};
}

}  // namespace
}  // namespace fa4::capi

using fa4::Status;
using fa4::capi::Call;
using fa4::capi::guarded;
using fa4::capi::null_argument;

extern "C" {

const char* fa4_version(void) { return fa4::version(); }

const char* fa4_last_error(void) { return fa4::capi::last_error; }

fa4_status fa4_supports(const fa4_tensors* tensors, const fa4_gradients* gradients,
                        const fa4_options* options) {
  return guarded([&]() -> Status {
    Call call;
    if (Status status = call.convert(tensors, gradients, options); !status.ok()) return status;
    const fa4::Support support = fa4::supports(call.problem(), call.tensors.q.device);
    return support ? Status{} : fa4::unsupported(support.reason);
  });
}

fa4_status fa4_attention(const fa4_tensors* tensors, const fa4_options* options, void* stream) {
  return guarded([&]() -> Status {
    Call call;
    if (Status status = call.convert(tensors, nullptr, options); !status.ok()) return status;
    return fa4::attention(call.tensors, call.options, fa4::Stream{stream});
  });
}

fa4_status fa4_attention_backward(const fa4_tensors* tensors, const fa4_gradients* gradients,
                                  const fa4_options* options, void* stream) {
  return guarded([&]() -> Status {
    if (gradients == nullptr) return null_argument("gradients");
    Call call;
    if (Status status = call.convert(tensors, gradients, options); !status.ok()) return status;
    return fa4::attention_backward(call.tensors, call.gradients, call.options, fa4::Stream{stream});
  });
}

fa4_status fa4_combine(const fa4_tensor* outs, const fa4_tensor* lses, const fa4_tensor* out,
                       const fa4_tensor* lse) {
  return guarded([&]() -> Status {
    fa4::Tensor cpp_outs, cpp_lses, cpp_out, cpp_lse;
    Status status = fa4::capi::to_cpp("outs", outs, &cpp_outs);
    if (status.ok()) status = fa4::capi::to_cpp("lses", lses, &cpp_lses);
    if (status.ok()) status = fa4::capi::to_cpp("out", out, &cpp_out);
    if (status.ok()) status = fa4::capi::to_cpp("lse", lse, &cpp_lse);
    return status.ok() ? fa4::combine(cpp_outs, cpp_lses, cpp_out, cpp_lse) : status;
  });
}

fa4_status fa4_plan_create(const fa4_tensors* tensors, const fa4_gradients* gradients,
                           const fa4_options* options, fa4_plan** plan) {
  return guarded([&]() -> Status {
    if (plan == nullptr) return null_argument("plan");
    *plan = nullptr;
    Call call;
    Status status = call.convert(tensors, gradients, options);
    return status.ok() ? fa4::capi::create_plan(call, plan) : status;
  });
}

size_t fa4_plan_workspace_bytes(const fa4_plan* plan) {
  return plan == nullptr ? 0 : plan->plan.workspace_bytes();
}

const char* fa4_plan_describe(const fa4_plan* plan) {
  return plan == nullptr ? "" : plan->description.c_str();
}

fa4_status fa4_plan_run(const fa4_plan* plan, const fa4_tensors* tensors,
                        const fa4_gradients* gradients, void* workspace, size_t workspace_bytes,
                        void* stream) {
  return guarded([&]() -> Status {
    if (plan == nullptr) return null_argument("plan");
    Call call;
    if (Status status = call.convert(tensors, gradients); !status.ok()) return status;
    const fa4::Workspace memory{workspace, workspace_bytes};
    if (!call.backward) return plan->plan.run(call.tensors, memory, fa4::Stream{stream});
    return plan->plan.run(call.tensors, call.gradients, memory, fa4::Stream{stream});
  });
}

void fa4_plan_destroy(fa4_plan* plan) { delete plan; }

}  // extern "C"
