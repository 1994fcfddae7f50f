#include "ckpt/channel.h"

#include <atomic>
#include <chrono>
#include <future>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace shanty::ckpt {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;
using ::testing::HasSubstr;

const std::string kToken(32, 't');

std::unique_ptr<ChannelServer> serve(
    std::function<void(Question, ChannelServer::Answer)> on_question) {
  auto server =
      ChannelServer::listen({.host = "127.0.0.1", .token = kToken}, std::move(on_question));
  EXPECT_TRUE(server.ok()) << server.error().message;
  return std::move(*server);
}

std::unique_ptr<ChannelClient> connect(const ChannelServer& server, int rank,
                                       const std::string& token = kToken) {
  return ChannelClient::connect(
      {.host = "127.0.0.1", .port = server.port(), .token = token, .rank = rank});
}

TEST(Channel, AnswersComeToWhoAskedAlsoLater) {
  std::mutex mutex;
  std::vector<std::pair<int, ChannelServer::Answer>> waiting;
  const auto server = serve([&](const Question& question, const ChannelServer::Answer& answer) {
    const std::lock_guard lock(mutex);
    waiting.emplace_back(question.rank, answer);
    if (waiting.size() < 2) return;
    for (const auto& [rank, reply] : waiting) reply("for " + std::to_string(rank));
  });
  const auto zero = connect(*server, 0);
  const auto one = connect(*server, 1);
  auto first =
      std::async(std::launch::async, [&] { return zero->ask("k", "1", "", seconds(120)); });
  const auto second = one->ask("k", "1", "", seconds(120));
  ASSERT_TRUE(second.ok()) << second.error().message;
  EXPECT_EQ(*second, "for 1");
  const auto other = first.get();
  ASSERT_TRUE(other.ok());
  EXPECT_EQ(*other, "for 0");
}

TEST(Channel, AnErrorOfTheLeaderIsTheAsking) {
  const auto server = serve([](const Question& question, const ChannelServer::Answer& answer) {
    answer(Error{"no " + question.kind + " of " + question.body});
  });
  const auto answer = connect(*server, 0)->ask("thing", "", "body", seconds(120));
  ASSERT_FALSE(answer.ok());
  EXPECT_EQ(answer.error().message, "no thing of body");
}

TEST(Channel, ASilentLeaderIsAnErrorAfterTheLimit) {
  const auto server = serve([](const Question&, const ChannelServer::Answer&) {});
  const auto answer = connect(*server, 0)->ask("thing", "", "", milliseconds(50));
  ASSERT_FALSE(answer.ok());
  EXPECT_THAT(answer.error().message, HasSubstr("no answer"));
}

TEST(Channel, AbortEndsWhatWaitsAndWhatComes) {
  const auto server = serve([](const Question&, const ChannelServer::Answer&) {});
  const auto client = connect(*server, 0);
  auto asked =
      std::async(std::launch::async, [&] { return client->ask("thing", "", "", seconds(60)); });
  client->abort();
  EXPECT_FALSE(asked.get().ok());
  EXPECT_THAT(client->ask("thing", "", "", seconds(60)).error().message, HasSubstr("has ended"));
}

TEST(Channel, AStrangerLearnsAndChangesNothing) {
  std::atomic<int> questions = 0;
  const auto server = serve([&](const Question&, const ChannelServer::Answer& answer) {
    ++questions;
    answer(std::string("secret"));
  });
  const auto stranger = connect(*server, 0, std::string(32, 'x'));
  const auto answer = stranger->ask("thing", "", "", milliseconds(300));
  ASSERT_FALSE(answer.ok());
  EXPECT_EQ(questions, 0);
}

TEST(Channel, QuestionsAreHeardOnceThoughTheConnectionIsBeingMade) {
  constexpr int kAskers = 32;
  for (int round = 0; round < 40; ++round) {
    std::atomic<int> heard = 0;
    const auto server = serve([&](const Question&, const ChannelServer::Answer& answer) {
      ++heard;
      answer(std::string());
    });
    const auto client = connect(*server, 0);
    std::vector<std::future<bool>> askers;
    for (int i = 0; i < kAskers; ++i) {
      askers.push_back(std::async(std::launch::async, [&, i] {
        std::this_thread::sleep_for(std::chrono::microseconds(i * 100));
        return client->ask("thing", "", "", seconds(120)).ok();
      }));
    }
    for (auto& asker : askers) EXPECT_TRUE(asker.get());
    ASSERT_TRUE(client->ask("after all others", "", "", seconds(120)).ok());
    EXPECT_EQ(heard, kAskers + 1);
  }
}

TEST(Channel, AnAnswerThatWasGivenArrivesThoughTheServerEnds) {
  for (int round = 0; round < 20; ++round) {
    std::promise<void> given;
    auto server = serve([&](const Question&, const ChannelServer::Answer& answer) {
      answer(std::string(100'000, 'a'));
      given.set_value();
    });
    const auto client = connect(*server, 0);
    auto asked =
        std::async(std::launch::async, [&] { return client->ask("k", "", "", seconds(120)); });
    given.get_future().wait();
    server.reset();
    const auto answer = asked.get();
    ASSERT_TRUE(answer.ok()) << answer.error().message;
    EXPECT_EQ(answer->size(), 100'000U);
  }
}

TEST(Channel, AnswersAfterTheServersEndFindNobody) {
  std::promise<ChannelServer::Answer> kept;
  auto server =
      serve([&](const Question&, const ChannelServer::Answer& answer) { kept.set_value(answer); });
  const auto client = connect(*server, 0);
  auto asked =
      std::async(std::launch::async, [&] { return client->ask("thing", "", "", seconds(60)); });
  const auto answer = kept.get_future().get();
  server.reset();
  answer(std::string("too late"));
  client->abort();
  EXPECT_FALSE(asked.get().ok());
}

}  // namespace
}  // namespace shanty::ckpt
