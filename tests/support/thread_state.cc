// Reads the state letter of /proc/self/task/TID/stat; see the header.
#include "tests/support/thread_state.h"

#include <fstream>
#include <sstream>
#include <string>
#include <thread>

namespace tracering::test {

void AwaitAsleep(const std::atomic<pid_t>& tid) {
  while (tid.load() == 0) std::this_thread::yield();
  const std::string path =
      "/proc/self/task/" + std::to_string(tid.load()) + "/stat";
  for (;;) {
    std::stringstream stat;
    stat << std::ifstream(path).rdbuf();
    // The state follows the name, which may itself contain brackets.
    const std::string text = stat.str();
    const size_t name_end = text.rfind(')');
    if (name_end == std::string::npos) return;  // the thread has ended
    if (text.compare(name_end, 3, ") S") == 0) return;
    std::this_thread::yield();
  }
}

}  // namespace tracering::test
