// SPDX-License-Identifier: BSD-3-Clause
// Faults made by a program from a kernel's PTX text: an operator and one of the places it fits are
// drawn from a seed.
#include <algorithm>
#include <map>
#include <mutex>
#include <random>
#include <regex>
#include <set>

#include "emulator/mutants/mutant.h"

namespace fa4::emulator::mutants {
namespace {

using Random = std::mt19937_64;

/// What may be done to a line whose instruction matches.
struct Operator {
  const char* name;
  const char* kind;
  const char* why;
  const char* pattern;  ///< Of the whole line, blanks at its ends taken off.
  /// The new text; empty: the line goes.
  std::string (*change)(const std::smatch& match, Random& random);
  const char* moved_before = "";  ///< The line goes before the last one with this, where it stood.
};

std::string drop(const std::smatch&, Random&) { return ""; }

/// The line with its part `group` exchanged.
std::string with(const std::smatch& m, size_t group, const std::string& text) {
  const auto at = static_cast<size_t>(m.position(group));
  std::string line = m.str(0);
  return line.replace(at, m.str(group).size(), text);
}

/// The line with operand `group` replaced by what `compute` ("xor.b32", ", 1") makes of it.
std::string computed(const std::smatch& m, size_t group, const std::string& opcode,
                     const std::string& operand) {
  return "{\n.reg .b32 fa4_m;\n" + opcode + " fa4_m, " + m.str(group) + ", " + operand + ";\n" +
         with(m, group, "fa4_m") + "\n}";
}

std::string always_ready(const std::smatch& m, Random&) {
  return "setp.eq.u32 " + m.str(1) + ", 0, 0;";
}
std::string other_parity(const std::smatch& m, Random&) { return computed(m, 2, "xor.b32", "1"); }
std::string other_bytes(const std::smatch& m, Random& random) {
  return computed(m, 1, "add.s32", random() % 2 == 0 ? "16" : "-16");
}
std::string other_count(const std::smatch& m, Random&) { return computed(m, 1, "add.s32", "1"); }
std::string other_threads(const std::smatch& m, Random&) { return computed(m, 1, "add.s32", "32"); }
std::string other_coordinate(const std::smatch& m, Random& random) {
  const std::string list = m.str(1);
  std::vector<std::string> names;
  for (size_t at = 0; at < list.size();) {
    const size_t end = std::min(list.find(", ", at), list.size());
    names.push_back(list.substr(at, end - at));
    at = end + 2;
  }
  const size_t which = random() % names.size();
  std::string changed;
  for (size_t i = 0; i < names.size(); ++i) {
    changed += (i > 0 ? ", " : "") + (i == which ? "fa4_m" : names[i]);
  }
  return "{\n.reg .b32 fa4_m;\nadd.s32 fa4_m, " + names[which] + ", 8;\n" + with(m, 1, changed) +
         "\n}";
}
/// A bit of a matrix descriptor: of the start, the offsets or the swizzle.
std::string other_descriptor(const std::smatch& m, Random& random) {
  constexpr int kBits[] = {3, 7, 33, 36, 38, 61, 62, 63};
  const uint64_t bit = uint64_t{1} << kBits[random() % std::size(kBits)];
  return with(m, 1, std::to_string(std::stoull(m.str(1)) ^ bit));
}
/// A bit of an instruction descriptor: types, majors, N, M.
std::string other_form(const std::smatch& m, Random& random) {
  constexpr int kBits[] = {7, 10, 13, 15, 16, 18, 20, 27};
  const uint64_t bit = uint64_t{1} << kBits[random() % std::size(kBits)];
  return with(m, 1, std::to_string(std::stoull(m.str(1)) ^ bit));
}
std::string one_pending(const std::smatch& m, Random&) { return with(m, 1, "1"); }
std::string fewer_columns(const std::smatch& m, Random&) { return with(m, 1, "64"); }
std::string shifted(const std::smatch& m, Random&) { return with(m, 1, m.str(1) + "+16"); }

// NOLINTBEGIN(modernize-raw-string-literal)
const Operator kOperators[] = {
    {"no_wait", "wait", "goes on without the wait", R"(mbarrier\.try_wait\S* (\w+), \[\S+\], \S+;)",
     always_ready},
    {"parity", "phase", "waits for the other phase",
     R"(mbarrier\.t\w+_wait\.parity\S* (\w+), \[\S+\], (\S+);)", other_parity},
    {"no_arrive", "barrier", "an arrival is missing", R"(mbarrier\.arrive\.shared\S* .*;)", drop},
    {"arrive_twice", "count", "one arrival too many", R"(mbarrier\.arrive\.shared\S* .*;)",
     [](const std::smatch& m, Random&) { return m.str(0) + "\n" + m.str(0); }},
    {"tx_bytes", "bytes", "other bytes are announced than come",
     R"(mbarrier\.arrive\.expect_tx\S* _, \[\S+\], (\S+);)", other_bytes},
    {"init_count", "count", "one arrival more is expected",
     R"((?:@\S+ )?mbarrier\.init\S* \[\S+\], (\S+);)", other_count},
    {"no_init", "barrier", "the barrier is never initialised", R"((?:@\S+ )?mbarrier\.init\S* .*;)",
     drop},
    {"no_fence", "fence", "a fence is missing",
     R"((?:fence\.(?:proxy|mbarrier)|tcgen05\.fence).*;)", drop},
    {"no_wgmma_fence", "fence", "wgmma.fence is missing", R"(wgmma\.fence\S*;)", drop},
    {"no_commit", "commit", "products or copies are in no group",
     R"((?:wgmma|cp\.async\.bulk|tcgen05)\.commit.*;)", drop},
    {"commit_early", "order", "the last product is not in the group",
     R"((?:wgmma\.commit_group|tcgen05\.commit).*;)", drop, ".mma"},
    {"no_group_wait", "wait", "a group is not awaited",
     R"((?:wgmma|cp\.async\.bulk)\.wait_group.*;)", drop},
    {"one_pending", "wait", "the youngest group is not awaited", R"(wgmma\.wait_group\S* (0);)",
     one_pending},
    {"no_barrier", "barrier", "threads are not brought together",
     R"((?:bar\.sync|barrier\.cta\.sync|bar\.warp\.sync|barrier\.cluster\.wait).*;)", drop},
    {"no_barrier_arrive", "barrier", "an arrival at a named barrier is missing",
     R"(barrier\.(?:cta|cluster)\.arrive.*;)", drop},
    {"barrier_threads", "count", "a named barrier of another size",
     R"(barrier\.cta\.(?:sync|arrive)\S* \S+, (\S+);)", other_threads},
    {"descriptor", "descriptor", "a bit of a matrix descriptor",
     R"(or\.b64\s+\S+, \S+, (46\d{17});)", other_descriptor},
    {"form", "descriptor", "a bit of an instruction descriptor", R"(mov\.\w32\s+\S+, (1\d{8});)",
     other_form},
    {"coordinate", "coordinate", "a tensor copy goes elsewhere",
     R"(cp\.async\.bulk\.tensor.*\{(.*)\}.*;)", other_coordinate},
    {"no_copy", "bytes", "a copy is missing", R"(cp\.async\.bulk\.tensor.*;)", drop},
    {"no_product", "value", "a product is missing", R"((?:wgmma\.mma|tcgen05\.mma).*;)", drop},
    {"no_tensor_wait", "wait", "tensor memory is not awaited", R"(tcgen05\.wait\S*;)", drop},
    {"no_dealloc", "lifetime", "columns are never freed", R"(tcgen05\.dealloc.*;)", drop},
    {"columns", "lifetime", "other columns are allocated or freed",
     R"(tcgen05\.(?:de)?alloc\S* \S+, (\S+);)", fewer_columns},
    {"address", "aliasing", "16 bytes or columns beside the place",
     R"((?:stmatrix|tcgen05\.ld|tcgen05\.st|ldmatrix)\S* .*\[([^\]+]+)\].*;)", shifted},
};
// NOLINTEND(modernize-raw-string-literal)

std::vector<std::string> lines_of(const std::string& text) {
  std::vector<std::string> lines;
  for (size_t at = 0; at < text.size();) {
    const size_t end = std::min(text.find('\n', at), text.size());
    lines.push_back(text.substr(at, end - at));
    at = end + 1;
  }
  return lines;
}

std::string stripped(const std::string& line) {
  const size_t begin = line.find_first_not_of(" \t");
  if (begin == std::string::npos) return {};
  // Between opcode and operands NVRTC writes a tab now and then.
  std::string text = line.substr(begin, line.find_last_not_of(" \t") + 1 - begin);
  std::replace(text.begin(), text.end(), '\t', ' ');
  return text;
}

/// Lines that an operator fits.
std::map<const Operator*, std::vector<size_t>> places(const std::vector<std::string>& lines) {
  std::map<const Operator*, std::vector<size_t>> all;
  for (const Operator& op : kOperators) {
    const std::regex pattern(op.pattern);
    for (size_t i = 0; i < lines.size(); ++i) {
      if (std::regex_match(stripped(lines[i]), pattern)) all[&op].push_back(i);
    }
  }
  return all;
}

}  // namespace

std::vector<Mutant> program_faults(const Victim& victim, std::shared_ptr<const std::string> ptx,
                                   int count, uint64_t seed) {
  const std::vector<std::string> lines = lines_of(*ptx);
  const auto sites = places(lines);
  std::vector<const Operator*> usable;
  for (const Operator& op : kOperators) {
    if (sites.contains(&op)) usable.push_back(&op);
  }
  Random random(seed);
  std::vector<Mutant> all;
  std::set<std::string> names;
  for (int tries = 0; tries < 50 * count && static_cast<int>(all.size()) < count; ++tries) {
    const Operator& op = *usable[random() % usable.size()];
    const std::vector<size_t>& fitting = sites.at(&op);
    const size_t site = random() % fitting.size();
    Mutant m;
    m.name = victim.name() + "/" + op.name + "/" + std::to_string(site);
    const std::string line = stripped(lines[fitting[site]]);
    std::smatch match;
    std::regex_match(line, match, std::regex(op.pattern));
    m.edits.push_back({fitting[site], op.change(match, random)});
    if (*op.moved_before != 0) {
      size_t before = fitting[site];
      while (before > 0 && lines[before].find(op.moved_before) == std::string::npos) --before;
      m.edits.push_back({before, line + "\n" + lines[before]});
    }
    if (!names.insert(m.name).second) continue;
    m.kind = op.kind;
    m.victims = {victim.name()};
    m.by_program = true;
    m.base = ptx;
    m.why = std::string(op.why) + ": line " + std::to_string(fitting[site] + 1) + ", " +
            line.substr(0, 60);
    all.push_back(std::move(m));
  }
  return all;
}

Result<std::vector<Mutant>> all_mutants() {
  struct Share {
    const char* victim;
    int count;
  };
  constexpr Share kShares[] = {{"forward_causal", 16},  {"forward_ordered", 16},
                               {"forward_lengths", 16}, {"gemm", 8},
                               {"gemm_pair", 10},       {"gemm_tensor", 8},
                               {"chain", 16},           {"forward_overlap", 8},
                               {"forward_pair", 12}};
  std::vector<Mutant> all = forward_faults();
  for (Mutant& m : tensor_faults()) all.push_back(std::move(m));
  uint64_t seed = 1;
  for (const Share& share : kShares) {
    const std::string name = share.victim;
    const Victim& victim = victim_named(name);
    const auto& ptx = original_ptx(victim);
    if (!ptx.ok()) return ptx.status();
    for (Mutant& m :
         program_faults(victim, std::make_shared<const std::string>(*ptx), share.count, seed++)) {
      all.push_back(std::move(m));
    }
  }
  return all;
}

Result<std::string> mutated_ptx(const Mutant& mutant, const Victim& victim) {
  if (!mutant.by_program) return victim.ptx(&mutant.patch);
  const std::vector<std::string> lines = lines_of(*mutant.base);
  std::map<size_t, std::string> changed;
  for (const PtxEdit& edit : mutant.edits) changed[edit.line] = edit.text;
  std::string text;
  for (size_t i = 0; i < lines.size(); ++i) {
    const auto it = changed.find(i);
    text += (it == changed.end() ? lines[i] : it->second) + "\n";
  }
  return text;
}

const Result<std::string>& original_ptx(const Victim& victim) {
  static std::mutex mutex;
  static std::map<const Victim*, Result<std::string>> all;
  const std::lock_guard lock(mutex);
  const auto it = all.find(&victim);
  return it != all.end() ? it->second : all.emplace(&victim, victim.ptx(nullptr)).first->second;
}

const Victim& victim_named(const std::string& name) {
  const auto& all = victims();
  return **std::find_if(all.begin(), all.end(), [&](const auto& v) { return v->name() == name; });
}

}  // namespace fa4::emulator::mutants
