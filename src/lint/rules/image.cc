#include <fmt/format.h>

#include "lint/case_questions.h"
#include "lint/yaml_edits.h"
#include "text/utf8.h"

namespace shanty::lint {
namespace {

struct ImageName {
  std::string_view repository;
  std::string_view tag;
  std::string_view digest;
};

ImageName parse_image(std::string_view image) {
  ImageName name;
  const size_t at = image.find('@');
  if (at != image.npos) name.digest = image.substr(at + 1);
  image = image.substr(0, at);
  const size_t slash = image.rfind('/');
  const size_t colon = image.find(':', slash == image.npos ? 0 : slash);
  if (colon != image.npos) name.tag = image.substr(colon + 1);
  name.repository = image.substr(0, colon);
  return name;
}

bool is_movable(const ImageName& name) {
  return name.digest.empty() && (name.tag.empty() || name.tag == "latest");
}

std::string what_is_movable(std::string_view image, const ImageName& name) {
  return name.tag.empty() ? fmt::format("{} has no tag, which is latest", in_quotes(image))
                          : fmt::format("{} is whatever was pushed last", in_quotes(image));
}

bool matters(const Case& at) { return at.work.is_training || at.work.gpus() > 0; }

void latest(const Case& at, Report& report) {
  const std::string_view image = at.container->image;
  const ImageName name = parse_image(image);
  if (image.empty() || is_placeholder(image) || !is_movable(name) || !matters(at)) return;
  if (at.set.sets_image(name.repository) || at.container != at.pods->main()) return;
  Finding& finding =
      report.add("IMG001", at.container->node["image"],
                 fmt::format("the image {}{}", what_is_movable(image, name),
                             at.work.is_spread() ? ": two nodes can run two versions" : ""));
  if (!at.work.is_training) finding.severity = Severity::kNote;
}

void pull_policy(const Case& at, Report& report) {
  const Ref policy = at.container->node["imagePullPolicy"];
  const ImageName name = parse_image(at.container->image);
  if (!matters(at) || policy.text() != "Always" || name.digest.empty()) return;
  Finding& finding = report.add("IMG002", policy,
                                "Always asks the registry at each start for an image that cannot "
                                "change: it is named by its digest");
  put_edit(finding, replace_scalar(report.places(), *policy.node(), "IfNotPresent"));
}

void never_pulled(const Case& at, Report& report) {
  const Ref policy = at.container->node["imagePullPolicy"];
  if (!matters(at) || policy.text() != "Never" || !at.work.is_spread()) return;
  report.add("IMG002", policy,
             "Never: each node must have the image already, or its pod waits in "
             "ErrImageNeverPull");
}

void job_image(const JobSource& job, Report& report) {
  const std::string& image = job.parsed.job.run.image;
  const ImageName name = parse_image(image);
  if (image.empty() || is_placeholder(image) || !is_movable(name)) return;
  report.add("IMG001", Ref(job.root)["run"]["image"],
             fmt::format("the image {}", what_is_movable(image, name)));
}

constexpr Rule kRules[] = {
    {"IMG001", ContainerRule{latest}},
    {"IMG001", JobRule{job_image}},
    {"IMG002", ContainerRule{pull_policy}},
    {"IMG002", ContainerRule{never_pulled}},
};

}  // namespace

extern const std::span<const Rule> kImageRules = kRules;

}  // namespace shanty::lint
