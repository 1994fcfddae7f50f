#include <CLI/CLI.hpp>

#include <cstdio>
#include <map>

#include <sys/stat.h>
#include <unistd.h>

#include <fmt/format.h>

#include "base/hash.h"
#include "base/random.h"
#include "cli/cli_app.h"
#include "cli/exit_codes.h"
#include "cli/job_file.h"
#include "cli/output.h"
#include "os/files.h"
#include "render/local_code.h"
#include "render/render.h"

namespace shanty {
namespace {

int run_render(int argc, char** argv);

}  // namespace

extern const Verb kRenderVerb = {
    .name = "render",
    .summary = "print a job as Kubernetes objects, a Slurm script or a Dockerfile",
    .examples =
        "  shanty render job.yaml                          an indexed Job, ready for kubectl "
        "apply\n"
        "  shanty render job.yaml --target trainjob --trainer 2.1 -o manifests/\n"
        "                                                  for Kubeflow Trainer 2.1, a file each\n"
        "  shanty render job.yaml --target volcano --rbac  the rights that are needed for it",
    .hidden = false,
    .run = run_render};

namespace {

constexpr size_t kTokenRandomBytes = 32;
// A token is at most 1024 characters; see docs/security.md.
constexpr size_t kMaxTokenFileBytes = 1026;

struct Arguments {
  std::string job;
  std::string target = "job";
  std::string directory;
  std::string gang = "auto";
  std::string image;
  std::string shanty_image;
  std::string k8s_namespace;
  std::string kubernetes;
  std::string trainer;
  std::string token_from;
  std::string token_file;
  std::string run_id;
  bool image_volume = false;
  bool rbac = false;
};

const std::map<std::string, GangChoice> kGangs = {
    {"auto", GangChoice::kAuto},     {"none", GangChoice::kNone},
    {"kueue", GangChoice::kKueue},   {"volcano", GangChoice::kVolcano},
    {"native", GangChoice::kNative}, {"coscheduling", GangChoice::kCoscheduling}};

int fail(int code, const std::string& message) {
  fmt::print(stderr, "shanty render: {}\n", message);
  return code;
}

AppPtr make_arguments(Arguments& a) {
  AppPtr app = make_app(kRenderVerb);
  std::vector<std::string> targets;
  for (const std::string_view name : render_target_names()) targets.emplace_back(name);
  std::vector<std::string> gangs;
  for (const auto& [name, choice] : kGangs) gangs.push_back(name);
  app->add_option("job", a.job, "the job file")->required()->type_name("FILE");
  app->add_option("-t,--target", a.target, "what to write (default: job)")
      ->check(CLI::IsMember(targets));
  app->add_option("-o,--output", a.directory, "write a file per object into this directory")
      ->type_name("DIR");
  app->add_flag("--rbac", a.rbac, "the least rights that shanty needs for the job, instead of it");
  app->add_option("--gang", a.gang, "what makes all pods start together (default: auto)")
      ->check(CLI::IsMember(gangs));
  app->add_option("--image", a.image, "instead of run.image");
  app->add_option("--shanty-image", a.shanty_image, "instead of pod.shanty_image");
  app->add_option("-n,--namespace", a.k8s_namespace, "instead of schedule.namespace");
  app->add_option("--kubernetes", a.kubernetes,
                  "version of the cluster, as 1.35 (default: newest)");
  app->add_option("--trainer", a.trainer, "version of Kubeflow Trainer, 2.0 to 2.3");
  app->add_option("--token-from", a.token_from,
                  "name of a Secret that is there and holds the job's token under the key token");
  app->add_option("--token-file", a.token_file, "file with the token (default: 256 random bits)");
  app->add_option("--run-id", a.run_id, "tells runs of the job apart (default: from the token)");
  app->add_flag("--image-volume", a.image_volume,
                "shanty comes by an image volume, not by an init container (Kubernetes 1.35)");
  return app;
}

Result<MinorVersion> read_version(const std::string& option, const std::string& text) {
  MinorVersion version;
  char rest = 0;
  if (std::sscanf(text.c_str(), "%9d.%9d%c", &version.major, &version.minor, &rest) != 2) {
    return Error{fmt::format("{} {}: expected a version such as 2.1", option, text)};
  }
  return version;
}

Result<KubernetesOffer> make_offer(const Arguments& a) {
  KubernetesOffer offer = newest_kubernetes_offer();
  if (!a.trainer.empty()) offer.trainer = TRY(read_version("--trainer", a.trainer));
  if (a.kubernetes.empty()) return offer;
  set_kubernetes_version(offer, TRY(read_version("--kubernetes", a.kubernetes)));
  return offer;
}

Result<std::string> make_token(const Arguments& a) {
  if (!a.token_from.empty()) return std::string();
  if (a.token_file.empty()) return hex(secure_random_bytes(kTokenRandomBytes));
  std::string token = TRY(read_file(a.token_file, kMaxTokenFileBytes).context("--token-file"));
  while (token.ends_with('\n') || token.ends_with('\r')) token.pop_back();
  return token;
}

Status write_files(const std::string& directory, const Rendered& rendered) {
  TRY_STATUS(make_directories(directory));
  for (const RenderedObject& object : rendered.objects) {
    const std::string path = directory + "/" + object.file_name;
    const mode_t others = ::umask(object.kind == "Secret" ? 077 : 022);
    const Status written = write_file_atomically(path, object.text);
    ::umask(others);
    if (!written.ok()) return written;
    fmt::print(stderr, "{}\n", path);
  }
  return {};
}

std::string joined(const Rendered& rendered) {
  std::string out;
  for (const RenderedObject& object : rendered.objects) {
    if (!out.empty()) out += "---\n";
    out += object.text;
  }
  return out;
}

int run_render(int argc, char** argv) {
  Arguments a;
  const AppPtr app = make_arguments(a);
  if (const auto code = parse_arguments(*app, argc, argv)) return *code;
  auto job = load_job_or_report(a.job);
  if (!job) return kExitUsage;
  if (!a.image.empty()) job->run.image = a.image;
  if (!a.shanty_image.empty()) job->pod.shanty_image = a.shanty_image;
  if (!a.k8s_namespace.empty()) job->schedule.k8s_namespace = a.k8s_namespace;
  const auto offer = make_offer(a);
  if (!offer) return fail(kExitUsage, offer.error().message);
  const auto token = make_token(a);
  if (!token) return fail(kExitUsage, token.error().message);
  LocalCode code = read_local_code(*job, a.job);
  const RenderOptions options{.target = a.target,
                              .gang = kGangs.at(a.gang),
                              .token = *token,
                              .token_from = a.token_from,
                              .run_id = a.run_id,
                              .image_volume = a.image_volume,
                              .code = std::move(code.files),
                              .code_problem = std::move(code.problem)};
  const auto rendered = a.rbac ? render_rbac(*job, *offer, options)
                               : render_job(*job, make_plan(*job, Cluster{}), *offer, options);
  if (!rendered) return fail(kExitUsage, rendered.error().message);
  for (const std::string& note : rendered->notes) fmt::print(stderr, "shanty render: {}\n", note);
  if (a.directory.empty()) {
    Output().write(STDOUT_FILENO, joined(*rendered));
    return kExitDone;
  }
  const Status written = write_files(a.directory, *rendered);
  return written.ok() ? kExitDone : fail(kExitEnvironment, written.error().message);
}

}  // namespace
}  // namespace shanty
