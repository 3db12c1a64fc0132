// SPDX-License-Identifier: BSD-3-Clause
// fa4_fuzz: whole attention problems drawn from a seed, forward and backward, against the oracle.
//
// A problem that fails is printed as a command that runs it alone, as it was drawn and made
// simpler; a crash prints the problems that were running. Ends with "N passed, N failed, N
// skipped"; exits with 1 if any failed.
#include <unistd.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <array>
#include <atomic>
#include <chrono>
#include <csignal>
#include <cstdio>
#include <cstring>
#include <map>
#include <mutex>
#include <set>
#include <thread>
#include <vector>

#include "fuzz/check.h"
#include "fuzz/kernel_problems.h"

namespace fa4::fuzz {
namespace {

using test::Verdict;
using Clock = std::chrono::steady_clock;

struct Settings {
  int64_t count = 2000;
  uint64_t seed = 1;
  int64_t first = 0;
  int threads = 0;
  bool no_backward = false;
  bool only_supported = false;
  bool list = false;
  int shrink_checks = 150;
  int64_t most_failures = 20;
  std::string problem;
  std::string device = "cpu";
  bool each_kernel = false;
  int adversaries = 0;
  int judged = 0;
};

// What runs now, one entry a worker, so that a crash can name it. Fixed memory: a signal handler
// may not allocate.
constexpr size_t kMostWorkers = 64;
std::array<std::array<char, 1024>, kMostWorkers> running_problems;

void note_running(size_t worker, const std::string& text) {
  std::array<char, 1024>& entry = running_problems[worker % kMostWorkers];
  const size_t length = std::min(text.size(), entry.size() - 1);
  std::copy_n(text.begin(), length, entry.begin());
  entry[length] = '\0';
}

void write_all(const char* text) {
  if (write(STDOUT_FILENO, text, std::strlen(text)) < 0) _exit(3);
}

/// Names the problems under way, one of which crashed, and lets the signal do its work.
void name_the_crash(int signal_number) {
  write_all("\nCRASHED or was ended. These were running:\n");
  for (const auto& entry : running_problems) {
    if (entry[0] == '\0') continue;
    write_all("  fa4_fuzz --problem '");
    write_all(entry.data());
    write_all("'\n");
  }
  std::signal(signal_number, SIG_DFL);
  std::raise(signal_number);
}

/// What the workers share.
class Session {
 public:
  explicit Session(const Settings& settings) : settings_(settings) {}

  /// The next problem, as long as there is one; skipped ones may not count.
  bool next(Problem* problem, int64_t* index) {
    const std::lock_guard lock(mutex_);
    const int64_t counted = passed_ + failed_ + (settings_.only_supported ? 0 : skipped_);
    const bool enough = counted + running_ >= settings_.count || failed_ >= settings_.most_failures;
    if (enough || next_ > kMostDraws) return false;
    *index = settings_.first + next_++;
    const auto i = static_cast<uint64_t>(*index);
    *problem = settings_.each_kernel ? draw_for_kernel(settings_.seed, i) : draw(settings_.seed, i);
    ++running_;
    return true;
  }

  void report(int64_t index, const Problem& problem, const Verdict& verdict) {
    const std::lock_guard lock(mutex_);
    --running_;
    if (verdict.kind == Verdict::Kind::kPassed) ++passed_;
    if (const auto kernel = settings_.each_kernel ? kernel_of(problem) : std::nullopt) {
      kernels_.insert(gpu::sm90::to_string(*kernel));
      long_ += is_long(problem, *kernel) ? 1 : 0;
    }
    if (verdict.kind == Verdict::Kind::kFailed) ++failed_;
    if (verdict.kind == Verdict::Kind::kSkipped) {
      ++skipped_;
      const std::string name = to_string(problem) + ": ";  // the message begins with the case's
      ++skips_[verdict.message.rfind(name, 0) == 0 ? verdict.message.substr(name.size())
                                                   : verdict.message];
    }
    if (settings_.list) say(std::to_string(index) + ": " + to_string(problem));
    show_progress(false);
  }

