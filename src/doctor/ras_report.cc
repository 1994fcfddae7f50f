#include "doctor/ras_report.h"

#include <algorithm>
#include <optional>

#include "text/words.h"

namespace shanty {
namespace {

constexpr std::string_view kReported = "reported ";

std::optional<RasParagraph::Kind> headline_kind(std::string_view event) {
  if (event == "ras_dead") return RasParagraph::Kind::kDead;
  if (event == "ras_missing") return RasParagraph::Kind::kMissing;
  if (event == "ras_unlike") return RasParagraph::Kind::kUnlike;
  if (event == "ras_failed") return RasParagraph::Kind::kFailed;
  return std::nullopt;
}

// Lines by their place: a report has no times of its own.
Records lines_of_reports(const Case& of) {
  Records records = of.all({"ras_comm", "ras_dead", "ras_missing", "ras_unlike", "ras_count",
                            "ras_rank", "ras_process", "ras_failed", "ras_reported"});
  std::stable_sort(records.begin(), records.end(), [](const Record* a, const Record* b) {
    return std::make_pair(a->file, a->line) < std::make_pair(b->file, b->line);
  });
  return records;
}

class Reader {
 public:
  explicit Reader(const Case& of) : case_(of) {}

  void take(const Record& line) {
    if (line.file != file_) end();
    file_ = line.file;
    if (line.event == "ras_comm") {
      end();
      communicator_ = line.get("comm");
    } else if (const auto kind = headline_kind(line.event)) {
      end();
      begin(*kind, line);
    } else if (open_) {
      add(line);
    }
  }

  std::vector<RasParagraph> finish() {
    end();
    return std::move(out_);
  }

 private:
  void begin(RasParagraph::Kind kind, const Record& line) {
    open_.emplace();
    open_->kind = kind;
    open_->what = line.get("what");
    open_->named = line.number("n", 0);
    open_->lines.push_back(case_.evidence(line));
    const bool processes = kind == RasParagraph::Kind::kDead || line.get("what") == "job process";
    if (!processes) open_->communicator = communicator_;
    count_ = 0;
    error_.clear();
  }

  void add(const Record& line) {
    open_->lines.push_back(case_.evidence(line));
    if (line.event == "ras_count") {
      count_ = std::max<int64_t>(line.number("count", 0), 0);
      open_->how_many[count_] += std::max<int64_t>(line.number("n", 1), 1);
    }
    for (const int rank : numbers_in(line.get("ranks"), kMaxNamedRanks)) {
      open_->ranks[count_].push_back(rank);
    }
    if (line.event == "ras_reported") error_ = line.get("what");
    if (line.number("about") >= 0) {
      open_->ranks[count_].push_back(line.rank);
      const std::string_view alone = line.get("what");
      const bool says_itself = alone.starts_with(kReported);
      const std::string error = says_itself ? std::string(alone.substr(kReported.size())) : error_;
      if (!error.empty()) open_->errors[error].push_back(line.rank);
    }
    if (!line.get("node").empty()) open_->nodes.emplace_back(line.get("node"));
  }

  void end() {
    if (open_) out_.push_back(std::move(*open_));
    open_.reset();
  }

  const Case& case_;
  uint32_t file_ = 0;
  std::string communicator_;
  std::optional<RasParagraph> open_;
  int64_t count_ = 0;  // of the ranks that are listed next
  std::string error_;
  std::vector<RasParagraph> out_;
};

}  // namespace

std::vector<RasParagraph> read_ras(const Case& of) {
  Reader reader(of);
  for (const Record* line : lines_of_reports(of)) reader.take(*line);
  std::vector<RasParagraph> out = reader.finish();
  out.insert(out.end(), of.facts().ras.begin(), of.facts().ras.end());
  return out;
}

std::vector<int> lagging_ranks(const RasParagraph& paragraph) {
  if (paragraph.how_many.size() < 2) return {};
  const auto listed = paragraph.ranks.find(paragraph.how_many.begin()->first);
  return listed == paragraph.ranks.end() ? std::vector<int>{} : listed->second;
}

bool stands_still(const std::vector<RasParagraph>& all, const RasParagraph& paragraph) {
  return std::count_if(all.begin(), all.end(), [&](const RasParagraph& other) {
           return other.kind == paragraph.kind && other.communicator == paragraph.communicator &&
                  other.what == paragraph.what && other.how_many == paragraph.how_many;
         }) > 1;
}

void blame_listed(const RasParagraph& paragraph, Draft& draft) {
  for (const Evidence& line : paragraph.lines) draft.show(line);
  for (const std::string& node : paragraph.nodes) draft.node(node);
  for (const auto& [count, ranks] : paragraph.ranks) {
    for (const int rank : ranks) draft.rank(rank);
  }
}

}  // namespace shanty
