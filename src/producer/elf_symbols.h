// The functions of an ELF file, from its .symtab or else its .dynsym.
//
// Reads the file, never the memory that it is mapped to: both may be gone or
// replaced at any time. The file is not trusted; whatever is wrong with it,
// there are fewer symbols. For background threads: opens, reads and allocates.
#ifndef TRACERING_SRC_PRODUCER_ELF_SYMBOLS_H_
#define TRACERING_SRC_PRODUCER_ELF_SYMBOLS_H_

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace tracering::internal {

class ElfSymbols {
 public:
  // Larger tables are as good as none.
  static constexpr size_t kMaxTableBytes = size_t{64} << 20;

  // Empty if there is no such file (with this inode number) by now.
  static ElfSymbols Read(const std::string& path, uint64_t inode);

  // What to add to an offset in the file for the address that symbols use.
  uint64_t LoadBias(uint64_t file_offset) const;
  // The mangled name of the function there; empty if it is not known.
  std::string_view Find(uint64_t address) const;

 private:
  struct Segment {
    uint64_t file_offset;
    uint64_t file_size;
    uint64_t address;
  };
  struct Function {
    uint64_t address;
    uint64_t size;
    uint32_t name;
  };

  void ReadFile(int fd, uint64_t file_size);
  bool ReadTable(int fd, uint64_t file_size, uint64_t section_offset,
                 uint64_t num_sections, uint32_t type);

  std::vector<Segment> segments_;
  std::vector<Function> functions_;  // by address
  std::vector<char> names_;
};

}  // namespace tracering::internal

#endif  // TRACERING_SRC_PRODUCER_ELF_SYMBOLS_H_
