// Standard error as lines, and, where it is a terminal, one more line at the
// end that is written again and again.
//
// Thread-safe.
#ifndef TRACERING_TOOLS_STATUS_LINE_H_
#define TRACERING_TOOLS_STATUS_LINE_H_

#include <sys/ioctl.h>
#include <unistd.h>

#include <cstddef>
#include <cstdio>
#include <mutex>
#include <string>
#include <string_view>

namespace tracering::tools {

class StatusLine {
 public:
  bool on_terminal() const { return terminal_; }

  // Replaces the last line, cut to the width of the terminal. No effect
  // elsewhere.
  void Show(std::string_view text) {
    if (!terminal_) return;
    std::lock_guard<std::mutex> guard(mutex_);
    winsize size{};
    if (ioctl(STDERR_FILENO, TIOCGWINSZ, &size) == 0 && size.ws_col > 0) {
      text = text.substr(0, size.ws_col - size_t{1});
    }
    Write(std::string(kErase).append(text));
    shown_ = true;
  }

  // A line that stays.
  void Print(std::string_view text) {
    std::lock_guard<std::mutex> guard(mutex_);
    Write(std::string(shown_ ? kErase : "").append(text) + "\n");
    shown_ = false;
  }

  // Removes the last line.
  void Clear() {
    std::lock_guard<std::mutex> guard(mutex_);
    if (shown_) Write(std::string(kErase));
    shown_ = false;
  }

 private:
  static constexpr std::string_view kErase = "\r\x1b[K";

  // In one piece: a command may write there too.
  static void Write(const std::string& text) {
    std::fwrite(text.data(), 1, text.size(), stderr);
    std::fflush(stderr);
  }

  std::mutex mutex_;
  const bool terminal_ = isatty(STDERR_FILENO) == 1;
  bool shown_ = false;
};

}  // namespace tracering::tools

#endif  // TRACERING_TOOLS_STATUS_LINE_H_
