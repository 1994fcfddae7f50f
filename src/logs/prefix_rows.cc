#include "logs/prefix.h"

namespace shanty {
namespace {

#define ISO_TIME \
  R"~((?P<time>\d{4}[-/]\d\d[-/]\d\d[T _]\d\d:\d\d:\d\d(?:[.,]\d+)?(?:Z|[+-]\d\d:?\d\d)?))~"
#define POD \
  R"~((?P<pod>[a-z0-9](?:[\w.-]*-)?(?:master|worker|launcher|node|trainer|head)-\d+(?:-\d+)*(?:-[a-z0-9]{5})?))~"

// The order counts: what is more special comes first.
constexpr PrefixRow kRows[] = {
    {"kubectl --prefix", "[", R"~(\[pod/(?P<pod>[^/\]]+)/[^\]]+\] ?)~"},
    {"c10d rank", "[", R"~(\[rank ?(?P<rank>\d+)\]: ?)~"},
    {"rank tag", "[(Rr",
     R"~([\[(]?(?:rank|Rank|RANK)[ :=]{0,2}(?P<rank>\d+)(?:/\d+)?(?:[\])]:?|:) ?)~"},
    {"c10 log", "[",
     R"~(\[(?P<level>[IWEF])(?P<time>\d{3,4} \d\d:\d\d:\d\d\.\d+) (?:(?P<pid>\d+) )?(?P<source>[\w./-]+:\d+)\] ?)~"},
    {"c10 log before 2.3", "[", R"~(\[(?P<level>[IWEF]) (?P<source>[\w./-]+:\d+)\] ?)~"},
    {"process group", "[",
     R"~(\[PG (?:ID )?(?P<pgid>\d+)(?: PG GUID (?P<group>[^\]]*?))? Rank (?P<pgrank>\d+)\] ?)~"},
    {"elastic 2.2", "[",
     R"~(\[)~" ISO_TIME R"~(\] (?P<logger>[A-Za-z_][\w.]*): \[(?P<level>[A-Z]+)\] ?)~"},
    {"sglang", "[", R"~(\[)~" ISO_TIME R"~((?: DP\d+)? TP(?P<rank>\d+)(?: [A-Z]{2}\d+)*\] ?)~"},
    {"time in brackets", "[", R"~(\[)~" ISO_TIME R"~(\] ?)~"},
    {"elastic 1.x", "[",
     R"~(\[(?P<level>DEBUG|INFO|WARNING|ERROR|CRITICAL)\] )~" ISO_TIME R"~( (?P<logger>\w+): ?)~"},
    {"torch_npu", "[",
     R"~(\[(?P<level>ERROR|WARNING)\] \d{4}-\d\d-\d\d-\d\d:\d\d:\d\d \(PID:(?P<pid>\d+), Device:-?\d+, RankID:(?P<rank>-?\d+)\) ?)~"},
    {"level in brackets", "[",
     R"~(\[(?P<level>DEBUG|INFO|WARN|WARNING|ERROR|CRITICAL|FATAL)\] ?)~"},
    {"mpirun --tag-output", "[", R"~(\[\d+,(?P<rank>\d+)\]<\w+>: ?)~"},
    {"horovodrun", "[", R"~(\[(?P<rank>\d+)\]<std(?:out|err)>: ?)~"},
    {"torchrun --tee", "[", R"~(\[(?:default|[A-Za-z][A-Za-z_]*)?(?P<local>\d+)\]: ?)~"},
    {"dmesg -T", "[", R"~(\[\w{3} (?P<time>[A-Z][a-z]{2} +\d+ \d\d:\d\d:\d\d) \d{4}\] ?)~"},
    {"dmesg", "[", R"~(\[ *(?P<uptime>\d+\.\d{6})\] ?)~"},
    {"Ray", "(",
     R"~(\((?:[\w.:<> -]+ )?(?:rank=(?P<rank>\d+) )?pid=(?P<pid>\d+)(?:, ip=\[?(?P<node>[\w.:-]+)\]?)?\) ?)~"},
    {"elastic 2.4", "DIWEFC",
     R"~((?P<level>[DIWEFC])(?P<time>\d{3,4} \d\d:\d\d:\d\d\.\d+) +(?P<pid>\d+) (?P<source>[\w./<>-]+:\d+)\] ?)~"},
    {"python logging", "DIWEC",
     R"~((?P<level>DEBUG|INFO|WARNING|ERROR|CRITICAL):(?P<logger>[A-Za-z_][\w.]*): ?)~"},
    {"CRI", "12", ISO_TIME R"~( (?:stdout|stderr) [FP] )~"},
    {"time", "12", ISO_TIME R"~((?: - |: | |$))~"},
    {"NCCL", "",
     R"~((?P<node>[A-Za-z0-9][\w.-]*):(?P<pid>\d+):(?P<tid>\d+) \[(?P<dev>-?\d+)\] ?)~"},
    {"NCCL without a process", "",
     R"~((?P<node>[A-Za-z0-9][\w.-]*)(?::(?P<pid>\d+))? \[-?\d+\] (?P<rest>(?:[\w./]+\.(?:cc|cu|h):\d+ )?NCCL (?:INFO|WARN)))~"},
    {"RFC 5424", "<",
     R"~(<\d+>1 )~" ISO_TIME
     R"~( (?P<node>\S+) (?P<app>\S+) (?P<pid>\d+|-) \S+ (?:-|\[[^\]]*\]) ?)~"},
    {"syslog priority", "<", R"~(<\d+>)~"},
    {"syslog", "ADFJMNOS",
     R"~((?P<time>[A-Z][a-z]{2} [ \d]\d \d\d:\d\d:\d\d(?:\.\d+)?) (?P<node>[\w.-]+) (?P<app>[\w./()-]+)(?:\[(?P<pid>\d+)\])?: ?)~"},
    {"loguru", "|", R"~(\| (?P<level>[A-Z]+) +\| (?:[^ |]+ - )?)~"},
    // Of a table that was copied from a web page, or of a log within another.
    {"columns", " |", R"~((?: *\|)+ )~"},
    {"Determined", "0123456789abcdef",
     R"~((?P<node>[0-9a-f]{8})(?: \[rank=(?P<rank>\d+)\])? \|\| )~"},
    {"name and level", "",
     R"~((?P<logger>[\w.]+) - (?P<level>DEBUG|INFO|WARNING|ERROR|CRITICAL) - ?)~"},
    {"compose", "", R"~((?P<pod>[\w.-]+-\d+) +\| )~"},
    {"pod", "", POD R"~((?::| (?:pytorch|node|trainer|main|worker|master))? )~"},
    {"pdsh", "",
     R"~((?P<node>(?:[a-z][a-z0-9-]*-\d+|(?:node|host|gpu|dgx|worker)\d+|\d+\.\d+\.\d+\.\d+)): )~"},
    // Only what can be no program's word: "GPU0: " and "UTF-8: " are.
    {"pdsh, capitals", "ABCDEFGHIJKLMNOPQRSTUVWXYZ",
     R"~((?P<node>(?:NODE|HOST|DGX|WORKER|NID)-?\d+|GPU[A-Z]+\d[A-Z0-9]*|[A-Z][A-Z0-9]*(?:-[A-Z0-9]+)+-\d+): )~"},
    {"srun --label", " 0123456789", R"~( *(?P<rank>\d{1,5}): )~"},
    {"level", "DIWECF",
     R"~((?P<level>DEBUG|INFO|WARN|WARNING|ERROR|CRITICAL|FATAL)(?: -|:| *\|)? +)~"},
    {"logger", "", R"~((?P<logger>[A-Za-z_]\w*(?:\.\w+)+)(?: -|:) )~"},
};

}  // namespace

std::span<const PrefixRow> prefix_rows() { return kRows; }

}  // namespace shanty
