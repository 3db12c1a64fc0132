// SPDX-License-Identifier: BSD-3-Clause
// Who touched memory last: a cell for every four bytes (of tensor memory: sixteen lanes of a
// column) has the last write and the reads since.
#pragma once

#include <algorithm>
#include <array>
#include <cstdint>
#include <memory>
#include <span>
#include <unordered_map>
#include <vector>

#include "emulator/judge/clock.h"

namespace fa4::emulator::judge {

/// One access, as a cell remembers it.
struct Event {
  uint32_t who = 0;  ///< Component of the grid, from 1 on; 0: nobody.
  uint32_t epoch = 0;
  uint32_t pc = 0;
  uint8_t lane = 0;       ///< kWholeWarp: more than one.
  uint8_t bytes : 4 = 0;  ///< Of the cell, as bits.
  bool async : 1 = false;
  bool atomic : 1 = false;
  bool writes : 1 = false;  ///< Of an atomic access, which stands among the reads.
  /// Of a chunk: its four words were written by as many neighbouring lanes, from `lane` on.
  bool run : 1 = false;

  /// Of a run: that of a word.
  Event word(uint32_t i) const {
    Event e = *this;
    e.lane = static_cast<uint8_t>(lane + i);
    e.run = false;
    return e;
  }

  bool none() const { return who == 0; }
};

static_assert(sizeof(Event) == 16);

struct Cell {
  static constexpr uint32_t kReads = 4;

  Event write;
  uint32_t more = 0;     ///< Number of a list of further reads; 0: there is none.
  uint32_t readers = 0;  ///< Reads behind that many are of no meaning.
  Event reads[kReads];

  std::span<Event> noted() { return {reads, readers}; }
  std::span<const Event> noted() const { return {reads, readers}; }
  void put(uint32_t i, const Event& read) {
    reads[i] = read;
    readers = std::max(readers, i + 1);
  }
  void clear() {
    write = {};
    more = readers = 0;
  }
};

/// Who does something now, and what it knows.
struct Actor {
  const Clock* clock = nullptr;
  uint32_t base = 1;       ///< Of the cluster's components in the grid.
  uint32_t size = 0;       ///< Components of the cluster.
  uint32_t component = 0;  ///< Of the cluster.
  uint32_t before = 0;     ///< A component whose operations complete before: cp before mma.
  uint32_t epoch = 0;
  uint32_t pc = 0;
  uint8_t lane = 0;
  bool async = false;
  bool atomic = false;
  bool in_order = false;  ///< Earlier events of the component are over.

  uint32_t who() const { return base + component; }
  /// Whether an earlier event is over for it.
  bool sees(const Event& e) const {
    const uint32_t index = e.who - base;
    if (index >= size) return clock->sees_foreign(e.who, e.epoch, e.lane);
    if (index == component) {
      if (in_order || (async && e.epoch == epoch)) return true;
      if (!async && (lane == e.lane || lane == kWholeWarp || e.lane == kWholeWarp)) return true;
    } else if (index == before && before != 0) {
      return true;
    }
    return clock->sees(index, e.epoch, e.lane);
  }
};

enum class Clash : uint8_t { kReadAfterWrite, kWriteAfterWrite, kWriteAfterRead };

/// Told of what is not in order.
class Referee {
 public:
  virtual ~Referee() = default;
  /// `cell`: its number in the shadow.
  virtual void clash(Clash clash, const Event& earlier, const Actor& actor, uint64_t cell) = 0;
  /// The earlier event is over.
  virtual void in_order(Clash how, const Event& earlier, const Actor& actor, uint64_t cell) = 0;
};

/// Reads of a cell beyond four.
class ReadLists {
 public:
  std::vector<Event>& at(uint32_t& number);
  void drop(uint32_t& number);

 private:
  std::vector<std::vector<Event>> lists_{1};
  std::vector<uint32_t> free_;
};

class CellKeeper {
 public:
  /// `all_reads`: more than four are kept for a cell.
  CellKeeper(Referee& referee, bool all_reads) : referee_(&referee), all_reads_(all_reads) {}
  /// `ask`: the referee wants to know about earlier writes that are over.
  void read(Cell& cell, uint64_t number, uint8_t bytes, const Actor& actor, bool ask);
  void write(Cell& cell, uint64_t number, uint8_t bytes, const Actor& actor, bool ask);
  /// A strong or atomic write: it does not race with its like, and does not hide plain writes.
  void write_atomic(Cell& cell, uint64_t number, uint8_t bytes, const Actor& actor);
  /// Whether a read of the whole cell is one like the last that read() found in order, of what the
  /// same write wrote. Then it is noted.
  bool read_like_last(Cell& cell, const Actor& actor);
  /// A copy of a cell, which gets its own list of reads. `to` was clear, or never used.
  void copy(const Cell& from, Cell& to);
  void drop(Cell& cell);

