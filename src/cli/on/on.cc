#include "cli/on/on.h"

#include <cstdio>
#include <cstring>

#include <CLI/CLI.hpp>
#include <fmt/format.h>

#include "cli/exit_codes.h"

namespace shanty {
namespace {

bool is_on(std::string_view argument) {
  return argument == "--on" || argument.starts_with("--on=");
}

bool is_job_file(std::string_view argument) {
  return argument.ends_with(".yaml") || argument.ends_with(".yml");
}

}  // namespace

bool asks_for_cluster(int argc, char** argv) {
  for (int i = 1; i < argc; ++i) {
    if (is_on(argv[i])) return true;
  }
  return false;
}

bool runs_on_cluster(int argc, char** argv) {
  if (!asks_for_cluster(argc, argv)) return false;
  for (int i = 1; i < argc; ++i) {
    if (argv[i][0] == '-') continue;
    if (is_job_file(argv[i])) return true;
    const bool is_value = i > 1 && argv[i - 1][0] == '-';
    if (!is_value) return false;  // a script
  }
  return false;
}

void add_cluster_options(CLI::App& app, follow::ClusterChoice& choice, bool required) {
  auto* on = app.add_option("--on", choice.on,
                            "the cluster: kubernetes, or kubernetes:CONTEXT of the kubeconfig")
                 ->check([](const std::string& text) { return follow::problem_of(text); });
  if (required) on->required();
  app.add_option("-n,--namespace", choice.k8s_namespace, "its namespace (default: the context's)");
}

int fail_on(const Verb& verb, const Error& error) {
  fmt::print(stderr, "shanty {}: {}\n", verb.name, error.message);
  return kExitEnvironment;
}

std::string command_for(const std::string& verb, const std::string& job,
                        const follow::ClusterChoice& choice, const std::string& k8s_namespace) {
  return fmt::format("shanty {} {} --on {} -n {}", verb, job, choice.on, k8s_namespace);
}

}  // namespace shanty
