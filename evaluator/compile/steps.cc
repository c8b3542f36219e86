#include "evaluator/compile/steps.h"

#include <elf.h>

#include <cstring>
#include <map>
#include <memory>
#include <utility>

#include "absl/strings/str_cat.h"
#include "common/base/file.h"
#include "common/base/status_macros.h"
#include "evaluator/compile/missing_name.h"

namespace dice {
namespace {

constexpr char kLite[] = "lite", kFacade[] = "facade";

void Reject(Work* w, const char* tier, std::string text) {
  w->result.kind = CompileResult::Kind::kError;
  w->result.tier = tier;
  w->result.text = std::move(text);
}

// What to say of a compiler that did not end by itself.
std::string Abnormal(const BoxResult& r) {
  return r.end == BoxResult::End::kTimeout
             ? "compilation took too long"
             : absl::StrCat("the compiler was ended by signal ", r.code,
                            " (time or memory limit)");
}

}  // namespace

absl::StatusOr<BoxResult> CompileSteps::RunNvrtc(const DeviceUnit& unit,
                                                 const Candidate* options_of) {
  BoxJob job;
  job.kind = BoxJob::Kind::kNvrtc;
  job.args = toolchain_->NvrtcOptions(unit.needs_headers);
  if (options_of != nullptr && options_of->fast_math)
    job.args.push_back("--use_fast_math");
  job.input = unit.text;
  DICE_ASSIGN_OR_RETURN(BoxResult r, toolchain_->box().Run(std::move(job)));
  if (r.end == BoxResult::End::kExit && r.code == kNvrtcBroken)
    return absl::InternalError(absl::StrCat("NVRTC failed: ", r.log));
  return r;
}

bool CompileSteps::Consent(std::vector<Work*>* batch) {
  while (!batch->empty()) {
    std::vector<const Candidate*> candidates;
    for (const Work* w : *batch) candidates.push_back(&w->candidate);
    const DeviceUnit unit =
        MakeDeviceUnit(candidates, toolchain_->device_prelude());
    auto r = unit.text.empty() ? BoxResult{} : RunNvrtc(unit, nullptr);
    if (!r.ok() || r->end != BoxResult::End::kExit) return false;
    if (r->code == kNvrtcOk) {
      for (Work* w : *batch) w->consented = true;
      return true;
    }
    const auto errors = ErrorsByCandidate(r->log);
    if (batch->size() == 1 || errors.empty()) return false;
    std::vector<Work*> rest;
    for (size_t i = 0; i < batch->size(); ++i) {
      const auto it = errors.find(static_cast<int>(i));
      if (it == errors.end())
        rest.push_back((*batch)[i]);
      else
        Reject((*batch)[i], kLite, it->second);
    }
    *batch = std::move(rest);
  }
  return true;
}

void CompileSteps::ConsentAlone(Work* w) {
  const DeviceUnit unit =
      MakeDeviceUnit({&w->candidate}, toolchain_->device_prelude());
  if (unit.text.empty()) {
    w->consented = true;
    return;
  }
  auto r = RunNvrtc(unit, &w->candidate);
  if (!r.ok()) {
    w->status = r.status();
  } else if (r->end != BoxResult::End::kExit) {
    Reject(w, kFacade, Abnormal(*r));
  } else if (r->code == kNvrtcOk) {
    w->consented = true;
  } else {
    Reject(w, kFacade, ErrorsOfOne(r->log));
  }
}

absl::StatusOr<BoxResult> CompileSteps::RunGxx(const std::string& unit,
                                               Toolchain::Header header,
                                               std::string* object) {
  const auto folder = toolchain_->NewJobFolder();
  const std::string path = JoinPath(folder->path(), "out.so");
  BoxJob job;
  job.args = toolchain_->GxxCommand(header, path);
  job.input = unit;
  job.folder = folder->path();
  DICE_ASSIGN_OR_RETURN(BoxResult r, toolchain_->box().Run(std::move(job)));
  if (r.end == BoxResult::End::kExit && r.code == 0) {
    DICE_ASSIGN_OR_RETURN(*object, ReadFile(path));
  }
  return r;
}

void CompileSteps::Shared(std::vector<Work*> batch) {
  if (batch.size() == 1) return Alone(batch[0]);
  std::vector<Work*> alone;
  if (!Consent(&batch)) alone.swap(batch);
  while (!batch.empty()) {
    std::vector<const Candidate*> candidates;
    for (const Work* w : batch) candidates.push_back(&w->candidate);
    std::string object;
    const auto r = RunGxx(MakeHostUnit(candidates, true),
                          Toolchain::Header::kLite, &object);
    const bool ended = r.ok() && r->end == BoxResult::End::kExit;
    if (ended && r->code == 0 && !HasInitialisers(object)) {
      for (size_t i = 0; i < batch.size(); ++i) {
        batch[i]->result.tier = kLite;
        batch[i]->object = SetMember(object, static_cast<int>(i));
      }
      break;
    }
    std::map<int, std::string> errors;
    if (ended && r->code != 0) errors = ErrorsByCandidate(r->log);
    std::vector<Work*> rest;
    for (size_t i = 0; i < batch.size(); ++i)
      (errors.empty() || errors.count(static_cast<int>(i)) != 0 ? alone : rest)
          .push_back(batch[i]);
    batch = std::move(rest);
  }
  for (Work* w : alone) Alone(w);
}

absl::StatusOr<bool> CompileSteps::Host(Work* w, Toolchain::Header header,
                                        std::string* log) {
  DICE_ASSIGN_OR_RETURN(
      BoxResult r,
      RunGxx(MakeHostUnit({&w->candidate}, false), header, &w->object));
  if (r.end != BoxResult::End::kExit) {
    *log = Abnormal(r);
    return false;
  }
  *log = std::move(r.log);
  return r.code == 0;
}

void CompileSteps::Alone(Work* w) {
  if (!w->consented) ConsentAlone(w);
  if (!w->consented || !w->status.ok()) return;
  std::string log;
  const bool lite =
      !w->candidate.cpp.needs_facade && !w->candidate.cuda.needs_facade;
  for (const auto header :
       {Toolchain::Header::kLite, Toolchain::Header::kFacade}) {
    if (header == Toolchain::Header::kLite && !lite) continue;
    const auto compiled = Host(w, header, &log);
    if (!compiled.ok()) {
      w->status = compiled.status();
      return;
    }
    w->result.tier = header == Toolchain::Header::kLite ? kLite : kFacade;
    if (*compiled) return;
  }
  const std::string missing = RealMissingName(log, toolchain_->torch_include(),
                                              toolchain_->cuda_include());
  Reject(w, kFacade, ErrorsOfOne(log));
  if (missing.empty()) return;
  w->result.kind = CompileResult::Kind::kUnsupported;
  w->result.text = missing;
}

bool HasInitialisers(const std::string& object) {
  Elf64_Ehdr header;
  if (object.size() < sizeof(header)) return true;
  std::memcpy(&header, object.data(), sizeof(header));
  for (int i = 0; i < header.e_shnum; ++i) {
    Elf64_Shdr s;
    const size_t at = header.e_shoff + size_t(i) * sizeof(s);
    if (at + sizeof(s) > object.size()) return true;
    std::memcpy(&s, object.data() + at, sizeof(s));
    if (s.sh_type == SHT_INIT_ARRAY || s.sh_type == SHT_FINI_ARRAY ||
        s.sh_type == SHT_PREINIT_ARRAY)
      return true;
  }
  return false;
}

std::string SetMember(std::string object, int member) {
  constexpr char kMarker[] = "dice-member:";
  const size_t at = object.find(kMarker);
  if (at != object.npos)
    object[at + sizeof(kMarker) - 1] = static_cast<char>(member);
  return object;
}

}  // namespace dice
