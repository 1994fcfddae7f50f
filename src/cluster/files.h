#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace shanty {

// Small readers of the kernel's text files. Nothing is returned when a file is missing, larger
// than kMaxFactBytes or says something else.
inline constexpr size_t kMaxFactBytes = 1u << 20;

std::optional<std::string> read_fact(const std::string& path);
std::optional<uint64_t> read_fact_number(const std::string& path);
std::optional<uint64_t> to_number(std::string_view text);

std::vector<std::string> split_words(std::string_view line);
std::vector<std::string> split_lines(std::string_view text);
// The names in a directory, sorted.
std::vector<std::string> list_facts(const std::string& path);

// How many CPUs "0-3,8" names.
uint64_t count_cpu_list(std::string_view list);

}  // namespace shanty
