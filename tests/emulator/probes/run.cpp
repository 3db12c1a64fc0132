// SPDX-License-Identifier: BSD-3-Clause
#include "emulator/probes/run.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstring>
#include <memory>
#include <span>

#include "emulator/numeric.h"
#include "gpu/device_case.h"
#include "gpu/driver_api.h"
#include "gpu/runtime.h"

namespace fa4::emulator::probes {
namespace {

using Bytes = std::array<std::byte, kParamBytes>;

/// CUtensorMapDataType, in which float32 that flushes subnormals comes last.
int driver_type(MapType type) {
  constexpr int kTypes[] = {0, 1, 2, 3, 4, 5, 6, 7, 10, 8, 9};
  return kTypes[static_cast<int>(type)];
}

Status encode_with_driver(const ProbeMap& map, std::byte* to) {
  std::string reason;
  const gpu::DriverApi* api = gpu::load_driver(reason);
  if (api == nullptr) return unsupported(reason);
  const gpu::CurrentContext context(0);
  const TensorMapSpec& s = map.spec;
  alignas(64) gpu::TensorMap encoded;
  constexpr int kPromote128 = 2;
  const gpu::CudaResult error = api->cuTensorMapEncodeTiled(
      &encoded, driver_type(s.type), s.rank, reinterpret_cast<void*>(s.address), s.dims.data(),
      s.strides.data() + 1, s.box.data(), s.element_strides.data(),
      static_cast<int>(map.interleave), static_cast<int>(s.swizzle), kPromote128,
      s.nan_fill ? 1 : 0);
  if (error != 0) {
    return {StatusCode::kRuntimeError, gpu::driver_error(*api, "cuTensorMapEncodeTiled", error)};
  }
  std::memcpy(to, encoded.opaque.data(), kMapBytes);
  return {};
}

Status encode(const ProbeMap& map, bool by_driver, std::byte* to) {
  if (by_driver) return encode_with_driver(map, to);
  const auto bytes = encode_tensor_map(map.spec);
  if (!bytes.ok()) return bytes.status();
  std::memcpy(to, bytes->data(), bytes->size());
  return {};
}

/// The probe that shows maps alone.
Result<Words> encode_all(const Probe& probe, bool by_driver) {
  Words words(probe.output_words);
  auto* at = reinterpret_cast<std::byte*>(words.data());
  for (const ProbeMap& map : probe.maps) {
    const Status status = encode(map, by_driver, at);
    if (!status.ok()) return status;
    at += kMapBytes;
  }
  return words;
}

/// Device memory for as long as it lives.
class Buffer {
 public:
  Buffer(const gpu::Runtime& runtime, const Words& words, size_t count) : runtime_(runtime) {
    Words all = words;
    all.resize(std::max<size_t>(count, 4));
    auto data = runtime.allocate(all.size() * 4);
    if (data.ok()) data_ = *data;
    status_ = data.ok() ? runtime.copy_in(data_, all.data(), all.size() * 4) : data.status();
  }
  ~Buffer() {
    if (data_ != nullptr) (void)runtime_.release(data_);
  }
  Buffer(const Buffer&) = delete;
  Buffer& operator=(const Buffer&) = delete;

  const Status& status() const { return status_; }
  void* data() const { return data_; }
  uint64_t address() const { return reinterpret_cast<uint64_t>(data_); }

