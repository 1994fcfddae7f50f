#include <cstdlib>

#include <fmt/format.h>

#include "doctor/rule.h"

namespace shanty {
namespace {

// Loss scaling begins as high as it can and halves until it fits; only at the low end it says
// something about the values.
constexpr size_t kManyOverflows = 8;
constexpr double kLowScale = 64;

bool ends_low(const Records& overflows) {
  if (overflows.size() < kManyOverflows) return false;
  const std::string to(overflows.back()->get("to"));
  return std::strtod(to.c_str(), nullptr) <= kLowScale;
}

std::string_view named(const Record& record) {
  std::string_view what = record.get("what");
  if (what.empty()) what = record.get("what2");
  return what.find("rad") == what.npos && what.find("gnorm") == what.npos ? "the loss is"
                                                                          : "the gradients are";
}

}  // namespace

void numerics_rule(const Case& of, Hypotheses& out) {
  const Records minimum = of.all("scale_minimum");
  const Records overflows = of.all("overflow");
  const Records nan = of.all("loss_nan");
  if (minimum.empty() && nan.empty() && !ends_low(overflows)) return;
  Draft draft(of, "NUM101", "numerics", minimum.empty() ? (nan.empty() ? 0.7 : 0.88) : 0.95);
  draft.show(minimum).show(nan).show(overflows);
  // The first rank with a value that is not finite, if ranks differ.
  if (!nan.empty() && nan.front()->rank >= 0) draft.blame(nan.front());
  draft.message(
      !minimum.empty() || nan.empty()
          ? "every step overflows until the loss scale is at its end: the values leave the "
            "range of fp16"
          : fmt::format("{} not a number{}", named(*nan.front()),
                        nan.front()->rank < 0 ? "" : ", first on " + of.place(*nan.front())));
  draft.rule_out("DeepSpeed or the scaler: they only report what the model computes");
  draft.fix(
      "bf16 instead of fp16 for a model that was trained in bf16; lower the learning rate or "
      "clip gradients");
  draft.fix("torch.autograd.detect_anomaly() on the first bad step; look at that batch");
  out.push_back(draft.done());
}

}  // namespace shanty
