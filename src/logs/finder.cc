#include "logs/finder.h"

#include <limits>

#include <hs/hs.h>

#include "base/check.h"

namespace shanty {

struct Finder::Impl {
  hs_database_t* database = nullptr;
  hs_scratch_t* scratch = nullptr;

  ~Impl() {
    hs_free_scratch(scratch);
    hs_free_database(database);
  }
};

Finder::Finder(const std::vector<std::string_view>& needles) : impl_(std::make_unique<Impl>()) {
  std::vector<const char*> texts;
  std::vector<size_t> sizes;
  std::vector<unsigned> flags(needles.size(), 0);
  std::vector<unsigned> ids;
  for (const std::string_view needle : needles) {
    texts.push_back(needle.data());
    sizes.push_back(needle.size());
    ids.push_back(static_cast<unsigned>(ids.size()));
  }
  hs_compile_error_t* error = nullptr;
  CHECK(hs_compile_lit_multi(texts.data(), flags.data(), ids.data(), sizes.data(),
                             static_cast<unsigned>(needles.size()), HS_MODE_BLOCK, nullptr,
                             &impl_->database, &error) == HS_SUCCESS);
  CHECK(hs_alloc_scratch(impl_->database, &impl_->scratch) == HS_SUCCESS);
}

Finder::~Finder() = default;

namespace {

struct Call {
  Finder::Hit hit;
  void* context;
};

int on_match(unsigned id, unsigned long long /*from*/, unsigned long long to, unsigned /*flags*/,
             void* context) {
  const Call& call = *static_cast<const Call*>(context);
  call.hit(call.context, id, static_cast<size_t>(to));
  return 0;
}

}  // namespace

void Finder::scan(std::string_view text, Hit hit, void* context) {
  CHECK(text.size() <= std::numeric_limits<unsigned>::max());
  Call call{hit, context};
  CHECK(hs_scan(impl_->database, text.data(), static_cast<unsigned>(text.size()), 0, impl_->scratch,
                on_match, &call) == HS_SUCCESS);
}

}  // namespace shanty