 private:
  const gpu::Runtime& runtime_;
  void* data_ = nullptr;
  Status status_;
};

Status fill_params(const Probe& probe, bool by_driver, const Buffer& input, const Buffer& output,
                   Bytes& params) {
  for (size_t i = 0; i < probe.maps.size(); ++i) {
    ProbeMap map = probe.maps[i];
    map.spec.address += map.in_output ? output.address() : input.address();
    Status status = encode(map, by_driver, params.data() + i * kMapBytes);
    if (!status.ok()) return status;
  }
  const uint64_t addresses[] = {input.address(), output.address()};
  std::memcpy(params.data() + kInputOffset, addresses, sizeof addresses);
  return {};
}

// ---- comparison --------------------------------------------------------------------------------

/// A float by its place among all floats of its format, so that differences count units in the last
/// place.
struct Number {
  int64_t place = 0;
  double value = 0;
};

Number number_of(uint32_t bits, Format format) {
  const bool wide = format == Format::kFloat32;
  const uint32_t sign = wide ? 0x80000000 : 0x8000;
  const int64_t magnitude = bits & (sign - 1);
  Number n;
  n.place = (bits & sign) != 0 ? -magnitude : magnitude;
  n.value = wide                         ? std::bit_cast<float>(bits)
            : format == Format::kFloat16 ? from_float16(bits)
                                         : from_bfloat16(bits);
  return n;
}

void compare_number(uint32_t mine, uint32_t theirs, const Tolerance& tolerance, Difference& d,
                    bool& wrong) {
  const Number a = number_of(mine, tolerance.format), b = number_of(theirs, tolerance.format);
  if (std::isnan(a.value) || std::isnan(b.value)) {
    wrong |= std::isnan(a.value) != std::isnan(b.value);
    return;
  }
  const auto ulps = static_cast<uint32_t>(std::min<int64_t>(std::abs(a.place - b.place), 1 << 30));
  const double absolute = std::fabs(a.value - b.value);
  if (std::isfinite(absolute)) {
    d.absolute = std::max(d.absolute, absolute);
    d.ulps = std::max(d.ulps, ulps);
  }
  wrong |= ulps > tolerance.ulps && !(absolute <= tolerance.absolute);
}

}  // namespace

Result<Words> run_probe(const Probe& probe, Device device) {
  const bool by_driver = device.type == DeviceType::kCuda;
  const auto found = gpu::runtime_of(device);
  if (!found.ok()) return found.status();
  if (probe.ptx.empty()) return encode_all(probe, by_driver);
  const gpu::Runtime& runtime = **found;
  // The driver wants its text to end with a zero.
  const auto code =
      std::as_bytes(std::span(probe.ptx.c_str(), probe.ptx.size() + (by_driver ? 1 : 0)));
  const auto kernel = runtime.load(code, "probe", 0);
  if (!kernel.ok()) return kernel.status();
  const Buffer input(runtime, probe.input, probe.input.size());
  const Buffer output(runtime, probe.output, probe.output_words);
  if (!input.status().ok()) return input.status();
  if (!output.status().ok()) return output.status();
  alignas(64) Bytes params{};
  Status status = fill_params(probe, by_driver, input, output, params);
  const gpu::Launch launch{probe.blocks, probe.threads, 0, probe.cluster};
  if (status.ok()) status = runtime.launch(**kernel, launch, params, {});
  if (status.ok()) status = runtime.synchronize({});
  Words words(probe.output_words);
  if (status.ok()) status = runtime.copy_out(words.data(), output.data(), words.size() * 4);
  if (!status.ok()) return status;
  return words;
}

Difference compare(const Words& mine, const Words& theirs, const Tolerance& tolerance,
                   size_t count) {
  Difference d;
  for (size_t i = 0; i < count; ++i) {
    if (mine[i] == theirs[i]) continue;
    ++d.unequal;
    bool wrong = tolerance.format == Format::kBits;
    if (tolerance.format == Format::kFloat32) {
      compare_number(mine[i], theirs[i], tolerance, d, wrong);
    } else if (!wrong) {
      for (const uint32_t shift : {0u, 16u}) {
        compare_number(mine[i] >> shift & 0xffff, theirs[i] >> shift & 0xffff, tolerance, d, wrong);
      }
    }
    if (!wrong) continue;
    if (d.wrong == 0) d.first = static_cast<uint32_t>(i);
    ++d.wrong;
  }
  return d;
}

}  // namespace fa4::emulator::probes
