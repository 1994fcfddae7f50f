#include <fmt/format.h>

#include "lint/case_questions.h"

namespace shanty::lint {
namespace {

void more_workers_than_cpus(const Case& at, Report& report) {
  const double cpus = at.container->limit("cpu");
  const auto workers = loader_workers(at);
  const bool matters = at.work.is_training || at.container->gpus() > 0;
  if (cpus == 0 || !workers || workers->value <= 0 || !matters) return;
  const int64_t processes = likely_processes(at);
  const double all = static_cast<double>(workers->value) * static_cast<double>(processes);
  if (all <= cpus) return;
  add_at(report, "LOAD001", *workers,
         fmt::format("{} workers for each of {} want {} CPUs, and the limit is {}", workers->value,
                     counted(static_cast<double>(processes), "process"), all, cpus));
}

void threads(const Case& at, Report& report) {
  const EnvVar* variable = find_variable(at.container->env, "OMP_NUM_THREADS");
  const double cpus = at.container->limit("cpu");
  const auto count =
      variable != nullptr && variable->value ? count_of(*variable->value) : std::nullopt;
  if (!count || cpus == 0 || !at.work.is_training) return;
  const double all = static_cast<double>(*count) * static_cast<double>(likely_processes(at));
  if (all <= cpus) return;
  report.add("LOAD002", variable->value_place,
             fmt::format("{} threads for each of {} are more than the {} CPUs of the limit", *count,
                         counted(static_cast<double>(likely_processes(at)), "process"), cpus));
}

constexpr Rule kRules[] = {
    {"LOAD001", ContainerRule{more_workers_than_cpus}},
    {"LOAD002", ContainerRule{threads}},
};

}  // namespace

extern const std::span<const Rule> kLoaderRules = kRules;

}  // namespace shanty::lint
