#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include <fmt/format.h>

namespace shanty::flight {

// Dumps for tests, as torch writes them: protocol 2, each string memoized where it first stands.
struct TestEntry {
  std::string group = "0";
  std::string desc = "default_pg";
  int pg_id = 0;
  uint32_t seq = 1;
  std::string name = "nccl:all_reduce";
  std::vector<int64_t> sizes = {1024};
  std::string dtype = "Float";
  std::string state = "completed";
  bool retired = true;
  bool p2p = false;
  int64_t created_unix_ns = 1'795'971'367'000'000'000;
  std::string file = "/job/train.py";
  int line = 29;
};

struct TestGroup {
  std::string name;
  std::string desc;
  std::vector<int> ranks;
};

struct TestDump {
  std::vector<TestGroup> groups;
  std::vector<TestEntry> entries;
  std::map<int, std::pair<int, int>> status;  // by pg_id: last enqueued, last completed
  int64_t first_record = 0;
};

class PickleWriter {
 public:
  PickleWriter() : out_("\x80\x02") {}
  PickleWriter& raw(std::string_view bytes) {
    out_ += bytes;
    return *this;
  }
  PickleWriter& text(const std::string& text) {
    const auto [at, is_new] = memo_.emplace(text, memo_.size());
    if (!is_new) {
      out_ += at->second < 256 ? 'h' : 'j';
      bytes(at->second, at->second < 256 ? 1 : 4);
      return *this;
    }
    out_ += 'X';
    bytes(text.size(), 4);
    out_ += text;
    out_ += at->second < 256 ? 'q' : 'r';
    bytes(at->second, at->second < 256 ? 1 : 4);
    return *this;
  }
  PickleWriter& number(int64_t value) {
    if (value >= 0 && value < 256) {
      out_ += 'K';
      bytes(static_cast<uint64_t>(value), 1);
    } else if (value >= INT32_MIN && value <= INT32_MAX) {
      out_ += 'J';
      bytes(static_cast<uint64_t>(value), 4);
    } else {
      out_ += "\x8a\x08";
      bytes(static_cast<uint64_t>(value), 8);
    }
    return *this;
  }
  PickleWriter& boolean(bool value) { return raw(value ? "\x88" : "\x89"); }
  std::string finish() { return out_ + '.'; }

 private:
  void bytes(uint64_t value, int count) {
    for (int i = 0; i < count; ++i) out_ += static_cast<char>(value >> (8 * i));
  }
  std::string out_;
  std::map<std::string, size_t> memo_;
};

inline std::string ranks_list(const std::vector<int>& ranks) {
  std::string text = "[";
  for (const int rank : ranks) text += (text.size() > 1 ? ", " : "") + std::to_string(rank);
  return text + "]";
}

inline void write_sizes(PickleWriter& w, const TestEntry& e, const char* sizes,
                        const char* dtypes) {
  w.text(sizes).raw("](](");
  for (const int64_t size : e.sizes) w.number(size);
  w.raw("ee").text(dtypes).raw("](").text(e.dtype).raw("e");
}

inline std::string to_pickle(const TestDump& dump) {
  PickleWriter w;
  w.raw("}(").text("version").text("2.10").text("pg_config").raw("}(");
  for (const TestGroup& group : dump.groups) {
    w.text(group.name).raw("}(").text("name").text(group.name).text("desc").text(group.desc);
    w.text("ranks").text(ranks_list(group.ranks)).raw("u");
  }
  w.raw("u").text("pg_status").raw("}(");
  for (const auto& [pg_id, counts] : dump.status) {
    w.text(std::to_string(pg_id)).raw("}(").text("last_enqueued_collective");
    w.number(counts.first).text("last_completed_collective").number(counts.second).raw("u");
  }
  w.raw("u").text("entries").raw("](");
  int64_t record = dump.first_record;
  for (const TestEntry& e : dump.entries) {
    w.raw("}(").text("frames").raw("](}(").text("name").text("all_reduce").text("filename");
    w.text("/venv/torch/distributed/distributed_c10d.py").text("line").number(4174);
    w.raw("u}(").text("name").text("step").text("filename").text(e.file).text("line");
    w.number(e.line).raw("ue").text("record_id").number(record++).text("pg_id").number(e.pg_id);
    w.text("process_group").text(e.group).text(e.desc).raw("\x86");
    w.text("collective_seq_id").number(e.p2p ? 0 : e.seq);
    w.text("p2p_seq_id").number(e.p2p ? e.seq : 0);
    w.text("profiling_name").text(e.name).text("time_created_ns").number(e.created_unix_ns);
    write_sizes(w, e, "input_sizes", "input_dtypes");
    write_sizes(w, e, "output_sizes", "output_dtypes");
    w.text("state").text(e.state).text("time_discovered_started_ns").raw("N");
    w.text("retired").boolean(e.retired).text("is_p2p").boolean(e.p2p).raw("u");
  }
  return w.raw("eu").finish();
}

inline std::string to_json(const TestDump& dump) {
  std::string entries;
  int64_t record = dump.first_record;
  for (const TestEntry& e : dump.entries) {
    std::string sizes;
    for (const int64_t size : e.sizes) sizes += (sizes.empty() ? "" : ",") + std::to_string(size);
    entries += fmt::format(
        R"({}{{"collective_seq_id":{},"input_dtypes":["{}"],"input_sizes":[[{}]],"is_p2p":{},)"
        R"("output_dtypes":["{}"],"output_sizes":[[{}]],"p2p_seq_id":{},"pg_id":{},)"
        R"("process_group":["{}","{}"],"profiling_name":"{}","record_id":{},"retired":{},)"
        R"("state":"{}","time_created_ns":{}}})",
        entries.empty() ? "" : ",", e.p2p ? 0 : e.seq, e.dtype, sizes, e.p2p, e.dtype, sizes,
        e.p2p ? e.seq : 0, e.pg_id, e.group, e.desc, e.name, record++, e.retired, e.state,
        e.created_unix_ns);
  }
  std::string config;
  for (const TestGroup& group : dump.groups) {
    config +=
        fmt::format(R"({}"{}":{{"name":"{}","desc":"{}","ranks":"{}"}})", config.empty() ? "" : ",",
                    group.name, group.name, group.desc, ranks_list(group.ranks));
  }
  return fmt::format(R"({{"entries":[{}],"pg_config":{{{}}},"pg_status":{{}},"version":"2.10"}})",
                     entries, config);
}

}  // namespace shanty::flight
