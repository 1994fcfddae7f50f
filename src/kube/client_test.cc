#include "kube/client.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdlib>

#include <unistd.h>

#include <nlohmann/json.hpp>

#include "kube/retry.h"
#include "kube/watch.h"
#include "net/http_test_server.h"
#include "os/fd.h"
#include "os/files.h"

namespace shanty::kube {
namespace {

using nlohmann::json;
using std::chrono_literals::operator""ms;
using std::chrono_literals::operator""s;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::Not;

const ServedKind kPods = {"", "v1", "Pod", "pods", true};
const ServedKind kNodes = {"", "v1", "Node", "nodes", false};

std::string answer(int status, const std::string& body, const std::string& headers = "") {
  return "HTTP/1.1 " + std::to_string(status) +
         " X\r\nContent-Length: " + std::to_string(body.size()) + "\r\n" + headers + "\r\n" + body;
}

std::string status_object(int code, const std::string& reason, const std::string& message) {
  return json{{"kind", "Status"}, {"code", code}, {"reason", reason}, {"message", message}}.dump();
}

// A server that gives its answers one after the other, whatever the connection, and remembers what
// it was asked. When they run out it closes.
class Scripted {
 public:
  explicit Scripted(std::vector<std::string> answers)
      : answers_(std::move(answers)), server_([this](net::HttpTestServer::Peer& peer) {
          while (peer.read_request()) {
            const std::lock_guard lock(mutex_);
            requests_.push_back(peer.head + peer.body);
            if (next_ >= answers_.size()) return;
            peer.write(answers_[next_++]);
            if (answers_[next_ - 1].find("Content-Length") == std::string::npos) return;
          }
        }) {}

  std::unique_ptr<Client> client(Access access = {}) {
    access.server = *net::parse_url("http://127.0.0.1:" + std::to_string(server_.port()));
    if (access.k8s_namespace.empty()) access.k8s_namespace = "ml";
    if (access.user.empty()) access.user = "me";
    ClientOptions options;
    options.limits.first_byte = 60s;
    options.wait = [this](Duration duration) {
      waits.push_back(duration);
      return true;
    };
    auto made = Client::create(std::move(access), options);
    CHECK(made.ok());
    return std::move(made).value();
  }

  // The first line of each request.
  std::vector<std::string> asked() {
    const std::lock_guard lock(mutex_);
    std::vector<std::string> out;
    for (const std::string& request : requests_) {
      out.push_back(request.substr(0, request.find(" HTTP/1.1")));
    }
    return out;
  }
  std::string request(size_t index) {
    const std::lock_guard lock(mutex_);
    return index < requests_.size() ? requests_[index] : "";
  }

  std::vector<Duration> waits;

