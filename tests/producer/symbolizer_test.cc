// Modules and names of this very program, and files that are no good.
#include "src/producer/symbolizer.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <fstream>
#include <iterator>
#include <random>
#include <string>

#include "src/producer/elf_symbols.h"
#include "src/producer/module_map.h"
#include "tests/support/eventually.h"

namespace tracering::internal {

// Called by nobody.
__attribute__((noinline)) int KnownFunction(int x) {
  asm volatile("" : "+r"(x));
  return x + 1;
}

// Each of its types consists of two of the type before it: written out the name
// has some 2^40 of them.
int Bomb(int x) asm(
    "_Z1f1A1BIS_S_ES0_IS1_S1_ES0_IS2_S2_ES0_IS3_S3_ES0_IS4_S4_ES0_IS5_S5_"
    "ES0_IS6_S6_ES0_IS7_S7_ES0_IS8_S8_ES0_IS9_S9_ES0_ISA_SA_ES0_ISB_SB_ES"
    "0_ISC_SC_ES0_ISD_SD_ES0_ISE_SE_ES0_ISF_SF_ES0_ISG_SG_ES0_ISH_SH_ES0_"
    "ISI_SI_ES0_ISJ_SJ_ES0_ISK_SK_ES0_ISL_SL_ES0_ISM_SM_ES0_ISN_SN_ES0_IS"
    "O_SO_ES0_ISP_SP_ES0_ISQ_SQ_ES0_ISR_SR_ES0_ISS_SS_ES0_IST_ST_ES0_ISU_"
    "SU_ES0_ISV_SV_ES0_ISW_SW_ES0_ISX_SX_ES0_ISY_SY_ES0_ISZ_SZ_ES0_IS10_S"
    "10_ES0_IS11_S11_ES0_IS12_S12_ES0_IS13_S13_ES0_IS14_S14_E");
__attribute__((noinline)) int Bomb(int x) {
  asm volatile("" : "+r"(x));
  return x + 2;
}

namespace {

using testing::HasSubstr;

uint64_t AddressOf(int (*function)(int)) {
  return reinterpret_cast<uintptr_t>(function);
}

TEST(ModuleMapTest, OnlyCodeIsFound) {
  ModuleMap map;
  map.Parse(
      "00400000-00401000 r--p 00000000 fe:01 77   /bin/a b\n"
      "00401000-00403000 r-xp 00001000 fe:01 77   /bin/a b\n"
      "7f0000000000-7f0000001000 r-xp 00000000 00:00 0 \n"
      "nonsense\n"
      "7f0000002000-7f0000003000 rwxp 00000000 00:00 0  [x]");
  EXPECT_EQ(map.Find(0x400fff), nullptr);
  EXPECT_EQ(map.Find(0x403000), nullptr);
  ASSERT_NE(map.Find(0x402fff), nullptr);
  EXPECT_EQ(map.Find(0x401000)->path, "/bin/a b");
  EXPECT_EQ(map.Find(0x401000)->file_offset, 0x1000u);
  EXPECT_EQ(map.Find(0x401000)->inode, 77u);
  EXPECT_EQ(map.Find(0x7f0000000000)->path, "[anon]");
  EXPECT_EQ(map.Find(0x7f0000002000)->path, "[x]");
}

TEST(SymbolizerTest, AFunctionOfThisProgramHasItsName) {
  Symbolizer symbolizer;
  symbolizer.BeginBatch();
  const ResolvedPc& code = symbolizer.Resolve(AddressOf(KnownFunction));
  EXPECT_TRUE(code.known);
  EXPECT_EQ(code.function, "tracering::internal::KnownFunction(int)");
  EXPECT_THAT(code.module, HasSubstr("_test"));
  EXPECT_EQ(code.relative_pc, AddressOf(KnownFunction) - code.start +
                                  code.file_offset + code.load_bias);
  EXPECT_EQ(&symbolizer.Resolve(AddressOf(KnownFunction)), &code);
}

// Once it kept the background thread busy for as long as anybody waited.
TEST(SymbolizerTest, ANameThatWouldBeEndlessIsLeftMangled) {
  Symbolizer symbolizer;
  symbolizer.BeginBatch();
  EXPECT_THAT(symbolizer.Resolve(AddressOf(Bomb)).function,
              testing::StartsWith("_Z1f1A1BIS_S_E"));
}

TEST(SymbolizerTest, AnExportedFunctionOfALibraryHasItsName) {
  Symbolizer symbolizer;
  symbolizer.BeginBatch();
  const ResolvedPc& code =
      symbolizer.Resolve(reinterpret_cast<uintptr_t>(&::getppid));
  EXPECT_EQ(code.function, "getppid");
  EXPECT_THAT(code.module, HasSubstr("libc"));
}

TEST(SymbolizerTest, CodeThatAppearsLaterIsFound) {
  Symbolizer symbolizer;
  void* page = mmap(nullptr, 4096, PROT_READ | PROT_WRITE,
                    MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  ASSERT_NE(page, MAP_FAILED);
  const uint64_t pc = reinterpret_cast<uintptr_t>(page) + 8;
  symbolizer.BeginBatch();
  EXPECT_FALSE(symbolizer.Resolve(pc).known);
  ASSERT_EQ(mprotect(page, 4096, PROT_READ | PROT_EXEC), 0);
  // Not at once: that would be a look for each batch with an unknown address.
  EXPECT_TRUE(test::Eventually([&] {
    symbolizer.BeginBatch();
    return symbolizer.Resolve(pc).known;
  }));
  EXPECT_EQ(symbolizer.Resolve(pc).module, "[anon]");
  munmap(page, 4096);
}

TEST(SymbolizerTest, AnAddressWithoutCodeIsUnknown) {
  Symbolizer symbolizer;
  symbolizer.BeginBatch();
  int on_stack = 0;
  for (const uint64_t pc : {uint64_t{0}, UINT64_MAX,
                            uint64_t{reinterpret_cast<uintptr_t>(&on_stack)}}) {
    EXPECT_FALSE(symbolizer.Resolve(pc).known);
    EXPECT_EQ(symbolizer.Resolve(pc).function, "");
  }
}

class ElfSymbolsTest : public testing::Test {
 protected:
  ElfSymbolsTest() {
    char path[] = "/tmp/tracering-elf-XXXXXX";
    const int fd = mkstemp(path);
    EXPECT_GE(fd, 0);
    close(fd);
    path_ = path;
  }
  ~ElfSymbolsTest() override { unlink(path_.c_str()); }

  ElfSymbols Read(const std::string& contents) {
    std::ofstream(path_, std::ios::binary) << contents;
    struct stat status {};
    EXPECT_EQ(stat(path_.c_str(), &status), 0);
    return ElfSymbols::Read(path_, status.st_ino);
  }

  std::string path_;
};

TEST_F(ElfSymbolsTest, AnotherFileInItsPlaceHasNoSymbols) {
  struct stat status {};
  ASSERT_EQ(stat("/proc/self/exe", &status), 0);
  EXPECT_EQ(ElfSymbols::Read("/proc/self/exe", status.st_ino + 1).Find(0), "");
  EXPECT_EQ(ElfSymbols::Read("/nowhere", 1).Find(4096), "");
  EXPECT_EQ(ElfSymbols::Read("/dev/zero", 1).Find(4096), "");
}

// Also a sanitizer's job: nothing is read out of bounds.
TEST_F(ElfSymbolsTest, AFileThatIsCutOrScrambledDoesNoHarm) {
  // Small enough to be written many times.
  std::ifstream in("/lib64/ld-linux-x86-64.so.2", std::ios::binary);
  const std::string good((std::istreambuf_iterator<char>(in)), {});
  if (good.empty()) GTEST_SKIP() << "no small ELF file here";
  for (size_t size = 0; size < good.size(); size += good.size() / 20 + 1) {
    Read(good.substr(0, size)).Find(0x2000);
  }
  std::mt19937 random(1);
  for (int round = 0; round < 100; ++round) {
    std::string bad = good;
    // Headers, and the table of sections at the end.
    for (int i = 0; i < 8; ++i) {
      bad[random() % 1024] = static_cast<char>(random());
      bad[bad.size() - 1 - random() % 2048] = static_cast<char>(random());
    }
    const ElfSymbols symbols = Read(bad);
    for (uint64_t address = 0; address < 0x40000; address += 0x777) {
      symbols.Find(address);
      symbols.LoadBias(address);
    }
  }
}

}  // namespace
}  // namespace tracering::internal
