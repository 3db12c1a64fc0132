// SPDX-License-Identifier: BSD-3-Clause
// Streams and events. All work has ended when the call that puts it on a stream returns, so that
// streams have nothing to order.
#include <chrono>
#include <mutex>
#include <set>

#include "device.h"

using fa4::foreign::fail;

struct CUevent_st {
  double time = -1;
};
struct CUstream_st {};

namespace {

double now() {
  return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count();
}

std::mutex mutex;
std::set<cudaStream_t> streams;

cudaError_t make_stream(cudaStream_t* stream) {
  const std::lock_guard lock(mutex);
  *stream = new CUstream_st;
  streams.insert(*stream);
  return cudaSuccess;
}

}  // namespace

extern "C" {

cudaError_t cudaStreamCreate(cudaStream_t* stream) { return make_stream(stream); }
cudaError_t cudaStreamCreateWithFlags(cudaStream_t* stream, unsigned) {
  return make_stream(stream);
}
cudaError_t cudaStreamCreateWithPriority(cudaStream_t* stream, unsigned, int) {
  return make_stream(stream);
}
cudaError_t cudaStreamDestroy(cudaStream_t stream) {
  const std::lock_guard lock(mutex);
  if (streams.erase(stream) == 0) {
    return fail(cudaErrorInvalidResourceHandle,
                "cudaStreamDestroy of what is no stream, or a default one");
  }
  delete stream;
  return cudaSuccess;
}
cudaError_t cudaStreamSynchronize(cudaStream_t) { return cudaPeekAtLastError(); }
cudaError_t cudaStreamQuery(cudaStream_t) { return cudaSuccess; }
cudaError_t cudaStreamWaitEvent(cudaStream_t, cudaEvent_t, unsigned) { return cudaSuccess; }
cudaError_t cudaStreamIsCapturing(cudaStream_t, cudaStreamCaptureStatus* status) {
  return *status = cudaStreamCaptureStatusNone, cudaSuccess;
}
cudaError_t cudaDeviceGetStreamPriorityRange(int* least, int* greatest) {
  return *least = *greatest = 0, cudaSuccess;
}
cudaError_t cudaLaunchHostFunc(cudaStream_t, cudaHostFn_t function, void* data) {
  function(data);
  return cudaSuccess;
}

cudaError_t cudaEventCreate(cudaEvent_t* event) {
  *event = new CUevent_st;
  return cudaSuccess;
}
cudaError_t cudaEventCreateWithFlags(cudaEvent_t* event, unsigned) {
  return cudaEventCreate(event);
}
cudaError_t cudaEventDestroy(cudaEvent_t event) {
  delete event;
  return cudaSuccess;
}
cudaError_t cudaEventRecord(cudaEvent_t event, cudaStream_t) {
  if (event == nullptr) return fail(cudaErrorInvalidResourceHandle, "cudaEventRecord: no event");
  event->time = now();
  return cudaSuccess;
}
cudaError_t cudaEventRecordWithFlags(cudaEvent_t event, cudaStream_t stream, unsigned) {
  return cudaEventRecord(event, stream);
}
cudaError_t cudaEventSynchronize(cudaEvent_t) { return cudaPeekAtLastError(); }
cudaError_t cudaEventQuery(cudaEvent_t) { return cudaSuccess; }
cudaError_t cudaEventElapsedTime(float* ms, cudaEvent_t begin, cudaEvent_t end) {
  if (begin == nullptr || end == nullptr) {
    return fail(cudaErrorInvalidResourceHandle, "cudaEventElapsedTime: no event");
  }
  if (begin->time < 0 || end->time < 0) {
    return fail(cudaErrorInvalidResourceHandle,
                "cudaEventElapsedTime of an event that was not recorded");
  }
  *ms = static_cast<float>((end->time - begin->time) * 1e3);
  return cudaSuccess;
}

}  // extern "C"
