#include "cli/report.h"

#include <iostream>
#include <memory>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_replace.h"
#include "cli/report_data.h"
#include "cli/report_page.h"
#include "common/base/file.h"
#include "common/base/status_macros.h"

namespace dice::cli {
namespace {

constexpr char kPlaceholder[] = "{{data}}";

int Report(const std::string& run_dir, std::string out) {
  if (out.empty()) out = JoinPath(run_dir, "report.html");
  const auto page = MakeReport(run_dir);
  if (!page.ok()) {
    std::cerr << "dice report: " << page.status().message() << "\n";
    return kUsage;
  }
  if (const absl::Status s = WriteFileAtomic(out, *page); !s.ok()) {
    std::cerr << "dice report: " << s.message() << "\n";
    return kInfra;
  }
  std::cout << out << "\n";
  return kAccepted;
}

}  // namespace

absl::StatusOr<std::string> MakeReport(const std::string& run_dir) {
  DICE_ASSIGN_OR_RETURN(const nlohmann::ordered_json data,
                        GatherReport(run_dir));
  // Inside <script>: what candidates wrote must not end the element.
  const std::string json = absl::StrReplaceAll(
      data.dump(-1, ' ', /*ensure_ascii=*/true,
                nlohmann::ordered_json::error_handler_t::replace),
      {{"<", "\\u003c"}, {">", "\\u003e"}, {"&", "\\u0026"}});
  std::string page = kReportPage;
  const size_t at = page.find(kPlaceholder);
  return page.replace(at, sizeof(kPlaceholder) - 1, json);
}

void AddReport(CLI::App& app, Body& body) {
  struct Options {
    std::string run_dir;
    std::string out;
  };
  auto options = std::make_shared<Options>();
  CLI::App* command = app.add_subcommand(
      "report", "Make one self-contained HTML page of a run");
  command->add_option("run_dir", options->run_dir, "Folder of the run")
      ->required();
  command->add_option("--out", options->out,
                      "Where to write it (default: RUN_DIR/report.html)");
  command->callback([options, &body] {
    body = [options] { return Report(options->run_dir, options->out); };
  });
}

}  // namespace dice::cli
