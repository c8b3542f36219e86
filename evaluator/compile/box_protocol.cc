#include "evaluator/compile/box_protocol.h"

namespace dice {

std::string Encode(const BoxJob& job) {
  FrameWriter w;
  w.Number(job.id);
  w.Number(static_cast<uint32_t>(job.kind));
  w.Number(job.cpu_s);
  w.Number(job.wall_s);
  w.Number(job.memory_mib);
  w.Number(static_cast<uint32_t>(job.args.size()));
  for (const std::string& a : job.args) w.Text(a);
  w.Text(job.input);
  w.Text(job.folder);
  return w.Take();
}

BoxJob DecodeJob(std::string_view frame) {
  FrameReader r(frame);
  BoxJob job;
  job.id = r.Number();
  job.kind = static_cast<BoxJob::Kind>(r.Number());
  job.cpu_s = r.Number();
  job.wall_s = r.Number();
  job.memory_mib = r.Number();
  for (uint32_t n = r.Number(); n > 0; --n) job.args.push_back(r.Text());
  job.input = r.Text();
  job.folder = r.Text();
  return job;
}

std::string Encode(const BoxResult& result) {
  FrameWriter w;
  w.Number(result.id);
  w.Number(static_cast<uint32_t>(result.end));
  w.Number(result.code);
  w.Real(result.cpu_s);
  w.Text(result.log);
  return w.Take();
}

BoxResult DecodeResult(std::string_view frame) {
  FrameReader r(frame);
  BoxResult result;
  result.id = r.Number();
  result.end = static_cast<BoxResult::End>(r.Number());
  result.code = r.Number();
  result.cpu_s = r.Real();
  result.log = r.Text();
  return result;
}

bool TakeFrame(std::string* buffer, std::string* frame) {
  uint32_t n;
  if (buffer->size() < sizeof(n)) return false;
  std::memcpy(&n, buffer->data(), sizeof(n));
  if (buffer->size() < sizeof(n) + n) return false;
  frame->assign(*buffer, sizeof(n), n);
  buffer->erase(0, sizeof(n) + n);
  return true;
}

}  // namespace dice