  void report_failure(int64_t index, const std::string& message, const Problem& simplest,
                      const std::string& simplest_message) {
    const std::lock_guard lock(mutex_);
    std::string pass = settings_.device != "cpu" ? " --device " + settings_.device
                       : settings_.no_backward   ? " --no-backward"
                                                 : "";
    if (settings_.adversaries > 0) {
      pass += " --adversaries " + std::to_string(settings_.adversaries) + " --judged " +
              std::to_string(settings_.judged);
    }
    say("FAILED problem " + std::to_string(index) + ": " + message);
    say("  again:    fa4_fuzz --seed " + std::to_string(settings_.seed) + " --first " +
        std::to_string(index) + " --count 1" + (settings_.each_kernel ? " --each-kernel" : "") +
        pass);
    say("  simplest: fa4_fuzz" + pass + " --problem '" + to_string(simplest) + "'");
    say("            " + simplest_message);
  }

  int finish() {
    show_progress(true);
    for (const auto& [reason, count] : skips_) {
      say("skipped " + std::to_string(count) + ": " + reason);
    }
    if (failed_ >= settings_.most_failures) say("stopped: too many failures");
    if (settings_.each_kernel) finish_kernels();
    std::printf("%lld passed, %lld failed, %lld skipped\n", static_cast<long long>(passed_),
                static_cast<long long>(failed_), static_cast<long long>(skipped_));
    return failed_ == 0 ? 0 : 1;
  }

 private:
  /// Too few problems for every kernel is no failure; a kernel that none could be drawn for is.
  void finish_kernels() {
    int64_t missing = 0;
    for (const gpu::sm90::ForwardConfig& config : gpu::sm90::all_forward_configs()) {
      if (kernels_.count(to_string(config)) > 0) continue;
      if (missing++ < 5) say("not run: " + to_string(config));
    }
    say(std::to_string(kernels_.size()) + " kernels; " + std::to_string(long_) +
        " problems are longer than two tiles both ways");
    const auto all = static_cast<int64_t>(gpu::sm90::all_forward_configs().size());
    if (missing > 0 && settings_.count >= all && failed_ < settings_.most_failures) ++failed_;
  }

  static constexpr int64_t kMostDraws = 10'000'000;

  void say(const std::string& line) {
    if (terminal_) std::fprintf(stderr, "\r\033[K");
    std::printf("%s\n", line.c_str());
    std::fflush(stdout);
  }

  /// On a terminal one line that changes five times a second, else a line every 15 seconds.
  void show_progress(bool last) {
    const auto now = Clock::now();
    const auto pause = terminal_ ? std::chrono::milliseconds(200) : std::chrono::seconds(15);
    if (last && terminal_) std::fprintf(stderr, "\r\033[K");
    if (last || now - shown_ < pause) return;
    shown_ = now;
    const auto seconds = std::chrono::duration_cast<std::chrono::seconds>(now - start_).count();
    std::fprintf(stderr, "%s%lld of %lld problems, %lld failed, %lld skipped, %lld s%s",
                 terminal_ ? "\r\033[K" : "", static_cast<long long>(passed_ + failed_ + skipped_),
                 static_cast<long long>(settings_.count), static_cast<long long>(failed_),
                 static_cast<long long>(skipped_), static_cast<long long>(seconds),
                 terminal_ ? "" : "\n");
    std::fflush(stderr);
  }

