// SPDX-License-Identifier: BSD-3-Clause
#include "cli/interruption.h"

#include <signal.h>

#include <atomic>

namespace fa4::cli {
namespace {

constexpr int kSignals[] = {SIGINT, SIGTERM};

std::atomic<int> noted_signal{0};
static_assert(std::atomic<int>::is_always_lock_free);  // as a signal handler needs it

extern "C" void note_signal(int number) { noted_signal = number; }

}  // namespace

Interruption::Interruption() {
  noted_signal = 0;
  struct sigaction action {};
  action.sa_handler = note_signal;
  // Of the second one the default is the handler. Reads and writes go on after the first.
  action.sa_flags = static_cast<int>(SA_RESETHAND | SA_RESTART);
  for (const int number : kSignals) sigaction(number, &action, nullptr);
}

Interruption::~Interruption() {
  for (const int number : kSignals) signal(number, SIG_DFL);
}

bool Interruption::came() { return noted_signal != 0; }

int Interruption::exit_code() { return 128 + noted_signal; }

}  // namespace fa4::cli
