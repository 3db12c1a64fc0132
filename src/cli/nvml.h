// SPDX-License-Identifier: BSD-3-Clause
// Clock and power of a GPU, read from NVML (the library behind nvidia-smi), if it is there.
#pragma once

namespace fa4::cli {

class Nvml {
 public:
  struct Sample {
    double megahertz = 0;  ///< Of the multiprocessors; 0: not known.
    double watts = 0;
  };

  static const Nvml& instance();
  Sample sample(unsigned device) const;

 private:
  Nvml();

  int (*handle_)(unsigned index, void** device) = nullptr;
  int (*clock_)(void* device, int which, unsigned* megahertz) = nullptr;
  int (*power_)(void* device, unsigned* milliwatts) = nullptr;
  bool ready_ = false;
};

}  // namespace fa4::cli
