#include "cluster/files.h"

#include <algorithm>
#include <charconv>
#include <cstdio>
#include <filesystem>
#include <memory>

namespace shanty {
namespace {

std::vector<std::string> split(std::string_view text, std::string_view separators) {
  std::vector<std::string> parts;
  while (!text.empty()) {
    const size_t end = std::min(text.find_first_of(separators), text.size());
    if (end > 0) parts.emplace_back(text.substr(0, end));
    text.remove_prefix(std::min(end + 1, text.size()));
  }
  return parts;
}

}  // namespace

std::optional<std::string> read_fact(const std::string& path) {
  const std::unique_ptr<std::FILE, int (*)(std::FILE*)> file(std::fopen(path.c_str(), "rbe"),
                                                             std::fclose);
  if (file == nullptr) return std::nullopt;
  std::string text;
  char buffer[4096];
  while (const size_t size = std::fread(buffer, 1, sizeof(buffer), file.get())) {
    text.append(buffer, size);
    if (text.size() > kMaxFactBytes) return std::nullopt;
  }
  if (std::ferror(file.get()) != 0) return std::nullopt;
  while (!text.empty() && text.back() == '\n') text.pop_back();
  return text;
}

std::optional<uint64_t> to_number(std::string_view text) {
  uint64_t value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc() || end != text.data() + text.size()) return std::nullopt;
  return value;
}

std::optional<uint64_t> read_fact_number(const std::string& path) {
  const auto text = read_fact(path);
  return text ? to_number(*text) : std::nullopt;
}

std::vector<std::string> split_words(std::string_view line) { return split(line, " \t"); }
std::vector<std::string> split_lines(std::string_view text) { return split(text, "\n"); }

std::vector<std::string> list_facts(const std::string& path) {
  std::vector<std::string> names;
  std::error_code error;
  for (std::filesystem::directory_iterator it(path, error), end; !error && it != end;
       it.increment(error)) {
    names.push_back(it->path().filename().string());
  }
  std::sort(names.begin(), names.end());
  return names;
}

uint64_t count_cpu_list(std::string_view list) {
  uint64_t count = 0;
  for (const std::string& range : split(list, ", \t")) {
    const size_t dash = range.find('-');
    const auto first = to_number(std::string_view(range).substr(0, dash));
    const auto last =
        dash == range.npos ? first : to_number(std::string_view(range).substr(dash + 1));
    if (first && last && *last >= *first) count += *last - *first + 1;
  }
  return count;
}

}  // namespace shanty
