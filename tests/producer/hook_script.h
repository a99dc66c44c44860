// Lets a test act right before chosen accesses of product code to shared words:
// as the reader, as another process, or as a signal handler of the writer's
// thread. Single-threaded. Only in binaries that link the hooked libraries.
#ifndef TRACERING_TESTS_PRODUCER_HOOK_SCRIPT_H_
#define TRACERING_TESTS_PRODUCER_HOOK_SCRIPT_H_

#include <functional>
#include <utility>

#include "src/common/sync/shared_word.h"

namespace tracering::test {

// While it exists, `action` runs on the accessing thread before each access. It
// may touch shared words itself: its own accesses are not reported. One at a
// time, and no other thread may access shared words meanwhile.
class HookScript {
 public:
  using Action =
      std::function<void(internal::SharedAccess access, const void* word)>;

  explicit HookScript(Action action) {
    Instance() = this;
    action_ = std::move(action);
    internal::shared_word_hook.store(&HookScript::OnAccess);
  }
  ~HookScript() {
    internal::shared_word_hook.store(nullptr);
    Instance() = nullptr;
  }
  HookScript(const HookScript&) = delete;
  HookScript& operator=(const HookScript&) = delete;

 private:
  static HookScript*& Instance() {
    static HookScript* instance = nullptr;
    return instance;
  }
  static void OnAccess(internal::SharedAccess access, const void* word) {
    HookScript* script = Instance();
    if (script == nullptr || std::exchange(script->acting_, true)) return;
    script->action_(access, word);
    script->acting_ = false;
  }

  Action action_;
  bool acting_ = false;
};

}  // namespace tracering::test

#endif  // TRACERING_TESTS_PRODUCER_HOOK_SCRIPT_H_
