// The lookups and the cache; see symbolizer.h.
#include "src/producer/symbolizer.h"

#include <cxxabi.h>
#include <link.h>

#include <cstdlib>
#include <string_view>

#include "src/common/os/clock.h"

namespace tracering::internal {
namespace {

// A program that loads ever new modules must not fill the memory with their
// symbols.
constexpr size_t kMaxFiles = 256;

// How often the loader has added and removed modules.
std::pair<uint64_t, uint64_t> LoaderChanges() {
  std::pair<uint64_t, uint64_t> changes{0, 0};
  dl_iterate_phdr(
      [](dl_phdr_info* info, size_t, void* result) {
        *static_cast<std::pair<uint64_t, uint64_t>*>(result) = {
            info->dlpi_adds, info->dlpi_subs};
        return 1;  // the first will do
      },
      &changes);
  return changes;
}

// Each substitution may double the name: one of 500 bytes could keep the
// demangler busy for hours. With so many it is a million bytes at most.
bool IsModest(std::string_view mangled) {
  constexpr int kMaxSubstitutions = 40;
  int substitutions = 0;
  for (size_t i = 0; i + 1 < mangled.size(); ++i) {
    const char next = mangled[i + 1];
    if (mangled[i] == 'S' && (next == '_' || (next >= '0' && next <= '9') ||
                              (next >= 'A' && next <= 'Z'))) {
      ++substitutions;
    }
  }
  return mangled.size() <= Symbolizer::kMaxNameBytes &&
         substitutions <= kMaxSubstitutions;
}

std::string Demangle(std::string_view mangled) {
  // Terminated: it comes out of a table of strings.
  if (mangled.substr(0, 2) == "_Z" && IsModest(mangled)) {
    int status = 0;
    const std::unique_ptr<char, decltype(&std::free)> name(
        abi::__cxa_demangle(mangled.data(), nullptr, nullptr, &status),
        &std::free);
    if (status == 0 && name != nullptr) {
      return std::string(
          std::string_view(name.get()).substr(0, Symbolizer::kMaxNameBytes));
    }
  }
  return std::string(mangled.substr(0, Symbolizer::kMaxNameBytes));
}

}  // namespace

bool Symbolizer::BeginBatch() {
  const std::pair<uint64_t, uint64_t> loads = LoaderChanges();
  if (std::exchange(loads_, loads) != loads) stale_ = true;
  if (stale_) ReadModules();
  bool same = true;
  if (std::exchange(read_anew_, false) || cache_.size() > kMaxCached) {
    cache_.clear();
    same = false;
  }
  // There may be code by now, if there is time to look.
  if (os::MonotonicNs() >= next_read_ns_ || unknown_.size() > kMaxCached) {
    same = same && unknown_.empty();
    unknown_.clear();
  }
  if (files_.size() > kMaxFiles) files_.clear();
  return same;
}

bool Symbolizer::ReadModules() {
  constexpr int64_t kPause = 100;  // times what it takes
  const int64_t start = os::MonotonicNs();
  if (start < next_read_ns_) return false;
  if (stale_) {
    earlier_ = modules_;
    read_anew_ = true;
  }
  const bool read = modules_.Read();
  stale_ = stale_ && !read;
  const int64_t end = os::MonotonicNs();
  next_read_ns_ = end + kPause * (end - start);
  return read;
}

const ResolvedPc& Symbolizer::Resolve(uint64_t pc) {
  const auto found = cache_.find(pc);
  if (found != cache_.end()) return found->second;
  ResolvedPc resolved = Look(pc);
  auto& cache = resolved.known ? cache_ : unknown_;
  return cache.emplace(pc, std::move(resolved)).first->second;
}

const CodeMapping* Symbolizer::FindMapping(uint64_t pc) {
  const CodeMapping* mapping = modules_.Find(pc);
  // Mapped without the loader, or never there: stacks without frame pointers
  // bring many of the latter.
  if (mapping == nullptr && ReadModules()) mapping = modules_.Find(pc);
  return mapping != nullptr ? mapping : earlier_.Find(pc);
}

ResolvedPc Symbolizer::Look(uint64_t pc) {
  ResolvedPc resolved;
  resolved.relative_pc = pc;
  const CodeMapping* mapping = FindMapping(pc);
  if (mapping == nullptr) return resolved;
  resolved.known = true;
  resolved.module = mapping->path;
  resolved.start = mapping->start;
  resolved.end = mapping->end;
  resolved.file_offset = mapping->file_offset;
  const uint64_t offset = pc - mapping->start + mapping->file_offset;
  resolved.relative_pc = offset;
  if (mapping->inode == 0) return resolved;
  const ElfSymbols& symbols = SymbolsOf(*mapping);
  resolved.load_bias = symbols.LoadBias(offset);
  resolved.relative_pc = offset + resolved.load_bias;
  resolved.function = Demangle(symbols.Find(resolved.relative_pc));
  return resolved;
}

const ElfSymbols& Symbolizer::SymbolsOf(const CodeMapping& mapping) {
  const auto key = std::make_pair(mapping.path, mapping.inode);
  const auto found = files_.find(key);
  if (found != files_.end()) return found->second;
  return files_.emplace(key, ElfSymbols::Read(mapping.path, mapping.inode))
      .first->second;
}

}  // namespace tracering::internal
