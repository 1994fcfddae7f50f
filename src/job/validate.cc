#include "job/validate.h"

#include <algorithm>
#include <cmath>
#include <map>
#include <set>

#include <fmt/format.h>

#include "base/units.h"
#include "text/utf8.h"

namespace shanty {
namespace {

bool is_letter(char c) { return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z'); }
bool is_digit(char c) { return c >= '0' && c <= '9'; }

bool is_env_name(std::string_view name) {
  constexpr size_t kMaxEnvNameBytes = 256;
  return !name.empty() && name.size() <= kMaxEnvNameBytes && !is_digit(name.front()) &&
         std::all_of(name.begin(), name.end(),
                     [](char c) { return is_letter(c) || is_digit(c) || c == '_'; });
}

bool is_set_by_launcher(std::string_view name) {
  constexpr std::string_view kNames[] = {
      "RANK",        "LOCAL_RANK",       "WORLD_SIZE",      "LOCAL_WORLD_SIZE",
      "GROUP_RANK",  "ROLE_RANK",        "ROLE_WORLD_SIZE", "MASTER_ADDR",
      "MASTER_PORT", "GROUP_WORLD_SIZE", "ROLE_NAME"};
  return name.starts_with("TORCHELASTIC_") ||
         std::find(std::begin(kNames), std::end(kNames), name) != std::end(kNames);
}

// True when `path` is `directory` or lies in it.
bool lies_in(std::string_view path, std::string_view directory) {
  while (directory.size() > 1 && directory.back() == '/') directory.remove_suffix(1);
  return path.starts_with(directory) &&
         (path.size() == directory.size() || path[directory.size()] == '/');
}

class Validator {
 public:
  Validator(const Job& job, const YamlNode& root, const std::string& file_name,
            std::vector<Diagnostic>& out)
      : job_(job), root_(root), file_(file_name), out_(out) {}

  void check_all() {
    check_name();
    check_run();
    check_env();
    check_nodes();
    check_batch();
    check_loader();
    check_data();
    check_checkpoint();
    check_failures();
    check_restart();
    check_schedule();
  }

 private:
  const YamlNode* find(std::string_view path) const {
    const YamlNode* node = &root_;
    while (node != nullptr && !path.empty()) {
      const size_t dot = path.find('.');
      node = node->find(path.substr(0, dot));
      path = dot == path.npos ? std::string_view{} : path.substr(dot + 1);
    }
    return node;
  }

  // The place of the value, else of the nearest section around it that is there.
  Place place_of(std::string_view path) const {
    while (!path.empty()) {
      if (const YamlNode* node = find(path)) return node->place;
      const size_t dot = path.rfind('.');
      path = path.substr(0, dot == path.npos ? 0 : dot);
    }
    return root_.place;
  }

  bool is_given(std::string_view path) const { return find(path) != nullptr; }

  void report(Severity severity, Place place, std::string message, std::string hint = "") {
    out_.push_back({.severity = severity,
                    .file = file_,
                    .line = place.line,
                    .column = place.column,
                    .message = std::move(message),
                    .hint = std::move(hint)});
  }
  void error(std::string_view path, std::string message, std::string hint = "") {
    report(Severity::kError, place_of(path), std::move(message), std::move(hint));
  }
  void warn(std::string_view path, std::string message, std::string hint = "") {
    report(Severity::kWarning, place_of(path), std::move(message), std::move(hint));
  }

  void check_name() {
    if (!is_given("job") || is_job_name(job_.name)) return;
    if (find("job")->kind != YamlNode::Kind::kScalar) return;
    error("job",
          fmt::format("job: {} is not a name; expected 1 to {} letters, digits, dots, dashes or "
                      "underscores",
                      in_quotes(job_.name), kMaxJobNameBytes));
  }

  void check_run() {
    const YamlNode* run = find("run");
    if (run != nullptr && run->kind != YamlNode::Kind::kMapping &&
        run->kind != YamlNode::Kind::kNull) {
      return;
    }
    const bool script = is_given("run.script");
    const bool module = is_given("run.module");
    if (script && module) {
      error("run.module", "run.script and run.module exclude each other", "remove one of them");
    } else if (!script && !module && !misspelt_target(run)) {
      error("run", "run.script is missing: which Python file should each rank run?",
            "run: {script: train.py}");
    } else if (script && job_.run.script.empty() &&
               find("run.script")->kind == YamlNode::Kind::kScalar) {
      error("run.script", "run.script is empty");
    } else if (module && job_.run.module.empty() &&
               find("run.module")->kind == YamlNode::Kind::kScalar) {
      error("run.module", "run.module is empty");
    }
    if (!job_.run.no_python) return;
    if (module) error("run.no_python", "run.no_python needs run.script: a module is Python");
    if (!job_.run.python.empty()) {
      error("run.no_python", "run.no_python and run.python exclude each other");
    }
  }

  // Then the unknown key has been reported, which says more than a missing one.
  static bool misspelt_target(const YamlNode* run) {
    constexpr std::string_view kTargets[] = {"script", "module"};
    return run != nullptr && std::any_of(run->keys.begin(), run->keys.end(), [&](const YamlKey& k) {
             return !nearest_key(k.text, kTargets).empty();
           });
  }

  void check_env() {
    const YamlNode* env = find("run.env");
    if (env == nullptr) return;
    for (const YamlKey& key : env->keys) {
      if (!is_env_name(key.text)) {
        report(Severity::kError, key.place,
               fmt::format("run.env: {} is not the name of a variable", in_quotes(key.text)));
      } else if (is_set_by_launcher(key.text)) {
        report(
            Severity::kError, key.place,
            fmt::format("run.env: {} differs from rank to rank and is set at the start", key.text),
            "remove it");
      }
    }
  }

  void check_nodes() {
    if (job_.nodes.min > job_.nodes.max) {
      error("nodes",
            fmt::format("nodes: min {} is more than max {}", job_.nodes.min, job_.nodes.max));
    } else if (job_.nodes.min < job_.nodes.max) {
      error("nodes", "elastic worlds are not supported yet",
            fmt::format("give one number, such as nodes: {}", job_.nodes.max));
    }
  }

  void check_batch() {
    const BatchSpec& batch = job_.batch;
    if (batch.base_lr && !batch.base_batch && !is_given("batch.base_batch") &&
        batch.scaling != LrScaling::kNone) {
      error("batch.base_lr", "batch.base_lr needs batch.base_batch, the global batch it belongs to",
            "or set batch.scaling: none to use it as it is");
    }
    if (batch.base_batch && !batch.base_lr && !is_given("batch.base_lr")) {
      warn("batch.base_batch", "batch.base_batch has no effect without batch.base_lr");
    }
    if (batch.warmup.steps && job_.steps && *batch.warmup.steps > *job_.steps) {
      error("batch.warmup", fmt::format("batch.warmup: {} steps of warm-up in a run of {} steps",
                                        *batch.warmup.steps, *job_.steps));
    }
  }

  void check_loader() {
    if (job_.loader.workers == 0u && is_given("loader.prefetch")) {
      warn("loader.prefetch", "loader.prefetch needs loader processes, loader.workers is 0",
           "PyTorch refuses a prefetch factor without workers");
    }
  }

  void check_data() {
    const YamlNode* data = find("data");
    if (data == nullptr || data->kind != YamlNode::Kind::kSequence) return;
    std::map<std::string, Place> mounts;
    if (!job_.checkpoint.mount.empty()) {
      mounts.emplace(job_.checkpoint.mount, place_of("checkpoint.mount"));
    }
    for (const YamlNode& item : data->items) check_data_item(item, mounts);
  }

  void check_data_item(const YamlNode& item, std::map<std::string, Place>& mounts) {
    if (item.kind == YamlNode::Kind::kNull) {
      report(Severity::kError, item.place, "data: an entry without claim and mount");
    }
    if (item.kind != YamlNode::Kind::kMapping) return;
    for (std::string_view name : {"claim", "mount"}) {
      const YamlNode* value = item.find(name);
      if (value == nullptr || (value->kind == YamlNode::Kind::kScalar && value->text.empty())) {
        report(Severity::kError, item.place, fmt::format("data: {} is missing", name));
      }
    }
    const YamlNode* mount = item.find("mount");
    if (mount == nullptr || mount->kind != YamlNode::Kind::kScalar) return;
    const auto [known, is_new] = mounts.emplace(mount->text, mount->place);
    if (is_new) return;
    report(Severity::kError, mount->place,
           fmt::format("data: {} is already a mount, see line {}", in_quotes(mount->text),
                       known->second.line));
  }

  void check_checkpoint() {
    const CheckpointSpec& checkpoint = job_.checkpoint;
    if (!checkpoint.claim.empty() && !is_given("checkpoint.mount")) {
      error("checkpoint.claim",
            "checkpoint.claim needs checkpoint.mount, the path it appears under");
    }
    const bool absolute = !checkpoint.dir.empty() && checkpoint.dir.front() == '/';
    if (!checkpoint.mount.empty() && absolute && !lies_in(checkpoint.dir, checkpoint.mount)) {
      error("checkpoint.dir",
            fmt::format("checkpoint.dir {} lies outside checkpoint.mount {}: it would be lost with "
                        "its node",
                        in_quotes(checkpoint.dir), in_quotes(checkpoint.mount)));
    }
    if (is_given("checkpoint.dir") && checkpoint.mount.empty() && job_.nodes.max > 1 &&
        !job_.run.image.empty()) {
      warn("checkpoint.dir", "checkpoint.dir without checkpoint.claim is each node's own disk",
           "a node that fails takes its checkpoints along");
    }
    if (checkpoint.every_s && checkpoint.cost_s && *checkpoint.every_s <= *checkpoint.cost_s) {
      error("checkpoint.every",
            fmt::format("checkpoint.every {} leaves no time to train: one checkpoint costs {}",
                        format_duration(*checkpoint.every_s), format_duration(*checkpoint.cost_s)));
    }
  }

  void check_failures() {
    if (job_.failures.per_day && job_.failures.mtbf_s) {
      error("failures.mtbf", "failures.per_day and failures.mtbf say the same thing",
            "remove one of them");
    }
  }

  void check_restart() {
    if (job_.restart.hang_after_s) {
      warn("restart.hang_after", "restart.hang_after has no effect yet: a hung job goes on hanging",
           "shanty doctor says which rank hangs, and on what");
    }
  }

  void check_schedule() {
    if (job_.schedule.gang == false && job_.nodes.max > 1) {
      warn("schedule.gang",
           "without gang scheduling, some pods can hold their GPUs while they wait "
           "for the others for ever");
    }
  }

  const Job& job_;
  const YamlNode& root_;
  const std::string& file_;
  std::vector<Diagnostic>& out_;
};

}  // namespace

bool is_job_name(std::string_view text) {
  if (text.empty() || text.size() > kMaxJobNameBytes) return false;
  if (!is_letter(text.front()) && !is_digit(text.front())) return false;
  return std::all_of(text.begin(), text.end(), [](char c) {
    return is_letter(c) || is_digit(c) || c == '.' || c == '-' || c == '_';
  });
}

void validate_job(const Job& job, const YamlNode& root, const std::string& file_name,
                  std::vector<Diagnostic>& diagnostics) {
  Validator(job, root, file_name, diagnostics).check_all();
}

}  // namespace shanty