 private:
  void keep_read(Cell& cell, const Event& mine, const Actor& actor);
  void note_read(Cell& cell, const Event& mine, const Actor& actor);
  void check(Clash clash, const Event& earlier, uint8_t bytes, uint64_t number, const Actor& actor,
             bool ask);

  Referee* referee_;
  bool all_reads_;
  ReadLists lists_;
  /// The write that the last read found in order, and who read: the next cells are like it.
  Event last_write_;
  Event last_reader_;
};

/// Sixteen bytes: one cell while they are touched as a whole, four once they are not.
struct Chunk {
  Cell whole;
  uint32_t parts = 0;  ///< Number of the four; 0: there are none.
};

/// Memory in chunks.
class ChunkKeeper {
 public:
  static constexpr uint32_t kBytes = 16;
  enum class Touch : uint8_t { kRead, kWrite, kAtomic };

  explicit ChunkKeeper(Referee& referee, bool all_reads) : cells_(referee, all_reads) {}
  /// A read of a whole chunk, if there is nothing to be looked at: quick. Else false.
  bool read_again(Chunk& chunk, const Actor& actor) {
    return chunk.parts == 0 && cells_.read_like_last(chunk.whole, actor);
  }
  /// Takes a write of less than the chunk out of those bytes: it is known to everybody.
  void forget(Chunk& chunk, uint32_t first, uint32_t count, const Event& write);
  /// `first`, `count`: bytes of the chunk. `number`: of the chunk.
  void touch(Chunk& chunk, uint64_t number, uint32_t first, uint32_t count, Touch touch,
             const Actor& actor, bool ask);
  /// f(event) for what wrote the chunk's cells last.
  template <class F>
  void for_writes(const Chunk& chunk, F f) {
    const auto tell = [&](const Cell& cell) {
      if (!cell.write.none()) f(cell.write);
      for (const Event& r : cell.noted()) {
        if (r.writes) f(r);
      }
    };
    if (chunk.parts == 0) return tell(chunk.whole);
    for (const Cell& cell : parts(chunk.parts)) tell(cell);
  }

 private:
  static constexpr uint32_t kCells = 4, kCellBytes = 4;
  void touch_cell(Cell& cell, uint64_t number, uint8_t bytes, Touch touch, const Actor& actor,
                  bool ask);
  void split(Chunk& chunk);
  void merge(Chunk& chunk);

  CellKeeper cells_;
  using Parts = Cell[kCells];
  static constexpr uint32_t kBlock = 64;
  Parts& parts(uint32_t number) {
    return reinterpret_cast<Parts*>(blocks_[number / kBlock].get())[number % kBlock];
  }

  /// Cells by blocks of bytes: they come into being when split() fills them.
  std::vector<std::unique_ptr<std::byte[]>> blocks_;
  uint32_t used_ = 1;  ///< Numbers given out so far; 0 is none.
  std::vector<uint32_t> free_;
};

/// Global memory, in pages made when they are touched.
class PagedChunks {
 public:
  static constexpr uint32_t kPage = 1024;  ///< Chunks.
  Chunk& at(uint64_t number) {
    const uint64_t page = number / kPage;
    if (page != last_page_ || last_ == nullptr) {
      auto& p = pages_[page];
      if (p == nullptr) p = std::make_unique<Chunk[]>(kPage);
      last_ = p.get();
      last_page_ = page;
    }
    return last_[number % kPage];
  }

 private:
  std::unordered_map<uint64_t, std::unique_ptr<Chunk[]>> pages_;
  Chunk* last_ = nullptr;
  uint64_t last_page_ = 0;
};

/// One bit a byte: whether it holds something defined.
class DefinedBytes {
 public:
  explicit DefinedBytes(size_t bytes) : bits_((bytes + 63) / 64 + 1) {}
  void set(size_t first, size_t count, bool defined);
  bool all(size_t first, size_t count) const;
  /// Of up to 32 bytes those that are undefined, as bits.
  uint32_t undefined(size_t first, size_t count) const;

 private:
  std::vector<uint64_t> bits_;
};

}  // namespace fa4::emulator::judge
