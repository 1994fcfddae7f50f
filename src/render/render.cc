#include "render/render.h"

#include <algorithm>
#include <span>

#include <fmt/format.h>

#include "render/context.h"
#include "render/target.h"

namespace shanty {
namespace {

std::string text_of(const Yaml& object, std::string_view key) {
  const Yaml* found = object.find(key);
  std::string text = found == nullptr ? "" : found->write();
  while (text.ends_with('\n')) text.pop_back();
  return text;
}

RenderedObject finish(Piece piece, size_t index) {
  if (!piece.text.empty()) return {std::move(piece.file_name), "", "", std::move(piece.text)};
  const Yaml* metadata = piece.object.find("metadata");
  return {.file_name = fmt::format("{:02}-{}.yaml", 10 * (index + 1), piece.stem),
          .kind = text_of(piece.object, "kind"),
          .name = metadata == nullptr ? "" : text_of(*metadata, "name"),
          .text = piece.object.write()};
}

}  // namespace

const RenderTarget* find_target(std::string_view name) {
  const std::span targets(kRenderTargets, kRenderTargetCount);
  const auto found = std::ranges::find(targets, name, &RenderTarget::name);
  return found == targets.end() ? nullptr : *found;
}

std::vector<std::string_view> render_target_names() {
  std::vector<std::string_view> names;
  for (const RenderTarget* target : std::span(kRenderTargets, kRenderTargetCount)) {
    names.push_back(target->name);
  }
  return names;
}

Result<Rendered> render_job(const Job& job, const Plan& plan, const KubernetesOffer& offer,
                            const RenderOptions& options) {
  Rendered out;
  const RenderContext context = TRY(make_context(job, plan, offer, options, out.notes));
  std::vector<Piece> pieces = TRY(find_target(options.target)->render(context));
  for (size_t i = 0; i < pieces.size(); ++i) out.objects.push_back(finish(std::move(pieces[i]), i));
  // A note of the pod template is one note, however many templates a target has.
  std::vector<std::string> notes;
  for (std::string& note : out.notes) {
    if (std::ranges::find(notes, note) == notes.end()) notes.push_back(std::move(note));
  }
  out.notes = std::move(notes);
  return out;
}

}  // namespace shanty
