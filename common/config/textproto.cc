#include "common/config/textproto.h"

#include <map>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_split.h"
#include "google/protobuf/io/tokenizer.h"
#include "google/protobuf/text_format.h"

namespace dice {
namespace {

// (line, column) -> text, zero-based; a map sorts and removes repetitions.
using Problems = std::map<std::pair<int, int>, std::string>;

// Unknown fields arrive as warnings, because the parser is told to go on after
// them; here both kinds count.
class Collector : public google::protobuf::io::ErrorCollector {
 public:
  explicit Collector(Problems* problems) : problems_(*problems) {}
  void AddError(int line, int column, const std::string& text) override {
    problems_.emplace(std::pair(line, column), text);
    last_error_line_ = line;
  }
  void AddWarning(int line, int column, const std::string& text) override {
    problems_.emplace(std::pair(line, column), text);
  }
  int last_error_line() const { return last_error_line_; }

 private:
  Problems& problems_;
  int last_error_line_ = -1;
};

// A line that holds one plain field can be left out without harm to its
// neighbours.
bool IsPlainField(absl::string_view line) {
  return !line.empty() && line.find_first_of("{}<>[]") == line.npos &&
         line.find(':') != line.npos;
}

}  // namespace

std::vector<std::string> ParseTextproto(absl::string_view text,
                                        absl::string_view file,
                                        google::protobuf::Message* message) {
  std::vector<std::string> lines = absl::StrSplit(text, '\n');
  Problems problems;
  // The parser stops at a bad value: blank that line and parse again, until the
  // rest is understood or cannot be.
  for (bool parsed = false; !parsed;) {
    Collector collector(&problems);
    google::protobuf::TextFormat::Parser parser;
    parser.RecordErrorsTo(&collector);
    parser.AllowUnknownField(true);
    message->Clear();
    parsed = parser.ParseFromString(absl::StrJoin(lines, "\n"), message);
    const int bad = collector.last_error_line();
    if (parsed || bad < 0 || bad >= static_cast<int>(lines.size()) ||
        !IsPlainField(lines[bad])) {
      break;
    }
    lines[bad].clear();
  }
  std::vector<std::string> out;
  for (const auto& [where, why] : problems) {
    out.push_back(absl::StrCat(file, ":", where.first + 1, ":",
                               where.second + 1, ": ", why));
  }
  return out;
}

}  // namespace dice
