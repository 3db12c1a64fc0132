// SPDX-License-Identifier: BSD-3-Clause
// A CUDA program as others write them, for foreign_test.cpp: allocations, copies, a kernel on
// ordinary memory, one that loads a tile through a tensor map. Prints what went wrong and returns 1;
// "program outside" writes outside of its memory, "program graph" calls what the stand-in lacks.
#include <cuda.h>
#include <cuda_runtime.h>

#include <cstdint>
#include <cstdio>
#include <cstring>
#include <vector>

constexpr int kRows = 40, kColumns = 96;  // of the matrix
constexpr int kBoxRows = 16, kBoxColumns = 32;
constexpr unsigned kTileBytes = kBoxRows * kBoxColumns * sizeof(float);

__constant__ float c_factor;
__device__ int g_blocks;

__global__ void scale(const float* in, float* out, int n) {
  const int i = static_cast<int>(blockIdx.x * blockDim.x + threadIdx.x);
  if (i < n) out[i] = in[i] * c_factor;
  if (threadIdx.x == 0) atomicAdd(&g_blocks, 1);
  if (i == 0) printf("%d numbers times %.1f (%s)\n", n, c_factor, "scale");
}

/// One tile a block: the tile's transpose goes to out[tile][column][row].
__global__ void transpose(const __grid_constant__ CUtensorMap map, float* out) {
  extern __shared__ __align__(1024) unsigned char tile[];
  __shared__ __align__(8) uint64_t barrier;
  const auto bar = static_cast<unsigned>(__cvta_generic_to_shared(&barrier));
  const auto dst = static_cast<unsigned>(__cvta_generic_to_shared(tile));
  if (threadIdx.x == 0) {
    asm volatile("mbarrier.init.shared::cta.b64 [%0], 1;" ::"r"(bar));
    asm volatile("fence.mbarrier_init.release.cluster;");
  }
  __syncthreads();
  if (threadIdx.x == 0) {
    asm volatile("mbarrier.arrive.expect_tx.shared::cta.b64 _, [%0], %1;" ::"r"(bar),
                 "r"(kTileBytes)
                 : "memory");
    asm volatile(
        "cp.async.bulk.tensor.2d.shared::cluster.global.mbarrier::complete_tx::bytes"
        " [%0], [%1, {%2, %3}], [%4];" ::"r"(dst),
        "l"(&map), "r"(blockIdx.x * kBoxColumns), "r"(blockIdx.y * kBoxRows), "r"(bar)
        : "memory");
  }
  unsigned done = 0;
  while (done == 0) {
    asm volatile(
        "{ .reg .pred p; mbarrier.try_wait.parity.shared::cta.b64 p, [%1], 0;"
        " selp.u32 %0, 1, 0, p; }"
        : "=r"(done)
        : "r"(bar)
        : "memory");
  }
  const int column = static_cast<int>(threadIdx.x);
  float* to = out + (blockIdx.y * gridDim.x + blockIdx.x) * kBoxRows * kBoxColumns;
  for (int row = 0; row < kBoxRows; ++row) {
    // Rows of 128 bytes whose 16-byte chunks change places by the row's low bits.
    const int chunk = column / 4 ^ row % 8;
    const auto* at = reinterpret_cast<const float*>(tile + row * 128 + chunk * 16);
    to[column * kBoxRows + row] = at[column % 4];
  }
}

