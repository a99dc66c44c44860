// The command line of the demo programs: "--name VALUE" and "--name=VALUE",
// and one way to complain about it.
//
// Complaints name the argument and what it may be, and end the program with
// status 2. Nothing about tracing is in here.
#ifndef TRACERING_EXAMPLES_COMMAND_LINE_H_
#define TRACERING_EXAMPLES_COMMAND_LINE_H_

#include <charconv>
#include <cstdint>
#include <cstdlib>
#include <iostream>
#include <string>
#include <utility>

inline constexpr int kExitFailure = 1;
inline constexpr int kExitUsage = 2;

class CommandLine {
 public:
  CommandLine(std::string program, int argc, char** argv)
      : program_(std::move(program)), argc_(argc), argv_(argv) {}

  // Moves on to the next argument; false at the end.
  bool Next() {
    if (++index_ >= argc_) return false;
    argument_ = argv_[index_];
    const size_t equals = argument_.find('=');
    has_value_ = equals != std::string::npos;
    name_ = argument_.substr(0, equals);
    if (has_value_) value_ = argument_.substr(equals + 1);
    return true;
  }

  const std::string& name() const { return name_; }

  // The value of the present argument, which needs one.
  std::string Value() {
    if (has_value_) return value_;
    if (index_ + 1 >= argc_) Fail(name_ + " needs a value");
    return argv_[++index_];
  }

  // The present argument takes none.
  void NoValue() const {
    if (has_value_) Fail(name_ + " takes no value");
  }

  // A whole number from `min` to `max`.
  uint64_t Number(uint64_t min, uint64_t max) {
    const std::string text = Value();
    uint64_t number = 0;
    const char* const end = text.data() + text.size();
    const auto [rest, error] = std::from_chars(text.data(), end, number);
    if (error != std::errc() || rest != end || number < min || number > max) {
      Fail(name_ + " '" + text + "' must be a whole number from " +
           std::to_string(min) + " to " + std::to_string(max));
    }
    return number;
  }

  [[noreturn]] void FailUnknown() const {
    Fail("unknown argument '" + argument_ + "'");
  }

  [[noreturn]] void Fail(const std::string& message) const {
    std::cerr << program_ << ": " << message << "\nTry '" << program_
              << " --help'.\n";
    std::exit(kExitUsage);
  }

 private:
  const std::string program_;
  const int argc_;
  char** const argv_;
  int index_ = 0;
  std::string argument_;
  std::string name_;
  std::string value_;
  bool has_value_ = false;
};

#endif  // TRACERING_EXAMPLES_COMMAND_LINE_H_
