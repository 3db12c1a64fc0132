// SPDX-License-Identifier: BSD-3-Clause
// The driver's functions that programs ask the runtime for: tensor maps.
#include <cuda.h>

#include <cstring>

#include "device.h"
#include "emulator/tensor_map.h"

using fa4::foreign::fail;
namespace emulator = fa4::emulator;

namespace {

CUresult refuse(const std::string& what) {
  fail(cudaErrorInvalidValue, "cuTensorMapEncodeTiled: " + what);
  return CUDA_ERROR_INVALID_VALUE;
}

/// The hardware's number of an element type, and whether it is rounded to TF32.
bool element_type(CUtensorMapDataType from, emulator::MapType& to, bool& tf32) {
  using emulator::MapType;
  constexpr MapType kTypes[] = {
      MapType::kU8,       MapType::kU16, MapType::kU32,     MapType::kS32, MapType::kU64,
      MapType::kS64,      MapType::kF16, MapType::kF32,     MapType::kF64, MapType::kBF16,
      MapType::kF32Flush, MapType::kF32, MapType::kF32Flush};
  if (static_cast<size_t>(from) >= std::size(kTypes)) return false;
  to = kTypes[from];
  tf32 = from == CU_TENSOR_MAP_DATA_TYPE_TFLOAT32 || from == CU_TENSOR_MAP_DATA_TYPE_TFLOAT32_FTZ;
  return true;
}

}  // namespace

extern "C" {

CUresult cuTensorMapEncodeTiled(CUtensorMap* map, CUtensorMapDataType type, cuuint32_t rank,
                                void* address, const cuuint64_t* dims, const cuuint64_t* strides,
                                const cuuint32_t* box, const cuuint32_t* element_strides,
                                CUtensorMapInterleave interleave, CUtensorMapSwizzle swizzle,
                                CUtensorMapL2promotion promotion, CUtensorMapFloatOOBfill fill) {
  emulator::TensorMapSpec spec;
  bool tf32 = false;
  if (!element_type(type, spec.type, tf32)) {
    return refuse("element type " + std::to_string(type) + " is not supported by the emulator");
  }
  if (tf32) {
    return refuse("element type " + std::to_string(type) +
                  " (tf32) is not supported by the emulator: how copies round is not documented");
  }
  if (interleave != CU_TENSOR_MAP_INTERLEAVE_NONE) {
    return refuse("interleaved layouts are not supported by the emulator");
  }
  if (swizzle > CU_TENSOR_MAP_SWIZZLE_128B_ATOM_64B) {
    return refuse("swizzle " + std::to_string(swizzle) + " is not supported by the emulator");
  }
  if (rank < 1 || rank > 5) return refuse("rank is " + std::to_string(rank) + "; allowed: 1 to 5");
  spec.address = reinterpret_cast<uint64_t>(address);
  spec.rank = rank;
  for (uint32_t i = 0; i < rank; ++i) {
    spec.dims[i] = dims[i];
    spec.box[i] = box[i];
    spec.element_strides[i] = element_strides[i];
    if (i > 0) spec.strides[i] = strides[i - 1];
  }
  spec.swizzle = static_cast<emulator::Swizzle>(swizzle);
  spec.nan_fill = fill != CU_TENSOR_MAP_FLOAT_OOB_FILL_NONE;
  const auto bytes = emulator::encode_tensor_map(spec);
  if (!bytes.ok()) return refuse(bytes.status().message());
  // The second 64-bit word has hints, too, that the emulator neither needs nor sets.
  uint64_t word = 0;
  std::memcpy(map, bytes->data(), bytes->size());
  std::memcpy(&word, bytes->data() + 8, sizeof word);
  word = (word & ~(uint64_t{3} << 17)) | static_cast<uint64_t>(promotion) << 17;
  map->opaque[1] = word;
  return CUDA_SUCCESS;
}

CUresult cuDriverGetVersion(int* version) {
  *version = CUDART_VERSION;
  return CUDA_SUCCESS;
}

cudaError_t cudaGetDriverEntryPointByVersion(const char* name, void** function, unsigned,
                                             unsigned long long,
                                             cudaDriverEntryPointQueryResult* result) {
  if (name == nullptr || function == nullptr) {
    return fail(cudaErrorInvalidValue, "cudaGetDriverEntryPoint: no name or result");
  }
  *function = nullptr;
  if (std::strcmp(name, "cuTensorMapEncodeTiled") == 0) {
    *function = reinterpret_cast<void*>(&cuTensorMapEncodeTiled);
  } else if (std::strcmp(name, "cuDriverGetVersion") == 0) {
    *function = reinterpret_cast<void*>(&cuDriverGetVersion);
  }
  const bool found = *function != nullptr;
  if (result != nullptr) {
    *result = found ? cudaDriverEntryPointSuccess : cudaDriverEntryPointSymbolNotFound;
  }
  if (found) return cudaSuccess;
  return fail(cudaErrorSymbolNotFound,
              std::string("the driver's ") + name + " is not supported by the emulator");
}
cudaError_t cudaGetDriverEntryPoint(const char* name, void** function, unsigned long long flags,
                                    cudaDriverEntryPointQueryResult* result) {
  return cudaGetDriverEntryPointByVersion(name, function, CUDART_VERSION, flags, result);
}

}  // extern "C"
