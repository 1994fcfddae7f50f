#include <type_traits>

#include <nlohmann/json.hpp>

#include "job/keys.h"
#include "job/parse.h"
#include "job/value.h"

namespace shanty {
namespace {

using Json = nlohmann::ordered_json;

// Numbers stay numbers; what is only text in a job file (choices, "auto", percentages) is text.
struct SlotJson {
  const Key& key;
  const Slot& slot;

  Json operator()(std::monostate) const { return nullptr; }
  Json operator()(const std::string* text) const { return *text; }
  Json operator()(const bool* flag) const { return *flag; }
  Json operator()(const uint64_t* count) const { return *count; }
  Json operator()(const double* number) const { return *number; }
  Json operator()(const std::vector<std::string>* texts) const { return *texts; }
  Json operator()(const std::vector<DataMount>*) const { return nullptr; }
  Json operator()(const EnvMap* map) const {
    Json out = Json::object();
    for (const auto& [name, value] : *map) out[name] = value;
    return out;
  }
  Json operator()(const NodeRange* nodes) const {
    if (nodes->min == nodes->max) return nodes->min;
    return Json{{"min", nodes->min}, {"max", nodes->max}};
  }
  Json operator()(const Warmup* warmup) const {
    return warmup->steps ? Json(*warmup->steps) : Json(slot_text(key, slot));
  }
  template <typename T>
  Json operator()(const std::optional<T>* value) const {
    return *value ? (*this)(&**value) : Json(slot_text(key, slot));
  }
  template <typename Enum>
    requires std::is_enum_v<Enum>
  Json operator()(const Enum* value) const {
    return std::string(choice_name(*value));
  }
};

bool is_told(const Key& key, const Slot& slot) {
  if (const auto* args = std::get_if<std::vector<std::string>*>(&slot)) return !(*args)->empty();
  if (const auto* env = std::get_if<EnvMap*>(&slot)) return !(*env)->empty();
  return !slot_text(key, slot).empty();
}

// A default that means nothing beside another key, and that validation would warn of when told.
bool is_idle(const Key& key, const Job& job) {
  return key.path == "loader.prefetch" && job.loader.workers == 0u &&
         job.loader.prefetch == LoaderSpec().prefetch;
}

Json section_json(Job& job, std::string_view section);

Json list_json(Job& job, const Key& key) {
  Json out = Json::array();
  // The slots of a list's keys point at the last element, so each takes its turn there.
  Job one;
  for (const DataMount& mount : job.data) {
    one.data = {mount};
    out.push_back(section_json(one, std::string(key.path) + "[]"));
  }
  return out;
}

Json section_json(Job& job, std::string_view section) {
  Json out = Json::object();
  for (const Key* key : keys_below(section)) {
    const std::string name(leaf_of(key->path));
    if (key->type == KeyType::kSection) {
      Json inner = section_json(job, key->path);
      if (!inner.empty()) out[name] = std::move(inner);
    } else if (key->type == KeyType::kList) {
      Json items = list_json(job, *key);
      if (!items.empty()) out[name] = std::move(items);
    } else if (const Slot slot = key->slot(job); is_told(*key, slot) && !is_idle(*key, job)) {
      const SlotJson to_json{.key = *key, .slot = slot};
      out[name] = slot_text(*key, slot) == "auto" ? Json("auto") : std::visit(to_json, slot);
    }
  }
  return out;
}

}  // namespace

std::string serialize_job(const Job& job) {
  Job copy = job;
  return section_json(copy, "").dump(2, ' ', false, Json::error_handler_t::replace) + "\n";
}

}  // namespace shanty
