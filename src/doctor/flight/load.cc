#include "doctor/flight/load.h"

#include <algorithm>
#include <atomic>
#include <cctype>
#include <charconv>
#include <map>
#include <set>
#include <thread>
#include <utility>

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <fmt/format.h>

#include "base/result.h"
#include "doctor/flight/dump.h"
#include "doctor/flight/pickle.h"
#include "os/fd.h"

namespace shanty::flight {
namespace {

constexpr unsigned kMaxThreads = 64;
constexpr size_t kFilesPerTurn = 8;

struct FileBytes {
  std::string buffer;  // kept from file to file
  size_t size = 0;
  int64_t unix_ns = 0;
};

Status read_whole(const std::string& path, FileBytes& out) {
  const Fd fd(::open(path.c_str(), O_RDONLY | O_CLOEXEC));
  if (!fd.valid()) return errno_error("reading " + path);
  struct stat info{};
  if (::fstat(fd.get(), &info) != 0) return errno_error("reading " + path);
  const auto size = static_cast<uint64_t>(info.st_size);
  if (!S_ISREG(info.st_mode)) return Error{path + " is not a file"};
  if (size > kMaxDumpBytes)
    return Error{fmt::format("{} has {} bytes, more than any dump", path, size)};
  if (out.buffer.size() < size) out.buffer.resize(size + size / 4);
  out.size = 0;
  while (out.size < size) {
    const ssize_t got = ::read(fd.get(), out.buffer.data() + out.size, size - out.size);
    if (got < 0 && errno == EINTR) continue;
    if (got < 0) return errno_error("reading " + path);
    if (got == 0) break;
    out.size += static_cast<size_t>(got);
  }
  out.unix_ns = int64_t{info.st_mtim.tv_sec} * 1'000'000'000 + info.st_mtim.tv_nsec;
  return {};
}

std::string_view directory_of(std::string_view name) {
  const size_t slash = name.rfind('/');
  return slash == std::string_view::npos ? std::string_view() : name.substr(0, slash + 1);
}

bool is_digit(char c) { return c >= '0' && c <= '9'; }

struct Place {
  size_t file = 0;
  DumpName name;
};
using Sets = std::map<std::string, std::vector<Place>>;

// By name alone, so that dumps collected in a directory per node come together; by directory too
// where a rank would come twice.
Sets sort_into_sets(std::span<const FlightFile> files) {
  Sets by_name;
  for (size_t i = 0; i < files.size(); ++i) {
    const DumpName name = parse_dump_name(files[i].name);
    by_name[name.prefix].push_back({i, name});
  }
  Sets sets;
  for (auto& [prefix, places] : by_name) {
    std::set<std::pair<int, bool>> ranks;
    bool twice = false;
    for (const Place& place : places) {
      twice |= !ranks.emplace(place.name.rank, place.name.json).second && place.name.rank >= 0;
    }
    for (Place& place : places) {
      const std::string key =
          (twice ? std::string(directory_of(files[place.file].name)) : "") + prefix;
      sets[key].push_back(std::move(place));
    }
  }
  return sets;
}

bool is_better(const RankTrace& a, const RankTrace& b) {
  const bool a_stacks = !a.entries.empty() && a.entries.back().stack != 0;
  const bool b_stacks = !b.entries.empty() && b.entries.back().stack != 0;
  if (a_stacks != b_stacks) return a_stacks;
  return a.file_unix_ns > b.file_unix_ns;
}

// One trace for each rank, by rank.
void settle_ranks(DumpSet& set) {
  auto& ranks = set.ranks;
  std::erase_if(ranks, [&](RankTrace& trace) {
    if (trace.rank >= 0) return false;
    set.unread.push_back({trace.file,
                          "neither its name nor its content tells the rank; name it "
                          "..._rank_N",
                          false});
    return true;
  });
  std::sort(ranks.begin(), ranks.end(), [](const RankTrace& a, const RankTrace& b) {
    if (a.rank != b.rank) return a.rank < b.rank;
    return is_better(a, b);
  });
  ranks.erase(std::unique(ranks.begin(), ranks.end(),
                          [](const RankTrace& a, const RankTrace& b) { return a.rank == b.rank; }),
              ranks.end());
}

void load_set(DumpSet& set, std::span<const FlightFile> files, const std::vector<Place>& places,
              unsigned threads) {
  std::vector<RankTrace> traces(places.size());
  std::vector<DumpSet::Unread> problems(places.size());
  std::atomic<uint64_t> bytes_read = 0;
  const size_t turns = (places.size() + kFilesPerTurn - 1) / kFilesPerTurn;
  parallel_for(turns, threads, [&](size_t turn) {
    thread_local FileBytes file;
    DumpReader reader(set.tables);
    const size_t end = std::min(places.size(), (turn + 1) * kFilesPerTurn);
    for (size_t i = turn * kFilesPerTurn; i < end; ++i) {
      const FlightFile& source = files[places[i].file];
      std::string_view bytes = source.bytes;
      int64_t unix_ns = 0;
      if (bytes.empty()) {
        const Status read = read_whole(source.path, file);
        if (!read) {
          problems[i] = {source.name, read.error().message, false};
          continue;
        }
        bytes = std::string_view(file.buffer.data(), file.size);
        unix_ns = file.unix_ns;
      }
      bytes_read += bytes.size();
      auto trace = reader.read(bytes);
      if (!trace) {
        const bool refused = trace.error().message.find("refused") != std::string::npos;
        problems[i] = {source.name, trace.error().message, refused};
        continue;
      }
      traces[i] = std::move(*trace);
      traces[i].file = source.name;
      traces[i].file_unix_ns = unix_ns;
      if (traces[i].rank < 0) traces[i].rank = places[i].name.rank;
    }
  });
  set.bytes_read = bytes_read;
  for (size_t i = 0; i < places.size(); ++i) {
    if (problems[i].file.empty()) {
      set.ranks.push_back(std::move(traces[i]));
    } else {
      set.unread.push_back(std::move(problems[i]));
    }
  }
  settle_ranks(set);
}

}  // namespace

DumpName parse_dump_name(std::string_view name) {
  DumpName out;
  std::string_view stem = name.substr(directory_of(name).size());
  for (const std::string_view ending : {".gz", ".zst", ".pickle", ".pkl", ".json", ".bin"}) {
    if (!stem.ends_with(ending)) continue;
    out.json |= ending == ".json";
    stem.remove_suffix(ending.size());
  }
  // The digits after the last "rank", else the last digits.
  size_t at = stem.rfind("rank");
  size_t digits = at == std::string_view::npos ? stem.size() : at + 4;
  while (digits < stem.size() && (stem[digits] == '_' || stem[digits] == '-')) ++digits;
  size_t end = digits;
  while (end < stem.size() && is_digit(stem[end])) ++end;
  if (end == digits) {
    end = stem.size();
    while (end > 0 && !is_digit(stem[end - 1])) --end;
    digits = end;
    while (digits > 0 && is_digit(stem[digits - 1])) --digits;
  }
  if (end > digits && end - digits <= 9) {
    std::from_chars(stem.data() + digits, stem.data() + end, out.rank);
  } else {
    digits = end = stem.size();
  }
  out.prefix = std::string(stem.substr(0, digits)) + std::string(stem.substr(end));
  return out;
}

void parallel_for(size_t count, unsigned threads, const std::function<void(size_t)>& work) {
  if (threads == 0) threads = std::thread::hardware_concurrency();
  threads = std::clamp(threads, 1U, kMaxThreads);
  std::atomic<size_t> next = 0;
  const auto loop = [&] {
    for (size_t i = next++; i < count; i = next++) work(i);
  };
  std::vector<std::thread> others;
  for (unsigned i = 1; i < std::min<size_t>(threads, count); ++i) others.emplace_back(loop);
  loop();
  for (std::thread& other : others) other.join();
}

std::vector<std::unique_ptr<DumpSet>> load_dumps(std::span<const FlightFile> files,
                                                 unsigned threads) {
  std::vector<std::unique_ptr<DumpSet>> out;
  for (const auto& [title, places] : sort_into_sets(files)) {
    auto set = std::make_unique<DumpSet>();
    set->title = title;
    load_set(*set, files, places, threads);
    out.push_back(std::move(set));
  }
  return out;
}

}  // namespace shanty::flight
