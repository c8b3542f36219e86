// The page of `dice report`: report_page.html, embedded by CMake. It holds
// {{data}} once, where the report's JSON goes.
#ifndef DICE_CLI_REPORT_PAGE_H_
#define DICE_CLI_REPORT_PAGE_H_

namespace dice::cli {

extern const char* const kReportPage;

}  // namespace dice::cli

#endif  // DICE_CLI_REPORT_PAGE_H_
