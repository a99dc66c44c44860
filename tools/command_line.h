// What one subcommand was called with: options, operands, and what follows
// "--"; sizes and times as people write them.
//
// Complaints name the value and the rule, and end the program with status 2.
// Nothing about tracing is in here. One thread.
#ifndef TRACERING_TOOLS_COMMAND_LINE_H_
#define TRACERING_TOOLS_COMMAND_LINE_H_

#include <chrono>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/status.h"

namespace tracering::tools {

inline constexpr int kExitFailure = 1;
inline constexpr int kExitUsage = 2;

class CommandLine {
 public:
  // `command` is "record" and the like; arguments start after it. --help, at
  // any place before "--", prints `usage` and ends the program.
  CommandLine(std::string command, std::string usage,
              std::vector<std::string> arguments);

  // Moves on to the next argument; false at the end and at "--".
  bool Next();

  // "--output" of "--output=FILE", "-o" of "-oFILE"; empty for an operand.
  const std::string& option() const { return option_; }
  bool Is(std::string_view name, std::string_view letter = "") const {
    return !option_.empty() && (option_ == name || option_ == letter);
  }
  // The present argument as an operand.
  const std::string& operand() const { return argument_; }
  // The value of the present option, which needs one that is not empty: an
  // empty one is a variable of a script that was never set.
  const std::string& Value();
  // The present option takes none.
  void NoValue() const;
  // Whether there is a "--", and what follows it.
  bool HasRest() const { return end_ != arguments_.size(); }
  std::vector<std::string> Rest() const;

  // The value as a number from `min` to `max`, one of bytes ("64K", "1.5G") or
  // a time ("250ms", "10s", "5m", "1h"; seconds without a unit). Fail with the
  // name, the value and the rule otherwise.
  uint64_t Number(uint64_t min, uint64_t max);
  std::chrono::milliseconds Time(std::chrono::milliseconds min,
                                 std::chrono::milliseconds max);
  // The same for a part of a value.
  uint64_t NumberFrom(std::string_view text, uint64_t min, uint64_t max) const;
  uint64_t BytesFrom(std::string_view text, uint64_t min, uint64_t max) const;

  // "--buffer 'main': " and the rule, if there is an option.
  [[noreturn]] void FailValue(std::string_view rule) const;
  [[noreturn]] void FailUnknown() const;
  [[noreturn]] void Fail(std::string_view message) const;

 private:
  const std::string command_;
  const std::string usage_;
  const std::vector<std::string> arguments_;
  size_t next_ = 0;
  size_t end_ = 0;  // of what is before "--"
  std::string argument_;
  std::string option_;
  std::string value_;
  bool has_value_ = false;
};

// "tracering record: <what went wrong>", on standard error, with whatever a
// file, a peer or the user has put into it as Printable() shows it.
void Complain(std::string_view command, const absl::Status& status);
void Complain(std::string_view command, std::string_view message);

// `text` on standard error. Where nobody takes it there is nobody to be told,
// and the program goes on.
void PrintError(std::string_view text);

// `text` on standard output, to the end; complains and returns false where it
// is not taken.
[[nodiscard]] bool Print(std::string_view command, std::string_view text);

// Why a trace may not be saved as `path`, found out before there is one: an
// empty text if it may. Only files are replaced: neither devices nor pipes, nor
// links, whose targets would stay as they are.
std::string OutputProblem(const std::string& path);

// "12.3k", "4.0 MiB", "250 ms".
std::string ReadableCount(double count);
std::string ReadableBytes(double bytes);
std::string ReadableTime(std::chrono::milliseconds time);

// `text` with everything that could upset a terminal as \x escapes.
std::string Printable(std::string_view text);

}  // namespace tracering::tools

#endif  // TRACERING_TOOLS_COMMAND_LINE_H_
