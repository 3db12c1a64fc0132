// SPDX-License-Identifier: BSD-3-Clause
#include "emulator/probes/apart.h"

#include <poll.h>
#include <sys/wait.h>
#include <unistd.h>

#include <csignal>
#include <cstring>
#include <thread>

namespace fa4::emulator::probes {
namespace {

/// What a child says of a job; the description comes first, as job kDescription.
struct Head {
  uint32_t job;
  uint32_t ok;
  uint32_t bytes;  ///< That follow: the output's words or the error.
};
constexpr uint32_t kDescription = 0xffffffff;
/// What happens to a process that a device will not let go: it is left behind.
constexpr int kKillTries = 100;
constexpr useconds_t kKillWait = 50000;

bool write_all(int to, const void* data, size_t bytes) {
  const auto* at = static_cast<const char*>(data);
  while (bytes > 0) {
    const ssize_t n = write(to, at, bytes);
    if (n <= 0) return false;
    at += n;
    bytes -= static_cast<size_t>(n);
  }
  return true;
}

bool say(int to, uint32_t job, bool ok, const void* data, size_t bytes) {
  const Head head{job, ok ? 1u : 0u, static_cast<uint32_t>(bytes)};
  return write_all(to, &head, sizeof head) && write_all(to, data, bytes);
}

/// One end of what a child says.
struct Source {
  int from;
  pid_t pid;
  bool late = false;
  bool ended = false;  ///< The child, which has been waited for.
};

/// Reads `bytes`, waiting `seconds` at most for each part of them.
bool read_all(Source& source, void* data, size_t bytes, double seconds) {
  constexpr int kSlice = 200;  // milliseconds
  auto* at = static_cast<char*>(data);
  double waited = 0;
  while (bytes > 0) {
    pollfd wait{source.from, POLLIN, 0};
    if (poll(&wait, 1, source.ended ? 0 : kSlice) <= 0) {
      // Other children may hold the pipe open after this one's end.
      if (source.ended) return false;
      source.ended = waitpid(source.pid, nullptr, WNOHANG) == source.pid;
      waited += kSlice * 1e-3;
      source.late = waited > seconds;
      if (source.late) return false;
      continue;
    }
    const ssize_t n = read(source.from, at, bytes);
    if (n <= 0) return false;
    waited = 0;
    at += n;
    bytes -= static_cast<size_t>(n);
  }
  return true;
}

[[noreturn]] void child(const Jobs& jobs, size_t first, int to) {
  const std::string text = jobs.describe();
  bool going = say(to, kDescription, true, text.data(), text.size());
  for (size_t i = first; going && i < jobs.count; i += jobs.workers) {
    const auto words = jobs.run(i);
    const auto job = static_cast<uint32_t>(i);
    if (words.ok()) {
      going = say(to, job, true, words->data(), words->size() * 4);
    } else {
      // The device may be of no use any more.
      const std::string& error = words.status().message();
      say(to, job, false, error.data(), error.size());
      going = false;
    }
  }
  _exit(0);
}

void end_child(const Source& source) {
  close(source.from);
  if (source.ended) return;
  kill(source.pid, SIGKILL);
  for (int i = 0; i < kKillTries && waitpid(source.pid, nullptr, WNOHANG) == 0; ++i) {
    usleep(kKillWait);
  }
}

/// Reads what a child says until it ends or is late. Returns the job that comes next.
size_t listen(Source& source, const Jobs& jobs, size_t next, std::vector<Outcome>& outcomes,
              std::string& description) {
  while (next < jobs.count) {
    Head head{};
    std::string data;
    bool read = read_all(source, &head, sizeof head, jobs.seconds);
    if (read) {
      data.resize(head.bytes);
      read = read_all(source, data.data(), data.size(), jobs.seconds);
    }
    Outcome& outcome = outcomes[next];
    if (!read) {
      outcome.error = source.late ? "took too long" : "crashed";
      return next + jobs.workers;
    }
    if (head.job == kDescription) {
      description = data;
      continue;
    }
    outcome.ok = head.ok != 0;
    if (outcome.ok) {
      outcome.words.resize(data.size() / 4);
      std::memcpy(outcome.words.data(), data.data(), data.size());
    } else {
      outcome.error = data;
    }
    next += jobs.workers;
    if (!outcome.ok) return next;
  }
  return next;
}

/// Every jobs.workers-th job, from `next` on.
void work(const Jobs& jobs, size_t next, std::vector<Outcome>& outcomes, std::string& description) {
  while (next < jobs.count) {
    int ends[2];
    if (pipe(ends) != 0) return;
    const pid_t pid = fork();
    if (pid == 0) {
      close(ends[0]);
      child(jobs, next, ends[1]);
    }
    close(ends[1]);
    if (pid < 0) {
      close(ends[0]);
      return;
    }
    Source source{ends[0], pid};
    next = listen(source, jobs, next, outcomes, description);
    end_child(source);
  }
}

#ifdef __SANITIZE_THREAD__
/// In this process: ThreadSanitizer ends children that start threads.
void work_here(const Jobs& jobs, size_t next, std::vector<Outcome>& outcomes) {
  for (; next < jobs.count; next += jobs.workers) {
    auto words = jobs.run(next);
    Outcome& outcome = outcomes[next];
    outcome.ok = words.ok();
    if (words.ok()) {
      outcome.words = *std::move(words);
    } else {
      outcome.error = words.status().message();
    }
  }
}
#endif

}  // namespace

std::vector<Outcome> run_apart(const Jobs& jobs, std::string& description) {
  std::vector<Outcome> outcomes(jobs.count);
  std::vector<std::string> descriptions(jobs.workers);
  std::vector<std::thread> threads;
  for (unsigned w = 0; w < jobs.workers; ++w) {
#ifdef __SANITIZE_THREAD__
    threads.emplace_back([&, w] { work_here(jobs, w, outcomes); });
#else
    threads.emplace_back([&, w] { work(jobs, w, outcomes, descriptions[w]); });
#endif
  }
  for (std::thread& thread : threads) thread.join();
  description = descriptions[0];
  return outcomes;
}

}  // namespace fa4::emulator::probes
