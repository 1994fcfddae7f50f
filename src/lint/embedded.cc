#include "lint/embedded.h"

#include "lint/python/lint_python.h"
#include "lint/shell/lint_shell.h"
#include "lint/text_places.h"

namespace shanty::lint {
namespace {

class EmbeddedLinter {
 public:
  explicit EmbeddedLinter(const ManifestFile& file) : file_(file), places_(file.source->text) {}

  std::vector<Finding> run() {
    for (const Workload& work : file_.workloads) {
      for (const PodGroup& group : work.groups) {
        for (const Container& container : group.containers) lint_container(container);
      }
    }
    for (const Object& object : file_.objects) {
      if (object.kind == "ConfigMap") lint_config_map(object.root["data"]);
    }
    return std::move(findings_);
  }

 private:
  void lint_container(const Container& container) {
    for (const YamlNode* script : container.command.scripts()) {
      lint_text(*script, SourceKind::kShell);
    }
  }

  void lint_config_map(Ref data) {
    for (size_t i = 0; i < data.keys().size(); ++i) {
      const std::string_view name = data.keys()[i].text;
      if (name.ends_with(".py")) lint_text(data.items()[i], SourceKind::kPython);
      if (name.ends_with(".sh")) lint_text(data.items()[i], SourceKind::kShell);
    }
  }

  void lint_text(const YamlNode& node, SourceKind kind) {
    const auto block = literal_block(places_, node);
    if (!block) return;
    const Source source{file_.source->name, node.text, kind};
    std::vector<Finding> found =
        kind == SourceKind::kPython ? lint_python(source) : lint_shell(source);
    for (Finding& finding : found) {
      finding.edits.clear();
      if (finding.line > 0) finding.line += block->line - 1;
      if (finding.column > 0) finding.column += block->indent;
      for (Evidence& evidence : finding.evidence) {
        if (evidence.line > 0) evidence.line += static_cast<uint64_t>(block->line - 1);
      }
      findings_.push_back(std::move(finding));
    }
  }

  const ManifestFile& file_;
  TextPlaces places_;
  std::vector<Finding> findings_;
};

}  // namespace

std::vector<Finding> lint_embedded(const ManifestFile& file) { return EmbeddedLinter(file).run(); }

}  // namespace shanty::lint
