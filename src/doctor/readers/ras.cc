#include <algorithm>
#include <set>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "doctor/readers/readers.h"
#include "text/json_fields.h"
#include "text/utf8.h"

namespace shanty {
namespace {

constexpr size_t kMaxListedRanks = 64;  // of one paragraph: more are no outliers

// The names of ncclResult_t that RAS prints in its text form, by their numbers.
std::string_view error_name(int64_t code) {
  switch (code) {
    case 1:
      return "Unhandled CUDA error";
    case 2:
      return "System error";
    case 3:
      return "Internal error";
    case 4:
      return "Invalid argument";
    case 5:
      return "Invalid usage";
    case 6:
      return "Remote process error";
    case 8:
      return "Timeout";
    default:
      return "";  // 0 is success and 7 in progress
  }
}

// One communicator of the JSON form: who answered, with counts, and who did not.
class Communicator {
 public:
  Communicator(const nlohmann::json& json, const std::string& file)
      : json_(json), file_(file), hash_(printable(json_string(json, "hash"))) {}

  void add_missing(std::vector<RasParagraph>& out) const {
    for (const bool dead : {true, false}) {
      RasParagraph paragraph =
          begin(dead ? RasParagraph::Kind::kDead : RasParagraph::Kind::kMissing);
      for_each("missing_ranks", [&](const nlohmann::json& rank) {
        const nlohmann::json* status = json_object(rank, "status");
        if (!status || json_bool(*status, "considered_dead") != dead) return;
        // Those that answered of other communicators have left this one.
        if (!dead && !json_bool(*status, "unresponsive")) return;
        list(rank, dead ? "is considered dead" : "does not answer", 0, paragraph);
      });
      if (paragraph.named > 0) out.push_back(std::move(paragraph));
    }
  }

  void add_counts(std::vector<RasParagraph>& out) const {
    std::set<std::string> operations;
    for_each("ranks", [&](const nlohmann::json& rank) {
      const nlohmann::json* counts = json_object(rank, "collective_counts");
      if (!counts) return;
      for (const auto& [name, count] : counts->items()) operations.insert(name);
    });
    for (const std::string& operation : operations) add_count(operation, out);
  }

  void add_errors(std::vector<RasParagraph>& out) const {
    RasParagraph paragraph = begin(RasParagraph::Kind::kFailed);
    for_each("ranks", [&](const nlohmann::json& rank) {
      const nlohmann::json* status = json_object(rank, "status");
      if (!status) return;
      std::string_view error = error_name(json_int64(*status, "init_state"));
      if (error.empty()) error = error_name(json_int64(*status, "async_error"));
      if (error.empty()) return;
      paragraph.errors[std::string(error)].push_back(json_int(rank, "rank", -1));
      list(rank, fmt::format("reported {}", error), 0, paragraph);
    });
    if (paragraph.named > 0) out.push_back(std::move(paragraph));
  }

 private:
  RasParagraph begin(RasParagraph::Kind kind) const {
    RasParagraph paragraph;
    paragraph.kind = kind;
    paragraph.communicator = hash_;
    return paragraph;
  }

  template <typename Use>
  void for_each(const char* field, const Use& use) const {
    const nlohmann::json* list = json_array(json_, field);
    if (!list) return;
    for (const nlohmann::json& one : *list) {
      if (one.is_object()) use(one);
    }
  }

  void list(const nlohmann::json& rank, const std::string& what, int64_t count,
            RasParagraph& paragraph) const {
    ++paragraph.named;
    std::vector<int>& ranks = paragraph.ranks[count];
    if (ranks.size() >= kMaxListedRanks) return;
    const int number = json_int(rank, "rank", -1);
    const std::string host = printable(json_string(rank, "host"));
    if (number >= 0) ranks.push_back(number);
    if (!host.empty()) paragraph.nodes.push_back(host);
    paragraph.lines.push_back({file_, 0,
                               fmt::format("communicator {}: rank {} (process {} on {}) {}", hash_,
                                           number, json_int64(rank, "pid", -1), host, what)});
  }

  void add_count(const std::string& operation, std::vector<RasParagraph>& out) const {
    RasParagraph paragraph = begin(RasParagraph::Kind::kUnlike);
    paragraph.what = printable(operation);
    std::map<int64_t, std::vector<const nlohmann::json*>> by_count;
    for_each("ranks", [&](const nlohmann::json& rank) {
      const nlohmann::json* counts = json_object(rank, "collective_counts");
      if (counts) by_count[json_int64(*counts, operation.c_str())].push_back(&rank);
    });
    if (by_count.size() < 2) return;
    for (const auto& [count, ranks] : by_count) {
      paragraph.how_many[count] = static_cast<int64_t>(ranks.size());
    }
    const auto& [least, behind] = *by_count.begin();
    for (const nlohmann::json* rank : behind) {
      list(*rank, fmt::format("has launched {} {} operations", least, paragraph.what), least,
           paragraph);
    }
    out.push_back(std::move(paragraph));
  }

  const nlohmann::json& json_;
  const std::string& file_;
  std::string hash_;
};

}  // namespace

void read_ras_json(std::string_view text, const std::string& name, ClusterFacts& facts) {
  // The socket's answer to SET FORMAT may stand before it.
  const size_t at = text.find('{');
  const auto report = at == text.npos ? std::nullopt : parse_json(text.substr(at));
  if (!report || !report->is_object()) return;
  const nlohmann::json* communicators = json_array(*report, "communicators");
  if (!communicators) return;
  for (const nlohmann::json& one : *communicators) {
    if (!one.is_object()) continue;
    const Communicator communicator(one, name);
    communicator.add_missing(facts.ras);
    communicator.add_counts(facts.ras);
    communicator.add_errors(facts.ras);
  }
}

}  // namespace shanty