bool ok(cudaError_t error, const char* what) {
  if (error == cudaSuccess) return true;
  std::printf("%s: %s\n", what, cudaGetErrorString(error));
  return false;
}
#define CHECK(call) \
  if (!ok(call, #call)) return 1

int encode(CUtensorMap* map, float* data) {
  void* function = nullptr;
  cudaDriverEntryPointQueryResult found;
  CHECK(cudaGetDriverEntryPointByVersion("cuTensorMapEncodeTiled", &function, 12000,
                                         cudaEnableDefault, &found));
  const cuuint64_t dims[] = {kColumns, kRows}, strides[] = {kColumns * sizeof(float)};
  const cuuint32_t box[] = {kBoxColumns, kBoxRows}, steps[] = {1, 1};
  const CUresult result = reinterpret_cast<decltype(&cuTensorMapEncodeTiled)>(function)(
      map, CU_TENSOR_MAP_DATA_TYPE_FLOAT32, 2, data, dims, strides, box, steps,
      CU_TENSOR_MAP_INTERLEAVE_NONE, CU_TENSOR_MAP_SWIZZLE_128B, CU_TENSOR_MAP_L2_PROMOTION_L2_128B,
      CU_TENSOR_MAP_FLOAT_OOB_FILL_NONE);
  if (result != CUDA_SUCCESS) std::printf("cuTensorMapEncodeTiled: %d\n", result);
  return result != CUDA_SUCCESS;
}

/// Differences from what the tiles should hold; rows below the matrix are 0.
int wrong(const std::vector<float>& tiles, int across, int down) {
  int count = 0;
  size_t i = 0;
  for (int ty = 0; ty < down; ++ty) {
    for (int tx = 0; tx < across; ++tx) {
      for (int c = 0; c < kBoxColumns; ++c) {
        for (int r = 0; r < kBoxRows; ++r, ++i) {
          const int row = ty * kBoxRows + r, column = tx * kBoxColumns + c;
          const float want =
              row < kRows ? 3.0f * static_cast<float>(row * kColumns + column) : 0.0f;
          count += tiles[i] != want;
        }
      }
    }
  }
  return count;
}

int main(int argc, char** argv) {
  const bool outside = argc > 1 && std::strcmp(argv[1], "outside") == 0;
  if (argc > 1 && std::strcmp(argv[1], "graph") == 0) {
    cudaGraph_t graph;
    CHECK(cudaGraphCreate(&graph, 0));
  }
  cudaDeviceProp properties;
  CHECK(cudaGetDeviceProperties(&properties, 0));
  if (properties.major < 9) return std::printf("compute capability below 9\n"), 1;
  constexpr int n = kRows * kColumns, across = kColumns / kBoxColumns,
                down = (kRows + kBoxRows - 1) / kBoxRows;
  std::vector<float> host(n), tiles(across * down * kBoxRows * kBoxColumns);
  for (int i = 0; i < n; ++i) host[i] = static_cast<float>(i);
  float *in = nullptr, *scaled = nullptr, *out = nullptr;
  CHECK(cudaMalloc(&in, n * sizeof(float)));
  CHECK(cudaMalloc(&scaled, n * sizeof(float)));
  CHECK(cudaMalloc(&out, tiles.size() * sizeof(float)));
  CHECK(cudaMemcpy(in, host.data(), n * sizeof(float), cudaMemcpyHostToDevice));
  CHECK(cudaMemset(out, 0, tiles.size() * sizeof(float)));
  const float factor = 3;
  const int zero = 0;
  CHECK(cudaMemcpyToSymbol(c_factor, &factor, sizeof factor));
  CHECK(cudaMemcpyToSymbol(g_blocks, &zero, sizeof zero));
  cudaStream_t stream;
  CHECK(cudaStreamCreate(&stream));
  scale<<<(n + 127) / 128 + (outside ? 1 : 0), 128, 0, stream>>>(in, scaled, outside ? n + 128 : n);
  CHECK(cudaGetLastError());
  int blocks = 0;
  CHECK(cudaMemcpyFromSymbol(&blocks, g_blocks, sizeof blocks));
  if (blocks != (n + 127) / 128) return std::printf("%d blocks ran\n", blocks), 1;
  CUtensorMap map;
  if (encode(&map, scaled) != 0) return 1;
  CHECK(cudaFuncSetAttribute(transpose, cudaFuncAttributeMaxDynamicSharedMemorySize, 64 * 1024));
  transpose<<<dim3(across, down), kBoxColumns, kTileBytes, stream>>>(map, out);
  CHECK(cudaGetLastError());
  CHECK(cudaStreamSynchronize(stream));
  CHECK(cudaMemcpy(tiles.data(), out, tiles.size() * sizeof(float), cudaMemcpyDeviceToHost));
  if (const int count = wrong(tiles, across, down)) return std::printf("%d are wrong\n", count), 1;
  CHECK(cudaStreamDestroy(stream));
  CHECK(cudaFree(in));
  CHECK(cudaFree(scaled));
  CHECK(cudaFree(out));
  std::printf("right on %s\n", properties.name);
  return 0;
}
