#include <stdint.h>
#include <stdio.h>
#include <sys/mman.h>

#include <string>
#include <utility>
#include <vector>

#include "evaluator/sandbox/jail.h"

#ifndef MADV_COLLAPSE
#define MADV_COLLAPSE 25
#endif

namespace {

constexpr uintptr_t kHuge = 2 << 20;

// Private writable memory without a file, cut to whole huge pages.
std::vector<std::pair<uintptr_t, uintptr_t>> PrivateRanges() {
  std::vector<std::pair<uintptr_t, uintptr_t>> ranges;
  FILE* maps = fopen("/proc/self/maps", "re");
  if (maps == nullptr) return ranges;
  char line[512];
  while (fgets(line, sizeof line, maps) != nullptr) {
    unsigned long begin, end, inode;
    char perms[5], name[64] = "";
    if (sscanf(line, "%lx-%lx %4s %*s %*s %lu %63s", &begin, &end, perms,
               &inode, name) < 4) {
      continue;
    }
    const std::string what = name;
    if (inode != 0 || std::string(perms) != "rw-p") continue;
    if (!what.empty() && what != "[heap]") continue;
    begin = (begin + kHuge - 1) & ~(kHuge - 1);
    end &= ~(kHuge - 1);
    if (begin < end) ranges.emplace_back(begin, end);
  }
  fclose(maps);
  return ranges;
}

}  // namespace

void dice_jail_compact(void) {
  for (const auto& [begin, end] : PrivateRanges()) {
    madvise(reinterpret_cast<void*>(begin), end - begin, MADV_HUGEPAGE);
    for (uintptr_t a = begin; a < end; a += kHuge) {
      // Fails where nothing is mapped yet, or on older kernels: no harm.
      (void)madvise(reinterpret_cast<void*>(a), kHuge, MADV_COLLAPSE);
    }
  }
}
