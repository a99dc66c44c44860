// A directory of a test's own, gone with all that is in it at its end.
//
// Knows nothing of the product. One thread.
#ifndef TRACERING_TESTS_SUPPORT_TEMP_DIR_H_
#define TRACERING_TESTS_SUPPORT_TEMP_DIR_H_

#include <stdlib.h>

#include <filesystem>
#include <string>
#include <system_error>

#include "tests/support/require.h"

namespace tracering::test {

class TempDir {
 public:
  TempDir() {
    // Short enough for socket paths.
    path_ = "/tmp/tracering-test-XXXXXX";
    Require(mkdtemp(path_.data()) != nullptr, "mkdtemp");
  }
  ~TempDir() {
    std::error_code ignored;
    std::filesystem::remove_all(path_, ignored);
  }
  TempDir(const TempDir&) = delete;
  TempDir& operator=(const TempDir&) = delete;

  const std::string& path() const { return path_; }
  std::string Path(const std::string& name) const { return path_ + "/" + name; }
  bool IsEmpty() const { return std::filesystem::is_empty(path_); }

 private:
  std::string path_;
};

}  // namespace tracering::test

#endif  // TRACERING_TESTS_SUPPORT_TEMP_DIR_H_
