// SPDX-License-Identifier: BSD-3-Clause
#include "emulator/judge/shadow.h"

namespace fa4::emulator::judge {
namespace {

Event event_of(const Actor& a, uint8_t bytes) {
  Event e;
  e.who = a.who();
  e.epoch = a.epoch;
  e.pc = a.pc;
  e.lane = a.lane;
  e.bytes = bytes & 0xf;
  e.async = a.async;
  e.atomic = a.atomic;
  return e;
}

bool same_doer(const Event& a, const Event& b) {
  return a.who == b.who && a.epoch == b.epoch && a.lane == b.lane && a.bytes == b.bytes &&
         a.atomic == b.atomic && a.pc == b.pc && a.run == b.run;
}

}  // namespace

std::vector<Event>& ReadLists::at(uint32_t& number) {
  if (number == 0) {
    if (free_.empty()) {
      number = static_cast<uint32_t>(lists_.size());
      lists_.emplace_back();
    } else {
      number = free_.back();
      free_.pop_back();
    }
  }
  return lists_[number];
}

void ReadLists::drop(uint32_t& number) {
  if (number == 0) return;
  lists_[number].clear();
  free_.push_back(number);
  number = 0;
}

void CellKeeper::check(Clash clash, const Event& earlier, uint8_t bytes, uint64_t number,
                       const Actor& actor, bool ask) {
  if (earlier.none() || (earlier.bytes & bytes) == 0) return;
  if (earlier.run) {
    for (uint32_t i = 0; i < 4; ++i) check(clash, earlier.word(i), bytes, number + i, actor, ask);
    return;
  }
  if (earlier.atomic && actor.atomic) return;
  // Lanes of one instruction that store to one place: one of them is the last.
  const bool together = clash == Clash::kWriteAfterWrite && earlier.who == actor.who() &&
                        earlier.epoch == actor.epoch && earlier.pc == actor.pc;
  if (together) return;
  if (!actor.sees(earlier)) {
    referee_->clash(clash, earlier, actor, number);
  } else if (ask) {
    referee_->in_order(clash, earlier, actor, number);
  }
}

void CellKeeper::read(Cell& cell, uint64_t number, uint8_t bytes, const Actor& actor, bool ask) {
  const Event mine = event_of(actor, bytes);
  if (!cell.write.none()) {
    const bool like_last = same_doer(cell.write, last_write_) && same_doer(mine, last_reader_);
    if (!like_last) {
      check(Clash::kReadAfterWrite, cell.write, bytes, number, actor, ask);
      last_write_ = cell.write;
      last_reader_ = mine;
    }
  }
  for (const Event& r : cell.noted()) {
    if (r.writes) check(Clash::kReadAfterWrite, r, bytes, number, actor, false);
  }
  keep_read(cell, mine, actor);
}

bool CellKeeper::read_like_last(Cell& cell, const Actor& actor) {
  const Event& reader = last_reader_;
  const bool like_last = reader.who == actor.who() && reader.epoch == actor.epoch &&
                         reader.lane == actor.lane && reader.pc == actor.pc &&
                         reader.bytes == 0xf && !reader.atomic && !actor.atomic;
  if (!like_last || !same_doer(cell.write, last_write_)) return false;
  Event* own = nullptr;
  uint32_t free = cell.readers;
  for (uint32_t i = 0; i < cell.readers; ++i) {
    Event& r = cell.reads[i];
    if (r.writes) return false;
    if (r.none()) free = i;
    if (r.who == reader.who) own = &r;
  }
  if (own != nullptr) {
    const bool same = own->epoch == reader.epoch ? own->lane == reader.lane : actor.in_order;
    if (!same || own->atomic) return false;
    *own = reader;
    return true;
  }
  if (free == Cell::kReads) return false;
  cell.put(free, reader);
  return true;
}

void CellKeeper::write_atomic(Cell& cell, uint64_t number, uint8_t bytes, const Actor& actor) {
  check(Clash::kWriteAfterWrite, cell.write, bytes, number, actor, false);
  for (const Event& r : cell.noted()) {
    check(Clash::kWriteAfterRead, r, bytes, number, actor, false);
  }
  if (cell.more != 0) {
    for (const Event& r : lists_.at(cell.more)) {
      check(Clash::kWriteAfterRead, r, bytes, number, actor, false);
    }
  }
  Event mine = event_of(actor, bytes);
  mine.writes = true;
  keep_read(cell, mine, actor);
}

void CellKeeper::keep_read(Cell& cell, const Event& mine, const Actor& actor) {
  for (Event& r : cell.noted()) {
    if (r.who != mine.who || r.atomic != mine.atomic) continue;
    if (r.epoch == mine.epoch) {
      if (r.lane != mine.lane) r.lane = kWholeWarp;
      r.bytes = (r.bytes | mine.bytes) & 0xf;
      r.writes |= mine.writes;
      return;
    }
    if (!actor.in_order) continue;
    r = mine;
    return;
  }
  note_read(cell, mine, actor);
}

void CellKeeper::note_read(Cell& cell, const Event& mine, const Actor& actor) {
  for (uint32_t i = 0; i < Cell::kReads; ++i) {
    // A read that is over for this one need not be kept: who sees this one sees it too.
    const Event& r = cell.reads[i];
    const bool over = i >= cell.readers || r.none() ||
                      ((r.bytes & ~mine.bytes) == 0 && r.atomic == mine.atomic &&
                       r.writes <= mine.writes && actor.sees(r));
    if (!over) continue;
    cell.put(i, mine);
    return;
  }
  if (!all_reads_) {
    cell.reads[Cell::kReads - 1] = mine;
    return;
  }
  std::vector<Event>& more = lists_.at(cell.more);
  for (Event& r : more) {
    if (r.who == mine.who && (r.epoch == mine.epoch || actor.sees(r))) {
      r = mine;
      return;
    }
  }
  more.push_back(mine);
}

void CellKeeper::drop(Cell& cell) {
  lists_.drop(cell.more);
  cell.clear();
}

void CellKeeper::copy(const Cell& from, Cell& to) {
  to.write = from.write;
  to.more = 0;
  to.readers = from.readers;
  std::copy_n(from.reads, from.readers, to.reads);
  if (from.more == 0) return;
  // at() may move the lists.
  std::vector<Event>& list = lists_.at(to.more);
  uint32_t number = from.more;
  list = lists_.at(number);
}

void ChunkKeeper::touch_cell(Cell& cell, uint64_t number, uint8_t bytes, Touch touch,
                             const Actor& actor, bool ask) {
  switch (touch) {
    case Touch::kRead:
      return cells_.read(cell, number, bytes, actor, ask);
    case Touch::kWrite:
      return cells_.write(cell, number, bytes, actor, ask);
    case Touch::kAtomic:
      return cells_.write_atomic(cell, number, bytes, actor);
  }
}

void ChunkKeeper::split(Chunk& chunk) {
  if (!free_.empty()) {
    chunk.parts = free_.back();
    free_.pop_back();
  } else {
    chunk.parts = used_++;
    if (chunk.parts / kBlock >= blocks_.size()) {
      blocks_.push_back(std::make_unique_for_overwrite<std::byte[]>(kBlock * sizeof(Parts)));
    }
  }
  Parts& cells = parts(chunk.parts);
  for (uint32_t i = 0; i < kCells; ++i) {
    cells_.copy(chunk.whole, cells[i]);
    if (chunk.whole.write.run) cells[i].write = chunk.whole.write.word(i);
  }
  cells_.drop(chunk.whole);
}

void ChunkKeeper::touch(Chunk& chunk, uint64_t number, uint32_t first, uint32_t count, Touch touch,
                        const Actor& actor, bool ask) {
  constexpr uint8_t kAll = 0xf;
  const bool all = count == kBytes;
  if (all && chunk.parts == 0) {
    return touch_cell(chunk.whole, number * kCells, kAll, touch, actor, ask);
  }
  if (chunk.parts == 0) split(chunk);
  Parts& cells = parts(chunk.parts);
  if (count == kCellBytes && first % kCellBytes == 0) {
    const uint32_t i = first / kCellBytes;
    touch_cell(cells[i], number * kCells + i, kAll, touch, actor, ask);
    if (i == kCells - 1 && touch == Touch::kWrite) merge(chunk);
    return;
  }
  for (uint32_t at = first; at < first + count;) {
    const uint32_t i = at / kCellBytes, begin = at % kCellBytes;
    const uint32_t n = std::min(kCellBytes - begin, first + count - at);
    const auto bytes = static_cast<uint8_t>(((1u << n) - 1) << begin);
    touch_cell(cells[i], number * kCells + i, bytes, touch, actor, ask);
    at += n;
  }
  if (touch != Touch::kWrite) return;
  if (!all) {
    if (first + count == kBytes) merge(chunk);
    return;
  }
  // Nothing but this write is left: one cell again.
  cells_.copy(cells[0], chunk.whole);
  free_.push_back(chunk.parts);
  chunk.parts = 0;
}

/// One cell again, if the four were written by lanes of one instruction, each its own, or by all
/// of them in parts, and nobody has looked since.
void ChunkKeeper::merge(Chunk& chunk) {
  const Parts& cells = parts(chunk.parts);
  const Event& first = cells[0].write;
  const bool together = first.lane == kWholeWarp;
  if (first.none()) return;
  for (uint32_t i = 0; i < kCells; ++i) {
    const Event& w = cells[i].write;
    const bool same = w.who == first.who && w.epoch == first.epoch && w.pc == first.pc &&
                      w.bytes == 0xf && w.async == first.async && w.atomic == first.atomic &&
                      w.lane == (together ? first.lane : first.lane + i);
    if (!same || cells[i].readers != 0 || cells[i].more != 0) return;
  }
  chunk.whole.write = first;
  chunk.whole.write.run = !together;
  free_.push_back(chunk.parts);
  chunk.parts = 0;
}

void ChunkKeeper::forget(Chunk& chunk, uint32_t first, uint32_t count, const Event& write) {
  if (chunk.parts == 0) return;
  Parts& cells = parts(chunk.parts);
  for (uint32_t i = first / kCellBytes; i < (first + count) / kCellBytes; ++i) {
    Event& w = cells[i].write;
    if (w.who == write.who && w.epoch == write.epoch && w.pc == write.pc) w = {};
  }
}

void CellKeeper::write(Cell& cell, uint64_t number, uint8_t bytes, const Actor& actor, bool ask) {
  if (!cell.write.none()) {
    check(Clash::kWriteAfterWrite, cell.write, bytes, number, actor, ask);
  }
  uint32_t left = 0;
  for (uint32_t i = 0; i < cell.readers; ++i) {
    Event& r = cell.reads[i];
    if (r.none()) continue;
    check(Clash::kWriteAfterRead, r, bytes, number, actor, ask);
    if ((r.bytes & ~bytes) == 0) {
      r = {};
    } else {
      left = i + 1;
    }
  }
  cell.readers = left;
  if (cell.more != 0) {
    for (const Event& r : lists_.at(cell.more)) {
      check(Clash::kWriteAfterRead, r, bytes, number, actor, ask);
    }
    lists_.drop(cell.more);
  }
  const Event mine = event_of(actor, bytes);
  Event& w = cell.write;
  if (w.who == mine.who && w.epoch == mine.epoch && w.atomic == mine.atomic &&
      (w.bytes & bytes) == 0) {
    // Another part of the cell.
    if (w.lane != mine.lane) w.lane = kWholeWarp;
    w.bytes = (w.bytes | bytes) & 0xf;
    return;
  }
  w = mine;
}

void DefinedBytes::set(size_t first, size_t count, bool defined) {
  while (count > 0) {
    const size_t bit = first % 64, n = std::min<size_t>(64 - bit, count);
    const uint64_t mask = (n == 64 ? ~uint64_t{0} : (uint64_t{1} << n) - 1) << bit;
    uint64_t& word = bits_[first / 64];
    word = defined ? word | mask : word & ~mask;
    first += n;
    count -= n;
  }
}

bool DefinedBytes::all(size_t first, size_t count) const {
  while (count > 0) {
    const size_t bit = first % 64, n = std::min<size_t>(64 - bit, count);
    const uint64_t mask = (n == 64 ? ~uint64_t{0} : (uint64_t{1} << n) - 1) << bit;
    if ((~bits_[first / 64] & mask) != 0) return false;
    first += n;
    count -= n;
  }
  return true;
}

uint32_t DefinedBytes::undefined(size_t first, size_t count) const {
  const size_t bit = first % 64;
  uint64_t word = bits_[first / 64] >> bit;
  if (bit != 0) word |= bits_[first / 64 + 1] << (64 - bit);
  return static_cast<uint32_t>(~word & ((uint64_t{1} << count) - 1));
}

}  // namespace fa4::emulator::judge
