// SPDX-License-Identifier: BSD-3-Clause
#include "gpu/device_case.h"

#include <stdexcept>

#include "gpu/driver_api.h"

namespace fa4::gpu {
namespace {

/// The driver's functions that only tests call.
struct Extras {
  CudaResult (*cuStreamBeginCapture)(void* stream, int mode);
  CudaResult (*cuStreamEndCapture)(void* stream, void** graph);
  CudaResult (*cuGraphInstantiate)(void** executable, void* graph, unsigned long long flags);
  CudaResult (*cuGraphLaunch)(void* executable, void* stream);
  CudaResult (*cuGraphExecDestroy)(void* executable);
  CudaResult (*cuGraphDestroy)(void* graph);

  static const Extras& get() {
    static const Extras extras = [] {
      Extras e{};
      DynamicLibrary library({"libcuda.so.1"});
      library.find("cuStreamBeginCapture_v2", e.cuStreamBeginCapture);
      library.find("cuStreamEndCapture", e.cuStreamEndCapture);
      library.find("cuGraphInstantiateWithFlags", e.cuGraphInstantiate);
      library.find("cuGraphLaunch", e.cuGraphLaunch);
      library.find("cuGraphExecDestroy", e.cuGraphExecDestroy);
      library.find("cuGraphDestroy", e.cuGraphDestroy);
      if (!library.missing().empty()) throw std::runtime_error("no " + library.missing());
      return e;
    }();
    return extras;
  }
};

const DriverApi& driver() {
  std::string reason;
  const DriverApi* api = load_driver(reason);
  if (api == nullptr) throw std::runtime_error(reason);
  return *api;
}

void check(const char* call, CudaResult error) {
  if (error != 0) throw std::runtime_error(driver_error(driver(), call, error));
}

size_t bytes_of(const Tensor& t) {
  size_t elements = 1;
  for (int i = 0; i < t.rank; ++i) {
    const auto at = static_cast<size_t>(i);
    elements += static_cast<size_t>(std::max<int64_t>(t.dims[at] - 1, 0) * t.strides[at]);
  }
  return elements * static_cast<size_t>(size_of(t.dtype));
}

}  // namespace

DeviceCase::DeviceCase(const Runtime& runtime, int device, test::Case& c)
    : runtime_(runtime), device_(device), case_(c) {
  const Tensor q = c.q.view(), v = c.v.view();
  if (!c.out.present()) {
    c.out = test::HostTensor(q.dtype, {q.dims[0], q.dims[1], q.dims[2], v.dims[3]});
  }
  if (!c.lse.present())
    c.lse = test::HostTensor(DType::kFloat32, {q.dims[0], q.dims[2], q.dims[1]});
  c.out.poison();
  c.lse.poison();
  AttentionTensors& t = tensors_;
  t.q = place(c.q, false);
  t.k = place(c.k, false);
  t.v = place(c.v, false);
  if (c.seqused_q.present()) t.seqused_q = place(c.seqused_q, false);
  if (c.seqused_k.present()) t.seqused_k = place(c.seqused_k, false);
  t.out = place(c.out, true);
  t.lse = place(c.lse, true);
  plan_ = std::make_unique<Plan>(
      Plan::make(AttentionProblem::forward(t, c.options), Device::cuda(device)).value());
  workspace_.bytes = plan_->workspace_bytes();
  const size_t bytes = std::max<size_t>(256, workspace_.bytes);
  workspace_.data = runtime.allocate(bytes).value();
  runtime.fill(workspace_.data, 0xdeadbeef, bytes / 4, {}).check();
  runtime.synchronize({}).check();
}

DeviceCase::~DeviceCase() {
  for (const Copy& copy : copies_) (void)runtime_.release(copy.device);
  (void)runtime_.release(workspace_.data);
}

Tensor DeviceCase::place(test::HostTensor& host, bool output) {
  Tensor view = host.view();
  void* device = runtime_.allocate(bytes_of(view)).value();
  copies_.push_back({&host, device, output});
  runtime_.copy_in(device, view.data, bytes_of(view)).check();
  view.data = device;
  view.device = Device::cuda(device_);
  return view;
}

void DeviceCase::upload_again() {
  poison_outputs();
  for (const Copy& copy : copies_) {
    const Tensor view = copy.host->view();
    if (!copy.output) runtime_.copy_in(copy.device, view.data, bytes_of(view)).check();
  }
}

void DeviceCase::poison_outputs() {
  for (const Copy& copy : copies_) {
    if (!copy.output) continue;
    copy.host->poison();
    const Tensor view = copy.host->view();
    runtime_.copy_in(copy.device, view.data, bytes_of(view)).check();
  }
}

void DeviceCase::download() {
  for (const Copy& copy : copies_) {
    const Tensor view = copy.host->view();
    if (copy.output) runtime_.copy_out(view.data, copy.device, bytes_of(view)).check();
  }
}

CurrentContext::CurrentContext(int device) {
  CudaDevice handle = 0;
  check("cuDeviceGet", driver().cuDeviceGet(&handle, device));
  check("cuDevicePrimaryCtxRetain", driver().cuDevicePrimaryCtxRetain(&context_, handle));
  check("cuCtxPushCurrent", driver().cuCtxPushCurrent(context_));
}

CurrentContext::~CurrentContext() {
  void* popped = nullptr;
  driver().cuCtxPopCurrent(&popped);
}

bool CurrentContext::is_still_current() const {
  void* current = nullptr;
  check("cuCtxGetCurrent", driver().cuCtxGetCurrent(&current));
  return current == context_;
}

CudaGraph::CudaGraph(Stream stream, const std::function<void()>& work) : stream_(stream) {
  constexpr int kGlobal = 0;  // the strictest: no call that might wait or allocate, of any thread
  const Extras& e = Extras::get();
  check("cuStreamBeginCapture", e.cuStreamBeginCapture(stream.handle, kGlobal));
  work();
  check("cuStreamEndCapture", e.cuStreamEndCapture(stream.handle, &graph_));
  check("cuGraphInstantiate", e.cuGraphInstantiate(&executable_, graph_, 0));
}

CudaGraph::~CudaGraph() {
  Extras::get().cuGraphExecDestroy(executable_);
  Extras::get().cuGraphDestroy(graph_);
}

void CudaGraph::launch() {
  check("cuGraphLaunch", Extras::get().cuGraphLaunch(executable_, stream_.handle));
}

}  // namespace fa4::gpu
