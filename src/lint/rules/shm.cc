#include <algorithm>

#include <fmt/format.h>

#include "base/units.h"
#include "lint/case_questions.h"
#include "lint/manifest/quantity.h"
#include "lint/yaml_edits.h"
#include "text/utf8.h"

namespace shanty::lint {
namespace {

constexpr double kMiB = 1 << 20;
constexpr double kGiB = 1 << 30;
constexpr double kSmallestUsefulShm = 512 * kMiB;
constexpr double kShmPerWorker = 256 * kMiB;
constexpr double kShmPerGpu = 4 * kGiB;

bool is_at_shm(Ref mount) {
  const std::string_view path = mount["mountPath"].text();
  return path == "/dev/shm" || path == "/dev/shm/";
}

Ref shm_mount(const Container& container) {
  for (const YamlNode& mount : container.node["volumeMounts"].items()) {
    if (is_at_shm(mount)) return mount;
  }
  return {};
}

// Volcano mounts volumes of the job into all its pods.
bool has_shm_of_job(const Workload& work) {
  const auto volumes = work.spec()["volumes"].items();
  return work.kind == WorkloadKind::kVolcanoJob &&
         std::any_of(volumes.begin(), volumes.end(),
                     [](const YamlNode& v) { return is_at_shm(v); });
}

double memory_limits(const PodGroup& pods) {
  double sum = 0;
  for (const Container& container : pods.containers) {
    if (container.is_init) continue;
    const double limit = container.limit("memory");
    if (limit == 0) return 0;
    sum += limit;
  }
  return sum;
}

// The volume mounted at /dev/shm when it is an emptyDir.
Ref shm_directory(const Case& at) {
  const Ref mount = shm_mount(*at.container);
  return volume_named(*at.pods, mount["name"].text())["emptyDir"];
}

Ref memory_volume(const PodGroup& pods) {
  for (const YamlNode& volume : pods.spec["volumes"].items()) {
    if (Ref(volume)["emptyDir"]["medium"].text() == "Memory") return volume;
  }
  return {};
}

std::string in_gib(double bytes) { return format_bytes(static_cast<uint64_t>(bytes)); }

// A quantity of whole GiB: half the memory limit at most, for it counts towards that.
std::string proposed_size(const Case& at) {
  double size = kShmPerGpu * std::max(at.container->gpus(), 1.0);
  const double limit = memory_limits(*at.pods);
  if (limit > 0) size = std::min(size, limit / 2);
  return fmt::format("{}Gi", std::max<int64_t>(static_cast<int64_t>(size / kGiB), 1));
}

// Both edits or none: a mount without its volume is refused.
void put_shm_edits(const Case& at, Report& report, Finding& finding) {
  const Ref existing = memory_volume(*at.pods);
  const std::string name = existing ? std::string(existing["name"].text()) : "dshm";
  const std::string mount = fmt::format("name: {}\nmountPath: /dev/shm", name);
  const TextPlaces& places = report.places();
  const Ref mounts = at.container->node["volumeMounts"];
  const YamlKey* anchor =
      at.container->node.key(at.container->node.key("image") ? "image" : "name");
  std::optional<Edit> mount_edit;
  if (mounts && mounts.is_sequence()) mount_edit = insert_item(places, *mounts.node(), mount);
  if (!mounts && anchor != nullptr) {
    mount_edit = insert_before(
        places, *anchor, fmt::format("volumeMounts:\n  - name: {}\n    mountPath: /dev/shm", name));
  }
  if (!mount_edit) return;
  if (existing) return put_edit(finding, std::move(mount_edit));
  const std::string body =
      fmt::format("name: dshm\nemptyDir: {{medium: Memory, sizeLimit: {}}}", proposed_size(at));
  const Ref volumes = at.pods->spec["volumes"];
  const YamlKey* containers = at.pods->spec.key("containers");
  std::optional<Edit> volume_edit;
  if (volumes && volumes.is_sequence()) volume_edit = insert_item(places, *volumes.node(), body);
  if (!volumes && containers != nullptr) {
    volume_edit = insert_before(
        places, *containers,
        fmt::format("volumes:\n  - name: dshm\n    emptyDir: {{medium: Memory, sizeLimit: {}}}",
                    proposed_size(at)));
  }
  if (!volume_edit) return;
  put_edit(finding, std::move(volume_edit));
  put_edit(finding, std::move(mount_edit));
}

// What will use shared memory, in words; empty where nothing is known to.
std::string user_of_shm(const Case& at) {
  const auto workers = loader_workers(at);
  if (workers && workers->value > 0)
    return counted(static_cast<double>(workers->value), "loader worker");
  const double gpus = at.container->gpus();
  if (gpus >= 2) return counted(gpus, "GPU");
  if (gpus >= 1 && at.work.is_training) return "a GPU";
  return "";
}

// KubeRay mounts shared memory into its containers by itself.
bool has_shm_elsewhere(const Case& at) {
  return at.pods->spec["hostIPC"].is_true() || has_shm_of_job(at.work) ||
         at.work.kind == WorkloadKind::kRayCluster;
}

void missing(const Case& at, Report& report) {
  if (!at.pods->spec || has_shm_elsewhere(at) || shm_mount(*at.container)) return;
  if (at.container != at.pods->main()) return;
  const std::string user = user_of_shm(at);
  if (user.empty()) return;
  const Ref idle = memory_volume(*at.pods);
  const std::string detail =
      idle ? fmt::format("; the volume {} is not mounted there", in_quotes(idle["name"].text()))
           : std::string();
  Finding& finding =
      report.add_at_key("SHM001", at.container->node, "name",
                        fmt::format("container {} has {} and the default /dev/shm of 64 MiB{}",
                                    in_quotes(at.container->name), user, detail));
  if (user == "a GPU") finding.severity = Severity::kNote;
  put_shm_edits(at, report, finding);
}

void no_limit(const Case& at, Report& report) {
  const Ref directory = shm_directory(at);
  if (directory["medium"].text() != "Memory" || directory["sizeLimit"]) return;
  report.add_at_key("SHM002", directory, "medium",
                    "the memory behind /dev/shm has no sizeLimit: it may grow to the pod's memory "
                    "limit, or to half of the node's memory");
}

void above_memory(const Case& at, Report& report) {
  const Ref directory = shm_directory(at);
  const Ref size = directory["sizeLimit"];
  const double limit = memory_limits(*at.pods);
  const double bytes = parse_quantity(size.text()).value_or(0);
  if (directory["medium"].text() != "Memory" || limit == 0 || bytes < limit) return;
  Finding& finding = report.add(
      "SHM003", size,
      fmt::format("/dev/shm may hold {}, but the pod's memory limit is {}: it is killed before "
                  "/dev/shm is full",
                  in_gib(bytes), in_gib(limit)));
  if (bytes == limit) finding.severity = Severity::kNote;
}

void on_disk(const Case& at, Report& report) {
  const Ref mount = shm_mount(*at.container);
  const Ref volume = volume_named(*at.pods, mount["name"].text());
  const Ref directory = volume["emptyDir"];
  if (!volume.key("emptyDir") || directory["medium"].text() == "Memory") return;
  Finding& finding = report.add_at_key("SHM004", volume, "emptyDir",
                                       "the volume at /dev/shm is on the node's disk: it has no "
                                       "medium: Memory");
  if (directory["medium"]) {
    put_edit(finding, replace_scalar(report.places(), *directory["medium"].node(), "Memory"));
  } else if (!directory.keys().empty()) {
    put_edit(finding, insert_before(report.places(), directory.keys()[0], "medium: Memory"));
  } else if (directory.is_mapping()) {
    const auto start = report.places().offset(directory.node()->place);
    if (start && report.places().text().substr(*start, 2) == "{}")
      finding.edits.push_back({*start, *start + 2, "{medium: Memory}"});
  }
}

void too_small(const Case& at, Report& report) {
  const Ref size = shm_directory(at)["sizeLimit"];
  const double bytes = parse_quantity(size.text()).value_or(0);
  const bool matters = at.container->gpus() >= 2 || at.work.is_training;
  if (bytes == 0 || !matters) return;
  const auto workers = loader_workers(at);
  const double all =
      workers ? static_cast<double>(workers->value) * static_cast<double>(likely_processes(at)) : 0;
  if (bytes < kShmPerWorker * all) {
    report.add("SHM005", size,
               fmt::format("{} for {} of {} is less than {} each", in_gib(bytes),
                           counted(all, "loader worker"),
                           counted(static_cast<double>(likely_processes(at)), "process"),
                           in_gib(kShmPerWorker)));
  } else if (bytes < kSmallestUsefulShm && at.container->gpus() > 0) {
    report.add("SHM005", size,
               fmt::format("{} of /dev/shm is little for {} and a loader", in_gib(bytes),
                           counted(at.container->gpus(), "GPU")));
  }
}

void job_file(const JobSource& job, Report& report) {
  const Job& parsed = job.parsed.job;
  const auto workers = parsed.loader.workers;
  const auto shm = parsed.loader.shm_bytes;
  if (!job.parsed.ok() || !workers || !shm) return;
  const double all = static_cast<double>(*workers) * static_cast<double>(parsed.gpus_per_node);
  if (static_cast<double>(*shm) >= kShmPerWorker * all) return;
  report.add("SHM005", Ref(job.root)["loader"]["shm"],
             fmt::format("{} for {} is less than {} each", format_bytes(*shm),
                         counted(all, "loader worker"), in_gib(kShmPerWorker)));
}

constexpr Rule kRules[] = {
    {"SHM001", ContainerRule{missing, Needs::kWholeObject}},
    {"SHM002", ContainerRule{no_limit}},
    {"SHM003", ContainerRule{above_memory}},
    {"SHM004", ContainerRule{on_disk}},
    {"SHM005", ContainerRule{too_small}},
    {"SHM005", JobRule{job_file}},
};

}  // namespace

extern const std::span<const Rule> kShmRules = kRules;

}  // namespace shanty::lint
