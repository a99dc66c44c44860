// What is mapped as code in this process, as /proc/self/maps says.
//
// Values only: nothing here refers to the memory of a module, which may be gone
// by the time it is asked about. One thread at a time.
#ifndef TRACERING_SRC_PRODUCER_MODULE_MAP_H_
#define TRACERING_SRC_PRODUCER_MODULE_MAP_H_

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace tracering::internal {

struct CodeMapping {
  uint64_t start = 0;
  uint64_t end = 0;
  uint64_t file_offset = 0;
  uint64_t inode = 0;  // 0: not a file
  std::string path;    // "[vdso]", "[anon]" where it is not a file
};

class ModuleMap {
 public:
  // Takes the place of what was known. False, and no change: unreadable.
  bool Read();
  void Parse(std::string_view maps);

  // Null: no code there.
  const CodeMapping* Find(uint64_t pc) const;

 private:
  std::vector<CodeMapping> mappings_;  // in order
};

}  // namespace tracering::internal

#endif  // TRACERING_SRC_PRODUCER_MODULE_MAP_H_
