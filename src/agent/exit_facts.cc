#include "agent/exit_facts.h"

#include <cstdlib>

#include <nlohmann/json.hpp>

#include "os/files.h"

namespace shanty {
namespace {

using nlohmann::json;

constexpr size_t kMaxErrorFileBytes = 1 << 20;
constexpr size_t kMaxErrorTextBytes = 1024;

json read_json(const std::string& path) {
  const auto text = read_file(path, kMaxErrorFileBytes);
  if (!text) return nullptr;
  return json::parse(*text, nullptr, /*allow_exceptions=*/false);
}

std::string one_line(std::string text) {
  text = text.substr(0, text.find('\n'));
  if (text.size() > kMaxErrorTextBytes) text.resize(kMaxErrorTextBytes);
  return text;
}

std::string text_of(const json& object, const char* key) {
  const auto it = object.find(key);
  return it != object.end() && it->is_string() ? it->get<std::string>() : "";
}

FirstError read_ours(const json& file) {
  const std::string type = text_of(file, "type");
  const std::string message = text_of(file, "message");
  FirstError error{.text = one_line(message.empty() ? type : type + ": " + message)};
  const auto time = file.find("time_unix_ns");
  if (time != file.end() && time->is_number_integer()) error.unix_ns = time->get<int64_t>();
  return error;
}

// {"message": {"message": "ValueError: ...", "extraInfo": {...}}}
FirstError read_elastic(const json& file) {
  const auto outer = file.find("message");
  if (outer == file.end()) return {};
  if (outer->is_string()) return {.text = one_line(outer->get<std::string>())};
  if (!outer->is_object()) return {};
  // Its timestamp counts whole seconds: too coarse to order failures by.
  return {.text = one_line(text_of(*outer, "message"))};
}

std::string cgroup_events_path(const std::string& root) {
  const auto membership = read_file(root + "/proc/self/cgroup", kMaxErrorFileBytes);
  if (!membership) return "";
  const size_t at = membership->find("0::");
  if (at == std::string::npos) return "";
  const size_t end = membership->find('\n', at);
  const std::string group = membership->substr(at + 3, end - at - 3);
  const std::string path = root + "/sys/fs/cgroup" + group + "/memory.events";
  return file_exists(path) ? path : "";
}

}  // namespace

FirstError read_first_error(const std::string& error_file, const std::string& elastic_error_file) {
  const json ours = read_json(error_file);
  if (ours.is_object()) return read_ours(ours);
  const json elastic = read_json(elastic_error_file);
  if (elastic.is_object()) return read_elastic(elastic);
  return {};
}

OomWatch::OomWatch(const std::string& root)
    : events_path_(cgroup_events_path(root)), seen_(read_count()) {}

bool OomWatch::fired() {
  const int64_t count = read_count();
  const bool grown = count > seen_;
  seen_ = count;
  return grown;
}

int64_t OomWatch::read_count() const {
  if (events_path_.empty()) return 0;
  const auto text = read_file(events_path_, kMaxErrorFileBytes);
  if (!text) return 0;
  const size_t at = text->find("oom_kill ");
  return at == std::string::npos ? 0 : std::atoll(text->c_str() + at + 9);
}

}  // namespace shanty
