// SPDX-License-Identifier: BSD-3-Clause
#include "support/gpu_case.h"

#include <algorithm>
#include <numeric>

#include "gpu/runtime.h"

namespace fa4::test {
namespace {

/// Device memory, released at the end of its scope.
class DeviceMemory {
 public:
  explicit DeviceMemory(const gpu::Runtime& runtime) : runtime_(runtime) {}
  ~DeviceMemory() {
    for (void* block : blocks_) (void)runtime_.release(block);
  }
  DeviceMemory(const DeviceMemory&) = delete;
  DeviceMemory& operator=(const DeviceMemory&) = delete;

  void* allocate(size_t bytes) {
    blocks_.push_back(runtime_.allocate(std::max<size_t>(bytes, 1)).value());
    return blocks_.back();
  }

 private:
  const gpu::Runtime& runtime_;
  std::vector<void*> blocks_;
};

/// Bytes from the view's first element to the end of its last.
size_t extent(const Tensor& view) {
  size_t elements = 1;
  for (int i = 0; i < view.rank; ++i) {
    if (view.dims[i] == 0) return 0;
    elements += static_cast<size_t>((view.dims[i] - 1) * view.strides[i]);
  }
  return elements * static_cast<size_t>(size_of(view.dtype));
}

Status copy_to_device(const gpu::Runtime& runtime, DeviceMemory& memory, Device device,
                      Tensor& view) {
  if (!view.present()) return {};
  const size_t bytes = extent(view);
  void* copy = memory.allocate(bytes);
  Status status = bytes == 0 ? Status() : runtime.copy_in(copy, view.data, bytes);
  view.data = copy;
  view.device = device;
  return status;
}

HostTensor legal(const HostTensor& x) {
  const size_t last = x.dims().size() - 1;
  std::vector<size_t> order(last);
  std::iota(order.begin(), order.end(), size_t{0});
  std::sort(order.begin(), order.end(),
            [&](size_t a, size_t b) { return x.strides()[a] < x.strides()[b]; });
  Dims strides(x.dims().size(), 0);
  strides[last] = 1;
  int64_t next = (x.dims()[last] + 7) / 8 * 8;
  if (x.strides()[last] != 1) next += 8;  // there were gaps: keep some
  for (const size_t i : order) {
    if (x.strides()[i] == 0) continue;
    strides[i] = next;
    next *= std::max<int64_t>(x.dims()[i], 1);
  }
  return x.with_strides(strides);
}

}  // namespace

Status forward_on_gpu(Case& c) {
  const auto found = gpu::runtime_of(c.device);
  if (!found.ok()) return found.status();
  const gpu::Runtime& runtime = **found;
  const AttentionTensors host = c.tensors();
  const auto plan = Plan::make(AttentionProblem::forward(host, c.options), c.device);
  if (!plan.ok()) return plan.status();

  DeviceMemory memory(runtime);
  AttentionTensors t = host;
  for (Tensor* view :
       {&t.q, &t.k, &t.v, &t.out, &t.lse, &t.bias, &t.mask, &t.alibi_slopes, &t.sink,
        &t.cu_seqlens_q, &t.cu_seqlens_k, &t.seqused_q, &t.seqused_k, &t.start_q, &t.start_k}) {
    Status status = copy_to_device(runtime, memory, c.device, *view);
    if (!status.ok()) return status;
  }
  const size_t bytes = plan->workspace_bytes();
  void* workspace = memory.allocate(bytes);
  Status status = bytes < 4 ? Status() : runtime.fill(workspace, 0xdeadbeef, bytes / 4, {});
  if (status.ok()) status = plan->run(t, {workspace, bytes});
  if (status.ok()) status = runtime.synchronize({});
  for (const auto& [to, from] : {std::pair{&host.out, &t.out}, std::pair{&host.lse, &t.lse}}) {
    if (status.ok() && extent(*to) > 0)
      status = runtime.copy_out(to->data, from->data, extent(*to));
  }
  if (!status.ok()) return status;
  for (const HostTensor* output : {&c.out, &c.lse}) {
    const std::string damage = output->damage();
    if (!damage.empty()) return {StatusCode::kRuntimeError, damage};
  }
  return {};
}

std::string why_no_forward(Device device) {
  const Case c = ref64({.s_q = 1, .s_k = 1}, DType::kBFloat16);
  return supports(AttentionProblem::forward(c.tensors(), c.options), device).reason;
}

void make_strides_legal_on_gpu(Case& c) {
  for (HostTensor* x : {&c.q, &c.k, &c.v, &c.out}) {
    if (x->present()) *x = legal(*x);
  }
}

}  // namespace fa4::test
