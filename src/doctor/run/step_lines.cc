#include "doctor/run/step_lines.h"

#include <algorithm>
#include <array>
#include <charconv>
#include <cmath>
#include <string>

namespace shanty {
namespace {

constexpr size_t kMaxKeyBytes = 48;

bool is_digit(char c) { return c >= '0' && c <= '9'; }
bool is_letter(char c) { return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z'); }
char lower(char c) { return c >= 'A' && c <= 'Z' ? static_cast<char>(c + 32) : c; }

// A key ends before `end`: letters, digits, and what stands within keys of several words.
std::string key_before(std::string_view line, size_t end) {
  while (end > 0 && (line[end - 1] == ' ' || line[end - 1] == '\'' || line[end - 1] == '"')) --end;
  size_t begin = end;
  while (begin > 0 && end - begin < kMaxKeyBytes) {
    const char c = line[begin - 1];
    const bool part = is_letter(c) || is_digit(c) || c == '_' || c == '-' || c == '/' || c == '.' ||
                      c == '(' || c == ')' || c == ' ';
    if (!part || (c == ' ' && begin >= 2 && line[begin - 2] == ' ')) break;
    --begin;
  }
  std::string key;
  for (const char c : line.substr(begin, end - begin)) {
    if (is_letter(c) || is_digit(c)) {
      key += lower(c);
    } else if (!key.empty() && key.back() != '_') {
      key += '_';
    }
  }
  while (!key.empty() && key.back() == '_') key.pop_back();
  return key;
}

struct Number {
  double value = 0;
  size_t end = 0;  // behind it
};

std::optional<Number> number_at(std::string_view line, size_t at) {
  while (at < line.size() && (line[at] == ' ' || line[at] == '\'' || line[at] == '"')) ++at;
  Number number;
  const auto [end, error] =
      std::from_chars(line.data() + at, line.data() + line.size(), number.value);
  if (error != std::errc()) return std::nullopt;
  number.end = static_cast<size_t>(end - line.data());
  return number;
}

// "ms" or "s" behind a number or in its key; seconds when nothing is told.
double unit_s(std::string_view line, size_t at, std::string_view key) {
  if (key.ends_with("_ms")) return 1e-3;
  if (key.ends_with("_us")) return 1e-6;
  while (at < line.size() && line[at] == ' ') ++at;
  return line.substr(at).starts_with("ms") ? 1e-3 : 1;
}

bool ends_as(std::string_view key, std::string_view word) {
  return key == word || (key.ends_with(word) && key[key.size() - word.size() - 1] == '_');
}

template <size_t N>
bool is_one_of(std::string_view key, const std::array<std::string_view, N>& words) {
  return std::any_of(words.begin(), words.end(),
                     [&](std::string_view w) { return ends_as(key, w); });
}

constexpr std::array<std::string_view, 6> kStepKeys = {"step",  "iteration", "iter",
                                                       "steps", "it",        "global_step"};
constexpr std::array<std::string_view, 8> kTimeKeys = {
    "step_time", "step_time_ms", "step_ms",    "iter_time", "elapsed_time_per_iteration_ms",
    "step_s",    "batch_time",   "step_time_s"};
constexpr std::array<std::string_view, 5> kDataKeys = {"data_time", "data_ms", "data_s",
                                                       "data_time_ms", "data_wait"};
constexpr std::array<std::string_view, 3> kRateKeys = {"lr", "learning_rate", "lr_0"};
constexpr std::array<std::string_view, 2> kBatchKeys = {"global_batch_size", "global_batch"};

void set_step(StepLine& out, double value) {
  if (out.has_step || !(value >= 0) || value > 1e15 || value != std::floor(value)) return;
  out.has_step = true;
  out.step = static_cast<uint64_t>(value);
}

void take(std::string_view line, const std::string& key, const Number& number, StepLine& out) {
  const auto set = [](double& field, double value) {
    if (std::isnan(field)) field = value;
  };
  if (is_one_of(key, kTimeKeys)) {
    set(out.step_s, number.value * unit_s(line, number.end, key));
  } else if (is_one_of(key, kDataKeys)) {
    set(out.data_s, number.value * unit_s(line, number.end, key));
  } else if (is_one_of(key, kStepKeys)) {
    set_step(out, number.value);
  } else if (ends_as(key, "loss") && key.find("val") == std::string::npos &&
             key.find("eval") == std::string::npos && key.find("test") == std::string::npos) {
    set(out.loss, number.value);
  } else if (is_one_of(key, kRateKeys)) {
    set(out.lr, number.value);
  } else if (ends_as(key, "epoch")) {
    set(out.epoch, number.value);
  } else if (is_one_of(key, kBatchKeys)) {
    set(out.batch, number.value);
  } else if (ends_as(key, "world_size")) {
    set(out.world_size, number.value);
  }
}

// "ids=[3, 17, 5]": the list as it stands.
void take_list(std::string_view line, const std::string& key, size_t at, StepLine& out) {
  constexpr std::array<std::string_view, 5> kIdKeys = {"ids", "sample_ids", "indices", "sample_idx",
                                                       "samples"};
  if (at >= line.size() || line[at] != '[' || !is_one_of(key, kIdKeys)) return;
  const size_t end = line.find(']', at);
  if (end == std::string_view::npos) return;
  uint64_t hash = 1469598103934665603ULL;
  for (const char c : line.substr(at, end - at)) {
    if (is_digit(c) || c == ',') hash = (hash ^ static_cast<uint8_t>(c)) * 1099511628211ULL;
  }
  out.samples_hash = hash | 1;
}

// "Step 12", "iteration 12/ 500", "epoch 3": a word, blanks, a number.
void take_words(std::string_view line, StepLine& out) {
  for (size_t at = 0; at < line.size();) {
    if (!is_letter(line[at])) {
      ++at;
      continue;
    }
    size_t end = at;
    std::string word;
    while (end < line.size() && (is_letter(line[end]) || line[end] == '_'))
      word += lower(line[end++]);
    const bool alone = at == 0 || (!is_letter(line[at - 1]) && !is_digit(line[at - 1]));
    if (alone && end < line.size() && (line[end] == ' ' || line[end] == '[') &&
        word.size() < kMaxKeyBytes) {
      const size_t value = line.find_first_not_of(" [", end);
      if (value != std::string_view::npos && is_digit(line[value])) {
        if (const auto number = number_at(line, value)) {
          if (is_one_of(word, kStepKeys)) set_step(out, number->value);
          if (word == "epoch" && std::isnan(out.epoch)) out.epoch = number->value;
          if (word == "loss" && std::isnan(out.loss)) out.loss = number->value;
        }
      }
    }
    at = end;
  }
}

// "Epoch: [83][ 200/10010]": the step within an epoch of so many.
void take_epoch(std::string_view line, StepLine& out) {
  const size_t at = line.find("][");
  const size_t open = line.rfind('[', at);
  if (at == std::string_view::npos || open == std::string_view::npos) return;
  const auto epoch = number_at(line, open + 1);
  const auto step = number_at(line, at + 2);
  if (!epoch || epoch->end != at || !step || step->end >= line.size() || line[step->end] != '/') {
    return;
  }
  const auto length = number_at(line, step->end + 1);
  if (!length || !(length->value > 0)) return;
  out.epoch = epoch->value;
  set_step(out, epoch->value * length->value + step->value);
}

// tqdm: "12/500 [00:04<02:41, 3.02it/s".
void take_tqdm(std::string_view line, StepLine& out) {
  const size_t per_second = line.find("it/s");
  const size_t per_item = line.find("s/it");
  const size_t unit = std::min(per_second, per_item);
  if (unit == std::string_view::npos) return;
  size_t begin = unit;
  while (begin > 0 && (is_digit(line[begin - 1]) || line[begin - 1] == '.')) --begin;
  const auto rate = number_at(line, begin);
  if (rate && rate->value > 0 && std::isnan(out.step_s)) {
    out.step_s = per_second < per_item ? 1 / rate->value : rate->value;
  }
  const size_t bracket = line.find('[');
  const size_t slash = line.substr(0, std::min(bracket, line.size())).rfind('/');
  if (slash == std::string_view::npos || slash == 0) return;
  begin = slash;
  while (begin > 0 && is_digit(line[begin - 1])) --begin;
  if (const auto step = number_at(line, begin); step && step->end == slash)
    set_step(out, step->value);
}

}  // namespace

std::optional<StepLine> parse_step_line(std::string_view line) {
  line = line.substr(0, kMaxStepLineBytes);
  StepLine out;
  for (size_t at = line.find_first_of("=:"); at != std::string_view::npos;
       at = line.find_first_of("=:", at + 1)) {
    const std::string key = key_before(line, at);
    if (key.empty()) continue;
    if (const auto number = number_at(line, at + 1)) {
      take(line, key, *number, out);
    } else {
      take_list(line, key, line.find_first_not_of(' ', at + 1), out);
    }
  }
  take_epoch(line, out);
  take_words(line, out);
  take_tqdm(line, out);
  const bool tells = out.has_step || !std::isnan(out.loss) || !std::isnan(out.step_s);
  return tells ? std::optional(out) : std::nullopt;
}

}  // namespace shanty
