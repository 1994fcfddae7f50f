#include "net/http_response_parser.h"

#include <algorithm>
#include <boost/beast/http/basic_parser.hpp>
#include <boost/beast/http/error.hpp>
#include <cctype>
#include <utility>

namespace shanty::net {
namespace {

namespace beast = boost::beast;
namespace http = beast::http;
using beast::error_code;

constexpr int kMaxInterimAnswers = 8;  // 1xx before the answer
constexpr size_t kMaxHeaders = 256;

bool is_interim(int status) { return status >= 100 && status < 200 && status != 101; }

}  // namespace

std::string_view find_header(const std::vector<HttpHeader>& headers, std::string_view name) {
  const auto same = [](char a, char b) {
    return std::tolower(static_cast<unsigned char>(a)) ==
           std::tolower(static_cast<unsigned char>(b));
  };
  for (const HttpHeader& header : headers) {
    if (std::equal(name.begin(), name.end(), header.name.begin(), header.name.end(), same)) {
      return header.value;
    }
  }
  return {};
}

struct HttpResponseParser::Impl {
  class Parser final : public http::basic_parser<false> {
   public:
    Parser(const Options& options, const OnBody& on_body) : on_body_(on_body) {
      header_limit(static_cast<uint32_t>(options.max_header_bytes));
      body_limit(options.max_body_bytes);
      skip(options.no_body);
      eager(true);
    }

    int status = 0;
    std::vector<HttpHeader> headers;
    bool stopped = false;

   private:
    void on_request_impl(http::verb /*verb*/, beast::string_view /*method*/,
                         beast::string_view /*target*/, int /*version*/,
                         error_code& /*error*/) override {}
    void on_response_impl(int code, beast::string_view /*reason*/, int /*version*/,
                          error_code& /*error*/) override {
      status = code;
    }
    void on_field_impl(http::field /*field*/, beast::string_view name, beast::string_view value,
                       error_code& error) override {
      if (is_header_done()) return;  // a trailer
      if (headers.size() >= kMaxHeaders) {
        error = http::error::header_limit;
        return;
      }
      headers.push_back({std::string(name), std::string(value)});
    }
    void on_header_impl(error_code& /*error*/) override {}
    void on_body_init_impl(const boost::optional<uint64_t>& /*length*/,
                           error_code& /*error*/) override {}
    size_t on_body_impl(beast::string_view body, error_code& error) override {
      if (!body.empty() && !on_body_({body.data(), body.size()})) {
        stopped = true;
        error = http::error::end_of_stream;
      }
      return body.size();
    }
    void on_chunk_header_impl(uint64_t /*size*/, beast::string_view /*extensions*/,
                              error_code& /*error*/) override {}
    size_t on_chunk_body_impl(uint64_t /*remain*/, beast::string_view body,
                              error_code& error) override {
      return on_body_impl(body, error);
    }
    void on_finish_impl(error_code& /*error*/) override {}

    const OnBody& on_body_;
  };

  Impl(Options wanted, OnBody body) : options(wanted), on_body(std::move(body)) { begin(); }

  void begin() { parser = std::make_unique<Parser>(options, on_body); }

  Problem problem_of(const error_code& error) const {
    if (parser->stopped) return {HttpFailure::kStopped, "is not wanted any more"};
    if (error == http::error::header_limit) {
      return {HttpFailure::kTooLarge,
              "has a header larger than " + std::to_string(options.max_header_bytes) + " bytes"};
    }
    if (error == http::error::body_limit) {
      return {HttpFailure::kTooLarge,
              "is larger than " + std::to_string(options.max_body_bytes) + " bytes"};
    }
    if (error == http::error::partial_message || error == http::error::end_of_stream) {
      return {HttpFailure::kClosed, "ended in the middle"};
    }
    return {HttpFailure::kProtocol, "is not HTTP/1.1: " + error.message()};
  }

  Problem feed(std::string_view bytes) {
    pending.append(bytes);
    while (!pending.empty()) {
      if (parser->is_done()) {
        if (!is_interim(parser->status)) return {};  // too much came: see keeps_alive()
        if (++interim > kMaxInterimAnswers) {
          return {HttpFailure::kProtocol, "is nothing but interim answers"};
        }
        begin();
      }
      error_code error;
      const size_t taken =
          parser->put(boost::asio::const_buffer(pending.data(), pending.size()), error);
      pending.erase(0, taken);
      if (error == http::error::need_more) break;
      if (error) return problem_of(error);
      if (taken == 0 && !parser->is_done()) break;
    }
    if (!parser->is_header_done() && pending.size() > options.max_header_bytes) {
      return problem_of(http::error::header_limit);
    }
    return {};
  }

  Problem feed_end() {
    if (parser->is_done() && !is_interim(parser->status)) return {};
    error_code error;
    if (parser->got_some()) parser->put_eof(error);
    if (!error && !parser->got_some()) error = http::error::end_of_stream;
    return error ? problem_of(error) : Problem{};
  }

  const Options options;
  const OnBody on_body;
  std::unique_ptr<Parser> parser;
  std::string pending;
  int interim = 0;
};

HttpResponseParser::HttpResponseParser(Options options, OnBody on_body)
    : impl_(std::make_unique<Impl>(options, std::move(on_body))) {}
HttpResponseParser::~HttpResponseParser() = default;
HttpResponseParser::HttpResponseParser(HttpResponseParser&&) noexcept = default;

HttpResponseParser::Problem HttpResponseParser::feed(std::string_view bytes) {
  return impl_->feed(bytes);
}
HttpResponseParser::Problem HttpResponseParser::feed_end() { return impl_->feed_end(); }

bool HttpResponseParser::header_done() const {
  return impl_->parser->is_header_done() && !is_interim(impl_->parser->status);
}
bool HttpResponseParser::done() const { return header_done() && impl_->parser->is_done(); }
int HttpResponseParser::status() const { return header_done() ? impl_->parser->status : 0; }
const std::vector<HttpHeader>& HttpResponseParser::headers() const {
  return impl_->parser->headers;
}
bool HttpResponseParser::keeps_alive() const {
  return done() && impl_->parser->keep_alive() && impl_->pending.empty();
}

}  // namespace shanty::net
