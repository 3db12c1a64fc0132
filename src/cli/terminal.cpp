// SPDX-License-Identifier: BSD-3-Clause
#include "cli/terminal.h"

#include <fmt/core.h>
#include <unistd.h>

#include <algorithm>
#include <cstdlib>
#include <cstring>

namespace fa4::cli {
namespace {

const char* code_of(Style style) {
  switch (style) {
    case Style::kPlain:
      return "";
    case Style::kBold:
      return "\033[1m";
    case Style::kDim:
      return "\033[2m";
    case Style::kGood:
      return "\033[32m";
    case Style::kBad:
      return "\033[1;31m";
    case Style::kWarn:
      return "\033[33m";
    case Style::kTitle:
      return "\033[1;36m";
  }
  return "";
}

std::string repeat(const std::string& text, int times) {
  std::string result;
  for (int i = 0; i < times; ++i) result += text;
  return result;
}

std::string pad(const std::string& cell, int width, Align align) {
  const std::string space(static_cast<size_t>(std::max(0, width - display_width(cell))), ' ');
  return align == Align::kLeft ? cell + space : space + cell;
}

void drop_trailing_spaces(std::string& line) {
  while (!line.empty() && line.back() == ' ') line.pop_back();
}

}  // namespace

bool may_colour(std::FILE* file) {
  const char* no_color = std::getenv("NO_COLOR");  // https://no-color.org: any value but ""
  if (no_color != nullptr && *no_color != '\0') return false;
  const char* term = std::getenv("TERM");
  if (term != nullptr && std::strcmp(term, "dumb") == 0) return false;
  return isatty(fileno(file)) != 0;
}

std::string paint(const std::string& text, Style style) {
  static const bool enabled = may_colour(stdout);
  if (!enabled || style == Style::kPlain) return text;
  return fmt::format("{}{}\033[0m", code_of(style), text);
}

int display_width(const std::string& text) {
  int width = 0;
  for (size_t i = 0; i < text.size(); ++i) {
    if (text[i] == '\033') {
      while (i < text.size() && text[i] != 'm') ++i;
    } else if ((static_cast<unsigned char>(text[i]) & 0xC0U) != 0x80U) {  // not a continuation
      ++width;
    }
  }
  return width;
}

std::string Table::text() const {
  std::vector<int> widths;
  for (const Column& column : columns_) widths.push_back(display_width(column.title));
  for (const auto& row : rows_) {
    for (size_t i = 0; i < row.size() && i < widths.size(); ++i) {
      widths[i] = std::max(widths[i], display_width(row[i]));
    }
  }
  const auto line = [&](const std::vector<std::string>& cells, Style style) {
    std::string text;
    for (size_t i = 0; i < columns_.size(); ++i) {
      const std::string cell = i < cells.size() ? cells[i] : "";
      text.append("  ").append(paint(pad(cell, widths[i], columns_[i].align), style));
    }
    drop_trailing_spaces(text);
    return text + "\n";
  };
  std::vector<std::string> titles, rules;
  for (size_t i = 0; i < columns_.size(); ++i) {
    titles.push_back(columns_[i].title);
    rules.push_back(repeat("─", widths[i]));
  }
  std::string result = line(titles, Style::kBold) + line(rules, Style::kDim);
  for (const auto& row : rows_) {
    result += row.empty() ? line(rules, Style::kDim) : line(row, Style::kPlain);
  }
  return result;
}

void Table::print(std::FILE* file) const { std::fputs(text().c_str(), file); }

void print_interrupted(size_t finished, size_t wanted) {
  fmt::print("\n  {}\n", paint(fmt::format("interrupted after {} of {} cells", finished, wanted),
                               Style::kWarn));
}

std::string Notes::mark(const std::string& text) {
  const auto found = std::find(texts_.begin(), texts_.end(), text);
  const auto number = found - texts_.begin() + 1;
  if (found == texts_.end()) texts_.push_back(text);
  return fmt::format("[{}]", number);
}

void Notes::print(std::FILE* file) const {
  if (!texts_.empty()) fmt::print(file, "\n");
  for (size_t i = 0; i < texts_.size(); ++i) fmt::print(file, "  [{}] {}\n", i + 1, texts_[i]);
}

ProgressBar::ProgressBar(int64_t total)
    : total_(std::max<int64_t>(total, 1)), enabled_(isatty(fileno(stderr)) != 0) {}

void ProgressBar::show(const std::string& label) {
  if (!enabled_) return;
  constexpr int kWidth = 28;
  const int filled = static_cast<int>(std::min(done_, total_) * kWidth / total_);
  fmt::print(stderr, "\r\033[K  {}{} {:3d}%  {}", repeat("█", filled), repeat("░", kWidth - filled),
             std::min(done_, total_) * 100 / total_, label);
  std::fflush(stderr);
}

void ProgressBar::clear() {
  if (!enabled_) return;
  std::fputs("\r\033[K", stderr);
  std::fflush(stderr);
}

}  // namespace fa4::cli
