#include "lint/job_source.h"

#include "lint/manifest/ref.h"

namespace shanty::lint {

JobSource read_job_source(const Source& source) {
  JobSource job{.source = &source, .parsed = parse_job(source.text, source.name)};
  ParsedYaml yaml = parse_documents(source.text, source.name);
  if (yaml.documents.empty()) return job;
  job.root = std::move(yaml.documents[0]);
  const Ref env = Ref(job.root)["run"]["env"];
  for (size_t i = 0; i < env.keys().size(); ++i) {
    const YamlNode& value = env.items()[i];
    job.env.push_back({.name = env.keys()[i].text,
                       .value = value.text,
                       .place = env.keys()[i].place,
                       .value_place = value.place,
                       .value_node = &value});
  }
  return job;
}

}  // namespace shanty::lint
