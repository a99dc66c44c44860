// Addresses of code into module, offset and name.
//
// Names come from the files on disk, by way of what /proc/self/maps said last:
// no memory of a module is looked at, so that one may be unloaded at any time.
// One thread; a background one, as it reads files and allocates.
#ifndef TRACERING_SRC_PRODUCER_SYMBOLIZER_H_
#define TRACERING_SRC_PRODUCER_SYMBOLIZER_H_

#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <unordered_map>
#include <utility>

#include "src/producer/elf_symbols.h"
#include "src/producer/module_map.h"

namespace tracering::internal {

struct ResolvedPc {
  bool known = false;  // there is code
  std::string module;
  uint64_t start = 0;
  uint64_t end = 0;
  uint64_t file_offset = 0;
  uint64_t load_bias = 0;
  uint64_t relative_pc = 0;  // as the module's symbols count
  std::string function;      // demangled; empty if not known
};

class Symbolizer {
 public:
  static constexpr size_t kMaxCached = 16384;
  static constexpr size_t kMaxNameBytes = 1024;

  // Before a batch of addresses: forgets what the program has loaded or
  // unloaded meanwhile, and makes references of the last batch invalid. True if
  // Resolve has said the same of each address that it will say now. What is
  // mapped is read again at most a hundredth of the time: with very many
  // mappings that takes long, and keeps the program from changing them.
  bool BeginBatch();

  // Valid until BeginBatch.
  const ResolvedPc& Resolve(uint64_t pc);

 private:
  bool ReadModules();
  ResolvedPc Look(uint64_t pc);
  const CodeMapping* FindMapping(uint64_t pc);
  const ElfSymbols& SymbolsOf(const CodeMapping& mapping);

  ModuleMap modules_;
  // What was loaded before the last change, for samples from then.
  ModuleMap earlier_;
  // What the loader said of its changes.
  std::pair<uint64_t, uint64_t> loads_{0, 0};
  bool stale_ = true;       // modules_ is not what the loader has
  bool read_anew_ = false;  // modules_ is not what the caches were made of
  int64_t next_read_ns_ = 0;
  std::unordered_map<uint64_t, ResolvedPc> cache_;
  std::unordered_map<uint64_t, ResolvedPc> unknown_;
  std::map<std::pair<std::string, uint64_t>, ElfSymbols> files_;
};

}  // namespace tracering::internal

#endif  // TRACERING_SRC_PRODUCER_SYMBOLIZER_H_
