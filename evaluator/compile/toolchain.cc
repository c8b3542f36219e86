#include "evaluator/compile/toolchain.h"

#include <fcntl.h>
#include <sys/file.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cstdlib>
#include <filesystem>
#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "common/base/digest.h"
#include "common/base/file.h"
#include "common/base/log.h"
#include "common/base/process.h"
#include "common/base/status_macros.h"

#ifndef DICE_COMPILE_BOX_PATH
#define DICE_COMPILE_BOX_PATH ""
#endif

namespace dice {
namespace {

namespace fs = std::filesystem;

// Raise when the splitter or the units change meaning.
constexpr char kSplitterVersion[] = "1";

const std::vector<std::string>& CommonFlags() {
  static const auto* flags = new std::vector<std::string>{"-std=gnu++20",
                                                          "-O2",
                                                          "-fPIC",
                                                          "-fvisibility=hidden",
                                                          "-w",
                                                          "-pipe",
                                                          "-fno-plt",
                                                          "-fno-math-errno",
                                                          "-fno-trapping-math",
                                                          "-ffp-contract=off"};
  return *flags;
}

std::string FindBox() {
  const std::string here = ExecutableDir();
  for (const std::string& path :
       {JoinPath(here, "dice-compile-box"),
        JoinPath(here, "../evaluator/compile/dice-compile-box"),
        JoinPath(here, "../compile/dice-compile-box"),
        std::string(DICE_COMPILE_BOX_PATH)})
    if (access(path.c_str(), X_OK) == 0) return path;
  return "dice-compile-box";
}

std::string FindInPath(const std::string& name) {
  const char* path = getenv("PATH");
  for (const absl::string_view dir :
       absl::StrSplit(path == nullptr ? "/usr/bin:/bin" : path, ':')) {
    // ccache and its like keep links that need more than a job may touch.
    if (absl::StrContains(dir, "ccache")) continue;
    const std::string file = JoinPath(dir, name);
    if (access(file.c_str(), X_OK) == 0) return file;
  }
  return "";
}

// What a command prints, without the newline at its end.
absl::StatusOr<std::string> Output(std::vector<std::string> argv) {
  const std::string path =
      absl::StrCat(fs::temp_directory_path().string(), "/dice-output.",
                   getpid(), ".", reinterpret_cast<uintptr_t>(&argv));
  Process::Options o;
  o.argv = std::move(argv);
  o.stdout_path = path;
  DICE_ASSIGN_OR_RETURN(auto process, Process::Spawn(o));
  const auto status = process->Wait();
  auto text = ReadFile(path);
  unlink(path.c_str());
  if (!status.ok()) return status.status();
  if (!status->ok())
    return absl::FailedPreconditionError(
        absl::StrCat(o.argv[0], ": ", status->ToString()));
  while (text.ok() && !text->empty() && text->back() == '\n') text->pop_back();
  return text;
}

// First match of site/nvidia/*/rest, shortest name first (libnvrtc.so.13 and
// not libnvrtc.alt.so.13).
std::string FindNvidia(const std::string& site, const std::string& folder,
                       const std::string& prefix) {
  std::vector<std::string> found;
  std::error_code error;
  for (const auto& package :
       fs::directory_iterator(JoinPath(site, "nvidia"), error)) {
    for (const auto& file :
         fs::directory_iterator(package.path() / folder, error)) {
      const std::string name = file.path().filename().string();
      if (name.compare(0, prefix.size(), prefix) == 0)
        found.push_back(file.path().string());
    }
  }
  std::sort(found.begin(), found.end());
  return found.empty() ? "" : found.front();
}

std::string DigestOfFolder(const std::string& folder) {
  std::vector<std::string> files;
  std::error_code error;
  for (const auto& f : fs::recursive_directory_iterator(folder, error)) {
    const std::string extension = f.path().extension().string();
    if (extension == ".h" || extension == ".cc")
      files.push_back(f.path().string());
  }
  std::sort(files.begin(), files.end());
  std::string all;
  for (const std::string& f : files)
    absl::StrAppend(&all, fs::path(f).filename().string(), "\n",
                    ReadFile(f).value_or(""), "\n");
  return Sha256Hex(all);
}

}  // namespace

absl::StatusOr<std::unique_ptr<Toolchain>> Toolchain::Create(
    const ToolchainOptions& options) {
  auto t = std::unique_ptr<Toolchain>(new Toolchain(options));
  DICE_RETURN_IF_ERROR(MakeDirs(options.cache_dir));
  DICE_RETURN_IF_ERROR(t->FindTools());
  DICE_RETURN_IF_ERROR(t->StartBox());
  DICE_RETURN_IF_ERROR(t->Build()) << "building the emulation's headers";
  return t;
}

absl::Status Toolchain::FindTools() {
  emulate_dir_ = JoinPath(options_.harness_dir, "evaluator/emulate");
  if (access(JoinPath(emulate_dir_, "include").c_str(), R_OK) != 0)
    return absl::FailedPreconditionError(
        absl::StrCat("no emulation headers in ", emulate_dir_));
  gxx_ = FindInPath("g++");
  if (gxx_.empty())
    return absl::FailedPreconditionError(
        "no g++ in PATH; install build-essential");
  DICE_ASSIGN_OR_RETURN(gxx_version_, Output({gxx_, "-dumpfullversion"}));
  DICE_ASSIGN_OR_RETURN(
      site_packages_,
      Output({options_.python, "-c",
              "import importlib.util as u, os; "
              "print(os.path.dirname(os.path.dirname("
              "os.path.realpath(u.find_spec('torch').origin))))"}),
      absl::StrCat("asking ", options_.python, " where torch is"));
  nvrtc_ = FindNvidia(site_packages_, "lib", "libnvrtc.so");
  const std::string fp16 = FindNvidia(site_packages_, "include", "cuda_fp16.h");
  if (nvrtc_.empty() || fp16.empty())
    return absl::FailedPreconditionError(
        absl::StrCat("no NVRTC in ", site_packages_,
                     "/nvidia; it comes with the torch wheel"));
  cuda_include_ = fs::path(fp16).parent_path().string();
  torch_include_ = JoinPath(site_packages_, "torch/include");
  DICE_ASSIGN_OR_RETURN(
      device_prelude_,
      ReadFile(
          JoinPath(emulate_dir_, "include/dice_emulate/device_prelude.h")));
  std::error_code error;
  id_ = Sha256HexOf({kSplitterVersion, gxx_version_,
                     fs::path(nvrtc_).filename().string(),
                     absl::StrCat(fs::file_size(nvrtc_, error)),
                     DigestOfFolder(emulate_dir_), emulate_dir_,
                     [] {
                       std::string flags;
                       for (const auto& f : CommonFlags()) flags += f + " ";
                       return flags;
                     }()})
            .substr(0, 16);
  built_dir_ = JoinPath(options_.cache_dir, "toolchain-" + id_);
  return absl::OkStatus();
}

absl::Status Toolchain::StartBox() {
  DICE_RETURN_IF_ERROR(MakeDirs(JoinPath(options_.cache_dir, "jobs")));
  DICE_RETURN_IF_ERROR(MakeDirs(built_dir_));
  Box::Options o;
  o.executable = FindBox();
  o.nvrtc = nvrtc_;
  o.jobs = options_.jobs;
  o.readable = {"/usr",
                "/lib",
                "/lib64",
                "/bin",
                "/etc/ld.so.cache",
                "/etc/alternatives",
                built_dir_,
                emulate_dir_,
                fs::path(nvrtc_).parent_path().string(),
                cuda_include_,
                "/proc/self",
                "/proc/cpuinfo",
                "/proc/meminfo",
                "/sys/devices/system/cpu"};
  DICE_ASSIGN_OR_RETURN(box_, Box::Create(o));
  return absl::OkStatus();
}

absl::Status Toolchain::Build() {
  const std::string done = JoinPath(built_dir_, "done");
  if (access(done.c_str(), R_OK) == 0) return absl::OkStatus();
  const std::string lock = JoinPath(options_.cache_dir, "toolchain.lock");
  const int fd = open(lock.c_str(), O_CREAT | O_RDWR | O_CLOEXEC, 0666);
  if (fd < 0 || flock(fd, LOCK_EX) != 0) {
    if (fd >= 0) close(fd);
    return absl::InternalError(absl::StrCat("cannot lock ", lock));
  }
  absl::Status status;
  if (access(done.c_str(), R_OK) != 0) {
    status = BuildHeader("lite");
    if (status.ok()) status = BuildHeader("dice_emulate");
    if (status.ok()) status = BuildRuntime();
    if (status.ok()) status = WriteFileAtomic(done, id_);
  }
  close(fd);
  return status;
}

absl::Status Toolchain::BuildHeader(const char* name) {
  const std::string header = JoinPath(built_dir_, absl::StrCat(name, "_pch.h"));
  DICE_RETURN_IF_ERROR(WriteFileAtomic(
      header, absl::StrCat("#include \"dice_emulate/", name, ".h\"\n")));
  std::vector<std::string> args = CommonFlags();
  args.insert(args.end(), {"-I", JoinPath(emulate_dir_, "include"), "-x",
                           "c++-header", header, "-o", header + ".gch"});
  return RunGxx(std::move(args), name);
}

absl::Status Toolchain::BuildRuntime() {
  std::vector<std::string> args = CommonFlags();
  args.insert(args.end(),
              {"-I", JoinPath(emulate_dir_, "include"), "-r", "-nostdlib", "-o",
               JoinPath(built_dir_, "runtime.o")});
  for (const char* file : {"call.cc", "launch.cc", "memory.cc", "tensor.cc"})
    args.push_back(JoinPath(emulate_dir_, absl::StrCat("runtime/", file)));
  return RunGxx(std::move(args), "runtime");
}

absl::Status Toolchain::RunGxx(std::vector<std::string> args,
                               const std::string& what) {
  BoxJob job;
  job.args = std::move(args);
  job.args.insert(job.args.begin(), gxx_);
  job.folder = built_dir_;
  job.cpu_s = 120;
  job.wall_s = 300;
  DICE_ASSIGN_OR_RETURN(BoxResult r, box_->Run(std::move(job)));
  if (r.end != BoxResult::End::kExit || r.code != 0)
    return absl::InternalError(
        absl::StrCat(what, " does not compile:\n", r.log));
  return absl::OkStatus();
}

std::vector<std::string> Toolchain::GxxCommand(
    Header header, const std::string& output) const {
  std::vector<std::string> c = CommonFlags();
  c.insert(c.begin(), gxx_);
  const bool lite = header == Header::kLite;
  c.insert(
      c.end(),
      {"-fdiagnostics-color=never", "-fmax-errors=40", "-ftemplate-depth=256",
       "-I", JoinPath(emulate_dir_, "include"), "-include",
       JoinPath(built_dir_, lite ? "lite_pch.h" : "dice_emulate_pch.h"),
       "-shared", "-x", "c++", "-", "-x", "none",
       JoinPath(built_dir_, "runtime.o"), "-o", output});
  // The loader of the object already has the C++ library.
  if (lite) c.insert(c.end(), {"-nostdlib", "-lm"});
  return c;
}

std::vector<std::string> Toolchain::NvrtcOptions(bool headers) const {
  // -dlto: the whole front end, no code generation.
  std::vector<std::string> o = {"-arch=compute_90", "-dlto", "-std=c++17",
                                "-w"};
  if (headers)
    o.push_back("-I" + cuda_include_);
  else
    o.push_back("--minimal");
  return o;
}

Toolchain::JobFolder::JobFolder(std::string path) : path_(std::move(path)) {
  if (const auto made = MakeDirs(path_); !made.ok())
    DICE_LOG(kWarning) << made.ToString();
}

Toolchain::JobFolder::~JobFolder() {
  std::error_code ignored;
  fs::remove_all(path_, ignored);
}

std::unique_ptr<Toolchain::JobFolder> Toolchain::NewJobFolder() const {
  static std::atomic<uint64_t> next{0};
  return std::make_unique<JobFolder>(
      JoinPath(options_.cache_dir,
               absl::StrCat("jobs/", getpid(), ".", next.fetch_add(1))));
}

}  // namespace dice
