// Bounds, tables and the search; see elf_symbols.h.
#include "src/producer/elf_symbols.h"

#include <elf.h>
#include <fcntl.h>
#include <link.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cstring>

#include "src/common/os/guarded_fd.h"

namespace tracering::internal {
namespace {

using FileHeader = ElfW(Ehdr);
using ProgramHeader = ElfW(Phdr);
using SectionHeader = ElfW(Shdr);
using Symbol = ElfW(Sym);

constexpr uint64_t kMaxHeaders = 4096;

// All of `count` items, which lie within the file.
template <typename T>
bool ReadItems(int fd, uint64_t file_size, uint64_t offset, uint64_t count,
               std::vector<T>* items) {
  if (offset > file_size || count > (file_size - offset) / sizeof(T) ||
      count > ElfSymbols::kMaxTableBytes / sizeof(T)) {
    return false;
  }
  items->resize(count);
  size_t done = 0;
  const size_t size = count * sizeof(T);
  auto* bytes = reinterpret_cast<char*>(items->data());
  while (done < size) {
    const ssize_t got =
        pread(fd, bytes + done, size - done, static_cast<off_t>(offset + done));
    if (got <= 0) return false;
    done += static_cast<size_t>(got);
  }
  return true;
}

bool IsFunction(const Symbol& symbol) {
  const unsigned type = symbol.st_info & 0xf;
  return (type == STT_FUNC || type == STT_GNU_IFUNC) &&
         symbol.st_shndx != SHN_UNDEF && symbol.st_value != 0;
}

}  // namespace

ElfSymbols ElfSymbols::Read(const std::string& path, uint64_t inode) {
  ElfSymbols symbols;
  // Not to hang on what is no plain file.
  const os::GuardedFd fd(os::UniqueFd(
      open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY)));
  struct stat status {};
  if (fd.valid() && fstat(fd.get(), &status) == 0 && S_ISREG(status.st_mode) &&
      status.st_ino == inode) {
    symbols.ReadFile(fd.get(), static_cast<uint64_t>(status.st_size));
  }
  return symbols;
}

void ElfSymbols::ReadFile(int fd, uint64_t file_size) {
  std::vector<FileHeader> header;
  if (!ReadItems(fd, file_size, 0, 1, &header)) return;
  const FileHeader& file = header.front();
  if (std::memcmp(file.e_ident, ELFMAG, SELFMAG) != 0 ||
      file.e_ident[EI_CLASS] !=
          (sizeof(void*) == 8 ? ELFCLASS64 : ELFCLASS32) ||
      file.e_phentsize != sizeof(ProgramHeader)) {
    return;
  }
  std::vector<ProgramHeader> programs;
  if (!ReadItems(fd, file_size, file.e_phoff, file.e_phnum, &programs)) return;
  for (const ProgramHeader& program : programs) {
    if (program.p_type != PT_LOAD) continue;
    segments_.push_back({program.p_offset, program.p_filesz, program.p_vaddr});
  }
  if (file.e_shentsize != sizeof(SectionHeader)) return;
  if (!ReadTable(fd, file_size, file.e_shoff, file.e_shnum, SHT_SYMTAB)) {
    ReadTable(fd, file_size, file.e_shoff, file.e_shnum, SHT_DYNSYM);
  }
}

bool ElfSymbols::ReadTable(int fd, uint64_t file_size, uint64_t section_offset,
                           uint64_t num_sections, uint32_t type) {
  std::vector<SectionHeader> sections;
  if (num_sections > kMaxHeaders ||
      !ReadItems(fd, file_size, section_offset, num_sections, &sections)) {
    return false;
  }
  for (const SectionHeader& section : sections) {
    if (section.sh_type != type || section.sh_link >= sections.size()) continue;
    const SectionHeader& strings = sections[section.sh_link];
    std::vector<Symbol> table;
    if (strings.sh_type != SHT_STRTAB ||
        !ReadItems(fd, file_size, section.sh_offset,
                   section.sh_size / sizeof(Symbol), &table) ||
        !ReadItems(fd, file_size, strings.sh_offset, strings.sh_size,
                   &names_)) {
      continue;
    }
    // So that every name ends.
    names_.push_back('\0');
    for (const Symbol& symbol : table) {
      if (IsFunction(symbol) && symbol.st_name < names_.size()) {
        functions_.push_back({symbol.st_value, symbol.st_size, symbol.st_name});
      }
    }
  }
  // Of several names for one address the one with a size comes last, and wins.
  std::sort(functions_.begin(), functions_.end(),
            [](const Function& a, const Function& b) {
              return a.address != b.address ? a.address < b.address
                                            : a.size < b.size;
            });
  return !functions_.empty();
}

uint64_t ElfSymbols::LoadBias(uint64_t file_offset) const {
  for (const Segment& segment : segments_) {
    // A mapping begins at a page, the segment maybe within it.
    constexpr uint64_t kPageMask = 4095;
    const uint64_t first = segment.file_offset & ~kPageMask;
    if (file_offset >= first &&
        file_offset - first <
            segment.file_size + (segment.file_offset & kPageMask)) {
      return segment.address - segment.file_offset;
    }
  }
  return 0;
}

std::string_view ElfSymbols::Find(uint64_t address) const {
  auto after = std::upper_bound(
      functions_.begin(), functions_.end(), address,
      [](uint64_t value, const Function& f) { return value < f.address; });
  if (after == functions_.begin()) return {};
  --after;
  if (after->size != 0 && address - after->address >= after->size) return {};
  return names_.data() + after->name;
}

}  // namespace tracering::internal
