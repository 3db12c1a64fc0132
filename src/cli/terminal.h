// SPDX-License-Identifier: BSD-3-Clause
// Output for people: colours, tables, a progress bar.
#pragma once

#include <cstdint>
#include <cstdio>
#include <string>
#include <vector>

namespace fa4::cli {

enum class Style { kPlain, kBold, kDim, kGood, kBad, kWarn, kTitle };

/// Whether `file` may be coloured: a terminal, and neither NO_COLOR nor TERM=dumb is set.
bool may_colour(std::FILE* file);

/// `text` in a style, if standard output may be coloured; else as it is.
std::string paint(const std::string& text, Style style);

/// Columns that `text` takes on a terminal: code points, escape sequences not counted.
int display_width(const std::string& text);

/// A table whose columns are as wide as they need to be. Cells may be painted.
class Table {
 public:
  enum class Align { kLeft, kRight };
  struct Column {
    std::string title;
    Align align = Align::kRight;
  };

  explicit Table(std::vector<Column> columns) : columns_(std::move(columns)) {}
  void add_row(std::vector<std::string> cells) { rows_.push_back(std::move(cells)); }
  /// A horizontal line below the rows so far.
  void add_rule() { rows_.emplace_back(); }
  /// The table as lines, indented by two spaces.
  std::string text() const;
  void print(std::FILE* file = stdout) const;

 private:
  std::vector<Column> columns_;
  std::vector<std::vector<std::string>> rows_;  // An empty row is a rule.
};

using Align = Table::Align;

/// "interrupted after 3 of 24 cells", behind a report of those.
void print_interrupted(size_t finished, size_t wanted);

/// Numbered notes below a table, so that a long reason is told once.
class Notes {
 public:
  /// "[1]" for a text, the same for the same text.
  std::string mark(const std::string& text);
  void print(std::FILE* file = stdout) const;

 private:
  std::vector<std::string> texts_;
};

/// A progress bar on standard error; silent if that is no terminal. The destructor wipes it.
class ProgressBar {
 public:
  explicit ProgressBar(int64_t total);
  ~ProgressBar() { clear(); }
  ProgressBar(const ProgressBar&) = delete;
  ProgressBar& operator=(const ProgressBar&) = delete;

  /// Shows that `label` is under way after the steps done so far.
  void show(const std::string& label);
  void advance(int64_t steps = 1) { done_ += steps; }
  /// Wipes the bar, so that something else can be printed.
  void clear();

 private:
  int64_t total_;
  int64_t done_ = 0;
  bool enabled_;
};

}  // namespace fa4::cli