  const Settings& settings_;
  const bool terminal_ = isatty(STDERR_FILENO) != 0;
  const Clock::time_point start_ = Clock::now();
  Clock::time_point shown_ = start_;
  std::mutex mutex_;
  int64_t next_ = 0, running_ = 0, passed_ = 0, failed_ = 0, skipped_ = 0;
  std::map<std::string, int64_t> skips_;
  std::set<std::string> kernels_;
  int64_t long_ = 0;
};

void work(const Settings& settings, Session& session, size_t worker) {
  Problem problem;
  int64_t index = 0;
  const bool backward = !settings.no_backward;
  while (session.next(&problem, &index)) {
    note_running(worker, to_string(problem));
    const Verdict verdict = check(problem, backward);
    if (verdict.kind == Verdict::Kind::kFailed) {
      const Problem simplest = shrink(problem, backward, settings.shrink_checks);
      session.report_failure(index, verdict.message, simplest, check(simplest, backward).message);
    }
    session.report(index, problem, verdict);
    note_running(worker, {});
  }
}

int run_one(const Settings& settings) {
  const std::optional<Problem> problem = parse(settings.problem);
  if (!problem) {
    std::fprintf(stderr, "--problem: is '%s'; allowed: NAME=NUMBER ..., as failures are printed\n",
                 settings.problem.c_str());
    return 2;
  }
  const Verdict verdict = check(*problem, !settings.no_backward);
  if (!verdict.message.empty()) std::printf("%s\n", verdict.message.c_str());
  const auto is = [&](Verdict::Kind kind) { return verdict.kind == kind ? 1 : 0; };
  std::printf("%d passed, %d failed, %d skipped\n", is(Verdict::Kind::kPassed),
              is(Verdict::Kind::kFailed), is(Verdict::Kind::kSkipped));
  return is(Verdict::Kind::kFailed);
}

int run(int argc, char** argv) {
  Settings s;
  CLI::App app("Whole attention problems drawn from a seed, against the float64 oracle",
               "fa4_fuzz");
  app.add_option("--count,--problems", s.count, "How many problems")->capture_default_str();
  app.add_option("--seed", s.seed, "Begins the stream of problems")->capture_default_str();
  app.add_option("--first", s.first, "Number of the first problem")->capture_default_str();
  app.add_option("--threads", s.threads, "Problems at once; 0: one a core")
      ->capture_default_str()
      ->check(CLI::NonNegativeNumber);
  app.add_flag("--no-backward", s.no_backward, "Forward only");
  app.add_flag("--only-supported", s.only_supported,
               "Do not count problems that the backend can't do");
  app.add_flag("--list", s.list, "Print each problem");
  app.add_option("--shrink", s.shrink_checks, "Checks to spend on making a failure simpler")
      ->capture_default_str();
  app.add_option("--most-failures", s.most_failures, "Stop after these")->capture_default_str();
  app.add_option("--problem", s.problem, "Run this one problem, given as NAME=NUMBER ...");
  app.add_flag("--each-kernel", s.each_kernel, "Problems for every kernel of a GPU in turn");
  app.add_option("--adversaries", s.adversaries,
                 "On the emulator: runs of a problem, each with another seed, timing and schedule")
      ->capture_default_str();
  app.add_option("--judged", s.judged, "In how many of these runs the judge looks on")
      ->capture_default_str();
  app.add_option("--device", s.device, "cpu; cuda:N or emulator:sm_90a (the forward alone)")
      ->capture_default_str();
  CLI11_PARSE(app, argc, argv);
  if (s.device != "cpu") {
    const std::string kind = s.device.substr(0, s.device.find(':') + 1);
    if (kind != "cuda:" && s.device != to_string(Device::emulator("sm_90a"))) {
      std::fprintf(stderr, "--device: is '%s'; allowed: cpu, cuda:N, emulator:sm_90a\n",
                   s.device.c_str());
      return 2;
    }
    if (kind != "cuda:") {
      set_adversaries(s.adversaries, s.judged);
      pair_keys = kEmulatedPairKeys;
    }
    set_device(kind == "cuda:" ? Device::cuda(std::atoi(s.device.c_str() + kind.size()))
                               : Device::emulator("sm_90a"));
    s.no_backward = true;
  }
  if (!s.problem.empty()) return run_one(s);
  for (int signal_number : {SIGSEGV, SIGBUS, SIGFPE, SIGILL, SIGABRT, SIGTERM}) {
    std::signal(signal_number, name_the_crash);
  }

  Session session(s);
  const unsigned cores = std::max(1U, std::thread::hardware_concurrency());
  const int workers = s.threads > 0 ? s.threads : static_cast<int>(cores);
  std::printf("fa4_fuzz: %lld problems from seed %llu, %d at once\n",
              static_cast<long long>(s.count), static_cast<unsigned long long>(s.seed), workers);
  std::fflush(stdout);
  std::vector<std::thread> others;
  for (int n = 1; n < workers; ++n) others.emplace_back([&, n] { work(s, session, n); });
  work(s, session, 0);
  for (std::thread& other : others) other.join();
  return session.finish();
}

}  // namespace
}  // namespace fa4::fuzz

int main(int argc, char** argv) { return fa4::fuzz::run(argc, argv); }
