#include "net/token_keeper.h"

#include <utility>

namespace shanty::net {

void TokenKeeper::start(TokenQuery query, Duration every) {
  query_ = std::move(query);
  every_ = every;
  wait();
}

void TokenKeeper::stop() {
  stopped_ = true;
  timer_.cancel();
}

void TokenKeeper::wait() {
  timer_.expires_after(every_);
  timer_.async_wait([this](boost::system::error_code error) {
    if (error || stopped_) return;
    touch_token(query_);
    wait();
  });
}

}  // namespace shanty::net
