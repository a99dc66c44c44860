// Each fuzzer on the inputs that are checked in: those that reach most of the
// code, and each that ever showed a fault. Says nothing about other inputs.
#include <gtest/gtest.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <string>
#include <vector>

#include "tests/fuzz/fuzz_targets.h"

namespace tracering::test {
namespace {

void Replay(FuzzTarget* target, const std::string& name) {
  std::vector<std::filesystem::path> files;
  const std::filesystem::path corpus(TRACERING_FUZZ_CORPUS);
  for (const auto& entry : std::filesystem::directory_iterator(corpus / name)) {
    files.push_back(entry.path());
  }
  std::sort(files.begin(), files.end());
  EXPECT_FALSE(files.empty());
  for (const std::filesystem::path& file : files) {
    std::ifstream stream(file, std::ios::binary);
    const std::vector<char> bytes((std::istreambuf_iterator<char>(stream)),
                                  std::istreambuf_iterator<char>());
    EXPECT_EQ(
        target(reinterpret_cast<const uint8_t*>(bytes.data()), bytes.size()),
        "")
        << file;
  }
}

TEST(FuzzCorpusTest, Assembler) { Replay(FuzzAssembler, "assembler"); }
TEST(FuzzCorpusTest, ControlMessage) {
  Replay(FuzzControlMessage, "control_message");
}
TEST(FuzzCorpusTest, ControlServer) {
  Replay(FuzzControlServer, "control_server");
}
TEST(FuzzCorpusTest, Metadata) { Replay(FuzzMetadata, "metadata"); }
TEST(FuzzCorpusTest, Profile) { Replay(FuzzProfile, "profile"); }
TEST(FuzzCorpusTest, Rewriter) { Replay(FuzzRewriter, "rewriter"); }
TEST(FuzzCorpusTest, Ring) { Replay(FuzzRing, "ring"); }

}  // namespace
}  // namespace tracering::test
