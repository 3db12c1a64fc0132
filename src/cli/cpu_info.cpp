// SPDX-License-Identifier: BSD-3-Clause
#include "cli/cpu_info.h"

#include <fa4/plan.h>
#include <fmt/core.h>
#include <sched.h>
#include <unistd.h>

#include <algorithm>
#include <cstdlib>
#include <fstream>
#include <optional>
#include <sstream>
#include <thread>

#include "hwy/highway.h"

namespace fa4::cli {
namespace {

std::string read_line(const std::string& path) {
  std::ifstream in(path);
  std::string line;
  std::getline(in, line);
  return line;
}

/// The value of the first "key : value" line of /proc/cpuinfo.
std::string proc_cpuinfo(const std::string& key) {
  std::ifstream in("/proc/cpuinfo");
  std::string line;
  while (std::getline(in, line)) {
    if (line.compare(0, key.size(), key) != 0) continue;
    const size_t colon = line.find(':');
    if (colon == std::string::npos || colon + 2 > line.size()) continue;
    return line.substr(colon + 2);
  }
  return {};
}

/// CPUs in a list like "0-3,8".
int count_list(const std::string& list) {
  int count = 0;
  std::istringstream in(list);
  std::string part;
  while (std::getline(in, part, ',')) {
    int first = 0, last = 0;
    const int fields = std::sscanf(part.c_str(), "%d-%d", &first, &last);
    count += fields == 2 ? last - first + 1 : fields == 1 ? 1 : 0;
  }
  return std::max(count, 1);
}

/// Bytes of "512K" or "32M".
int64_t parse_size(const std::string& text) {
  const int64_t number = std::atoll(text.c_str());
  if (text.find('M') != std::string::npos) return number << 20;
  return text.find('K') != std::string::npos ? number << 10 : number;
}

std::vector<Cache> read_caches() {
  std::vector<Cache> caches;
  for (int i = 0; i < 16; ++i) {
    const std::string folder = fmt::format("/sys/devices/system/cpu/cpu0/cache/index{}/", i);
    const std::string level = read_line(folder + "level");
    if (level.empty()) break;
    caches.push_back({std::atoi(level.c_str()), read_line(folder + "type"),
                      parse_size(read_line(folder + "size")),
                      count_list(read_line(folder + "shared_cpu_list"))});
  }
  return caches;
}

std::vector<std::string> flags_of_interest() {
  const std::string flags = fmt::format(" {}{} ", proc_cpuinfo("flags"), proc_cpuinfo("Features"));
  std::vector<std::string> found;
  for (const char* name :
       {"sse4_2", "avx", "f16c", "fma", "avx2", "avx512f", "avx512bw", "avx512_bf16", "avx512_fp16",
        "amx_tile", "amx_bf16", "asimd", "asimdhp", "bf16", "sve", "i8mm"}) {
    if (flags.find(fmt::format(" {} ", name)) != std::string::npos) found.emplace_back(name);
  }
  return found;
}

int usable_cpus() {
  cpu_set_t set;
  CPU_ZERO(&set);
  if (sched_getaffinity(0, sizeof(set), &set) == 0) return std::max(1, CPU_COUNT(&set));
  return static_cast<int>(std::max(1U, std::thread::hardware_concurrency()));
}

AttentionProblem smallest_problem() {
  AttentionProblem problem;
  problem.q = problem.k = problem.v = {DType::kFloat32, 4, {1, 1, 1, 8}};
  return problem;
}

/// Sets an environment variable and puts the old value back.
class ScopedEnv {
 public:
  ScopedEnv(const char* name, const std::string& value) : name_(name) {
    const char* old = std::getenv(name);
    if (old != nullptr) old_ = old;
    setenv(name, value.c_str(), 1);
  }
  ~ScopedEnv() {
    if (old_) {
      setenv(name_, old_->c_str(), 1);
    } else {
      unsetenv(name_);
    }
  }
  ScopedEnv(const ScopedEnv&) = delete;
  ScopedEnv& operator=(const ScopedEnv&) = delete;

 private:
  const char* name_;
  std::optional<std::string> old_;
};

}  // namespace

int64_t CpuInfo::last_level_bytes() const {
  int64_t largest = 0;
  for (const Cache& cache : caches) largest = std::max(largest, cache.bytes);
  return largest > 0 ? largest : int64_t{32} << 20;
}

CpuInfo cpu_info() {
  CpuInfo info;
  info.model = proc_cpuinfo("model name");
  if (info.model.empty()) info.model = "unknown";
  info.logical = static_cast<int>(sysconf(_SC_NPROCESSORS_ONLN));
  info.usable = usable_cpus();
  info.caches = read_caches();
  info.flags = flags_of_interest();
  info.memory_bytes = sysconf(_SC_PHYS_PAGES) * sysconf(_SC_PAGESIZE);
  return info;
}

std::vector<std::string> library_targets() {
  const AttentionProblem problem = smallest_problem();
  std::vector<std::string> targets;
  for (int64_t rest = hwy::SupportedTargets(); rest != 0; rest &= rest - 1) {
    const char* name = hwy::TargetName(rest & -rest);
    const ScopedEnv forced("FA4_CPU_TARGET", name);
    if (Plan::make(problem).ok()) targets.emplace_back(name);
  }
  return targets;
}

std::string active_target() {
  if (!Plan::make(smallest_problem()).ok()) return {};
  const char* forced = std::getenv("FA4_CPU_TARGET");
  if (forced != nullptr && *forced != '\0') return forced;
  const std::vector<std::string> targets = library_targets();
  return targets.empty() ? "" : targets.front();
}

std::string format_bytes(int64_t bytes) {
  const double kib = static_cast<double>(bytes) / 1024;
  if (kib >= 1024 * 1024) return fmt::format("{:.4g} GiB", kib / 1024 / 1024);
  if (kib >= 1024) return fmt::format("{:.4g} MiB", kib / 1024);
  return fmt::format("{:.4g} KiB", kib);
}

}  // namespace fa4::cli
