#pragma once

#include <boost/asio/io_context.hpp>
#include <boost/asio/steady_timer.hpp>

#include "base/clock.h"
#include "net/token.h"

namespace shanty::net {

// Keeps the token file of a job that runs for days from being removed as unused, so that a node
// that joins late finds it. Runs on the loop's thread and has to outlive what it has in the loop.
class TokenKeeper {
 public:
  static constexpr Duration kEvery = std::chrono::hours(24);

  explicit TokenKeeper(boost::asio::io_context& io) : timer_(io) {}

  // Touches the file after each `every` from now on.
  void start(TokenQuery query, Duration every = kEvery);
  void stop();

 private:
  void wait();

  boost::asio::steady_timer timer_;
  TokenQuery query_;
  Duration every_{};
  bool stopped_ = false;
};

}  // namespace shanty::net
