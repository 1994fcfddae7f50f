#pragma once

#include <cstddef>
#include <string_view>
#include <vector>

#include "render/context.h"

namespace shanty {

// One kind of object that a job can be rendered as. src/render/targets/foo.cc defines
// `extern const RenderTarget kFooTarget`; the table of all is generated from the file names.
struct RenderTarget {
  std::string_view name;
  std::string_view group;  // of the object that the target is about; for `--rbac` too
  std::string_view kind;   // "" when it is none of Kubernetes'
  std::string_view plural;
  // The mechanisms it can be started together by. Kueue must know the kind, the rest works on any
  // pod template.
  std::vector<GangMechanism> (*gangs)(const KubernetesOffer&);
  Result<std::vector<Piece>> (*render)(const RenderContext&);
};

extern const RenderTarget* const kRenderTargets[];
extern const size_t kRenderTargetCount;

const RenderTarget* find_target(std::string_view name);

}  // namespace shanty