 private:
  std::vector<std::string> answers_;
  std::mutex mutex_;
  std::vector<std::string> requests_;
  size_t next_ = 0;
  net::HttpTestServer server_;
};

std::string page(std::vector<std::string> names, const std::string& next) {
  json list = {{"kind", "PodList"},
               {"metadata", {{"resourceVersion", "7"}, {"continue", next}}},
               {"items", json::array()}};
  for (const std::string& name : names) list["items"].push_back({{"metadata", {{"name", name}}}});
  return answer(200, list.dump());
}

struct Names {
  std::vector<std::string> seen;
  Client::ListSink sink() {
    return {.each = [this](const json& item) { seen.push_back(item["metadata"]["name"]); },
            .restart = [this] { seen.clear(); }};
  }
};

TEST(KubeClient, ListsPageAfterPage) {
  Scripted server({page({"a", "b"}, "more"), page({"c"}, "")});
  Names names;
  const auto version =
      server.client()->list(kPods, "ml", {.label_selector = "a=b,c"}, names.sink());
  ASSERT_TRUE(version.ok()) << version.error().message;
  EXPECT_EQ(*version, "7");
  EXPECT_THAT(names.seen, ElementsAre("a", "b", "c"));
  EXPECT_THAT(server.asked(),
              ElementsAre("GET /api/v1/namespaces/ml/pods?limit=500&labelSelector=a%3Db%2Cc",
                          "GET /api/v1/namespaces/ml/pods?limit=500&labelSelector=a%3Db%2Cc"
                          "&continue=more"));
}

TEST(KubeClient, ListsWithoutWhatIsInside) {
  Scripted server({page({"a"}, "")});
  Names names;
  ASSERT_TRUE(server.client()->list(kPods, "ml", {.metadata_only = true}, names.sink()).ok());
  EXPECT_THAT(server.request(0), HasSubstr("as=PartialObjectMetadataList"));
  EXPECT_THAT(names.seen, ElementsAre("a"));
}

TEST(KubeClient, BeginsAListAnewThatTheServerHasForgotten) {
  const std::string expired = answer(410, status_object(410, "Expired", "too old"));
  Scripted server({page({"a"}, "more"), expired, page({"b"}, "more"), page({"c"}, "")});
  Names names;
  ASSERT_TRUE(server.client()->list(kPods, "", {}, names.sink()).ok());
  EXPECT_THAT(names.seen, ElementsAre("b", "c"));
}

TEST(KubeClient, DoesNotFollowPagesThatLeadNowhereOrNeverEnd) {
  Scripted circle({page({}, "same"), page({}, "same"), page({}, "same")});
  Names names;
  const auto lost = circle.client()->list(kPods, "", {}, names.sink());
  ASSERT_FALSE(lost.ok());
  EXPECT_THAT(lost.error().message, HasSubstr("do not come to an end"));
  Scripted many({page({"a", "b", "c"}, "more")});
  EXPECT_FALSE(many.client()->list(kPods, "", {.max_items = 2}, names.sink()).ok());
  Scripted liar({answer(200, "{\"kind\": \"Pod\"}"), answer(200, "<html>login</html>")});
  const auto client = liar.client();
  EXPECT_THAT(client->list(kPods, "", {}, names.sink()).error().message, HasSubstr("no list"));
  EXPECT_THAT(client->list(kPods, "", {}, names.sink()).error().message, HasSubstr("no JSON"));
}

TEST(KubeClient, WaitsAsTheServerAsksButNotForEver) {
  const std::string busy =
      answer(429, status_object(429, "TooManyRequests", "slow down"), "Retry-After: 2\r\n");
  const std::string very_busy = answer(429, "", "Retry-After: 86400\r\n");
  Scripted server({busy, very_busy, answer(200, "{}")});
  EXPECT_TRUE(server.client()->get({kNodes, "", "n"}).ok());
  ASSERT_EQ(server.waits.size(), 2U);
  EXPECT_EQ(server.waits[0], 2s);
  EXPECT_EQ(server.waits[1], RetryLimits{}.longest_wait);
  Scripted always(std::vector<std::string>(20, busy));
  const auto refused = always.client()->get({kNodes, "", "n"});
  ASSERT_FALSE(refused.ok());
  EXPECT_EQ(refused.error().status, 429);
  EXPECT_THAT(refused.error().message, HasSubstr("try again in a minute"));
  EXPECT_EQ(always.asked().size(), static_cast<size_t>(RetryLimits{}.attempts));
}

TEST(KubeClient, RepeatsWhatMayBeRepeatedAndNothingElse) {
  const std::string broken = answer(500, status_object(500, "InternalError", "etcd"));
  Scripted server({broken, answer(200, "{}")});
  EXPECT_TRUE(server.client()->get({kNodes, "", "n"}).ok());
  net::HttpAnswer cut;
  cut.failure = net::HttpFailure::kClosed;
  cut.sent = true;
  EXPECT_FALSE(wait_before_retry(cut, false, 1, {}, 0).has_value());
  EXPECT_TRUE(wait_before_retry(cut, true, 1, {}, 0).has_value());
  cut.sent = false;
  EXPECT_TRUE(wait_before_retry(cut, false, 1, {}, 0).has_value());
  net::HttpAnswer failed;
  failed.status = 500;
  EXPECT_FALSE(wait_before_retry(failed, false, 1, {}, 0).has_value());
  failed.status = 422;
  EXPECT_FALSE(wait_before_retry(failed, true, 1, {}, 0).has_value());
  failed.status = 503;
  EXPECT_FALSE(wait_before_retry(failed, true, RetryLimits{}.attempts, {}, 0).has_value());
  EXPECT_LE(*wait_before_retry(failed, true, 4, {}, 0.99), RetryLimits{}.longest_wait);
}

TEST(KubeClient, MakesClearErrorsOfStatusObjects) {
  const struct {
    std::string answer;
    const char* says;
  } cases[] = {
      {answer(403, status_object(403, "Forbidden", "User \"me\" cannot list pods")),
       "cannot get pods \"p\" in namespace ml: User \"me\" cannot list pods; ask for that right"},
      {answer(404, status_object(404, "NotFound", "pods \"p\" not found")),
       "cannot get pods \"p\" in namespace ml: pods \"p\" not found"},
      {answer(401, status_object(401, "Unauthorized", "Unauthorized")), "log in anew"},
      {answer(404, "404 page not found\n"), "answers 404 \"404 page not found"},
      {answer(400, "<html><body><h1>Bad\n\nGateway</h1></body></html>"), "\"Bad Gateway"},
      {answer(200, "[]"), "no JSON object"},
      {"SSH-2.0-x\r\n\r\n", "is that address an API server?"},
  };
  for (const auto& each : cases) {
    Scripted server({each.answer});
    const auto got = server.client()->get({kPods, "ml", "p"});
    ASSERT_FALSE(got.ok());
    EXPECT_THAT(got.error().message, HasSubstr(each.says));
  }
}

TEST(KubeClient, KeepsTokensOutOfItsErrors) {
  Access access;
  access.token = SecretText("hush");
  Scripted server({answer(403, status_object(403, "Forbidden", "no"))});
  const auto got = server.client(access)->get({kPods, "ml", "p"});
  EXPECT_THAT(server.request(0), HasSubstr("Authorization: Bearer hush\r\n"));
  EXPECT_THAT(got.error().message, Not(HasSubstr("hush")));
  access.token = SecretText("hush\nX-Evil: 1");
  EXPECT_THAT(server.client(access)->get({kPods, "ml", "p"}).error().message,
              Not(HasSubstr("hush")));
}

std::string discovery(const std::string& group, const std::string& version, const std::string& kind,
                      const std::string& plural) {
  const json body = {{"kind", "APIGroupDiscoveryList"},
                     {"items",
                      {{{"metadata", {{"name", group}}},
                        {"versions",
                         {{{"version", version},
                           {"resources",
                            {{{"resource", plural},
                              {"scope", "Namespaced"},
                              {"responseKind", {{"kind", kind}}}}}}}}}}}}};
  return answer(200, body.dump());
}

TEST(KubeClient, AppliesWhereAnObjectBelongs) {
  Scripted server({discovery("", "v1", "Pod", "pods"), discovery("batch", "v1", "Job", "jobs"),
                   answer(200, "{}"), answer(201, "{}")});
  const auto client = server.client();
  const json job = {{"apiVersion", "batch/v1"}, {"kind", "Job"}, {"metadata", {{"name", "j"}}}};
  ASSERT_TRUE(client->apply(job, {.force = true, .dry_run = true}).ok());
  EXPECT_EQ(server.asked().back(),
            "PATCH /apis/batch/v1/namespaces/ml/jobs/j?fieldManager=shanty&dryRun=All"
            "&fieldValidation=Strict&force=true");
  EXPECT_THAT(server.request(2), HasSubstr("Content-Type: application/apply-patch+yaml\r\n"));
  const json pod = {{"apiVersion", "v1"},
                    {"kind", "Pod"},
                    {"metadata", {{"generateName", "p-"}, {"namespace", "other"}}}};
  ASSERT_TRUE(client->create_object(pod).ok());
  EXPECT_THAT(server.asked().back(), HasSubstr("POST /api/v1/namespaces/other/pods?"));
  const json set = {{"apiVersion", "x/v1"}, {"kind", "JobSet"}, {"metadata", {{"name", "j"}}}};
  EXPECT_TRUE(client->apply(set).error().is_not_found());
  EXPECT_FALSE(client->apply(pod).ok());
}

TEST(KubeClient, TakesWhatIsGoneForDeleted) {
  Scripted server({answer(404, status_object(404, "NotFound", "gone")), answer(200, "{}")});
  const auto client = server.client();
  EXPECT_TRUE(client->remove({kPods, "ml", "p"}).ok());
  EXPECT_TRUE(client->remove({kPods, "ml", "p"}, Propagation::kForeground, 0).ok());
  EXPECT_THAT(server.request(1), HasSubstr("\"gracePeriodSeconds\":0"));
}

TEST(KubeClient, ReadsLogs) {
  Scripted server(
      {answer(200, "line 1\nline 2\n"),
       answer(400, status_object(400, "BadRequest", "a container name must be given"))});
  const auto client = server.client();
  std::string text;
  const auto take = [&](std::string_view bytes) {
    text += bytes;
    return true;
  };
  ASSERT_TRUE(
      client->logs("ml", "p", {.container = "c", .follow = true, .tail_lines = 5}, take).ok());
  EXPECT_EQ(text, "line 1\nline 2\n");
  EXPECT_EQ(server.asked()[0],
            "GET /api/v1/namespaces/ml/pods/p/log?container=c&follow=true&tailLines=5");
  EXPECT_THAT(client->logs("ml", "p", {}, take).error().message, HasSubstr("container name"));
}

TEST(KubeClient, RenewsCredentialsBeforeItGivesUpOnAStream) {
  char name[] = "/tmp/shanty-token-XXXXXX";
  const Fd file(::mkstemp(name));
  ASSERT_TRUE(write_all(file.get(), "first").ok());
  Scripted server({answer(401, status_object(401, "Unauthorized", "expired")),
                   answer(200, "line\n"), answer(401, status_object(401, "Unauthorized", "no")),
                   answer(401, status_object(401, "Unauthorized", "no"))});
  const auto client = server.client({.token_file = name});
  std::string text;
  const auto take = [&](std::string_view bytes) {
    text += bytes;
    return true;
  };
  EXPECT_TRUE(client->stream("/x", "read x", take, 60s).ok());
  EXPECT_EQ(text, "line\n");
  EXPECT_EQ(client->stream("/x", "read x", take, 60s).error().status, 401);
  EXPECT_EQ(server.asked().size(), 4U);
  ::unlink(name);
}

// --- watch ---

std::string event(const std::string& type, const std::string& name, const std::string& version) {
  return json{{"type", type},
              {"object", {{"metadata", {{"name", name}, {"resourceVersion", version}}}}}}
             .dump() +
         "\n";
}

// What a follower hears, as words; ends after `most` of them.
struct Follower {
  explicit Follower(size_t wanted) : most(wanted) {}
  void note(const std::string& word) {
    heard.push_back(word);
    if (heard.size() >= most) source.request_stop();
  }
  ApiStatus run(Client& client, WatchOptions options = {}) {
    options.k8s_namespace = "ml";
    return follow(
        client, kPods, options,
        {.on_reset = [this] { note("reset"); },
         .on_object =
             [this](WatchType type, const json& object) {
               const char* sign = type == WatchType::kDeleted ? "-" : "+";
               note(sign + object["metadata"]["name"].get<std::string>());
             },
         .on_synced = [this] { note("synced"); },
         .on_trouble = [this](const ApiError& error) { troubles.push_back(error.message); }},
        source.get_token());
  }
  size_t most;
  std::stop_source source;
  std::vector<std::string> heard;
  std::vector<std::string> troubles;
};

TEST(KubeWatch, ResumesWhereItWasAfterAnEndAndABookmark) {
  Scripted server({page({"a"}, ""),
                   answer(200, event("ADDED", "b", "8") + event("BOOKMARK", "", "20")),
                   answer(200, event("DELETED", "a", "21"))});
  Follower follower(5);
  ASSERT_TRUE(follower.run(*server.client()).ok());
  EXPECT_THAT(follower.heard, ElementsAre("reset", "+a", "synced", "+b", "-a"));
  EXPECT_THAT(server.asked()[1], HasSubstr("watch=true&allowWatchBookmarks=true"));
  EXPECT_THAT(server.asked()[1], HasSubstr("resourceVersion=7"));
  EXPECT_THAT(server.asked()[2], HasSubstr("resourceVersion=20"));
}

TEST(KubeWatch, ListsAnewWhenTheServerHasForgotten) {
  const std::string gone =
      json{{"type", "ERROR"},
           {"object", json::parse(status_object(410, "Expired", "too old resource version"))}}
          .dump() +
      "\n";
  Scripted server({page({"a"}, ""), answer(200, gone), page({"b"}, ""),
                   answer(410, status_object(410, "Gone", "gone")), page({"c"}, "")});
  Follower follower(9);
  ASSERT_TRUE(follower.run(*server.client()).ok());
  EXPECT_THAT(follower.heard, ElementsAre("reset", "+a", "synced", "reset", "+b", "synced", "reset",
                                          "+c", "synced"));
}

TEST(KubeWatch, BacksOffFromAServerThatEndsEveryWatchAtOnceAndGivesUp) {
  std::vector<std::string> answers{page({"a"}, "")};
  for (int i = 0; i < 30; ++i) answers.push_back(answer(200, ""));
  Scripted server(answers);
  Follower follower(100);
  const ApiStatus ended = follower.run(*server.client(), {.failures = 5});
  ASSERT_FALSE(ended.ok());
  EXPECT_THAT(ended.error().message, HasSubstr("ends it at once"));
  EXPECT_THAT(ended.error().message, HasSubstr("; given up after 5 tries in "));
  EXPECT_EQ(server.waits.size(), 4U);
  EXPECT_GT(server.waits[3], server.waits[0]);
}

TEST(KubeWatch, GoesOnWhereQuietWatchesAreCutOff) {
  std::vector<std::string> answers{page({"a"}, "")};
  for (int i = 0; i < 8; ++i) {
    answers.push_back("HTTP/1.1 200 X\r\nTransfer-Encoding: chunked\r\n\r\n");  // and no more
  }
  answers.push_back(answer(200, event("ADDED", "b", "8")));
  Scripted server(answers);
  Follower follower(4);
  const ApiStatus ended =
      follower.run(*server.client(), {.failures = 5, .good_watch = Duration::zero()});
  EXPECT_TRUE(ended.ok()) << ended.error().message;
  EXPECT_THAT(follower.heard, ElementsAre("reset", "+a", "synced", "+b"));
}

TEST(KubeWatch, ListsAnewAfterGarbage) {
  Scripted server({page({"a"}, ""), answer(200, event("ADDED", "b", "8") + "{\"type\": \n"),
                   page({"a", "b"}, "")});
  Follower follower(8);
  ASSERT_TRUE(follower.run(*server.client()).ok());
  EXPECT_THAT(follower.heard,
              ElementsAre("reset", "+a", "synced", "+b", "reset", "+a", "+b", "synced"));
  EXPECT_EQ(follower.troubles.size(), 1U);
}

TEST(KubeWatch, GivesUpAtOnceWithoutTheRight) {
  Scripted server({answer(403, status_object(403, "Forbidden", "no"))});
  Follower follower(100);
  EXPECT_TRUE(follower.run(*server.client()).error().is_forbidden());
  EXPECT_TRUE(server.waits.empty());
}

TEST(WatchLines, TakeEventsHoweverTheyAreCut) {
  const std::string text = event("ADDED", "a", "1") + "\n \r\n" + event("MODIFIED", "b", "2");
  for (size_t step = 1; step < text.size(); step += 7) {
    std::vector<std::string> names;
    WatchLines lines([&](WatchType, const json& object) {
      names.push_back(object["metadata"]["name"]);
      return true;
    });
    for (size_t i = 0; i < text.size(); i += step) {
      ASSERT_TRUE(lines.feed(std::string_view(text).substr(i, step)).ok());
    }
    EXPECT_THAT(names, ElementsAre("a", "b"));
  }
}

TEST(WatchLines, RefuseWhatIsNoEvent) {
  for (const char* bad :
       {"x\n", "[]\n", "{\"type\": \"OTHER\", \"object\": {}}\n", "{\"type\": \"ADDED\"}\n"}) {
    WatchLines lines([](WatchType, const json&) { return true; });
    EXPECT_FALSE(lines.feed(bad).ok()) << bad;
  }
  WatchLines endless([](WatchType, const json&) { return true; });
  const std::string much(WatchLines::kMaxLineBytes / 2 + 1, 'x');
  EXPECT_TRUE(endless.feed(much).ok());
  EXPECT_FALSE(endless.feed(much).ok());
}

}  // namespace
}  // namespace shanty::kube
